#include "session/failure_report.h"

#include <chrono>
#include <string>

#include "telemetry/report_data.h"

namespace tinker::session {

void report_failure(const SessionCore& session, const FailureReport& report, const Error& error) {
  const auto elapsed = session.now() - report.started;
  session.runtime->events().publish({.name = report.event,
                                     .level = LogLevel::info,
                                     .message = error.message,
                                     .endpoint = report.function,
                                     .session_id = session.session_id,
                                     .request_id = error.request_id,
                                     .http_status = error.http_status,
                                     .error = error.code,
                                     .attempt = report.attempt_count,
                                     .elapsed = elapsed});
  if (!session.telemetry || !session.telemetry->is_enabled()) return;

  using FractionalSeconds = std::chrono::duration<double>;
  const bool is_user_error = telemetry::is_user_error(error);
  const double elapsed_s = FractionalSeconds(elapsed).count();
  const auto wall_time = session.runtime->clock().wall_time().time_since_epoch();
  const double current_s = FractionalSeconds(wall_time).count();
  session.telemetry->generic(
      report.telemetry,
      report.is_repeated || is_user_error ? Severity::warning : Severity::error,
      {{"func", report.function},
       {"exception", error.to_string()},
       {"exception_type", telemetry::error_type(error)},
       {"exception_stack", ""},
       {"status_code", telemetry::status_of(error)},
       {std::string(report.decision), report.is_repeated},
       {"is_user_error", is_user_error},
       {"attempt_count", report.attempt_count},
       {"start_time", current_s - elapsed_s},
       {"current_time", current_s},
       {"elapsed_time", elapsed_s}});
}

}  // namespace tinker::session
