// Products of bf16 on the tiles of AMX: 16 x 16 sums of 32 products each. Of each 32 the even ones
// and the odd ones are chains of their own that begin with zero; their sum is added to what was
// there. Included by amx.cc, before impl.h
// and after the primary templates.
#pragma once

#include "engine/kernels/products.h"

constexpr std::size_t kTile = 16;      // rows of a tile
constexpr std::size_t kTileStep = 32;  // of k

/// The compiler does not know what tiles and their configuration are loaded from: it must store
/// that before, and change it only after.
inline void order_memory(const void* of) {
  asm volatile("" ::"r"(of) : "memory");
}

/// Sums are tiles 0 to 2 and 3 to 5, the left side is 6, the right side 7. `rows` of the left side
/// and of the sums are there.
inline void configure_tiles(std::size_t rows) {
  struct alignas(64) Config {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } config;
  for (std::size_t i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = static_cast<std::uint8_t>(i == 7 ? kTile : rows);
  }
  order_memory(&config);
  _tile_loadconfig(&config);
  order_memory(&config);
}

template <>
struct TileUse<Bf16> {
  TileUse() { configure_tiles(kTile); }
  TileUse(const TileUse&) = delete;
  TileUse& operator=(const TileUse&) = delete;
  ~TileUse() { _tile_release(); }
};

template <int kRowTiles, int kColumnTiles>
inline void zero_tiles() {
  _tile_zero(0);
  if constexpr (kColumnTiles > 1) _tile_zero(1);
  if constexpr (kColumnTiles > 2) _tile_zero(2);
  if constexpr (kRowTiles > 1) {
    _tile_zero(3);
    if constexpr (kColumnTiles > 1) _tile_zero(4);
    if constexpr (kColumnTiles > 2) _tile_zero(5);
  }
}
template <int kRowTiles, int kColumnTiles>
inline void load_tiles(const float* c, std::size_t c_row) {
  const float* lower = c + kTile * c_row;
  c_row *= sizeof(float);
  order_memory(c);
  _tile_loadd(0, c, c_row);
  if constexpr (kColumnTiles > 1) _tile_loadd(1, c + 16, c_row);
  if constexpr (kColumnTiles > 2) _tile_loadd(2, c + 32, c_row);
  if constexpr (kRowTiles > 1) {
    _tile_loadd(3, lower, c_row);
    if constexpr (kColumnTiles > 1) _tile_loadd(4, lower + 16, c_row);
    if constexpr (kColumnTiles > 2) _tile_loadd(5, lower + 32, c_row);
  }
  order_memory(c);
}
template <int kRowTiles, int kColumnTiles>
inline void store_tiles(float* c, std::size_t c_row) {
  float* lower = c + kTile * c_row;
  c_row *= sizeof(float);
  _tile_stored(0, c, c_row);
  if constexpr (kColumnTiles > 1) _tile_stored(1, c + 16, c_row);
  if constexpr (kColumnTiles > 2) _tile_stored(2, c + 32, c_row);
  if constexpr (kRowTiles > 1) {
    _tile_stored(3, lower, c_row);
    if constexpr (kColumnTiles > 1) _tile_stored(4, lower + 16, c_row);
    if constexpr (kColumnTiles > 2) _tile_stored(5, lower + 32, c_row);
  }
}

/// sums += a . b over k.  a: rows `a_row` elements apart  b: (k / 2, b_row, 2)
template <int kRowTiles, int kColumnTiles>
inline void add_tiles(
    const Bf16* a, std::size_t a_row, const Bf16* b, std::size_t b_row, std::size_t k) {
  const std::size_t a_bytes = a_row * sizeof(Bf16);
  const std::size_t b_bytes = b_row * 2 * sizeof(Bf16);
  order_memory(a);
  order_memory(b);
  for (std::size_t i = 0; i < k; i += kTileStep, a += kTileStep, b += kTileStep * b_row) {
    _tile_loadd(6, a, a_bytes);
    _tile_loadd(7, b, b_bytes);
    _tile_dpbf16ps(0, 6, 7);
    if constexpr (kColumnTiles > 1) {
      _tile_loadd(7, b + 32, b_bytes);
      _tile_dpbf16ps(1, 6, 7);
    }
    if constexpr (kColumnTiles > 2) {
      _tile_loadd(7, b + 64, b_bytes);
      _tile_dpbf16ps(2, 6, 7);
    }
    if constexpr (kRowTiles > 1) {  // backwards: the last columns are still there
      _tile_loadd(6, a + kTile * a_row, a_bytes);
      if constexpr (kColumnTiles > 2) {
        _tile_dpbf16ps(5, 6, 7);
        _tile_loadd(7, b + 32, b_bytes);
      }
      if constexpr (kColumnTiles > 1) {
        _tile_dpbf16ps(4, 6, 7);
        _tile_loadd(7, b, b_bytes);
      }
      _tile_dpbf16ps(3, 6, 7);
    }
  }
  order_memory(a);
}

/// Calls f.template operator()<row tiles>(first_row, rows), the last time with a configuration of
/// fewer rows.
template <typename F>
inline void for_tile_rows(std::size_t rows, F f) {
  std::size_t row = 0;
  for (; row + 2 * kTile <= rows; row += 2 * kTile) f.template operator()<2>(row, 2 * kTile);
  for (; row + kTile <= rows; row += kTile) f.template operator()<1>(row, kTile);
  if (row == rows) return;
  configure_tiles(rows - row);
  f.template operator()<1>(row, rows - row);
  configure_tiles(kTile);
}

