#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "tinker/result.h"

namespace tinker {

/// A date and time to the microsecond with the offset it was written with (or none), so that what a
/// server sent can be sent back unchanged.
///
/// Thread-compatible.
class DateTime {
 public:
  using Instant = std::chrono::sys_time<std::chrono::microseconds>;

  /// The epoch, UTC.
  DateTime() = default;
  /// `instant` in UTC.
  // NOLINTNEXTLINE(google-explicit-constructor): an instant is a date and time in UTC.
  DateTime(Instant instant) : local_(instant.time_since_epoch()) {}

  /// Reads ISO 8601 as RFC 3339 narrows it: "2026-01-02T03:04:05.678901+02:00". The offset, the
  /// fraction and the seconds may be absent, a date alone is its midnight; digits beyond
  /// microseconds are dropped.
  static Result<DateTime> parse(std::string_view text);
  /// Seconds since the epoch, or milliseconds when the number is too large for seconds.
  static Result<DateTime> from_unix(double seconds);

  /// "2026-01-02T03:04:05Z"; six digits of fraction unless it is zero; "Z" for a zero offset; no
  /// offset when it has none.
  [[nodiscard]] std::string to_string() const;
  /// The point in time; one without an offset is taken as UTC.
  [[nodiscard]] Instant instant() const noexcept {
    return Instant(local_ - utc_offset_.value_or(std::chrono::minutes(0)));
  }
  [[nodiscard]] std::optional<std::chrono::minutes> utc_offset() const noexcept {
    return utc_offset_;
  }

  friend bool operator==(const DateTime&, const DateTime&) = default;

 private:
  std::chrono::microseconds local_ = {};  // since 1970-01-01T00:00:00 of the written clock
  std::optional<std::chrono::minutes> utc_offset_ = std::chrono::minutes(0);
};

}  // namespace tinker
