#include "http/content_range.h"

#include <charconv>

namespace tinker::http {

namespace {

std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (!take(text, "bytes ")) return std::nullopt;
  const auto first = take_number(text);
  if (!first || !take(text, "-")) return std::nullopt;
  const auto last = take_number(text);
  if (!last || !take(text, "/")) return std::nullopt;
  const auto total = take_number(text);
  if (!total || !text.empty() || *last < *first || *last >= *total) return std::nullopt;
  return ContentRange{.begin = *first, .end = *last + 1, .total = *total};
}

std::optional<std::uint64_t> parse_length(std::string_view text) {
  const auto length = take_number(text);
  return text.empty() ? length : std::nullopt;
}

std::optional<std::uint64_t> content_length(const Headers& headers) {
  return parse_length(headers.find("content-length").value_or(""));
}

}  // namespace tinker::http
