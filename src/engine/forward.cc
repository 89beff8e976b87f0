#include "engine/forward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "engine/product.h"

namespace tinker::engine {
namespace {

// Positions whose queries are one unit of work.
constexpr std::size_t kQueryPositions = 32;

/// Scatters a row of keys into the column `slot` of its block: (n / group, kKeyBlock, group).
template <typename E>
void store_key(const std::byte* row, std::size_t n, std::size_t slot, std::byte* block) {
  constexpr std::size_t kGroup = sizeof(E) == 4 ? 1 : 2;
  const E* in = reinterpret_cast<const E*>(row);
  E* out = reinterpret_cast<E*>(block) + slot * kGroup;
  for (std::size_t i = 0; i < n; ++i) out[i / kGroup * kKeyBlock * kGroup + i % kGroup] = in[i];
}
/// The same of values, into the row `slot` of theirs: (kKeyBlock / group, stride, group).
template <typename E>
void store_value(
    const std::byte* row, std::size_t n, std::size_t stride, std::size_t slot, std::byte* block) {
  constexpr std::size_t kGroup = sizeof(E) == 4 ? 1 : 2;
  const E* in = reinterpret_cast<const E*>(row);
  E* out = reinterpret_cast<E*>(block) + slot / kGroup * kGroup * stride + slot % kGroup;
  for (std::size_t i = 0; i < n; ++i) out[i * kGroup] = in[i];
}

}  // namespace

void Forward::plan(const ActivationPlan& plan, Arena& arena) {
  const auto& config = model_.config();
  const auto piece = plan.of_piece();
  normed_ = piece.elements(arena, config.hidden_size);
  gated_ = piece.elements(arena, config.ffn_size);
  raw_q_ = piece.floats(arena, config.q_size());
  raw_k_ = piece.floats(arena, config.kv_size());
  raw_v_ = piece.floats(arena, config.kv_size());
  scratch_.clear();
  for (std::size_t i = 0; i < threads_.size(); ++i)
    scratch_.push_back(arena.floats(attention_scratch(config.head_dim)));
}

std::size_t Forward::bytes(const Model& model, ThreadPool& threads, const PassShape& shape) {
  Forward counted(model, threads);
  Arena arena;
  counted.plan(ActivationPlan(model, shape), arena);
  return arena.used();
}

void Forward::begin(const TokenBatch& batch, const PassShape& shape) {
  batch_ = batch;
  cut_into_pieces(shape.piece);
  std::size_t positions = 0;
  for (const auto& row : batch.rows) positions = std::max(positions, row.position + 1);
  rope_.reserve(positions);
  if (shape.fits(shape_)) return;
  release();
  arena_ = make_arena([&](Arena& arena) { plan(ActivationPlan(model_, shape), arena); });
  shape_ = shape;
}

void Forward::cut_into_pieces(std::size_t most) {
  pieces_.clear();
  const auto& rows = batch_.rows;
  for (std::size_t first = 0, end = 0; first < rows.size(); first = end) {
    end = std::min(rows.size(), first + most);
    while (end < rows.size() && rows[end].position % kKeyBlock != 0 &&
           rows[end].sequence == rows[end - 1].sequence)
      --end;
    pieces_.push_back({.first = first, .count = end - first});
    for (const auto& run : batch_.runs) {
      const std::size_t begin = std::max(first, run.first);
      const std::size_t stop = std::min(end, run.first + run.count);
      if (begin >= stop) continue;
      pieces_.back().runs.push_back(
          {.adapter = run.adapter, .first = begin - first, .count = stop - begin});
    }
  }
}

void Forward::embed(const FloatRows& x) const {
  for_rows(batch_.rows.size(), [&](std::size_t first, std::size_t count, std::size_t /*thread*/) {
    for (std::size_t i = first; i < first + count; ++i) {
      model_.embed(batch_.rows[i].token, {x.row(i), model_.config().hidden_size});
    }
  });
}

void Forward::norm(std::size_t rows,
                   const FloatRows& x,
                   const Floats& gain,
                   const ElementRows& out,
                   float* inverse) const {
  const auto& config = model_.config();
  for_rows(rows, [&](std::size_t first, std::size_t count, std::size_t /*thread*/) {
    for (std::size_t i = first; i < first + count; ++i) {
      const float scale = model_.kernels().rms_norm(
          x.row(i), gain.data(), config.hidden_size, config.rms_eps, out.row(i));
      if (inverse != nullptr) inverse[i] = scale;
    }
  });
}

void Forward::gated(std::size_t rows, const LayerState& state, const ElementRows& out) const {
  for_rows(rows, [&](std::size_t first, std::size_t count, std::size_t /*thread*/) {
    for (std::size_t i = first; i < first + count; ++i) {
      model_.kernels().silu_product(
          state.gate.row(i), state.up.row(i), model_.config().ffn_size, out.row(i));
    }
  });
}

void Forward::project(const RowPiece& piece,
                      std::size_t layer,
                      LoraGroup group,
                      const ElementRows& input,
                      const ElementRows& low,
                      std::span<const Target> targets) {
  const auto& kernels = model_.kernels();
  products_.clear();
  for (const auto& run : piece.runs) {
    const auto* lora = run.adapter == nullptr ? nullptr : run.adapter->find(layer, group);
    if (lora == nullptr) continue;
    Product product = {.rows = run.count,
                       .c = low.row(run.first),
                       .c_stride = low.stride,
                       .output = Output::store_elements};
    product.terms[0] = {.a = input.row(run.first), .a_stride = input.stride, .w = &lora->a};
    products_.push_back(product);
  }
  multiply(threads_, kernels, products_);

  products_.clear();
  for (const auto& run : piece.runs) {
    const auto* lora = run.adapter == nullptr ? nullptr : run.adapter->find(layer, group);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const auto& target = targets[i];
      const auto projection = kAllProjections[members_of(group).first + i];
      const std::size_t c_bytes =
          target.output == Output::store_elements ? kernels.element_bytes : sizeof(float);
      Product product = {
          .rows = run.count,
          .c = static_cast<std::byte*>(target.c) + run.first * target.stride * c_bytes,
          .c_stride = target.stride,
          .output = target.output,
          .bias = target.bias};
      product.terms[0] = {.a = input.row(run.first),
                          .a_stride = input.stride,
                          .w = &model_.layer(layer).matrix(projection)};
      if (lora != nullptr) {
        product.terms[1] = {.a = low.row(run.first, i * run.adapter->padded_rank()),
                            .a_stride = low.stride,
                            .w = &lora->b[i]};
      }
      products_.push_back(product);
    }
  }
  multiply(threads_, kernels, products_);
}

