// Products: panels of packed weights, small ones of attention, gradients of adapters.
// Included by impl.h.
#pragma once

#include "engine/kernels/lanes.h"

/// Neighbours in k that a panel keeps together.
template <typename E>
constexpr std::size_t kGroup = sizeof(E) == 4 ? 1 : 2;
template <typename E>
constexpr bool kUsesTiles = kHasTiles && sizeof(E) == 2;
/// What k is filled up to a multiple of.
template <typename E>
constexpr std::size_t kStep = kUsesTiles<E> ? 32 : kGroup<E>;

/// Rows of a tile of so many vectors that leave registers for the operands.
constexpr int most_rows(int vectors) {
  return (kHasWideRegisters ? 24 : 6) / vectors;
}

/// sum[r][q] = a chain over k of a[r] * b[q]; the rows of b are `b_row` columns apart.
template <int kRows, int kVectors>
inline void accumulate(Lanes (&sum)[kRows][kVectors],
                       const float* a,
                       std::size_t a_row,
                       const float* b,
                       std::size_t b_row,
                       std::size_t k) {
  for (std::size_t i = 0; i < k; ++i, ++a, b += b_row) {
    Lanes w[kVectors];
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) w[q] = load(b + q * 16);
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
      const Lanes x = broadcast(a[static_cast<std::size_t>(r) * a_row]);
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q) sum[r][q] = add_product(x, w[q], sum[r][q]);
    }
  }
}
/// Calls f.template operator()<rows>(first_row) until all rows are done.
template <int kMost, typename F>
inline void for_row_tiles(std::size_t rows, F f) {
  std::size_t row = 0;
  const auto take = [&]<int kRows> {
    for (; row + kRows <= rows; row += kRows) f.template operator()<kRows>(row);
  };
  if (kMost != 6 || rows != 8) take.template operator()<kMost>();  // 4 and 4, not 6 and 2
  if constexpr (kMost > 8) take.template operator()<8>();
  if constexpr (kMost > 4) take.template operator()<4>();
  if constexpr (kMost > 2) take.template operator()<2>();
  for (; row < rows; ++row) f.template operator()<1>(row);
}

/// Rows that are multiplied with a panel while it is in the cache: a whole number of tiles of 8, 12
/// or 24 rows, or of 32.
template <typename E>
constexpr std::size_t kRowBlock = kUsesTiles<E> ? 256 : 120;

/// While it lives, a kernel of these elements may use what tiles there are.
template <typename E>
struct TileUse {};

// ---- panels of weights

/// Of the panel whose first column is that one of c.
inline std::size_t width_at(const PanelProduct& p, std::size_t first) {
  const std::size_t columns = p.columns - first;
  return columns < kPanelColumns ? (columns + kLanes - 1) / kLanes * kLanes : kPanelColumns;
}
template <typename E>
inline const E* panel_of(const Segment& s, std::size_t first, std::size_t width) {
  return static_cast<const E*>(s.panels) + first * s.depth + s.first_k * width;
}

/// Sixteen sums of a row of the product on their way to c.
template <typename T>
[[gnu::always_inline]] inline void finish(
    Lanes value, const PanelProduct& p, std::size_t row, std::size_t column, T* c) {
  if (column >= p.columns) return;
  const std::size_t left = p.columns - column < kLanes ? p.columns - column : kLanes;
  T* out = c + row * p.c_stride + column;
  if (p.bias != nullptr) value = value + load_some(p.bias + column, left);
  if constexpr (std::is_same_v<T, float>) {
    if (p.output == Output::add) value = load_some(out, left) + value;
  }
  store_some(out, value, left);
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
      finish(sum[r][q],
             p,
             row + static_cast<std::size_t>(r),
             column + static_cast<std::size_t>(q) * kLanes,
             c);
    }
  }
}

/// Some columns of a panel that has `width` of them; `first` is the panel's first column in c.
template <typename E, int kVectors>
inline void product_strip(const PanelProduct& p,
                          std::size_t first,
                          std::size_t width,
                          std::size_t column) {
  for_row_tiles<most_rows(kVectors)>(p.rows, [&]<int kRows>(std::size_t row) {
    Lanes sum[kRows][kVectors];
#pragma GCC unroll 24
    for (auto& line : sum) {
#pragma GCC unroll 4
      for (auto& lanes : line) lanes = broadcast(0.0F);
    }
    for (const Segment* s = p.segments; s != p.segments + p.segment_count; ++s) {
      accumulate(sum,
                 static_cast<const Left<E>*>(s->a) + row * s->a_stride,
                 s->a_stride,
                 panel_of<E>(*s, first, width) + column * kGroup<E>,
                 width,
                 s->k);
    }
    if (p.output == Output::store_elements) {
      finish(sum, p, row, first + column, static_cast<E*>(p.c));
    } else {
      finish(sum, p, row, first + column, static_cast<float*>(p.c));
    }
  });
}

