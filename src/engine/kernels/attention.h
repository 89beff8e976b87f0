// Attention, forward and backward: blocks of keys in order, with a running soft-max. All sums are
// of floats. Included by impl.h.
#pragma once

#include "engine/kernels/products.h"

constexpr std::size_t kTileRows = kAttentionRows;
constexpr std::size_t kBlockVectors = kKeyBlock / kLanes;

/// n elements as floats: where they are if that is what they are, else in `room`.
inline const float* as_floats(const float* x, std::size_t /*n*/, float* /*room*/) {
  return x;
}
inline const float* as_floats(const Bf16* x, std::size_t n, float* room) {
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    store_some(room + i, load_some(x + i, lanes), lanes);
  });
  return room;
}
/// A row of n elements as floats, with zeros up to a whole number of vectors.
template <typename E>
inline void copy_row(const void* x, std::size_t n, float* out) {
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    store(out + i, load_some(static_cast<const E*>(x) + i, lanes));
  });
}
inline std::size_t lanes_before(std::size_t visible, std::size_t begin) {
  if (visible <= begin) return 0;
  return visible - begin < kLanes ? visible - begin : kLanes;
}

/// What one row has seen so far.
struct RunningSoftmax {
  float top;
  Lanes sum;
};

/// The scores of one row become exp(score - top); what went before is scaled to the new top.
inline void soften(float* scores,
                   std::size_t visible,
                   float scale,
                   RunningSoftmax& state,
                   float* out,
                   std::size_t out_width) {
  const Lanes hidden = broadcast(-__builtin_inff());
  Lanes s[kBlockVectors];
  Lanes highest = hidden;
  for (std::size_t q = 0; q < kBlockVectors; ++q) {
    const std::size_t lanes = lanes_before(visible, q * kLanes);
    s[q] = load(scores + q * kLanes) * broadcast(scale);
    if (lanes < kLanes) s[q] = first(lanes, s[q], hidden);
    highest = max(highest, s[q]);
  }
  const float top = max_of(highest);
  if (top > state.top) {
    const Lanes shrink = exp(broadcast(state.top - top));
    state.sum = state.sum * shrink;
    for (std::size_t i = 0; i < out_width; i += kLanes) store(out + i, load(out + i) * shrink);
    state.top = top;
  }
  for (std::size_t q = 0; q < kBlockVectors; ++q) {
    const Lanes p = exp(s[q] - broadcast(state.top));
    state.sum = state.sum + p;
    store(scores + q * kLanes, p);
  }
}

template <typename E>
inline void attention_tile(const AttentionForward& p, const QueryRow* rows, std::size_t count) {
  const std::size_t width = p.value_stride;
  float* q = p.scratch;                          // (kTileRows, width)
  float* out = q + kTileRows * width;            // (kTileRows, width)
  float* scores = out + kTileRows * width;       // (kTileRows, kKeyBlock)
  float* keys = scores + kTileRows * kKeyBlock;  // (width, kKeyBlock)
  float* values = keys + width * kKeyBlock;      // (kKeyBlock, width)
  RunningSoftmax state[kTileRows];
  for (std::size_t r = 0; r < count; ++r) {
    copy_row<E>(rows[r].q, p.head_dim, q + r * width);
    for (std::size_t i = 0; i < width; i += kLanes) store(out + r * width + i, broadcast(0.0F));
    state[r] = {-__builtin_inff(), broadcast(0.0F)};
  }
  const std::size_t limit = rows[count - 1].limit;
  std::size_t begin = 0;  // rows before it have seen all they may see
  for (std::size_t block = 0; block * kKeyBlock < limit; ++block) {
    const std::size_t start = block * kKeyBlock;
    while (rows[begin].limit <= start) ++begin;
    const float* k =
        as_floats(static_cast<const E*>(p.key_blocks[block]), p.head_dim * kKeyBlock, keys);
    multiply({q + begin * width,
              width,
              1,
              k,
              kKeyBlock,
              scores + begin * kKeyBlock,
              kKeyBlock,
              count - begin,
              kBlockVectors,
              p.head_dim,
              false});
    for (std::size_t r = begin; r < count; ++r) {
      soften(
          scores + r * kKeyBlock, rows[r].limit - start, p.scale, state[r], out + r * width, width);
    }
    const std::size_t seen = limit - start < kKeyBlock ? limit - start : kKeyBlock;
    const float* v = as_floats(static_cast<const E*>(p.value_blocks[block]), seen * width, values);
    multiply({scores + begin * kKeyBlock,
              kKeyBlock,
              1,
              v,
              width,
              out + begin * width,
              width,
              count - begin,
              width / kLanes,
              seen,
              true});
  }
  for (std::size_t r = 0; r < count; ++r) {
    const float sum = sum_of(state[r].sum);
    for_lanes(p.head_dim, [&](std::size_t i, std::size_t lanes) {
      store_some(
          static_cast<E*>(rows[r].out) + i, load(out + r * width + i) / broadcast(sum), lanes);
    });
    *rows[r].lse = state[r].top + __builtin_logf(sum);
  }
}

template <typename E>
void attention(const AttentionForward& p) {
  for (std::size_t r = 0; r < p.row_count; r += kTileRows) {
    const std::size_t left = p.row_count - r;
    attention_tile<E>(p, p.rows + r, left < kTileRows ? left : kTileRows);
  }
}

inline void transpose(const float* x,
                      std::size_t x_row,
                      std::size_t rows,
                      std::size_t columns,
                      float* out,
                      std::size_t out_row) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) out[c * out_row + r] = x[r * x_row + c];
  }
}