/// Some rows of a panel; `first` is the panel's first column in c.
template <int kRowTiles, int kColumnTiles>
inline void tile_product(const PanelProduct& p,
                         std::size_t row,
                         std::size_t rows,
                         std::size_t first) {
  constexpr std::size_t kWidth = kColumnTiles * kLanes;
  zero_tiles<kRowTiles, kColumnTiles>();
  for (const Segment* s = p.segments; s != p.segments + p.segment_count; ++s) {
    add_tiles<kRowTiles, kColumnTiles>(static_cast<const Bf16*>(s->a) + row * s->a_stride,
                                       s->a_stride,
                                       panel_of<Bf16>(*s, first, kWidth),
                                       kWidth,
                                       s->k);
  }
  if (p.output == Output::store && p.bias == nullptr && first + kWidth <= p.columns) {
    store_tiles<kRowTiles, kColumnTiles>(static_cast<float*>(p.c) + row * p.c_stride + first,
                                         p.c_stride);
    return;
  }
  alignas(64) float sums[2 * kTile][kWidth];
  store_tiles<kRowTiles, kColumnTiles>(sums[0], kWidth);
  const auto finish_all = [&](auto* c) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t column = 0; column < kWidth; column += kLanes)
        finish(load(sums[r] + column), p, row + r, first + column, c);
    }
  };
  if (p.output == Output::store_elements) {
    finish_all(static_cast<Bf16*>(p.c));
  } else {
    finish_all(static_cast<float*>(p.c));
  }
}

/// Panels one after another for the same few rows, which stay in the nearest cache.
template <>
void product<Bf16>(const PanelProduct& p) {
  const TileUse<Bf16> tiles;
  for_tile_rows(p.rows, [&]<int kRowTiles>(std::size_t row, std::size_t rows) {
    for (std::size_t first = 0; first < p.columns; first += kPanelColumns) {
      const std::size_t width = width_at(p, first);
      if (width == 48) {
        tile_product<kRowTiles, 3>(p, row, rows, first);
      } else if (width == 32) {
        tile_product<kRowTiles, 2>(p, row, rows, first);
      } else {
        tile_product<kRowTiles, 1>(p, row, rows, first);
      }
    }
  });
}

/// Whole tiles only: the arrays have room for them.
template <>
inline void multiply<Bf16>(const SmallProduct<Bf16>& p) {
  const auto strip = [&]<int kRowTiles, int kColumnTiles>(std::size_t row, std::size_t column) {
    float* c = p.c + row * p.c_row + column;
    if (p.goes_on) {
      load_tiles<kRowTiles, kColumnTiles>(c, p.c_row);
    } else {
      zero_tiles<kRowTiles, kColumnTiles>();
    }
    add_tiles<kRowTiles, kColumnTiles>(
        p.a + row * p.a_row, p.a_row, p.b + 2 * column, p.b_row, p.k);
    store_tiles<kRowTiles, kColumnTiles>(c, p.c_row);
  };
  const auto line = [&]<int kRowTiles>(std::size_t row) {
    std::size_t column = 0;
    for (; column + 32 <= p.columns; column += 32)
      strip.template operator()<kRowTiles, 2>(row, column);
    if (column < p.columns) strip.template operator()<kRowTiles, 1>(row, column);
  };
  std::size_t row = 0;
  for (; row + kTile < p.rows; row += 2 * kTile) line.template operator()<2>(row);
  if (row < p.rows) line.template operator()<1>(row);
}

template <>
void outer_product<Bf16>(const OuterProduct& p) {
  const TileUse<Bf16> tiles;
  constexpr std::size_t kWidth = kPanelColumns;
  alignas(64) Bf16 x[kTileStep / 2][2 * kWidth];
  for (std::size_t column = 0; column < p.columns; column += kWidth) {
    const std::size_t columns = p.columns - column < kWidth ? p.columns - column : kWidth;
    for_tile_rows(p.rank, [&]<int kRowTiles>(std::size_t first, std::size_t rows) {
      alignas(64) float sums[2 * kTile][kWidth] = {};
      for (std::size_t r = 0; r < rows; ++r) {
        __builtin_memcpy(sums[r], p.g + (first + r) * p.g_stride + column, columns * sizeof(float));
      }
      load_tiles<kRowTiles, 3>(sums[0], kWidth);
      const auto* u = static_cast<const Bf16*>(p.u) + first * kTileStep;
      for (std::size_t t = 0; t < p.rows; t += kTileStep, u += p.rank * kTileStep) {
        const auto* from = static_cast<const Bf16*>(p.x) + t * p.x_stride + column;
        for (std::size_t i = 0; i < kTileStep; i += 2, from += 2 * p.x_stride) {
          for (int q = 0; q < 3; ++q) {
            const Pairs pairs =
                t + i < p.rows
                    ? column_group(
                          from + q * 16, p.x_stride, lanes_of(columns, q), t + i + 2 > p.rows)
                    : Pairs{_mm512_setzero_si512()};
            _mm512_store_si512(x[i / 2] + q * 32, pairs.bits);
          }
        }
        add_tiles<kRowTiles, 3>(u, kTileStep, x[0], kWidth, kTileStep);
      }
      store_tiles<kRowTiles, 3>(sums[0], kWidth);
      for (std::size_t r = 0; r < rows; ++r) {
        __builtin_memcpy(p.g + (first + r) * p.g_stride + column, sums[r], columns * sizeof(float));
      }
    });
  }
}
