#include "wire/base64.h"

#include <array>
#include <cstdint>

namespace tinker::wire {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> kValues = [] {
  std::array<std::int8_t, 256> values = {};
  values.fill(-1);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<std::uint8_t>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}();

}  // namespace

void append_base64(std::string& out, std::string_view bytes) {
  out.reserve(out.size() + (bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8U | (j < group.size() ? static_cast<std::uint8_t>(group[j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += j <= group.size() ? kAlphabet[bits >> (18U - 6U * j) & 0x3fU] : '=';
    }
  }
}

std::string to_base64(std::string_view bytes) {
  std::string out;
  append_base64(out, bytes);
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const std::string_view group = text.substr(i, 4);
    const bool last = i + 4 == text.size();
    const std::size_t padding = !last || group[3] != '=' ? 0 : group[2] != '=' ? 1 : 2;
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const int value = j < 4 - padding ? kValues[static_cast<std::uint8_t>(group[j])] : 0;
      if (value < 0) return std::nullopt;
      bits = bits << 6U | static_cast<std::uint32_t>(value);
    }
    if ((bits & ((1U << 8U * padding) - 1U)) != 0) return std::nullopt;
    for (std::size_t j = 0; j < 3 - padding; ++j) {
      out += static_cast<char>(bits >> (16U - 8U * j) & 0xffU);
    }
  }
  return out;
}

}  // namespace tinker::wire