void Forward::layer(const LayerPass& pass) {
  for (std::size_t piece = 0; piece < pieces_.size(); ++piece) layer_piece(pass, piece);
}

void Forward::layer_piece(const LayerPass& pass, std::size_t piece) {
  const auto& rows = pieces_[piece];
  auto of_rows = pass;
  of_rows.state = pass.state.from(rows.first);
  of_rows.output = pass.output.from(rows.first);
  if (of_rows.state.raw_q.data == nullptr) {
    of_rows.state.raw_q = raw_q_;
    of_rows.state.raw_k = raw_k_;
  }
  layer_rows(rows, of_rows);
}

/// Of a pass whose arrays begin with the rows of the piece.
void Forward::layer_rows(const RowPiece& piece, const LayerPass& pass) {
  const auto& [index, state, kv, page_layer, output] = pass;
  const auto& weights = model_.layer(index);
  const auto low = [&](LoraGroup group) { return state.low[static_cast<std::size_t>(group)]; };
  const auto copy = [&](const FloatRows& from, const FloatRows& to) {
    if (from.data == to.data) return;
    for_rows(piece.count, [&](std::size_t first, std::size_t count, std::size_t /*thread*/) {
      std::memcpy(to.row(first), from.row(first), count * to.stride * sizeof(float));
    });
  };
  const auto floats = [](const FloatRows& rows, Output how, const float* bias) {
    return Target{.c = rows.data, .stride = rows.stride, .output = how, .bias = bias};
  };
  const auto elements = [](const ElementRows& rows) {
    return Target{.c = rows.data, .stride = rows.stride, .output = Output::store_elements};
  };

  norm(piece.count, state.x, weights.input_norm, normed_, nullptr);
  project(piece,
          index,
          LoraGroup::qkv,
          normed_,
          low(LoraGroup::qkv),
          std::array{floats(state.raw_q, Output::store, weights.biases[0].data()),
                     floats(state.raw_k, Output::store, weights.biases[1].data()),
                     floats(raw_v_, Output::store, weights.biases[2].data())});
  rotate_and_store(piece, index, state, *kv, page_layer);
  attend(piece, state, *kv, page_layer);
  copy(state.x, state.middle);
  project(piece,
          index,
          LoraGroup::o,
          state.out,
          low(LoraGroup::o),
          std::array{floats(state.middle, Output::add, nullptr)});

  norm(piece.count, state.middle, weights.post_attention_norm, normed_, nullptr);
  project(piece,
          index,
          LoraGroup::gate_up,
          normed_,
          low(LoraGroup::gate_up),
          std::array{elements(state.gate), elements(state.up)});
  gated(piece.count, state, gated_);
  copy(state.middle, output);
  project(piece,
          index,
          LoraGroup::down,
          gated_,
          low(LoraGroup::down),
          std::array{floats(output, Output::add, nullptr)});
}

