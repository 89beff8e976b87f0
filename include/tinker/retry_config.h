#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "tinker/error.h"

namespace tinker {

/// How a sampling client repeats what failed, and when it gives up waiting.
///
///     const RetryConfig impatient = {.retry_delay_max = 2s, .progress_timeout = 10min};
///
/// Thread-compatible.
struct RetryConfig {
  /// Samples under way at a time, the others wait in the order they came; nothing: no limit. At
  /// least 1. The limit that the server configures takes its place.
  std::optional<std::int64_t> max_connections = 1000;
  /// Whether failures are repeated at all, without a limit to their number.
  bool enable_retry_logic = true;
  /// The first wait; doubles each time.
  std::chrono::nanoseconds retry_delay_base = std::chrono::milliseconds(500);
  std::chrono::nanoseconds retry_delay_max = std::chrono::seconds(10);  ///< Jitter included.
  double jitter_factor = 0.25;  ///< A delay varies by this part of it, both ways.
  /// Whether samples fail with `ErrorCode::stuck` when none of them has ended well for
  /// `progress_timeout`. A server can switch it off.
  bool enable_stuck_detection = true;
  std::chrono::nanoseconds progress_timeout = std::chrono::hours(2);
  /// What is repeated beside the statuses 408, 409, 429 and 5xx.
  std::vector<ErrorCode> retryable_errors = {
      ErrorCode::timed_out, ErrorCode::connection_failed, ErrorCode::expired};

  friend bool operator==(const RetryConfig&, const RetryConfig&) = default;
};

}  // namespace tinker
