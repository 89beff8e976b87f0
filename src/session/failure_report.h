#pragma once

#include <string_view>

#include "session/session_core.h"

namespace tinker::session {

/// One failed try of a retry loop, for those who watch (14.4).
struct FailureReport {
  std::string_view event = {};      ///< Name on the local bus.
  std::string_view telemetry = {};  ///< Name in the telemetry.
  std::string_view function = {};
  std::string_view decision = {};  ///< How the telemetry calls `is_repeated`.
  bool is_repeated = false;
  int attempt_count = 0;
  async::TimePoint started = {};  ///< When the loop began.
};

void report_failure(const SessionCore& session, const FailureReport& report, const Error& error);

}  // namespace tinker::session
