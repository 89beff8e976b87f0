#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

namespace tinker {

/// Any 64-bit integer, signed or unsigned.
class Seed {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): `.seed = 42` is the point of the type.
  constexpr Seed(std::integral auto value) noexcept
      : bits_(static_cast<std::uint64_t>(value)), negative_(std::cmp_less(value, 0)) {}

  /// The 64 bits; of a negative seed, its two's complement.
  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return bits_; }
  [[nodiscard]] constexpr bool is_negative() const noexcept { return negative_; }

  friend constexpr bool operator==(const Seed&, const Seed&) = default;

 private:
  std::uint64_t bits_;
  bool negative_;
};

}  // namespace tinker
