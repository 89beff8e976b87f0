#include "session/dispatch.h"

#include <chrono>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include "base/block_pool.h"
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

/// Nothing when one of them is closed, or a back-off is recent.
std::optional<Gates> try_gates(const SessionCore& session, std::int64_t estimated_bytes) {
  if (session.backoff->is_recent(session.now())) return std::nullopt;
  auto count = session.sample_dispatch.try_acquire();
  if (!count) return std::nullopt;
  auto bytes = session.sample_bytes.try_acquire(estimated_bytes);
  if (!bytes) return std::nullopt;
  return Gates{.count = *std::move(count), .bytes = *std::move(bytes)};
}

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

Task<> wait_out_backoff(std::shared_ptr<SessionCore> session, std::shared_ptr<Watch> watch) {
  watch->set_state("backing off", "the server asked for fewer samples");
  while (session->backoff->is_active(session->now())) {
    auto pause = async::sleep_for(kRecheck);
    TINKER_CO_TRY(co_await pause);
  }
  co_return Result<void>();
}

/// Whether the server asks to slow down. That is no failure for the retry rounds: neither counted
/// nor reported.
bool is_slow_down(SessionCore& session, const Error& error) {
  if (error.http_status == 429) return true;
  return error.http_status == 402 && should_pause_on_billing(session);
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
                                     SampleCall make_call,
                                     std::shared_ptr<Watch> watch) {
  auto whence = async::this_context();
  const auto context = co_await whence;
  if (!watch) {
    watch = std::allocate_shared<Watch>(
        base::BlockAllocator<Watch>(), session->runtime, "submission of a sample", "");
  }
  watch->set_deadline(context.scope->deadline());
  auto gates = try_gates(*session, estimated_bytes);
  if (!gates) {
    auto entering = enter_gates(session, watch, estimated_bytes);
    TINKER_CO_TRY(gates, co_await std::move(entering));
  }
  while (true) {
    if (session->backoff->is_active(session->now())) {
      auto waiting = wait_out_backoff(session, watch);
      TINKER_CO_TRY(co_await std::move(waiting));
    }
    RetryRounds rounds(session, "asample");
    if (!watch->has_limit()) watch->set_limit(rounds.limit());
    while (true) {
      if (!watch->is_failing()) watch->set_state("sent");
      auto round = make_call(watch);
      auto result = co_await std::move(round);
      if (result.ok()) co_return result;
      if (is_slow_down(*session, result.error())) break;
      const auto delay = rounds.after(result.error(), context);
      if (!delay) co_return result;
      auto pause = async::sleep_for(*delay);
      TINKER_CO_TRY(co_await pause);
    }
    session->backoff->request(session->now(), estimated_bytes);
  }
}

}  // namespace tinker::session
