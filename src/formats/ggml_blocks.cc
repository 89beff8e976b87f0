#include "formats/ggml_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/half.h"
#include "tinker/check.h"

// Every product is rounded before it is added to something, as numpy does: this file is compiled
// with -ffp-contract=off.
namespace tinker::formats {

namespace {

static_assert(std::endian::native == std::endian::little);

using Byte = std::uint8_t;

std::uint16_t load_u16(const Byte* in) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, in, sizeof(bits));
  return bits;
}

float load_f16(const Byte* in) {
  return base::from_f16(load_u16(in));
}

float low(Byte nibbles) {
  return static_cast<float>(nibbles & 15U);
}

float high(Byte nibbles) {
  return static_cast<float>(nibbles >> 4U);
}

float signed_of(Byte byte) {
  return static_cast<float>(static_cast<std::int8_t>(byte));
}

void f16(const Byte* in, float* out) {
  *out = load_f16(in);
}

void bf16(const Byte* in, float* out) {
  *out = base::from_bf16(load_u16(in));
}

/// Half d, 32 nibbles: first the low ones, then the high ones.
void q4_0(const Byte* in, float* out) {
  const float d = load_f16(in);
  const Byte* const q = in + 2;
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = d * (low(q[i]) - 8.0F);
    out[i + 16] = d * (high(q[i]) - 8.0F);
  }
}

/// Half d, half m, 32 nibbles.
void q4_1(const Byte* in, float* out) {
  const float d = load_f16(in);
  const float m = load_f16(in + 2);
  const Byte* const q = in + 4;
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = d * low(q[i]) + m;
    out[i + 16] = d * high(q[i]) + m;
  }
}

/// Half d, 32 signed bytes.
void q8_0(const Byte* in, float* out) {
  const float d = load_f16(in);
  const Byte* const q = in + 2;
  for (std::size_t i = 0; i < 32; ++i) out[i] = d * signed_of(q[i]);
}

/// Half d, half m, eight pairs of a scale and a minimum of 6 bits each in 12 bytes, 256 nibbles. A
/// pair is for 32 values; the nibbles of 32 bytes are the values of two pairs.
void q4_k(const Byte* in, float* out) {
  const float d = load_f16(in);
  const float m = load_f16(in + 2);
  const Byte* const packed = in + 4;
  for (std::size_t j = 0; j < 8; ++j) {
    const std::size_t k = j % 4;
    const bool is_first =
        j < 4;  // the later four are in the upper bits of these and in 4 bytes more
    const Byte both = packed[8 + k];
    const unsigned scale = is_first ? packed[k] & 63U : (both & 15U) | (packed[k] >> 2U & 48U);
    const unsigned minimum =
        is_first ? packed[4 + k] & 63U : (both >> 4U) | (packed[4 + k] >> 2U & 48U);
    const float dj = d * static_cast<float>(scale);
    const float mj = m * static_cast<float>(minimum);
    const Byte* const q = in + 16 + j / 2 * 32;
    for (std::size_t i = 0; i < 32; ++i) {
      *out++ = dj * (j % 2 == 0 ? low(q[i]) : high(q[i])) - mj;
    }
  }
}

/// 256 times 4 bits in 128 bytes, their upper 2 bits in 64, 16 signed scales, half d. Each half of
/// the values has a half of the bits: the low nibbles of 64 bytes, then the high ones; pairs of
/// upper bits of 32 bytes from the lowest on.
void q6_k(const Byte* in, float* out) {
  const Byte* const scales = in + 192;
  const float d = load_f16(in + 208);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128;
    const std::size_t quarter = i % 128 / 32;
    const unsigned nibbles = in[half * 64 + i % 64];
    const unsigned lower = quarter < 2 ? nibbles & 15U : nibbles >> 4U;
    const unsigned upper =
        static_cast<unsigned>(in[128 + half * 32 + i % 32]) >> (2 * quarter) & 3U;
    const float q = static_cast<float>(lower | upper << 4U) - 32.0F;
    out[i] = d * signed_of(scales[i / 16]) * q;
  }
}

void copy_f32(std::string_view blocks, std::span<float> values) {
  TINKER_CHECK(blocks.size() == values.size_bytes());
  if (!values.empty()) std::memcpy(values.data(), blocks.data(), blocks.size());
}

template <std::size_t kValues, std::size_t kBytes, auto kBlock>
void each_block(std::string_view blocks, std::span<float> values) {
  const std::size_t count = values.size() / kValues;
  TINKER_CHECK(values.size() == count * kValues && blocks.size() == count * kBytes);
  const auto* const in = reinterpret_cast<const Byte*>(blocks.data());
  for (std::size_t i = 0; i < count; ++i) kBlock(in + i * kBytes, values.data() + i * kValues);
}

template <std::size_t kValues, std::size_t kBytes, auto kBlock>
constexpr GgmlType readable(std::uint32_t number, std::string_view name) {
  return {.number = number,
          .name = name,
          .block_values = kValues,
          .block_bytes = kBytes,
          .dequantise = each_block<kValues, kBytes, kBlock>};
}

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
constexpr std::array<GgmlType, 20> kTypes = {{
    {0, "F32", 1, 4, copy_f32},
    readable<1, 2, f16>(1, "F16"),
    readable<32, 18, q4_0>(2, "Q4_0"),
    readable<32, 20, q4_1>(3, "Q4_1"),
    {6, "Q5_0", 32, 22, nullptr},
    {7, "Q5_1", 32, 24, nullptr},
    readable<32, 34, q8_0>(8, "Q8_0"),
    {9, "Q8_1", 32, 36, nullptr},
    {10, "Q2_K", 256, 84, nullptr},
    {11, "Q3_K", 256, 110, nullptr},
    readable<256, 144, q4_k>(12, "Q4_K"),
    {13, "Q5_K", 256, 176, nullptr},
    readable<256, 210, q6_k>(14, "Q6_K"),
    {15, "Q8_K", 256, 292, nullptr},
    {24, "I8", 1, 1, nullptr},
    {25, "I16", 1, 2, nullptr},
    {26, "I32", 1, 4, nullptr},
    {27, "I64", 1, 8, nullptr},
    {28, "F64", 1, 8, nullptr},
    readable<1, 2, bf16>(30, "BF16"),
}};
// NOLINTEND(modernize-use-designated-initializers)

template <typename Key>
const GgmlType* find(Key key, Key GgmlType::* member) {
  const auto* const found = std::ranges::find(kTypes, key, member);
  return found == kTypes.end() ? nullptr : found;
}

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t number) noexcept {
  return find(number, &GgmlType::number);
}

const GgmlType* find_ggml_type(std::string_view name) noexcept {
  return find(name, &GgmlType::name);
}

}  // namespace tinker::formats