template <typename E>
void product(const PanelProduct& p) {
  for (std::size_t first = 0; first < p.columns; first += kPanelColumns) {
    const std::size_t width = width_at(p, first);
    if (width == 48 && (kHasWideRegisters || p.rows == 1)) {
      product_strip<E, 3>(p, first, width, 0);
    } else if (width == 32 && kHasWideRegisters) {
      product_strip<E, 2>(p, first, width, 0);
    } else {
      for (std::size_t column = 0; column < width; column += kLanes)
        product_strip<E, 1>(p, first, width, column);
    }
  }
}

// ---- small ones

/// c[r][n] (+)= a[r] . b[n].  a: (rows, k)  b: (k / group, b_row, group)  c: floats
/// All arrays have room for a multiple of 16 rows and of 16 columns.
template <typename E>
struct SmallProduct {
  const Left<E>* a;
  std::size_t a_row;
  const E* b;
  std::size_t b_row;
  float* c;
  std::size_t c_row;
  std::size_t rows;
  std::size_t columns;  // a multiple of 16
  std::size_t k;        // a multiple of the step
  bool goes_on;         // from what c holds
};
template <int kVectors, typename E>
inline void small_strip(const SmallProduct<E>& p, std::size_t column) {
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
    accumulate(sum, p.a + row * p.a_row, p.a_row, p.b + column * kGroup<E>, p.b_row, p.k);
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q)
        store(c + static_cast<std::size_t>(r) * p.c_row + q * 16, sum[r][q]);
    }
  });
}
template <typename E>
inline void multiply(const SmallProduct<E>& p) {
  std::size_t column = 0;
  std::size_t left = p.columns / kLanes;
  if constexpr (kHasWideRegisters) {
    for (; left >= 4; left -= 4, column += 64) small_strip<4>(p, column);
    if (left == 3) return small_strip<3>(p, column);
    if (left == 2) return small_strip<2>(p, column);
  }
  for (; left > 0; --left, column += 16) small_strip<1>(p, column);
}

// ---- gradients of adapters

/// sum[r][q] += u[r] * x[q], of one row of x.
template <int kRows, int kVectors>
inline void add_outer(Lanes (&sum)[kRows][kVectors],
                      const float* u,
                      const float* x,
                      std::size_t /*x_row*/,
                      std::size_t columns,
                      bool /*is_last*/) {
  Lanes w[kVectors];
#pragma GCC unroll 4
  for (int q = 0; q < kVectors; ++q) w[q] = load_some(x + q * 16, lanes_of(columns, q));
#pragma GCC unroll 24
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int q = 0; q < kVectors; ++q) sum[r][q] = add_product(broadcast(u[r]), w[q], sum[r][q]);
  }
}

template <typename E, int kVectors>
inline void outer_strip(const OuterProduct& p, std::size_t column) {
  const std::size_t columns = p.columns - column;
  for_row_tiles<most_rows(kVectors)>(p.rank, [&]<int kRows>(std::size_t first_row) {
    Lanes sum[kRows][kVectors];
    const auto at = [&](int r, int q) {
      return p.g + (first_row + static_cast<std::size_t>(r)) * p.g_stride + column +
             static_cast<std::size_t>(q) * kLanes;
    };
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q) sum[r][q] = load_some(at(r, q), lanes_of(columns, q));
    }
    const auto* u = static_cast<const Left<E>*>(p.u) + first_row * kGroup<E>;
    const auto* x = static_cast<const E*>(p.x) + column;
    for (std::size_t t = 0; t < p.rows;
         t += kGroup<E>, u += p.rank * kGroup<E>, x += kGroup<E> * p.x_stride)
      add_outer(sum, u, x, p.x_stride, columns, t + kGroup<E> > p.rows);
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int q = 0; q < kVectors; ++q) store_some(at(r, q), sum[r][q], lanes_of(columns, q));
    }
  });
}

template <typename E>
void outer_product(const OuterProduct& p) {
  constexpr int kVectors = kHasWideRegisters ? 3 : 1;
  for (std::size_t column = 0; column < p.columns; column += kLanes * kVectors)
    outer_strip<E, kVectors>(p, column);
}

template <typename E>
void pack_rows(
    const void* u, std::size_t stride, std::size_t rows, std::size_t rank, float scale, void* out) {
  constexpr std::size_t kMost = 64;  // of a row at once
  auto* to = static_cast<Left<E>*>(out);
  for (std::size_t group = 0; group < rows; group += kStep<E>, to += rank * kStep<E>) {
    for (std::size_t first = 0; first < rank; first += kMost) {
      const std::size_t n = rank - first < kMost ? rank - first : kMost;
      for (std::size_t t = 0; t < kStep<E>; ++t) {
        Left<E> row[kMost] = {};
        if (group + t < rows) {
          const auto* from = static_cast<const E*>(u) + (group + t) * stride + first;
          for_lanes(n, [&](std::size_t i, std::size_t lanes) {
            store_left<E>(row + i, load_some(from + i, lanes) * broadcast(scale));
          });
        }
        for (std::size_t j = 0; j < n; ++j) to[(first + j) * kStep<E> + t] = row[j];
      }
    }
  }
}
