#include "base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace tinker::base {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

/// Row `n` is the CRC of a byte with `n` zero bytes behind it, so that eight bytes take one step.
constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t row = 1; row < 8; ++row) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto crc = tables[row - 1][byte];
      tables[row][byte] = (crc >> 8U) ^ tables[0][crc & 0xffU];
    }
  }
  return tables;
}();

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) noexcept {
  std::uint32_t crc = ~before;
  if constexpr (std::endian::native == std::endian::little) {
    for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), sizeof word);
      word ^= crc;
      crc = 0;
      for (std::size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> (8 * i) & 0xffU];
    }
  }
  for (const char c : bytes)
    crc = (crc >> 8U) ^ kTables[0][(crc ^ static_cast<std::uint8_t>(c)) & 0xffU];
  return ~crc;
}

}  // namespace tinker::base
