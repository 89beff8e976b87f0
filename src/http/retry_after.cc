#include "http/retry_after.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "http/ascii.h"
#include "http/http_date.h"

namespace tinker::http {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr seconds kLongestWait{60};

/// A decimal number. One beyond the range of `double` is a number too, but none that is of use: 0.
std::optional<double> read_number(std::string_view text) noexcept {
  text = ascii::trim(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc::invalid_argument || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// The official client reads the first header that has a meaning, then asks whether it is usable.
std::optional<nanoseconds> usable_seconds(double delay) {
  if (!(delay > 0) || delay > static_cast<double>(kLongestWait.count())) return std::nullopt;
  return nanoseconds(static_cast<nanoseconds::rep>(std::ceil(delay * 1e9)));
}

std::optional<nanoseconds> until_date(std::chrono::sys_seconds date,
                                      std::chrono::system_clock::time_point now) {
  // Whole seconds first: the distance to a far date does not fit nanoseconds.
  const auto whole = date - std::chrono::floor<seconds>(now);
  if (whole <= seconds(0) || whole > kLongestWait + seconds(1)) return std::nullopt;
  const nanoseconds delay = date - now;
  return delay > kLongestWait ? std::nullopt : std::optional(delay);
}

}  // namespace

std::optional<nanoseconds> retry_after(const Headers& headers,
                                       std::chrono::system_clock::time_point now) {
  if (const auto text = headers.find("retry-after-ms")) {
    if (const auto milliseconds = read_number(*text)) return usable_seconds(*milliseconds / 1000);
  }
  const auto text = headers.find("retry-after");
  if (!text) return std::nullopt;
  if (const auto number = read_number(*text)) return usable_seconds(*number);
  if (const auto date = parse_http_date(*text)) return until_date(*date, now);
  return std::nullopt;
}

bool should_retry(const Response& response) noexcept {
  const auto told = response.headers.find("x-should-retry");
  if (told == "true") return true;
  if (told == "false") return false;
  return response.status == 408 || response.status == 409 || response.status == 429 ||
         response.status >= 500;
}

bool is_transport_error(const Error& error) noexcept {
  return error.code == ErrorCode::connection_failed || error.code == ErrorCode::timed_out;
}

bool is_retryable(const Error& error) noexcept {
  if (is_transport_error(error)) return true;
  const int status = error.http_status;
  return status == 408 || status == 409 || status == 429 || (status >= 500 && status < 600);
}

nanoseconds backoff_delay(int retries_made, double u) noexcept {
  constexpr int kEnough = 16;  // 0.5 s doubled that often is beyond the limit
  const double limit = std::min(std::ldexp(0.5, std::min(retries_made, kEnough)), 10.0);
  return nanoseconds(std::llround(limit * (1 - 0.25 * u) * 1e9));
}

}  // namespace tinker::http
