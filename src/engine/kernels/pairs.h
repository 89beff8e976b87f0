// Products of bf16 where the machine has an instruction for them: pairs of neighbours, of which the
// second product is added first.
// Included by kernels/*.cc, after lanes_avx512.h.
#pragma once

#include "engine/kernels/lanes.h"

/// The type of the left side of a product of elements.
template <typename E>
using Left = E;

/// Stores what a product of such elements would read.
template <typename E>
inline void store_left(E* p, Lanes a) {
  store(p, a);
}

/// Sixteen pairs of neighbours.
struct Pairs {
  __m512i bits;
};
inline Pairs load_pairs(const Bf16* p) {
  return {_mm512_loadu_si512(p)};
}
inline Pairs broadcast_pair(const Bf16* p) {
  std::int32_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  return {_mm512_set1_epi32(bits)};
}
/// Pairs of (a[i], b[i]).
inline Pairs interleave(const Bf16* a, const Bf16* b) {
  const __m512i low =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a)));
  const __m512i high =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)));
  return {_mm512_or_epi32(low, _mm512_slli_epi32(high, 16))};
}

inline Lanes dot(Pairs a, Pairs b, Lanes sum) {
  return {_mm512_dpbf16_ps(
      sum.v, reinterpret_cast<__m512bh>(a.bits), reinterpret_cast<__m512bh>(b.bits))};
}

/// sum[r][q] = a chain over k of a[r] * b[q]; the pairs of rows of b are `b_row` pairs apart.
template <int kRows, int kVectors>
inline void accumulate(Lanes (&sum)[kRows][kVectors],
                       const Bf16* a,
                       std::size_t a_row,
                       const Bf16* b,
                       std::size_t b_row,
                       std::size_t k) {
  for (std::size_t i = 0; i < k; i += 2, a += 2, b += 2 * b_row) {
    Pairs w[kVectors];
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) w[q] = load_pairs(b + q * 32);
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
      const Pairs x = broadcast_pair(a + static_cast<std::size_t>(r) * a_row);
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q) sum[r][q] = dot(x, w[q], sum[r][q]);
    }
  }
}

/// Sixteen columns of the rows t and t + 1 of x, side by side; the second may be behind the end.
[[gnu::always_inline]] inline Pairs column_group(const Bf16* x,
                                                 std::size_t row,
                                                 std::size_t n,
                                                 bool is_last) {
  if (n == kLanes && !is_last) return interleave(x, x + row);
  Bf16 padded[2][kLanes] = {};
  for (std::size_t i = 0; i < n; ++i) {
    padded[0][i] = x[i];
    if (!is_last) padded[1][i] = x[row + i];
  }
  return interleave(padded[0], padded[1]);
}

/// sum[r][q] += u[r] . x[q], of two rows of x.
template <int kRows, int kVectors>
inline void add_outer(Lanes (&sum)[kRows][kVectors],
                      const Bf16* u,
                      const Bf16* x,
                      std::size_t x_row,
                      std::size_t columns,
                      bool is_last) {
  Pairs w[kVectors];
#pragma GCC unroll 4
  for (int q = 0; q < kVectors; ++q)
    w[q] = column_group(x + q * 16, x_row, lanes_of(columns, q), is_last);
#pragma GCC unroll 24
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) sum[r][q] = dot(broadcast_pair(u + 2 * r), w[q], sum[r][q]);
  }
}
