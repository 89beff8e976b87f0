#include "client/sequencer.h"

#include <utility>

#include "base/strings.h"
#include "session/watch.h"

namespace tinker::client {

using async::Task;

Error not_sent(std::string_view why, const Error& cause) {
  Error text = cause;  // less what stands in brackets: the new error has its own
  text.http_status = 0;
  text.request_id.clear();
  return {.code = ErrorCode::predecessor_failed,
          .message = base::concat("not sent, because ", why, " failed: ", text.to_string()),
          .http_status = cause.http_status,
          .request_id = cause.request_id,
          .category = cause.category,
          .cause = cause.cause.value_or(cause.code)};
}

IdRange Sequencer::take(std::int64_t count) {
  const detail::MutexLock lock(mutex_);
  const IdRange range = {.first = taken_, .count = count};
  taken_ += count;
  return range;
}

std::int64_t Sequencer::taken() const {
  const detail::MutexLock lock(mutex_);
  return taken_;
}

Task<> Sequencer::enter(IdRange range, std::string what) {
  const auto self = shared_from_this();
  if (const Error* failure = failure_before(range.first)) co_return *failure;
  if (range.first == next_) co_return Result<void>();
  session::Watch watch(runtime_, what, "");
  watch.set_state("queued", "an earlier request of this training client is being submitted");
  Promise<void> promise(runtime_->loop());
  auto turn = async::until(promise.future());
  waiting_.insert_or_assign(range.first, std::move(promise));
  auto outcome = co_await turn;
  waiting_.erase(range.first);
  co_return outcome;
}

void Sequencer::leave(IdRange range) {
  left_early_.emplace(range.first, range.count);
  for (auto it = left_early_.find(next_); it != left_early_.end(); it = left_early_.find(next_)) {
    next_ += it->second;
    left_early_.erase(it);
  }
  std::erase_if(failures_, [this](const Failure& failure) { return failure.before <= next_; });
  if (const auto turn = waiting_.find(next_); turn != waiting_.end()) {
    turn->second.set(Result<void>());
  }
}

void Sequencer::fail(IdRange range, const Error& cause, const std::string& what) {
  const std::int64_t last = range.end() - 1;
  const std::int64_t before = taken();
  if (before == range.end()) return;
  Error error =
      not_sent(base::concat("an earlier ", what, " (seq_id ", range.first + 1, ")"), cause);
  for (auto it = waiting_.upper_bound(last); it != waiting_.end(); ++it) it->second.set(error);
  failures_.push_back({.after = last, .before = before, .error = std::move(error)});
}

const Error* Sequencer::failure_before(std::int64_t id) const noexcept {
  for (const auto& failure : failures_) {
    if (id > failure.after && id < failure.before) return &failure.error;
  }
  return nullptr;
}

void Sequencer::Turn::leave() {
  if (!std::exchange(has_left_, true)) sequencer_->leave(range_);
}

void Sequencer::Turn::fail(const Error& cause) {
  sequencer_->fail(range_, cause, what_);
  leave();
}

}  // namespace tinker::client
