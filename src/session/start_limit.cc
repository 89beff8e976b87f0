#include "session/start_limit.h"

#include "base/durations.h"
#include "base/strings.h"

namespace tinker::session {

void StartLimit::schedule(async::TimePoint since) {
  timer_ =
      core_->runtime->loop()->schedule(async::time_after(since, timeout_), [this] { check(); });
}

// The time counts from the first request: a credential command that takes long is not the server's
// fault.
void StartLimit::check() {
  if (core_->api->was_answered()) return;
  const auto since = core_->api->first_sent().value_or(core_->now());
  if (async::time_after(since, timeout_) > core_->now()) return schedule(since);
  expire();
}

void StartLimit::expire() {
  const bool has_failed = scope_->failure() != nullptr;
  const Error reason = {
      .code = has_failed ? ErrorCode::connection_failed : ErrorCode::timed_out,
      .message = base::concat("no answer from ",
                              core_->api->redact(core_->api->base_url()),
                              " within ",
                              base::seconds_text(timeout_),
                              " (start_timeout); check base_url or TINKER_BASE_URL, and that the "
                              "server runs"),
      .retry = {.retryable = true}};
  scope_->cancel(scope_->with_cause(reason, core_->now()));
}

}  // namespace tinker::session
