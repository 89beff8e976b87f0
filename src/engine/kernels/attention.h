// Attention, forward and backward: blocks of keys in order, with a running soft-max. All sums are
// of floats. Included by impl.h.
#pragma once

#include "engine/kernels/products.h"
#include "engine/kernels/transpose.h"

/// Queries of one tile of the forward pass, and of the backward pass.
constexpr std::size_t kTileRows = kHasTiles ? 16 : 12;
constexpr std::size_t kBackRows = kKeyBlock;
/// Small products may write whole tiles, from any row on.
constexpr std::size_t kRoomRows = kHasTiles ? 2 * kTileRows : kTileRows;
static_assert(kRoomRows <= kAttentionRows);

/// `round_up`, which others use, too, and which must not be compiled for this instruction set.
constexpr std::size_t fill_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Gives out parts of the scratch, each at a cache line.
class Room {
 public:
  explicit Room(float* scratch) : next_(reinterpret_cast<char*>(scratch)) {}
  template <typename T>
  T* take(std::size_t n) {
    T* out = reinterpret_cast<T*>(next_);
    next_ += fill_up(n * sizeof(T), 64);
    return out;
  }

 private:
  char* next_;
};

/// n elements, then zeros up to `width`, a multiple of 16.
template <typename E, typename To>
inline void copy_row(const void* x, std::size_t n, std::size_t width, To* out) {
  const auto* in = static_cast<const E*>(x);
  for (std::size_t i = 0; i < width; i += kLanes)
    store(out + i, i < n ? load_some(in + i, n - i < kLanes ? n - i : kLanes) : broadcast(0.0F));
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

/// p = exp(score - top) of one row; what went before is scaled to the new top.
template <typename E>
inline void soften(const float* scores,
                   std::size_t visible,
                   float scale,
                   RunningSoftmax& state,
                   float* out,
                   std::size_t out_width,
                   Left<E>* p) {
  constexpr std::size_t kVectors = kKeyBlock / kLanes;
  const Lanes hidden = broadcast(-__builtin_inff());
  Lanes s[kVectors];
  Lanes highest = hidden;
  for (std::size_t q = 0; q < kVectors; ++q) {
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
  for (std::size_t q = 0; q < kVectors; ++q) {
    const Lanes e = exp(s[q] - broadcast(state.top));
    state.sum = state.sum + e;
    store_left<E>(p + q * kLanes, e);
  }
}

/// A block of values of which the first `seen` count: itself, or a copy with zeros behind them.
template <typename E>
inline const E* seen_values(const void* block, std::size_t seen, std::size_t width, E* room) {
  const auto* values = static_cast<const E*>(block);
  if (seen % kStep<E> == 0) return values;
  const std::size_t whole = seen / kGroup<E> * kGroup<E>;
  __builtin_memcpy(room, values, whole * width * sizeof(E));
  __builtin_memset(room + whole * width, 0, (kKeyBlock - whole) * width * sizeof(E));
  if (whole < seen) {  // the first ones of pairs
    for (std::size_t i = 0; i < width; ++i)
      room[whole * width + i * kGroup<E>] = values[whole * width + i * kGroup<E>];
  }
  return room;
}

template <typename E>
inline void attention_tile(const AttentionForward& p, const QueryRow* rows, std::size_t count) {
  const std::size_t width = p.value_stride;
  const std::size_t depth = fill_up(p.head_dim, kStep<E>);
  const std::size_t q_width = fill_up(depth, kLanes);
  Room room(p.scratch);
  auto* q = room.take<Left<E>>(kRoomRows * q_width);
  auto* out = room.take<float>(kRoomRows * width);
  auto* scores = room.take<float>(kRoomRows * kKeyBlock);
  auto* weights = room.take<Left<E>>(kRoomRows * kKeyBlock);
  auto* values = room.take<E>(kKeyBlock * width);
  RunningSoftmax state[kTileRows];
  for (std::size_t r = 0; r < count; ++r) {
    copy_row<E>(rows[r].q, p.head_dim, q_width, q + r * q_width);
    for (std::size_t i = 0; i < width; i += kLanes) store(out + r * width + i, broadcast(0.0F));
    state[r] = {-__builtin_inff(), broadcast(0.0F)};
  }
  const std::size_t limit = rows[count - 1].limit;
  std::size_t begin = 0;  // rows before it have seen all they may see
  for (std::size_t start = 0; start < limit; start += kKeyBlock) {
    const std::size_t block = start / kKeyBlock;
    const std::size_t seen = limit - start < kKeyBlock ? limit - start : kKeyBlock;
    while (rows[begin].limit <= start) ++begin;
    multiply(SmallProduct<E>{.a = q + begin * q_width,
                             .a_row = q_width,
                             .b = static_cast<const E*>(p.key_blocks[block]),
                             .b_row = kKeyBlock,
                             .c = scores + begin * kKeyBlock,
                             .c_row = kKeyBlock,
                             .rows = count - begin,
                             .columns = kKeyBlock,
                             .k = depth,
                             .goes_on = false});
    for (std::size_t r = begin; r < count; ++r) {
      soften<E>(scores + r * kKeyBlock,
                rows[r].limit - start,
                p.scale,
                state[r],
                out + r * width,
                width,
                weights + r * kKeyBlock);
    }
    multiply(SmallProduct<E>{.a = weights + begin * kKeyBlock,
                             .a_row = kKeyBlock,
                             .b = seen_values(p.value_blocks[block], seen, width, values),
                             .b_row = width,
                             .c = out + begin * width,
                             .c_row = width,
                             .rows = count - begin,
                             .columns = width,
                             .k = fill_up(seen, kStep<E>),
                             .goes_on = true});
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
  [[maybe_unused]] const TileUse<E> tiles;
  for (std::size_t r = 0; r < p.row_count; r += kTileRows) {
    const std::size_t left = p.row_count - r;
    attention_tile<E>(p, p.rows + r, left < kTileRows ? left : kTileRows);
  }
}

/// A block of keys and values as the backward pass reads it.
template <typename E>
struct KeyBlock {
  const Left<E>* k_rows;     // (kKeyBlock, depth)
  const Left<E>* k_columns;  // (head_dim, kKeyBlock)
  const Left<E>* v_rows;     // (kKeyBlock, depth)
  std::size_t v_stride;
};

inline void read_block(const AttentionBackward& a,
                       std::size_t index,
                       std::size_t depth,
                       Room& room,
                       KeyBlock<float>& out) {
  auto* rows = room.take<float>(kKeyBlock * depth);
  out = {.k_rows = rows,
         .k_columns = static_cast<const float*>(a.key_blocks[index]),
         .v_rows = static_cast<const float*>(a.value_blocks[index]),
         .v_stride = a.value_stride};
  transpose_words(out.k_columns, kKeyBlock, a.head_dim, kKeyBlock, rows, depth);
}
inline void read_block(const AttentionBackward& a,
                       std::size_t index,
                       std::size_t depth,
                       Room& room,
                       KeyBlock<Bf16>& out) {
  const auto* k = static_cast<const Bf16*>(a.key_blocks[index]);
  const auto* v = static_cast<const Bf16*>(a.value_blocks[index]);
  auto* k_rows = room.take<Left<Bf16>>(kKeyBlock * depth);
  auto* k_columns = room.take<Left<Bf16>>(depth * kKeyBlock);
  auto* v_rows = room.take<Left<Bf16>>(kKeyBlock * depth);
  for (std::size_t i = 0; i < a.head_dim; i += 2) {
    for (std::size_t j = 0; j < kKeyBlock; j += kLanes) {
      auto* row = k_columns + i * kKeyBlock + j;
      split_pairs(k + i * kKeyBlock + 2 * j, row, row + kKeyBlock);
    }
  }
  if constexpr (sizeof(Left<Bf16>) == sizeof(float)) {
    transpose_words(k_columns, kKeyBlock, a.head_dim, kKeyBlock, k_rows, depth);
  } else {
    transpose_words(k, kKeyBlock, a.head_dim / 2, kKeyBlock, k_rows, depth / 2);
  }
  for (std::size_t j = 0; j < kKeyBlock; j += 2) {
    for (std::size_t i = 0; i < a.value_stride; i += kLanes) {
      auto* row = v_rows + j * depth + i;
      split_pairs(v + j * a.value_stride + 2 * i, row, row + depth);
    }
  }
  // What lies behind the head and behind the last key must be zeros where it is multiplied.
  const std::size_t keys = a.keys - index * kKeyBlock;
  for (std::size_t j = 0; j < kKeyBlock; ++j) {
    for (std::size_t i = a.head_dim; i < depth; ++i)
      k_rows[j * depth + i] = v_rows[j * depth + i] = {};
  }
  for (std::size_t i = 0; i < a.head_dim; ++i) {
    for (std::size_t j = keys; j < kKeyBlock; ++j) k_columns[i * kKeyBlock + j] = {};
  }
  out = {.k_rows = k_rows, .k_columns = k_columns, .v_rows = v_rows, .v_stride = depth};
}

/// Rows of pairs of rows, as the right side of a product over rows.
inline const float* join_rows(const float* rows, std::size_t /*width*/, float* /*room*/) {
  return rows;
}
template <typename From>
inline const Bf16* join_rows(const From* rows, std::size_t width, Bf16* room) {
  for (std::size_t r = 0; r < kKeyBlock; r += 2) {
    for (std::size_t i = 0; i < width; i += kLanes) {
      const From* row = rows + r * width + i;
      join_pairs(row, row + width, room + r * width + 2 * i);
    }
  }
  return room;
}

/// A tile of queries, with what came back for them, and what is computed of it. Queries lie in the
/// lanes: scores are (keys, queries).
template <typename E>
struct BackwardTile {
  BackwardTile(Room& room, std::size_t depth) {
    staged = room.take<E>(kBackRows * depth);
    q_columns = room.take<E>(kBackRows * depth);
    d_columns = room.take<E>(kBackRows * depth);
    q_room = room.take<E>(kBackRows * depth);
    d_room = room.take<E>(kBackRows * depth);
    d_q = room.take<float>(kBackRows * depth);
    scores = room.take<float>(kKeyBlock * kBackRows);
    d_scores = room.take<float>(kKeyBlock * kBackRows);
    p = room.take<Left<E>>(kKeyBlock * kBackRows);
    d_s = room.take<Left<E>>(kKeyBlock * kBackRows);
    d_s_room = room.take<E>(kKeyBlock * kBackRows);
    lse = room.take<float>(kBackRows);
    pull = room.take<float>(kBackRows);
    limit = room.take<float>(kBackRows);
  }

  void read(const AttentionBackward& a,
            const BackwardRow* rows,
            std::size_t count,
            std::size_t depth) {
    for (std::size_t r = 0; r < kBackRows; ++r) {
      lse[r] = pull[r] = limit[r] = 0;
      if (r >= count) continue;
      lse[r] = rows[r].lse;
      limit[r] = static_cast<float>(rows[r].limit);
      Lanes sum = broadcast(0.0F);
      for_lanes(a.head_dim, [&](std::size_t i, std::size_t lanes) {
        sum = fma(load_some(static_cast<const E*>(rows[r].out) + i, lanes),
                  load_some(static_cast<const E*>(rows[r].d_out) + i, lanes),
                  sum);
      });
      pull[r] = sum_of(sum);
    }
    const auto lay_out = [&](auto row_of, E* columns, E* side_by_side) {
      for (std::size_t r = 0; r < kBackRows; ++r)
        copy_row<E>(row_of(r), r < count ? a.head_dim : 0, depth, staged + r * depth);
      transpose_words(staged, depth / kGroup<E>, kBackRows, depth / kGroup<E>, columns, kBackRows);
      if constexpr (kGroup<E> == 1) {
        __builtin_memcpy(side_by_side, staged, kBackRows * depth * sizeof(E));
      } else {
        join_rows(staged, depth, side_by_side);
      }
    };
    lay_out([&](std::size_t r) { return r < count ? rows[r].q : nullptr; }, q_columns, q_room);
    lay_out([&](std::size_t r) { return r < count ? rows[r].d_out : nullptr; }, d_columns, d_room);
    __builtin_memset(d_q, 0, kBackRows * depth * sizeof(float));
  }

  /// Scores of one block of keys become weights, and what comes back for them what it is for the
  /// scores.
  void differentiate(float scale, std::size_t start) {
    for (std::size_t j = 0; j < kKeyBlock; ++j) {
      const Lanes key_end = broadcast(static_cast<float>(start + j + 1));
      for (std::size_t r = 0; r < kBackRows; r += kLanes) {
        const std::size_t at = j * kBackRows + r;
        const Lanes seen = load(limit + r);
        const Lanes weight =
            zero_below(seen, key_end, exp(load(scores + at) * broadcast(scale) - load(lse + r)));
        const Lanes d = weight * (load(d_scores + at) - load(pull + r)) * broadcast(scale);
        store_left<E>(p + at, weight);
        store_left<E>(d_s + at, zero_below(seen, key_end, d));
      }
    }
  }

  E* staged;     // (kBackRows, depth)
  E* q_columns;  // (depth / group, kBackRows, group)
  E* d_columns;
  E* q_room;  // (kBackRows / group, depth, group)
  E* d_room;
  Left<E>* p;  // (kKeyBlock, kBackRows)
  Left<E>* d_s;
  E* d_s_room;  // (kKeyBlock / group, kBackRows, group)
  float* d_q;   // (depth, kBackRows)
  float* scores;
  float* d_scores;
  float* lse;
  float* pull;
  float* limit;
};

template <typename E>
void attention_backward(const AttentionBackward& a) {
  [[maybe_unused]] const TileUse<E> tiles;
  const std::size_t depth = fill_up(fill_up(a.head_dim, kStep<E>), kLanes);
  const std::size_t k = fill_up(a.head_dim, kStep<E>);
  const std::size_t blocks = fill_up(a.keys, kKeyBlock) / kKeyBlock;
  Room room(a.scratch);
  BackwardTile<E> tile(room, depth);
  auto* d_k = room.take<float>(blocks * kKeyBlock * depth);
  auto* d_v = room.take<float>(blocks * kKeyBlock * depth);
  __builtin_memset(d_k, 0, blocks * kKeyBlock * depth * sizeof(float));
  __builtin_memset(d_v, 0, blocks * kKeyBlock * depth * sizeof(float));
  for (std::size_t j = 0; j < a.begun_keys; ++j) {
    __builtin_memcpy(d_k + j * depth, a.d_k + j * a.d_kv_stride, a.head_dim * sizeof(float));
    __builtin_memcpy(d_v + j * depth, a.d_v + j * a.d_kv_stride, a.head_dim * sizeof(float));
  }
  auto* key_blocks = room.take<KeyBlock<E>>(blocks);
  for (std::size_t i = 0; i < blocks; ++i) read_block(a, i, depth, room, key_blocks[i]);

  for (std::size_t first_row = 0; first_row < a.row_count; first_row += kBackRows) {
    const BackwardRow* rows = a.rows + first_row;
    const std::size_t left = a.row_count - first_row;
    const std::size_t count = left < kBackRows ? left : kBackRows;
    tile.read(a, rows, count, depth);
    for (std::size_t start = 0; start < rows[count - 1].limit; start += kKeyBlock) {
      const auto& block = key_blocks[start / kKeyBlock];
      const std::size_t here = a.keys - start < kKeyBlock ? a.keys - start : kKeyBlock;
      const auto scores_of =
          [&](const Left<E>* keys, std::size_t stride, const E* columns, float* c) {
            multiply(SmallProduct<E>{.a = keys,
                                     .a_row = stride,
                                     .b = columns,
                                     .b_row = kBackRows,
                                     .c = c,
                                     .c_row = kBackRows,
                                     .rows = kKeyBlock,
                                     .columns = kBackRows,
                                     .k = k,
                                     .goes_on = false});
          };
      scores_of(block.k_rows, depth, tile.q_columns, tile.scores);
      scores_of(block.v_rows, block.v_stride, tile.d_columns, tile.d_scores);
      tile.differentiate(a.scale, start);
      const auto add_rows = [&](const Left<E>* weights, const E* rows_of, float* c) {
        multiply(SmallProduct<E>{.a = weights,
                                 .a_row = kBackRows,
                                 .b = rows_of,
                                 .b_row = depth,
                                 .c = c + start * depth,
                                 .c_row = depth,
                                 .rows = kKeyBlock,
                                 .columns = depth,
                                 .k = kBackRows,
                                 .goes_on = true});
      };
      add_rows(tile.p, tile.d_room, d_v);
      add_rows(tile.d_s, tile.q_room, d_k);
      multiply(SmallProduct<E>{.a = block.k_columns,
                               .a_row = kKeyBlock,
                               .b = join_rows(tile.d_s, kBackRows, tile.d_s_room),
                               .b_row = kBackRows,
                               .c = tile.d_q,
                               .c_row = kBackRows,
                               .rows = a.head_dim,
                               .columns = kBackRows,
                               .k = fill_up(here, kStep<E>),
                               .goes_on = true});
    }
    float* d_q = tile.scores;  // (kBackRows, a part of depth): free now
    for (std::size_t i = 0; i < a.head_dim; i += kKeyBlock) {
      const std::size_t n = a.head_dim - i < kKeyBlock ? a.head_dim - i : kKeyBlock;
      transpose_words(tile.d_q + i * kBackRows, kBackRows, n, kBackRows, d_q, kKeyBlock);
      for (std::size_t r = 0; r < count; ++r)
        __builtin_memcpy(rows[r].d_q + i, d_q + r * kKeyBlock, n * sizeof(float));
    }
  }
  for (std::size_t j = 0; j < a.keys; ++j) {
    __builtin_memcpy(a.d_k + j * a.d_kv_stride, d_k + j * depth, a.head_dim * sizeof(float));
    __builtin_memcpy(a.d_v + j * a.d_kv_stride, d_v + j * depth, a.head_dim * sizeof(float));
  }
}
