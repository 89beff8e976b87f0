#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/check.h"

/// Protobuf messages put together by hand, without the code under test.
namespace tinker::testing {

/// "0a 01 ff" as bytes; white space is for the reader.
inline std::string hex(std::string_view digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  unsigned high = 16;  // none yet
  for (const char c : digits) {
    if (c == ' ' || c == '\n') continue;
    const auto value = static_cast<unsigned>(kDigits.find(c));
    TINKER_CHECK(value <= 15);
    if (high > 15) {
      high = value;
    } else {
      out += static_cast<char>(high << 4U | value);
      high = 16;
    }
  }
  TINKER_CHECK(high > 15);
  return out;
}

/// Bytes as hexadecimal digits, for readable failures.
inline std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4U];
    out += kDigits[static_cast<unsigned char>(c) & 0xfU];
  }
  return out;
}

/// Numbers as they lie in memory, which is how arrays travel (PROTOBUF 2).
template <typename T>
std::string raw(const std::vector<T>& values) {
  std::string out(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80U; value >>= 7U) out += static_cast<char>(value | 0x80U);
  return out + static_cast<char>(value);
}

/// A varint field.
inline std::string int_field(std::uint32_t number, std::uint64_t value) {
  return varint(std::uint64_t{number} << 3U) + varint(value);
}

/// A length-delimited field: a text, bytes or a message.
inline std::string field(std::uint32_t number, std::string_view content) {
  return varint(std::uint64_t{number} << 3U | 2U) + varint(content.size()) + std::string(content);
}

/// A double field.
inline std::string double_field(std::uint32_t number, double value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(value)>>(value);
  return varint(std::uint64_t{number} << 3U | 1U) + std::string(bytes.data(), bytes.size());
}

/// A field of four bytes, a wire type the protocol does not use.
inline std::string fixed32_field(std::uint32_t number, std::uint32_t value) {
  return varint(std::uint64_t{number} << 3U | 5U) + raw<std::uint32_t>({value});
}

/// One entry of a map whose values are messages or texts.
inline std::string entry(std::uint32_t number, std::string_view key, std::string_view value) {
  return field(number, field(1, key) + field(2, value));
}

}  // namespace tinker::testing
