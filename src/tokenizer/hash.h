#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace tinker::tokenizer {

/// Fast hashes for tables that live in memory only.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t product = (a ^ b * 0xE7037ED1A0B428DB) * 0x9E3779B97F4A7C15;
  return product ^ product >> 32U;
}

inline std::uint64_t hash_bytes(std::string_view bytes) noexcept {
  const auto load = [&bytes](std::size_t at, std::size_t size) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, size);
    return word;
  };
  std::uint64_t state = bytes.size();
  std::size_t at = 0;
  for (; bytes.size() - at > 16; at += 16) state = mix(state ^ load(at, 8), load(at + 8, 8));
  const std::size_t left = bytes.size() - at;
  if (left >= 8) return mix(state ^ load(at, 8), load(bytes.size() - 8, 8));
  if (left >= 4) return mix(state ^ load(at, 4), load(bytes.size() - 4, 4));
  return mix(state, load(at, left));
}

}  // namespace tinker::tokenizer