void Forward::rotate_and_store(const RowPiece& piece,
                               std::size_t layer,
                               const LayerState& state,
                               const KvLayout& kv,
                               std::size_t page_layer) {
  const auto& config = model_.config();
  const auto& weights = model_.layer(layer);
  const auto& kernels = model_.kernels();
  const auto& plain = kernels_of(kernels.path, Precision::f32);
  const std::size_t n = config.head_dim;
  for_rows(piece.count, [&](std::size_t first, std::size_t count, std::size_t /*thread*/) {
    std::vector<float> head(2 * n);
    std::vector<std::byte> narrow(n * kernels.element_bytes);
    // The norm, if there is one, and the rotation of one head.
    const auto turned = [&](const float* raw, const Floats& gain, std::size_t position) {
      const float* in = raw;
      if (gain.size() != 0) {
        plain.rms_norm(raw, gain.data(), n, config.rms_eps, head.data());
        in = head.data();
      }
      kernels.rotate(in, rope_.cos(position), rope_.sin(position), n, head.data() + n);
      return head.data() + n;
    };
    for (std::size_t i = first; i < first + count; ++i) {
      const auto& row = batch_.rows[piece.first + i];
      for (std::size_t h = 0; h < config.heads; ++h) {
        const float* q = turned(state.raw_q.row(i) + h * n, weights.q_norm, row.position);
        kernels.to_elements(q, n, state.q.row(i, h * n));
      }
      std::byte* page = batch_.pages[row.sequence][row.position / kKeyBlock];
      const std::size_t slot = row.position % kKeyBlock;
      for (std::size_t h = 0; h < config.kv_heads; ++h) {
        std::byte* keys = page + kv.key_offset(page_layer, h);
        std::byte* values = page + kv.value_offset(page_layer, h);
        const auto store = [&]<typename E>(E /*element*/) {
          kernels.to_elements(
              turned(state.raw_k.row(i) + h * n, weights.k_norm, row.position), n, narrow.data());
          store_key<E>(narrow.data(), n, slot, keys);
          kernels.to_elements(raw_v_.row(i) + h * n, n, narrow.data());
          store_value<E>(narrow.data(), n, kv.value_stride, slot, values);
        };
        kernels.precision == Precision::f32 ? store(float{}) : store(std::uint16_t{});
      }
    }
  });
}

void Forward::attend(const RowPiece& piece,
                     const LayerState& state,
                     const KvLayout& kv,
                     std::size_t page_layer) {
  const auto& config = model_.config();
  const auto rows = batch_.rows.subspan(piece.first, piece.count);
  query_runs_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool goes_on = !query_runs_.empty() && query_runs_.back().count < kQueryPositions &&
                         rows[i - 1].sequence == rows[i].sequence;
    if (goes_on) {
      ++query_runs_.back().count;
    } else {
      query_runs_.push_back({.first = i, .count = 1});
    }
  }
  const std::size_t group = config.heads / config.kv_heads;
  const float scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  threads_.run(query_runs_.size() * config.kv_heads, [&](std::size_t unit, std::size_t thread) {
    const auto& run = query_runs_[unit / config.kv_heads];
    const std::size_t kv_head = unit % config.kv_heads;
    const auto pages = batch_.pages[rows[run.first].sequence];
    const std::size_t limit = rows[run.first + run.count - 1].position + 1;
    const KvBlocks blocks(kv, pages, page_layer, kv_head, limit);
    std::vector<QueryRow> queries;
    for (std::size_t i = run.first; i < run.first + run.count; ++i) {
      for (std::size_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        queries.push_back({.q = state.q.row(i, h * config.head_dim),
                           .out = state.out.row(i, h * config.head_dim),
                           .lse = state.lse.row(i) + h,
                           .limit = rows[i].position + 1});
      }
    }
    model_.kernels().attention({.rows = queries.data(),
                                .row_count = queries.size(),
                                .key_blocks = blocks.keys.data(),
                                .value_blocks = blocks.values.data(),
                                .head_dim = config.head_dim,
                                .value_stride = kv.value_stride,
                                .scale = scale,
                                .scratch = scratch_[thread]});
  });
}

}  // namespace tinker::engine
