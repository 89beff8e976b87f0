#include "cli/bench_load.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace tinker::cli {

namespace {

constexpr std::uint64_t kMaxReserve = std::uint64_t{1} << 20U;

/// "server_error 503", or "timed_out" where there was no answer.
std::string class_of(const Error& error) {
  if (error.http_status == 0) return std::string(to_string(error.code));
  return base::concat(to_string(error.code), " ", error.http_status);
}

}  // namespace

BenchLoad::BenchLoad(std::shared_ptr<Executor> callbacks, std::size_t in_flight, Call call)
    : callbacks_(std::move(callbacks)), limit_(in_flight), call_(std::move(call)) {}

Future<BenchTally> BenchLoad::run(std::uint64_t calls) {
  Promise<BenchTally> promise;
  auto future = promise.future();
  callbacks_->post([self = shared_from_this(), calls, promise = std::move(promise)]() mutable {
    if (!self->call_) return;  // stopped before it began
    self->promise_ = std::move(promise);
    self->tally_ = {};
    self->tally_.latencies_ms.reserve(std::min(calls, kMaxReserve));
    self->left_ = calls;
    self->ended_ = 0;
    self->begun_ = Clock::now();
    self->pump();
    if (calls == 0) self->finish();
  });
  return future;
}

void BenchLoad::stop() {
  callbacks_->post([self = shared_from_this()] {
    self->left_ = 0;
    self->call_ = nullptr;
    self->finish();
  });
}

void BenchLoad::pump() {
  // A call that fails at once ends inside this loop, which goes on with the next.
  if (std::exchange(is_pumping_, true)) return;
  while (left_ > 0 && in_flight_ < limit_) {
    --left_;
    ++in_flight_;
    call_(Ticket(shared_from_this()));
  }
  is_pumping_ = false;
}

void BenchLoad::end_call(Clock::time_point started, const Error* error) {
  --in_flight_;
  if (!promise_) return;  // stopped
  if (error == nullptr) {
    const std::chrono::duration<float, std::milli> latency = Clock::now() - started;
    tally_.latencies_ms.push_back(latency.count());
  } else {
    ++tally_.failed;
    ++tally_.errors[class_of(*error)];
  }
  ended_.store(tally_.ended());
  if (left_ == 0 && in_flight_ == 0) return finish();
  pump();
}

void BenchLoad::finish() {
  if (!promise_) return;
  tally_.elapsed = Clock::now() - begun_;
  std::exchange(promise_, std::nullopt)->set(std::move(tally_));
}

}  // namespace tinker::cli
