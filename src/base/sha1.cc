#include "base/sha1.h"

#include <bit>
#include <cstddef>

namespace tinker::base {
namespace {

using State = std::array<std::uint32_t, 5>;

std::array<std::uint32_t, 80> schedule(std::string_view block) {
  std::array<std::uint32_t, 80> w = {};
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t byte = 0; byte < 4; ++byte) {
      w[i] = w[i] << 8U | static_cast<std::uint8_t>(block[4 * i + byte]);
    }
  }
  for (std::size_t i = 16; i < 80; ++i) {
    w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  }
  return w;
}

void absorb(State& state, std::string_view block) {
  const auto w = schedule(block);
  auto [a, b, c, d, e] = state;
  for (std::size_t i = 0; i < 80; ++i) {
    std::uint32_t f = 0;
    switch (i / 20) {
      case 0: f = ((b & c) | (~b & d)) + 0x5a827999; break;
      case 1: f = (b ^ c ^ d) + 0x6ed9eba1; break;
      case 2: f = ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc; break;
      default: f = (b ^ c ^ d) + 0xca62c1d6; break;
    }
    const auto sum = std::rotl(a, 5) + f + e + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = sum;
  }
  const State mixed = {a, b, c, d, e};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += mixed[i];
}

}  // namespace

void Sha1::update(std::string_view bytes) {
  blocks_.update(bytes, [this](std::string_view block) { absorb(state_, block); });
}

std::string Sha1::finish() {
  blocks_.finish(BlockBuffer::Order::big_endian,
                 [this](std::string_view block) { absorb(state_, block); });
  return digest_bytes(state_, BlockBuffer::Order::big_endian);
}

}  // namespace tinker::base
