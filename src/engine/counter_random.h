#pragma once

#include <cstdint>

/// Random numbers that are a function of what they are for: no state, no order in which they must
/// be drawn.
namespace tinker::engine {

/// The finisher of SplitMix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

constexpr std::uint64_t random_bits(std::uint64_t seed,
                                    std::uint64_t stream,
                                    std::uint64_t index) noexcept {
  return mix(mix(mix(seed) ^ stream) ^ index);
}

/// In [0, 1), of 53 bits.
constexpr double uniform_double(std::uint64_t seed,
                                std::uint64_t stream,
                                std::uint64_t index) noexcept {
  return static_cast<double>(random_bits(seed, stream, index) >> 11U) * 0x1p-53;
}

/// In [0, 1), of 24 bits.
constexpr float uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) noexcept {
  return static_cast<float>(random_bits(seed, stream, index) >> 40U) * 0x1p-24F;
}

}  // namespace tinker::engine
