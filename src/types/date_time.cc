#include "tinker/types/date_time.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "base/strings.h"

namespace tinker {
namespace {

using std::chrono::microseconds;

Error bad_date(std::string_view text) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat(
              "invalid date and time '", text, "': expected e.g. 2026-01-02T03:04:05Z")};
}

/// Reads fixed-width fields from the front of a text; `ok` stays false once something was missing.
struct Scanner {
  std::string_view rest;
  bool ok = true;

  int number(std::size_t digits) {
    int value = 0;
    ok = ok && rest.size() >= digits;
    for (std::size_t i = 0; ok && i < digits; ++i) {
      ok = rest[i] >= '0' && rest[i] <= '9';
      value = value * 10 + (rest[i] - '0');
    }
    if (ok) rest.remove_prefix(digits);
    return value;
  }
  bool accept(std::string_view any_of) {
    if (rest.empty() || any_of.find(rest.front()) == std::string_view::npos) return false;
    rest.remove_prefix(1);
    return true;
  }
  void expect(std::string_view any_of) { ok = accept(any_of) && ok; }
  int bounded(int limit) {
    const int value = number(2);
    ok = ok && value < limit;
    return value;
  }
};

microseconds scan_fraction(Scanner& in) {
  microseconds::rep value = 0;
  int digits = 0;
  for (; !in.rest.empty() && in.rest.front() >= '0' && in.rest.front() <= '9'; ++digits) {
    if (digits < 6) value = value * 10 + (in.rest.front() - '0');
    in.rest.remove_prefix(1);
  }
  in.ok = in.ok && digits > 0;
  for (; digits < 6; ++digits) value *= 10;
  return microseconds(value);
}

microseconds scan_time(Scanner& in) {
  microseconds time = std::chrono::hours(in.bounded(24));
  in.expect(":");
  time += std::chrono::minutes(in.bounded(60));
  if (in.accept(":")) {
    time += std::chrono::seconds(in.bounded(60));
    if (in.accept(".,")) time += scan_fraction(in);
  }
  return time;
}

std::optional<std::chrono::minutes> scan_offset(Scanner& in) {
  if (in.accept("Zz")) return std::chrono::minutes(0);
  if (in.rest.empty()) return std::nullopt;
  const bool west = in.accept("-");
  if (!west) in.expect("+");
  std::chrono::minutes offset = std::chrono::hours(in.bounded(24));
  in.accept(":");
  offset += std::chrono::minutes(in.bounded(60));
  return west ? -offset : offset;
}

/// The range of four-digit years, in which every value can be written again.
constexpr auto kFirst = std::chrono::sys_days(std::chrono::year(1) / 1 / 1).time_since_epoch();
constexpr auto kEnd = std::chrono::sys_days(std::chrono::year(10000) / 1 / 1).time_since_epoch();

}  // namespace

Result<DateTime> DateTime::parse(std::string_view text) {
  Scanner in = {.rest = text};
  const std::chrono::year year(in.number(4));
  in.expect("-");
  const std::chrono::month month(static_cast<unsigned>(in.number(2)));
  in.expect("-");
  const std::chrono::day day(static_cast<unsigned>(in.number(2)));
  const std::chrono::year_month_day date(year, month, day);
  if (!in.ok || !date.ok() || year < std::chrono::year(1)) return bad_date(text);

  DateTime out;
  out.local_ = std::chrono::sys_days(date).time_since_epoch();
  out.utc_offset_ = std::nullopt;
  if (!in.rest.empty()) {
    in.expect("Tt _");
    out.local_ += scan_time(in);
    out.utc_offset_ = scan_offset(in);
  }
  if (!in.ok || !in.rest.empty()) return bad_date(text);
  return out;
}

Result<DateTime> DateTime::from_unix(double seconds) {
  // Beyond this (the year 2603) a number means milliseconds, as the official SDK reads it.
  constexpr double kLargestSeconds = 2e10;
  const double unit = std::abs(seconds) > kLargestSeconds ? 1e3 : 1e6;
  const double whole = std::trunc(seconds);
  if (std::isnan(whole) || std::abs(whole) >= 0x1.0p63 / unit)
    return bad_date(base::concat(seconds));
  // Whole units and the rest apart: their sum in one double would lose microseconds.
  const microseconds time(static_cast<microseconds::rep>(whole) *
                              static_cast<microseconds::rep>(unit) +
                          std::llround((seconds - whole) * unit));
  if (time < kFirst || time >= kEnd) return bad_date(base::concat(seconds));
  return DateTime(Instant(time));
}

std::string DateTime::to_string() const {
  const auto days = std::chrono::floor<std::chrono::days>(local_);
  const std::chrono::year_month_day date{std::chrono::sys_days(days)};
  const std::chrono::hh_mm_ss time(local_ - days);
  std::array<char, 64> out = {};
  int size = std::snprintf(out.data(),
                           out.size(),
                           "%04d-%02u-%02uT%02d:%02d:%02d",
                           static_cast<int>(date.year()),
                           static_cast<unsigned>(date.month()),
                           static_cast<unsigned>(date.day()),
                           static_cast<int>(time.hours().count()),
                           static_cast<int>(time.minutes().count()),
                           static_cast<int>(time.seconds().count()));
  const auto append = [&](const char* format, auto... values) {
    size += std::snprintf(
        out.data() + size, out.size() - static_cast<std::size_t>(size), format, values...);
  };
  if (const auto fraction = time.subseconds().count(); fraction != 0) {
    append(".%06d", static_cast<int>(fraction));
  }
  if (utc_offset_ == std::chrono::minutes(0)) {
    append("%s", "Z");
  } else if (utc_offset_) {
    const auto minutes = static_cast<int>(std::abs(utc_offset_->count()));
    append("%c%02d:%02d",
           *utc_offset_ < std::chrono::minutes(0) ? '-' : '+',
           minutes / 60,
           minutes % 60);
  }
  return {out.data(), static_cast<std::size_t>(size)};
}

}  // namespace tinker
