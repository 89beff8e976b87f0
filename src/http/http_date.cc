#include "http/http_date.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "http/ascii.h"

namespace tinker::http {
namespace {

namespace chrono = std::chrono;

/// The next run of characters that are no separators; empty at the end.
std::string_view next_token(std::string_view& text, std::string_view separators) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
  const auto token = text.substr(0, text.find_first_of(separators));
  text.remove_prefix(token.size());
  return token;
}

/// Digits only, at most four of them.
std::optional<int> read_number(std::string_view text) noexcept {
  int value = 0;
  if (text.empty() || text.size() > 4 || !std::ranges::all_of(text, ascii::is_digit)) {
    return std::nullopt;
  }
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Where `word` stands among full names; at least three letters of it have to be there.
template <std::size_t kCount>
std::optional<unsigned> index_of(const std::array<std::string_view, kCount>& names,
                                 std::string_view word) {
  const auto lower = ascii::to_lower(word);
  for (unsigned i = 0; i < names.size(); ++i) {
    if (lower == names[i] || lower == names[i].substr(0, 3)) return i;
  }
  return std::nullopt;
}

std::optional<unsigned> read_month(std::string_view word) {
  static constexpr std::array<std::string_view, 12> kMonths = {"january",
                                                               "february",
                                                               "march",
                                                               "april",
                                                               "may",
                                                               "june",
                                                               "july",
                                                               "august",
                                                               "september",
                                                               "october",
                                                               "november",
                                                               "december"};
  return index_of(kMonths, word);
}

bool is_weekday(std::string_view word) {
  static constexpr std::array<std::string_view, 7> kDays = {
      "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"};
  return index_of(kDays, word).has_value();
}

/// RFC 5322, section 4.3: names beyond North America's say nothing reliable and read as UTC.
chrono::minutes named_zone(std::string_view name) {
  using Hours = std::pair<std::string_view, int>;
  static constexpr std::array kHours = {Hours("ast", -4),
                                        Hours("adt", -3),
                                        Hours("est", -5),
                                        Hours("edt", -4),
                                        Hours("cst", -6),
                                        Hours("cdt", -5),
                                        Hours("mst", -7),
                                        Hours("mdt", -6),
                                        Hours("pst", -8),
                                        Hours("pdt", -7)};
  const auto lower = ascii::to_lower(name);
  for (const auto& [zone, hours] : kHours) {
    if (zone == lower) return chrono::hours(hours);
  }
  return chrono::minutes(0);
}

/// Collects the parts of a date, which come in two orders.
class DateReader {
 public:
  /// False where the token has no place in a date.
  bool take(std::string_view token) {
    if (token.find(':') != std::string_view::npos) return take_time(token);
    if (token.front() == '+' || token.front() == '-') return take_offset(token);
    if (const auto number = read_number(token)) return take_number(*number, token.size());
    if (const auto month = read_month(token); month && !month_) {
      month_ = *month + 1;
      return true;
    }
    zone_ = named_zone(token);
    return ascii::is_alpha(token.front()) || token.front() == '(';
  }

  /// A zone comes last; what follows one is a comment.
  [[nodiscard]] bool is_finished() const noexcept { return zone_ && year_ && time_; }

  [[nodiscard]] std::optional<chrono::sys_seconds> finish() const {
    if (!day_ || !month_ || !year_ || !time_) return std::nullopt;
    const chrono::year_month_day date{
        chrono::year(*year_), chrono::month(*month_), chrono::day(*day_)};
    if (!date.ok()) return std::nullopt;
    return chrono::sys_days(date) + *time_ - zone_.value_or(chrono::minutes(0));
  }

 private:
  bool take_number(int number, std::size_t digits) {
    if (!day_) {
      day_ = static_cast<unsigned>(number);
      return digits <= 2;
    }
    if (year_) return false;
    if (digits == 2) number += number < 69 ? 2000 : 1900;
    year_ = number;
    return digits == 2 || digits == 4;
  }

  /// "08:49", "08:49:37" and either with an offset behind it.
  bool take_time(std::string_view token) {
    const auto clock = token.substr(0, token.find_first_of("+-"));
    const auto offset = token.substr(clock.size());
    auto rest = clock;
    const auto hour = read_number(next_token(rest, ":"));
    const auto minute = read_number(next_token(rest, ":"));
    const auto second = rest.empty() ? std::optional(0) : read_number(next_token(rest, ":"));
    const bool valid = hour && minute && second && rest.empty() && *hour < 24 && *minute < 60 &&
                       *second <= 60;  // 60 is a leap second
    if (time_ || !valid) return false;
    time_ = chrono::hours(*hour) + chrono::minutes(*minute) + chrono::seconds(*second);
    return offset.empty() || take_offset(offset);
  }

  bool take_offset(std::string_view token) {
    const auto number = read_number(token.substr(1));
    if (!number || zone_ || token.size() != 5) return false;
    const auto offset = chrono::hours(*number / 100) + chrono::minutes(*number % 100);
    zone_ = token.front() == '-' ? -offset : chrono::minutes(offset);
    return true;
  }

  std::optional<unsigned> day_;
  std::optional<unsigned> month_;
  std::optional<int> year_;
  std::optional<chrono::seconds> time_;
  std::optional<chrono::minutes> zone_;
};

}  // namespace

std::string format_http_date(chrono::sys_seconds time) {
  static constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto day = chrono::floor<chrono::days>(time);
  const chrono::year_month_day date(day);
  const chrono::hh_mm_ss clock(time - day);
  std::string out(kDays.substr(std::size_t{3} * chrono::weekday(day).c_encoding(), 3));
  const auto digits = [&out](auto number, int width, char after) {
    std::string text(static_cast<std::size_t>(width), '0');
    for (auto at = text.rbegin(); at != text.rend(); ++at, number /= 10) {
      *at = static_cast<char>('0' + number % 10);
    }
    out.append(text) += after;
  };
  out.append(", ");
  digits(static_cast<unsigned>(date.day()), 2, ' ');
  out.append(kMonths.substr(std::size_t{3} * (static_cast<unsigned>(date.month()) - 1), 3)) += ' ';
  digits(static_cast<int>(date.year()), 4, ' ');
  digits(clock.hours().count(), 2, ':');
  digits(clock.minutes().count(), 2, ':');
  digits(clock.seconds().count(), 2, ' ');
  return out.append("GMT");
}

std::optional<chrono::sys_seconds> parse_http_date(std::string_view text) {
  constexpr std::string_view kSeparators = " ,\t";
  DateReader reader;
  auto token = next_token(text, kSeparators);
  if (is_weekday(token)) token = next_token(text, kSeparators);
  for (; !token.empty() && !reader.is_finished(); token = next_token(text, kSeparators)) {
    // "06-Nov-94" is three parts in one; a time may have a dash too, before its offset.
    const bool dashed =
        token.find('-', 1) != std::string_view::npos && token.find(':') == std::string_view::npos;
    const std::string_view dash = dashed ? "-" : "";
    for (auto part = next_token(token, dash); !part.empty(); part = next_token(token, dash)) {
      if (!reader.take(part)) return std::nullopt;
    }
  }
  return reader.finish();
}

}  // namespace tinker::http
