#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace tinker::http {

/// A date as servers write it: the three forms of HTTP (RFC 9110, section 5.6.7) and what e-mail
/// has beside them: zones such as +0100 or EST, no weekday, no seconds. No zone is UTC; a year of
/// two digits below 69 lies after 2000, as in the official package.
std::optional<std::chrono::sys_seconds> parse_http_date(std::string_view text);

/// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, section 5.6.7). Years 0 to 9999.
std::string format_http_date(std::chrono::sys_seconds time);

}  // namespace tinker::http
