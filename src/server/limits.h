#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "tinker/local_server_limits.h"
#include "tinker/result.h"

namespace tinker::server {

/// One limit, as people see it.
struct LimitRow {
  using Size = std::size_t LocalServerLimits::*;
  using Time = std::chrono::milliseconds LocalServerLimits::*;
  enum class Unit { count, bytes, time };

  std::string_view name = {};
  std::variant<Size, Time> member = {};
  Unit unit = Unit::count;
  std::string_view sentence = {};  ///< What it bounds.
};

/// All of them: a new limit is one member and one row.
std::span<const LimitRow> limit_rows() noexcept;

/// A value as `set_limit` takes it: "64MiB", "15s", "250".
std::string limit_text(const LocalServerLimits& limits, const LimitRow& row);

/// Sets the one that is named. `value` is a whole number, with B, KiB, MiB or GiB for bytes, and
/// with ms, s (or nothing), min or h for times. Fails with `invalid_argument`, naming the limit,
/// the value and what was expected.
Result<void> set_limit(LocalServerLimits& limits, std::string_view name, std::string_view value);

/// Fails with `invalid_argument` for a limit that is out of its range.
Result<void> check_limits(const LocalServerLimits& limits);

}  // namespace tinker::server
