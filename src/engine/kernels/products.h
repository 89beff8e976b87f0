// Products: panels of packed weights, small ones of attention, gradients of adapters.
// Included by impl.h.
#pragma once

#include "engine/kernels/lanes.h"

/// Rows of a tile of so many vectors that leave registers for the operands.
constexpr int most_rows(int vectors) {
  return kHasWideRegisters ? 24 / vectors : 6;
}

/// sum[r][q] = a chain over k of a[r] * b[q]; a element (r, i) at a + r * a_row + i * a_k.
template <int kRows, int kVectors>
inline void accumulate(Lanes (&sum)[kRows][kVectors],
                       const float* a,
                       std::size_t a_row,
                       std::size_t a_k,
                       const float* b,
                       std::size_t b_row,
                       std::size_t k) {
  for (std::size_t i = 0; i < k; ++i, a += a_k, b += b_row) {
    Lanes w[kVectors];
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) w[q] = load(b + q * 16);
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
      const Lanes x = broadcast(a[static_cast<std::size_t>(r) * a_row]);
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q) sum[r][q] = fma(x, w[q], sum[r][q]);
    }
  }
}
template <int kRows, int kVectors>
inline void accumulate(Lanes (&sum)[kRows][kVectors],
                       const Bf16* a,
                       std::size_t a_row,
                       std::size_t a_k,
                       const Bf16* b,
                       std::size_t b_row,
                       std::size_t k) {
  for (std::size_t i = 0; i < k; i += 2, a += 2 * a_k, b += 2 * b_row) {
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

/// Calls f.template operator()<rows>(first_row) until all rows are done.
template <int kMost, typename F>
inline void for_row_tiles(std::size_t rows, F f) {
  std::size_t row = 0;
  for (; row + kMost <= rows; row += kMost) f.template operator()<kMost>(row);
  if constexpr (kMost > 8) {
    for (; row + 8 <= rows; row += 8) f.template operator()<8>(row);
  }
  for (; row + 4 <= rows; row += 4) f.template operator()<4>(row);
  for (; row + 2 <= rows; row += 2) f.template operator()<2>(row);
  for (; row < rows; ++row) f.template operator()<1>(row);
}

template <int kRows, int kVectors, typename T>
inline void finish(const Lanes (&sum)[kRows][kVectors],
                   const PanelProduct& p,
                   std::size_t row,
                   std::size_t column,
                   T* c) {
#pragma GCC unroll 24
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) {
      const std::size_t at = column + static_cast<std::size_t>(q) * kLanes;
      if (at >= p.columns) continue;
      const std::size_t left = p.columns - at < kLanes ? p.columns - at : kLanes;
      T* out = c + (row + static_cast<std::size_t>(r)) * p.c_stride + at;
      Lanes value = sum[r][q];
      if (p.bias != nullptr) value = value + load_some(p.bias + at, left);
      if constexpr (std::is_same_v<T, float>) {
        if (p.output == Output::add) value = load_some(out, left) + value;
      }
      store_some(out, value, left);
    }
  }
}

template <typename E, int kVectors>
inline void product_strip(const PanelProduct& p, std::size_t column) {
  constexpr std::size_t kGroup = sizeof(E) == 4 ? 1 : 2;
  for_row_tiles<most_rows(kVectors)>(p.rows, [&]<int kRows>(std::size_t row) {
    Lanes sum[kRows][kVectors];
#pragma GCC unroll 24
    for (auto& line : sum) {
#pragma GCC unroll 4
      for (auto& lanes : line) lanes = broadcast(0.0F);
    }
    for (const Segment* s = p.segments; s != p.segments + p.segment_count; ++s) {
      accumulate(sum,
                 static_cast<const E*>(s->a) + row * s->a_stride,
                 s->a_stride,
                 1,
                 static_cast<const E*>(s->panel) + column * kGroup,
                 p.width,
                 s->k);
    }
    if (p.output == Output::store_elements) {
      finish(sum, p, row, column, static_cast<E*>(p.c));
    } else {
      finish(sum, p, row, column, static_cast<float*>(p.c));
    }
  });
}

template <typename E>
void product(const PanelProduct& p) {
  if constexpr (kHasWideRegisters) {
    if (p.width == 48) return product_strip<E, 3>(p, 0);
    if (p.width == 32) return product_strip<E, 2>(p, 0);
  }
  for (std::size_t column = 0; column < p.columns; column += kLanes) product_strip<E, 1>(p, column);
}