/// Scratch of the backward pass, for one block of keys and one tile of rows.
struct BackwardRoom {
  BackwardRoom(float* scratch, std::size_t width) {
    float* next = scratch;
    const auto take = [&](std::size_t n) {
      float* out = next;
      next += n;
      return out;
    };
    for (float** part : {&keys, &values, &key_rows, &value_columns, &d_k, &d_v})
      *part = take(kKeyBlock * width);
    for (float** part : {&q, &d_out, &d_q}) *part = take(kTileRows * width);
    for (float** part : {&p, &d_s}) *part = take(kTileRows * kKeyBlock);
  }
  float* keys;           // (width, kKeyBlock)
  float* values;         // (kKeyBlock, width)
  float* key_rows;       // (kKeyBlock, width)
  float* value_columns;  // (width, kKeyBlock)
  float* d_k;            // (kKeyBlock, width)
  float* d_v;
  float* q;  // (kTileRows, width)
  float* d_out;
  float* d_q;
  float* p;  // (kTileRows, kKeyBlock)
  float* d_s;
};

template <typename E>
inline void backward_tile(const AttentionBackward& a,
                          const BackwardRoom& room,
                          const float* k,
                          std::size_t block,
                          const BackwardRow* rows,
                          std::size_t count) {
  const std::size_t width = a.value_stride;
  const std::size_t start = block * kKeyBlock;
  float pull[kTileRows];  // sum of out * d_out of each row
  for (std::size_t r = 0; r < count; ++r) {
    copy_row<E>(rows[r].q, a.head_dim, room.q + r * width);
    copy_row<E>(rows[r].d_out, a.head_dim, room.d_out + r * width);
    Lanes sum = broadcast(0.0F);
    for_lanes(a.head_dim, [&](std::size_t i, std::size_t lanes) {
      sum = fma(load_some(static_cast<const E*>(rows[r].out) + i, lanes),
                load(room.d_out + r * width + i),
                sum);
    });
    pull[r] = sum_of(sum);
    for_lanes(a.head_dim, [&](std::size_t i, std::size_t lanes) {
      store(room.d_q + r * width + i,
            block == 0 ? broadcast(0.0F) : load_some(rows[r].d_q + i, lanes));
    });
  }
  multiply(
      {room.q, width, 1, k, kKeyBlock, room.p, kKeyBlock, count, kBlockVectors, a.head_dim, false});
  multiply({room.d_out,
            width,
            1,
            room.value_columns,
            kKeyBlock,
            room.d_s,
            kKeyBlock,
            count,
            kBlockVectors,
            a.head_dim,
            false});
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t i = 0; i < kKeyBlock; i += kLanes) {
      float* at = room.p + r * kKeyBlock + i;
      float* d_at = room.d_s + r * kKeyBlock + i;
      const std::size_t lanes = lanes_before(rows[r].limit - start, i);
      const Lanes score = load(at) * broadcast(a.scale) - broadcast(rows[r].lse);
      const Lanes p = first(lanes, exp(score), broadcast(0.0F));
      const Lanes d_s = p * (load(d_at) - broadcast(pull[r])) * broadcast(a.scale);
      store(at, p);
      store(d_at, first(lanes, d_s, broadcast(0.0F)));
    }
  }
  const std::size_t vectors = width / kLanes;
  multiply(
      {room.p, 1, kKeyBlock, room.d_out, width, room.d_v, width, kKeyBlock, vectors, count, true});
  multiply(
      {room.d_s, 1, kKeyBlock, room.q, width, room.d_k, width, kKeyBlock, vectors, count, true});
  const std::size_t keys = a.keys - start < kKeyBlock ? a.keys - start : kKeyBlock;
  multiply(
      {room.d_s, kKeyBlock, 1, room.key_rows, width, room.d_q, width, count, vectors, keys, true});
  for (std::size_t r = 0; r < count; ++r) {
    for_lanes(a.head_dim, [&](std::size_t i, std::size_t lanes) {
      store_some(rows[r].d_q + i, load(room.d_q + r * width + i), lanes);
    });
  }
}

template <typename E>
void attention_backward(const AttentionBackward& a) {
  const std::size_t width = a.value_stride;
  const BackwardRoom room(a.scratch, width);
  const BackwardRow* rows = a.rows;
  const std::size_t count = a.row_count;
  std::size_t begin = 0;
  for (std::size_t block = 0; block * kKeyBlock < a.keys; ++block) {
    const std::size_t start = block * kKeyBlock;
    const std::size_t here = a.keys - start < kKeyBlock ? a.keys - start : kKeyBlock;
    const float* k =
        as_floats(static_cast<const E*>(a.key_blocks[block]), a.head_dim * kKeyBlock, room.keys);
    const float* v =
        as_floats(static_cast<const E*>(a.value_blocks[block]), kKeyBlock * width, room.values);
    for (std::size_t i = 0; i < kKeyBlock * width; ++i)
      room.d_k[i] = room.d_v[i] = room.key_rows[i] = 0.0F;
    transpose(k, kKeyBlock, a.head_dim, kKeyBlock, room.key_rows, width);
    transpose(v, width, kKeyBlock, a.head_dim, room.value_columns, kKeyBlock);
    while (begin < count && rows[begin].limit <= start) ++begin;
    for (std::size_t r = begin; r < count; r += kTileRows) {
      backward_tile<E>(a, room, k, block, rows + r, count - r < kTileRows ? count - r : kTileRows);
    }
    for (std::size_t j = 0; j < here; ++j) {
      for_lanes(a.head_dim, [&](std::size_t i, std::size_t lanes) {
        store_some(a.d_k + (start + j) * a.d_kv_stride + i, load(room.d_k + j * width + i), lanes);
        store_some(a.d_v + (start + j) * a.d_kv_stride + i, load(room.d_v + j * width + i), lanes);
      });
    }
  }
}
