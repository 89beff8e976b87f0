#include "session/dispatch.h"

#include <chrono>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include "session/backoff.h"
#include "session/retries.h"
#include "session/watch.h"

namespace tinker::session {

using async::Semaphore;
using async::Task;

namespace {

constexpr std::chrono::seconds kRecheck{1};
constexpr std::int64_t kThrottledByteFactor = 20;

/// What a sample holds while it is submitted.
struct Gates {
  Semaphore::Permit count = {};
  Semaphore::Permit throttled = {};
  Semaphore::Permit bytes = {};
};

/// Waiting for one gate takes time, so each asks anew whether a back-off is recent (R10.5).
Task<Gates> enter_gates(std::shared_ptr<SessionCore> session,
                        std::shared_ptr<Watch> watch,
                        std::int64_t estimated_bytes) {
  Gates gates;
  watch->set_state("queued", "as many samples as allowed are being submitted");
  auto count = session->sample_dispatch.acquire();
  TINKER_CO_TRY(gates.count, co_await count);
  if (session->backoff->is_recent(session->now())) {
    watch->set_state("queued", "the server asked for fewer samples");
    auto throttled = session->throttled_sample_dispatch.acquire();
    TINKER_CO_TRY(gates.throttled, co_await throttled);
  }
  const bool is_throttled = session->backoff->is_recent(session->now());
  watch->set_state("queued", "as many bytes as allowed are being submitted");
  auto bytes =
      session->sample_bytes.acquire(estimated_bytes * (is_throttled ? kThrottledByteFactor : 1));
  TINKER_CO_TRY(gates.bytes, co_await bytes);
  co_return gates;
}

/// Nothing when the server asks to slow down. It is no failure for the loop around it: neither
/// counted nor reported.
Task<std::optional<UntypedApiFuture>> accepted_or_slow_down(std::shared_ptr<SessionCore> session,
                                                            Task<UntypedApiFuture> call) {
  auto result = co_await std::move(call);
  if (result.ok()) co_return std::optional(*std::move(result));
  const Error& error = result.error();
  if (error.http_status == 429) co_return std::optional<UntypedApiFuture>();
  if (error.http_status == 402 && should_pause_on_billing(*session)) {
    co_return std::optional<UntypedApiFuture>();
  }
  co_return error;
}

}  // namespace

std::int64_t estimate_bytes(const ModelInput& input) {
  constexpr std::int64_t kBytesPerToken = 10;
  struct Visitor {
    std::int64_t operator()(const EncodedTextChunk& chunk) const {
      return kBytesPerToken * std::ssize(chunk.tokens);
    }
    std::int64_t operator()(const ImageChunk& chunk) const { return std::ssize(chunk.data); }
    std::int64_t operator()(const ImageAssetPointerChunk& chunk) const {
      return std::ssize(chunk.location);
    }
    std::int64_t operator()(const DmelChunk& chunk) const { return std::ssize(chunk.dmel); }
  };
  std::int64_t total = 0;
  for (const auto& chunk : input.chunks) total += std::visit(Visitor(), chunk);
  return total;
}

Task<UntypedApiFuture> submit_sample(std::shared_ptr<SessionCore> session,
                                     std::int64_t estimated_bytes,
                                     UniqueFunction<Task<UntypedApiFuture>()> make_call) {
  const auto watch = std::make_shared<Watch>(session->runtime, "submission of a sample", "");
  auto entering = enter_gates(session, watch, estimated_bytes);
  TINKER_CO_TRY(const auto gates, co_await std::move(entering));
  while (true) {
    watch->set_state("backing off", "the server asked for fewer samples");
    while (session->backoff->is_active(session->now())) {
      auto pause = async::sleep_for(kRecheck);
      TINKER_CO_TRY(co_await pause);
    }
    watch->set_state("sent");
    auto rounds = execute_with_retries<std::optional<UntypedApiFuture>>(
        session, "asample", [&session, &make_call] {
          return accepted_or_slow_down(session, make_call());
        });
    TINKER_CO_TRY(auto accepted, co_await std::move(rounds));
    if (accepted) co_return *std::move(accepted);
    session->backoff->request(session->now(), estimated_bytes);
  }
}

}  // namespace tinker::session
