#include "session/retries.h"

#include <algorithm>

#include "http/retry_after.h"
#include "session/failure_report.h"

namespace tinker::session {

namespace {
using std::chrono::seconds;
constexpr seconds kGiveUpAfter{300};
constexpr seconds kMaxWait{30};
}  // namespace

bool should_pause_on_billing(SessionCore& session) {
  const seconds limit(session.config.billing_exception_max_pause_duration_sec);
  if (!session.billing.should_pause(session.now(), limit, session.logger())) return false;
  session.runtime->events().publish({.name = "billing.pause",
                                     .level = LogLevel::info,
                                     .session_id = session.session_id,
                                     .http_status = 402,
                                     .error = ErrorCode::billing});
  return true;
}

bool is_end_of_operation(const Error& error) noexcept {
  return error.code == ErrorCode::cancelled || error.code == ErrorCode::deadline_exceeded ||
         error.code == ErrorCode::closed || error.code == ErrorCode::stuck;
}

std::optional<std::chrono::nanoseconds> breaker_wait(const Error& error,
                                                     const async::Context& context) {
  if (error.code != ErrorCode::circuit_open || !error.retry.after) return std::nullopt;
  if (async::expires_within(context, *error.retry.after)) return std::nullopt;
  return *error.retry.after;
}

RetryRounds::RetryRounds(std::shared_ptr<SessionCore> session, std::string name)
    : session_(std::move(session)), name_(std::move(name)), started_(session_->now()) {}

Watch::Limit RetryRounds::limit() const noexcept {
  return {.until = started_ + kGiveUpAfter, .name = "retry time of 300 s"};
}

std::optional<std::chrono::nanoseconds> RetryRounds::after(const Error& error,
                                                           const async::Context& context) {
  if (is_end_of_operation(error)) return std::nullopt;
  if (session_->is_single_attempt) {
    report(error, false);
    return std::nullopt;
  }
  if (error.http_status == 402) {
    if (should_pause_on_billing(*session_)) return BillingPause::kPause;
    report(error, false);
    return std::nullopt;
  }
  const auto left = kGiveUpAfter - (session_->now() - started_);
  if (const auto wait = breaker_wait(error, context); wait && *wait < left) return wait;
  const bool retryable = http::is_retryable(error);
  report(error, retryable);
  if (!retryable || left <= left.zero()) return std::nullopt;
  const seconds wait = rounds_ >= 5 ? kMaxWait : seconds(1 << rounds_);  // 1, 2, 4, 8, 16, 30 …
  ++rounds_;
  return std::min<std::chrono::nanoseconds>(wait, left);
}

void RetryRounds::report(const Error& error, bool is_retryable) const {
  report_failure(*session_,
                 {.event = "call.round_failed",
                  .telemetry = "InternalClientHolder.execute_with_retries.exception",
                  .function = name_,
                  .decision = "is_retryable",
                  .is_repeated = is_retryable,
                  .attempt_count = rounds_,
                  .started = started_},
                 error);
}

}  // namespace tinker::session
