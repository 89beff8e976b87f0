// Rows become columns: of blocks of keys and queries, of panels of weights.
// Included by impl.h.
#pragma once

#include "engine/kernels/products.h"

/// Words of 32 bits: floats, or pairs of bf16. out[c][r] = in[r][c]
inline void transpose_words(const void* in,
                            std::size_t in_row,
                            std::size_t rows,
                            std::size_t columns,
                            void* out,
                            std::size_t out_row) {
  const auto* from = static_cast<const float*>(in);
  auto* to = static_cast<float*>(out);
  const auto one_by_one = [&](std::size_t r0, std::size_t r1, std::size_t c0, std::size_t c1) {
    for (std::size_t r = r0; r < r1; ++r) {
      for (std::size_t c = c0; c < c1; ++c)
        __builtin_memcpy(to + c * out_row + r, from + r * in_row + c, sizeof(float));
    }
  };
  const std::size_t whole_rows = rows / kLanes * kLanes;
  const std::size_t whole_columns = columns / kLanes * kLanes;
  for (std::size_t r = 0; r < whole_rows; r += kLanes) {
    for (std::size_t c = 0; c < whole_columns; c += kLanes)
      transpose_block(from + r * in_row + c, in_row, to + c * out_row + r, out_row);
  }
  one_by_one(0, whole_rows, whole_columns, columns);
  one_by_one(whole_rows, rows, 0, columns);
}

/// Sixteen pairs and their first and second ones.
inline void split_pairs(const Bf16* pairs, Bf16* first, Bf16* second) {
  for (std::size_t i = 0; i < kLanes; ++i) {
    first[i] = pairs[2 * i];
    second[i] = pairs[2 * i + 1];
  }
}
inline void join_pairs(const Bf16* first, const Bf16* second, Bf16* pairs) {
  for (std::size_t i = 0; i < kLanes; ++i) {
    pairs[2 * i] = first[i];
    pairs[2 * i + 1] = second[i];
  }
}

template <typename E>
void transpose(const void* in,
               std::size_t in_row,
               std::size_t k,
               std::size_t n,
               void* out,
               std::size_t out_row) {
  if constexpr (kGroup<E> == 1) {
    transpose_words(in, in_row, k, n, out, out_row);
  } else {
    const auto* from = static_cast<const E*>(in);
    auto* to = static_cast<E*>(out);
    constexpr std::size_t kBlock = 2 * kLanes;
    const std::size_t whole_k = k / kBlock * kBlock;
    const std::size_t whole_n = n / kLanes * kLanes;
    for (std::size_t i = 0; i < whole_k; i += kBlock) {
      for (std::size_t j = 0; j < whole_n; j += kLanes) {
        E turned[kLanes][kBlock];  // [n][k]
        transpose_words(from + i * in_row + 2 * j, in_row, kLanes, kLanes, turned, kLanes);
        for (std::size_t c = 0; c < kLanes; c += 2) {
          E* row = to + (j + c) * out_row + 2 * i;
          join_pairs(turned[c], turned[c + 1], row);
          join_pairs(turned[c] + kLanes, turned[c + 1] + kLanes, row + kBlock);
        }
      }
    }
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t j = i < whole_k ? whole_n : 0; j < n; ++j)
        to[j / 2 * out_row * 2 + 2 * i + j % 2] = from[i / 2 * in_row * 2 + 2 * j + i % 2];
    }
  }
}
