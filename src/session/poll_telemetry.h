#pragma once

#include <cstdint>
#include <string_view>

#include "api/api_client.h"
#include "session/future_poller.h"
#include "session/poll_outcome.h"
#include "session/session_core.h"

namespace tinker::session {

/// Where a poll loop stands when it reports something.
struct PollProgress {
  std::int64_t iteration = 0;
  async::TimePoint started = {};
  int bad_request_retries = 0;
  int connection_error_retries = 0;
};

/// An answer that says no, or none.
struct PollFailure {
  PollErrorKind kind = PollErrorKind::fatal;
  Error error = {};
  const http::Headers* request_headers = nullptr;  ///< Those of the call itself.
  const http::Response* response = nullptr;        ///< Null for a connection error.
};

// The events of 14.4 that polling sends, and their counterparts on the local bus. Headers come from
// an allow-list, unlike in the official client (R14.13, D6); the reporter takes secrets out of the
// rest.

void report_poll_failure(const SessionCore& session,
                         const PollRequest& request,
                         const PollProgress& progress,
                         const PollFailure& failure);
void report_operation_failed(const SessionCore& session,
                             const PollRequest& request,
                             const PollProgress& progress,
                             const OperationFailed& outcome);
void report_unreadable_result(const SessionCore& session,
                              const PollRequest& request,
                              const PollResult& result,
                              const Error& why);
/// Local only: polling ended, with `error` or without.
void publish_poll_done(const SessionCore& session,
                       const PollRequest& request,
                       const PollProgress& progress,
                       const Error* error);

}  // namespace tinker::session
