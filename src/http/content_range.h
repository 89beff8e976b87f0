#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tinker/http.h"

namespace tinker::http {

/// Which bytes an answer to a request for a range brings (RFC 9110, section 14.4).
struct ContentRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  ///< One beyond the last byte.
  std::uint64_t total = 0;
};

/// "bytes 0-99/1234".
std::optional<ContentRange> parse_content_range(std::string_view text);

/// Digits and nothing else.
std::optional<std::uint64_t> parse_length(std::string_view text);
std::optional<std::uint64_t> content_length(const Headers& headers);

}  // namespace tinker::http