/// c[r][n] (+)= a[r] . b[n], floats; n a whole number of vectors.
struct SmallProduct {
  const float* a;
  std::size_t a_row;
  std::size_t a_k;
  const float* b;
  std::size_t b_row;
  float* c;
  std::size_t c_row;
  std::size_t rows;
  std::size_t vectors;
  std::size_t k;
  bool goes_on;  // from what c holds
};
template <int kVectors>
inline void small_strip(const SmallProduct& p, std::size_t column) {
  for_row_tiles<most_rows(kVectors)>(p.rows, [&]<int kRows>(std::size_t row) {
    Lanes sum[kRows][kVectors];
    float* c = p.c + row * p.c_row + column;
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q) {
        sum[r][q] =
            p.goes_on ? load(c + static_cast<std::size_t>(r) * p.c_row + q * 16) : broadcast(0.0F);
      }
    }
    accumulate(sum, p.a + row * p.a_row, p.a_row, p.a_k, p.b + column, p.b_row, p.k);
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q)
        store(c + static_cast<std::size_t>(r) * p.c_row + q * 16, sum[r][q]);
    }
  });
}
inline void multiply(const SmallProduct& p) {
  std::size_t column = 0;
  std::size_t left = p.vectors;
  if constexpr (kHasWideRegisters) {
    for (; left >= 4; left -= 4, column += 64) small_strip<4>(p, column);
    if (left == 3) return small_strip<3>(p, column);
    if (left == 2) return small_strip<2>(p, column);
  }
  for (; left > 0; --left, column += 16) small_strip<1>(p, column);
}

template <int kRows, int kVectors>
inline void outer_step(Lanes (&sum)[kRows][kVectors],
                       const float* u,
                       const float* x0,
                       const float* /*x1*/) {
  Lanes w[kVectors];
#pragma GCC unroll 4
  for (int q = 0; q < kVectors; ++q) w[q] = load(x0 + q * 16);
#pragma GCC unroll 24
  for (int r = 0; r < kRows; ++r) {
    const Lanes a = broadcast(u[r]);
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) sum[r][q] = fma(a, w[q], sum[r][q]);
  }
}
template <int kRows, int kVectors>
inline void outer_step(Lanes (&sum)[kRows][kVectors],
                       const Bf16* u,
                       const Bf16* x0,
                       const Bf16* x1) {
  Pairs w[kVectors];
#pragma GCC unroll 4
  for (int q = 0; q < kVectors; ++q) w[q] = interleave(x0 + q * 16, x1 + q * 16);
#pragma GCC unroll 24
  for (int r = 0; r < kRows; ++r) {
    const Pairs a = broadcast_pair(u + 2 * r);
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) sum[r][q] = dot(a, w[q], sum[r][q]);
  }
}

template <typename E, int kVectors>
inline void outer_strip(const OuterProduct& p, std::size_t column) {
  constexpr std::size_t kGroup = sizeof(E) == 4 ? 1 : 2;
  constexpr std::size_t kWidth = kLanes * static_cast<std::size_t>(kVectors);
  const std::size_t columns = p.columns - column < kWidth ? p.columns - column : kWidth;
  for_row_tiles<most_rows(kVectors)>(p.rank, [&]<int kRows>(std::size_t first_row) {
    Lanes sum[kRows][kVectors];
    const auto at = [&](int r, int q) {
      return p.g + (first_row + static_cast<std::size_t>(r)) * p.g_stride + column +
             static_cast<std::size_t>(q) * 16;
    };
    const auto lanes_of = [&](int q) {
      const std::size_t begin = static_cast<std::size_t>(q) * kLanes;
      if (begin >= columns) return std::size_t{0};
      return columns - begin < kLanes ? columns - begin : kLanes;
    };
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q) sum[r][q] = load_some(at(r, q), lanes_of(q));
    }
    const E* u = static_cast<const E*>(p.u) + first_row * kGroup;
    const E* x = static_cast<const E*>(p.x) + column;
    E padded[2][kWidth] = {};
    for (std::size_t t = 0; t < p.rows; t += kGroup, u += p.u_stride, x += kGroup * p.x_stride) {
      const E* x0 = x;
      const E* x1 = x + p.x_stride;
      const bool is_single = t + kGroup > p.rows;
      if (columns < kWidth || is_single) {
        for (std::size_t i = 0; i < columns; ++i) {
          padded[0][i] = x0[i];
          if constexpr (kGroup == 2) padded[1][i] = is_single ? E{} : x1[i];
        }
        x0 = padded[0];
        x1 = padded[1];
      }
      outer_step(sum, u, x0, x1);
    }
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q) store_some(at(r, q), sum[r][q], lanes_of(q));
    }
  });
}

template <typename E>
void outer_product(const OuterProduct& p) {
  constexpr int kVectors = kHasWideRegisters ? 3 : 1;
  for (std::size_t column = 0; column < p.columns; column += kLanes * kVectors)
    outer_strip<E, kVectors>(p, column);
}
