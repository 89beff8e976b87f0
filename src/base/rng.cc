#include "tinker/rng.h"

#include <bit>
#include <random>

#include "tinker/check.h"

namespace tinker {
namespace {

std::uint64_t splitmix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace

Rng::Rng(std::uint64_t seed) noexcept : state_() {
  for (auto& word : state_) word = splitmix64(seed);
}

Rng Rng::from_entropy() {
  std::random_device device;
  const auto high = std::uint64_t{device()};
  return Rng(high << 32U | device());
}

// xoshiro256++ 1.0, Blackman and Vigna 2019.
std::uint64_t Rng::next() noexcept {
  const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t t = state_[1] << 17U;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Rng::uniform() noexcept {
  return static_cast<double>(next() >> 11U) * 0x1.0p-53;
}

std::uint64_t Rng::below(std::uint64_t bound) noexcept {
  TINKER_CHECK(bound > 0);
  // Words below this remainder would make small results more likely; draw again.
  const std::uint64_t reject_below = (0 - bound) % bound;
  std::uint64_t word = next();
  while (word < reject_below) word = next();
  return word % bound;
}

std::string Rng::uuid4() {
  constexpr std::string_view kPattern = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out(kPattern);
  std::uint64_t bits = 0;
  int left = 0;
  for (char& c : out) {
    if (c != 'x' && c != 'y') continue;
    if (left == 0) {
      bits = next();
      left = 16;
    }
    const std::uint64_t nibble = bits & 0xfU;
    c = kHex[c == 'x' ? nibble : (nibble & 0x3U) | 0x8U];
    bits >>= 4U;
    --left;
  }
  return out;
}

}  // namespace tinker
