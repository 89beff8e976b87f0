#include "wire/utf8.h"

#include <cstdint>
#include <cstring>

namespace tinker::wire {
namespace {

/// Length of the well-formed sequence at the front of `text`, or 0 (Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto within = [&](std::size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const auto tail = [&](std::size_t i) { return within(i, 0x80, 0xbf); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool second = within(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
    return second && tail(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool second = within(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
    return second && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    std::uint64_t word = 0;
    while (text.size() >= sizeof(word)) {  // eight ASCII characters at a time
      std::memcpy(&word, text.data(), sizeof(word));
      if ((word & 0x8080808080808080U) != 0) break;
      text.remove_prefix(sizeof(word));
    }
    if (text.empty()) return true;
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string as_utf8(std::string text) {
  if (is_utf8(text)) return text;
  std::string out;
  out.reserve(text.size());
  std::string_view left = text;
  while (!left.empty()) {
    const std::size_t length = sequence_length(left);
    if (length == 0) {
      out += "\xEF\xBF\xBD";  // U+FFFD
      left.remove_prefix(1);
    } else {
      out += left.substr(0, length);
      left.remove_prefix(length);
    }
  }
  return out;
}

}  // namespace tinker::wire
