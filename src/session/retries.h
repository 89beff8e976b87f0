#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async/task.h"
#include "session/session_core.h"
#include "session/watch.h"
#include "tinker/unique_function.h"

namespace tinker::session {

/// A 402 came: true when the caller should pause and ask again (R5.5.2).
[[nodiscard]] bool should_pause_on_billing(SessionCore& session);

/// Whether `error` is the end of the operation itself, which no loop may repeat and nobody need be
/// told of: it was cancelled, closed, or given up.
[[nodiscard]] bool is_end_of_operation(const Error& error) noexcept;

/// How long to wait for a circuit breaker that rejected a call; nothing when `error` is another
/// one, or when the operation in `context` is over by then.
[[nodiscard]] std::optional<std::chrono::nanoseconds> breaker_wait(const Error& error,
                                                                   const async::Context& context);

/// The outer retry loop around one call (R5.4): decides after each failed round.
class RetryRounds {
 public:
  RetryRounds(std::shared_ptr<SessionCore> session, std::string name);

  /// How long to wait before the next round; nothing when the error is final. Reports the round by
  /// telemetry, unless it was a pausing 402 or one in which nothing was sent. `context` is that of
  /// the operation.
  std::optional<std::chrono::nanoseconds> after(const Error& error, const async::Context& context);
  /// When no further round begins.
  [[nodiscard]] Watch::Limit limit() const noexcept;

 private:
  void report(const Error& error, bool is_retryable) const;

  std::shared_ptr<SessionCore> session_;
  std::string name_;
  async::TimePoint started_;
  int rounds_ = 0;  // failed ones that count
};

/// Runs `make()` until it succeeds or fails for good: connection errors, time-outs, 408, 409, 429
/// and 5xx are tried again after 1, 2, 4 … 30 s while fewer than 300 s have passed; a 402 pauses as
/// R5.5 says; an open circuit breaker is waited for, if it opens within those 300 s and before the
/// operation's deadline. `name` appears in telemetry and in the log.
///
/// `make` gets what watches the wait, to be the observer of its calls: `watch`, or if that is null
/// one that counts from now.
template <typename T>
async::Task<T> execute_with_retries(
    std::shared_ptr<SessionCore> session,
    std::string name,
    UniqueFunction<async::Task<T>(const std::shared_ptr<Watch>&)> make,
    std::shared_ptr<Watch> watch = nullptr) {
  auto whence = async::this_context();
  const auto context = co_await whence;
  RetryRounds rounds(session, name);
  if (!watch) watch = std::make_shared<Watch>(session->runtime, name, "");
  watch->set_limit(rounds.limit());
  watch->set_deadline(context.scope->deadline());
  while (true) {
    auto round = make(watch);
    auto result = co_await std::move(round);
    if (result.ok()) co_return result;
    const auto delay = rounds.after(result.error(), context);
    if (!delay) co_return result;
    auto pause = async::sleep_for(*delay);
    TINKER_CO_TRY(co_await pause);
  }
}

}  // namespace tinker::session
