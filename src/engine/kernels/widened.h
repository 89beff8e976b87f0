// Products of bf16 where the machine has no instruction for them: the left side is widened to
// floats before, the right side in registers. Of each pair the second product is added first, as
// the instruction of other machines does it.
// Included by kernels/*.cc, after lanes_*.h.
#pragma once

#include "engine/kernels/lanes.h"

/// The type of the left side of a product of elements.
template <typename E>
using Left = float;

/// Stores what a product of such elements would read.
template <typename E>
inline void store_left(float* p, Lanes a) {
  store(p, sizeof(E) == sizeof(float) ? a : round_to_bf16(a));
}

/// sum[r][q] = a chain over k of a[r] * b[q]; the pairs of rows of b are `b_row` pairs apart.
template <int kRows, int kVectors>
inline void accumulate(Lanes (&sum)[kRows][kVectors],
                       const float* a,
                       std::size_t a_row,
                       const Bf16* b,
                       std::size_t b_row,
                       std::size_t k) {
  for (std::size_t i = 0; i < k; i += 2, a += 2, b += 2 * b_row) {
#pragma GCC unroll 2
    for (int odd = 1; odd >= 0; --odd) {
      Lanes w[kVectors];
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q) w[q] = odd == 1 ? odd_of(b + q * 32) : even_of(b + q * 32);
#pragma GCC unroll 24
      for (int r = 0; r < kRows; ++r) {
        const Lanes x =
            broadcast(a[static_cast<std::size_t>(r) * a_row + static_cast<std::size_t>(odd)]);
#pragma GCC unroll 4
        for (int q = 0; q < kVectors; ++q) sum[r][q] = add_product(x, w[q], sum[r][q]);
      }
    }
  }
}

/// sum[r][q] += u[r] . x[q], of two rows of x.
template <int kRows, int kVectors>
inline void add_outer(Lanes (&sum)[kRows][kVectors],
                      const float* u,
                      const Bf16* x,
                      std::size_t x_row,
                      std::size_t columns,
                      bool is_last) {
#pragma GCC unroll 2
  for (int odd = 1; odd >= 0; --odd) {
    if (odd == 1 && is_last) continue;
    Lanes w[kVectors];
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q)
      w[q] = load_some(x + static_cast<std::size_t>(odd) * x_row + q * 16, lanes_of(columns, q));
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q)
        sum[r][q] = add_product(broadcast(u[2 * r + odd]), w[q], sum[r][q]);
    }
  }
}

/// Sixteen pairs and their first and second ones.
inline void split_pairs(const Bf16* pairs, float* first, float* second) {
  store(first, even_of(pairs));
  store(second, odd_of(pairs));
}
inline void join_pairs(const float* first, const float* second, Bf16* pairs) {
  store_pairs(pairs, load(first), load(second));
}
