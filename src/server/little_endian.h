#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tinker::server {

/// Numbers as little-endian bytes, whatever the machine.
template <std::unsigned_integral T>
void put_little_endian(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xffU);
}

/// `bytes` are at least as long as `T`.
template <std::unsigned_integral T>
T get_little_endian(std::string_view bytes) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
  }
  return static_cast<T>(out);
}

}  // namespace tinker::server
