#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace tinker {

/// A source of random 64-bit words, injected wherever the library needs chance (jitter, ids,
/// sampling), so that a run can be repeated.
///
/// The same seed gives the same words on every machine (xoshiro256++, seeded by splitmix64).
/// Not for cryptography. Thread-compatible.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) noexcept;

  /// Seeded from the operating system.
  static Rng from_entropy();

  std::uint64_t next() noexcept;
  /// In [0, 1), with 53 random bits.
  double uniform() noexcept;
  /// In [0, bound), without bias; requires `bound > 0`.
  std::uint64_t below(std::uint64_t bound) noexcept;
  /// A version 4 UUID, e.g. "1b4e28ba-2fa1-41d2-883f-0016d3cca427".
  std::string uuid4();

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace tinker
