#include "engine/backward.h"

#include <algorithm>
#include <cmath>

#include "engine/product.h"

namespace tinker::engine {
namespace {

// Pairs of query and key that one step of the attention takes of a sequence: about a hundredth of a
// second of work.
constexpr std::size_t kAttentionPairs = std::size_t{512} * 1024;

}  // namespace

void Backward::plan(const ActivationPlan& plan, Arena& arena) {
  const auto& config = model_.config();
  const auto piece = plan.of_piece();
  d_residual_ = piece.elements(arena, config.hidden_size);
  normed_ = piece.elements(arena, config.hidden_size);
  d_normed_ = piece.floats(arena, config.hidden_size);
  inverse_ = piece.floats(arena, 1).data;
  gated_ = piece.elements(arena, config.ffn_size);
  d_gated_ = piece.floats(arena, config.ffn_size);
  d_gate_ = piece.elements(arena, config.ffn_size);
  d_up_ = piece.elements(arena, config.ffn_size);
  d_qkv_ = {piece.elements(arena, config.q_size()),
            piece.elements(arena, config.kv_size()),
            piece.elements(arena, config.kv_size())};
  d_low_ = piece.low(arena, LoraGroup::qkv);
  d_out_ = plan.elements(arena, config.q_size());
  d_q_ = plan.floats(arena, config.q_size());
  d_k_ = plan.floats(arena, config.kv_size());
  d_v_ = plan.floats(arena, config.kv_size());
  packed_u_ = arena.bytes(plan.shape().pages * kKeyBlock * plan.shape().padded_rank *
                          model_.kernels().left_bytes);
  scratch_.clear();
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    scratch_.push_back(
        arena.floats(attention_backward_scratch(config.head_dim, plan.shape().longest)));
  }
}

std::size_t Backward::bytes(const Model& model, ThreadPool& threads, const PassShape& shape) {
  Backward counted(model, threads);
  Arena arena;
  counted.plan(ActivationPlan(model, shape), arena);
  std::size_t matrices = 0;
  for (const auto& matrix : model.layer(0).matrices) matrices += matrix.bytes();
  return arena.used() + matrices;
}

std::size_t Backward::bytes_held() const noexcept {
  std::size_t matrices = 0;
  for (const auto& matrix : transposed_) matrices += matrix.bytes();
  return arena_.used() + matrices;
}

void Backward::begin(const PassShape& shape,
                     const Adapter& adapter,
                     std::span<const RowRange> sequences,
                     std::span<float> gradients) {
  adapter_ = &adapter;
  sequences_ = sequences;
  longest_ = 0;
  for (const auto& range : sequences) longest_ = std::max(longest_, range.count);
  gradients_ = gradients;
  if (transposed_.back().n() == 0) {  // not all of them
    for (std::size_t i = 0; i < kProjections; ++i) {
      const auto& matrix = model_.layer(0).matrices[i];
      transposed_[i] = PackedMatrix(model_.kernels(), matrix.k(), matrix.n());
    }
  }
  if (shape.fits(shape_)) return;
  release();
  arena_ = make_arena([&](Arena& arena) { plan(ActivationPlan(model_, shape), arena); });
  shape_ = shape;
}

void Backward::add(const FactorGradient& gradient, std::span<const RowRange> sequences) {
  const auto& kernels = model_.kernels();
  const std::size_t rank = adapter_->layout().config().rank;
  std::vector<std::size_t> starts;  // of the sequences in packed_u_, in bytes
  std::size_t bytes = 0;
  for (const auto& range : sequences) {
    starts.push_back(bytes);
    bytes += round_up(range.count, kernels.step) * rank * kernels.left_bytes;
  }
  threads_.run(sequences.size(), [&](std::size_t i, std::size_t /*thread*/) {
    kernels.pack_rows(gradient.u.row(sequences[i].first, gradient.u_column),
                      gradient.u.stride,
                      sequences[i].count,
                      rank,
                      gradient.scale,
                      packed_u_ + starts[i]);
  });
  const std::size_t units = (gradient.columns + kPanelColumns - 1) / kPanelColumns;
  threads_.run(units, [&](std::size_t unit, std::size_t /*thread*/) {
    const std::size_t column = unit * kPanelColumns;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      kernels.outer_product({
          .u = packed_u_ + starts[i],
          .x = gradient.x.row(sequences[i].first, column),
          .x_stride = gradient.x.stride,
          .rows = sequences[i].count,
          .rank = rank,
          .columns = std::min(kPanelColumns, gradient.columns - column),
          .g = gradient.g + column,
          .g_stride = gradient.g_stride,
      });
    }
  });
}

void Backward::take(const RowPiece& piece) {
  rows_ = piece.count;
  ranges_.clear();
  for (const auto& range : sequences_) {
    const std::size_t begin = std::max(piece.first, range.first);
    const std::size_t end = std::min(piece.first + piece.count, range.first + range.count);
    if (begin < end) ranges_.push_back({.first = begin - piece.first, .count = end - begin});
  }
}

void Backward::lower(std::size_t layer,
                     LoraGroup group,
                     const ElementRows& low,
                     std::span<const ElementRows> d_y,
                     const ElementRows& input) {
  const auto* lora = adapter_->find(layer, group);
  if (lora == nullptr) return;
  const std::size_t rank = adapter_->padded_rank();
  products_.clear();
  for (std::size_t i = 0; i < d_y.size(); ++i) {
    Product product = {.rows = rows_,
                       .c = d_low_.row(0, i * rank),
                       .c_stride = d_low_.stride,
                       .output = Output::store_elements};
    product.terms[0] = {.a = d_y[i].data, .a_stride = d_y[i].stride, .w = &lora->b_transposed[i]};
    products_.push_back(product);
  }
  multiply(threads_, model_.kernels(), products_);
  for (std::size_t i = 0; i < d_y.size(); ++i) {
    const auto& module = adapter_->layout().module(layer, group, i);
    add({.u = low,
         .u_column = i * rank,
         .scale = adapter_->layout().scale(),
         .x = d_y[i],
         .columns = module.out,
         .g = gradients_.data() + module.b,
         .g_stride = module.out},
        ranges_);
    add({.u = d_low_,
         .u_column = i * rank,
         .x = input,
         .columns = module.in,
         .g = gradients_.data() + module.a,
         .g_stride = module.in},
        ranges_);
  }
}

void Backward::raise(std::size_t layer,
                     LoraGroup group,
                     std::span<const ElementRows> d_y,
                     void* c,
                     std::size_t c_stride,
                     Output output) {
  const auto* lora = adapter_->find(layer, group);
  Product product = {.rows = rows_, .c = c, .c_stride = c_stride, .output = output};
  std::size_t terms = 0;
  for (std::size_t i = 0; i < d_y.size(); ++i) {
    product.terms[terms++] = {.a = d_y[i].data,
                              .a_stride = d_y[i].stride,
                              .w = &transposed_[members_of(group).first + i]};
    if (lora == nullptr) continue;
    product.terms[terms++] = {.a = d_low_.row(0, i * adapter_->padded_rank()),
                              .a_stride = d_low_.stride,
                              .w = &lora->a_transposed[i]};
  }
  multiply(threads_, model_.kernels(), {&product, 1});
}

void Backward::transpose(std::size_t layer) {
  std::size_t units = 0;
  for (const auto& matrix : transposed_) units += matrix.panels();
  threads_.run(units, [&](std::size_t unit, std::size_t /*thread*/) {
    std::size_t i = 0;
    for (; unit >= transposed_[i].panels(); ++i) unit -= transposed_[i].panels();
    transposed_[i].set_transposed_panel(model_.kernels(), unit, model_.layer(layer).matrices[i]);
  });
}

void Backward::to_elements(const Forward& forward,
                           const FloatRows& x,
                           std::size_t columns,
                           const ElementRows& out) {
  forward.for_rows(rows_, [&](std::size_t first, std::size_t count, std::size_t /*thread*/) {
    for (std::size_t i = first; i < first + count; ++i)
      model_.kernels().to_elements(x.row(i), columns, out.row(i));
  });
}

void Backward::norm(const Forward& forward,
                    const FloatRows& x,
                    const Floats& gain,
                    const FloatRows& d_x) {
  forward.for_rows(rows_, [&](std::size_t first, std::size_t count, std::size_t /*thread*/) {
    for (std::size_t i = first; i < first + count; ++i) {
      model_.kernels().rms_norm_backward(d_normed_.row(i),
                                         x.row(i),
                                         gain.data(),
                                         inverse_[i],
                                         model_.config().hidden_size,
                                         d_x.row(i));
    }
  });
}

std::size_t Backward::query_positions() const noexcept {
  return std::max(kKeyBlock, kAttentionPairs / longest_ / kKeyBlock * kKeyBlock);
}

std::size_t Backward::attention_steps() const noexcept {
  return (longest_ + query_positions() - 1) / query_positions();
}

std::size_t Backward::layer_steps(const Forward& forward) const {
  return 1 + 2 * forward.pieces().size() + attention_steps();
}

/// The frozen weights are transposed, then every piece is taken back to the attention, then the
/// attention, then every piece to the layer's input.
void Backward::layer_step(const Forward& forward, const LayerPass& pass, std::size_t step) {
  if (step == 0) return transpose(pass.index);
  const auto pieces = forward.pieces();
  const std::size_t attention_end = 1 + pieces.size() + attention_steps();
  if (step > pieces.size() && step < attention_end)
    return attention(forward, pass, step - 1 - pieces.size());
  const auto& piece = step <= pieces.size() ? pieces[step - 1] : pieces[step - attention_end];
  const auto state = pass.state.from(piece.first);
  const auto d_x = pass.output.from(piece.first);
  take(piece);
  if (step <= pieces.size())
    return to_attention(forward, pass.index, state, d_x, d_out_.from(piece.first));
  rotate_back(forward, piece, pass.index, state);
  to_input(forward, pass.index, state, d_x);
}

/// Through the feed-forward network and the projection behind the attention.
void Backward::to_attention(const Forward& forward,
                            std::size_t index,
                            const LayerState& state,
                            const FloatRows& d_x,
                            const ElementRows& d_out) {
  const auto& config = model_.config();
  const auto low = [&](LoraGroup group) { return state.low[static_cast<std::size_t>(group)]; };
  to_elements(forward, d_x, config.hidden_size, d_residual_);
  forward.gated(rows_, state, gated_);
  const std::array d_down = {d_residual_};
  lower(index, LoraGroup::down, low(LoraGroup::down), d_down, gated_);
  raise(index, LoraGroup::down, d_down, d_gated_.data, d_gated_.stride, Output::store);
  forward.for_rows(rows_, [&](std::size_t first, std::size_t count, std::size_t /*thread*/) {
    for (std::size_t i = first; i < first + count; ++i) {
      model_.kernels().silu_product_backward(d_gated_.row(i),
                                             state.gate.row(i),
                                             state.up.row(i),
                                             config.ffn_size,
                                             d_gate_.row(i),
                                             d_up_.row(i));
    }
  });
  const auto& gain = model_.layer(index).post_attention_norm;
  forward.norm(rows_, state.middle, gain, normed_, inverse_);
  const std::array d_gate_up = {d_gate_, d_up_};
  lower(index, LoraGroup::gate_up, low(LoraGroup::gate_up), d_gate_up, normed_);
  raise(index, LoraGroup::gate_up, d_gate_up, d_normed_.data, d_normed_.stride, Output::store);
  norm(forward, state.middle, gain, d_x);

  to_elements(forward, d_x, config.hidden_size, d_residual_);
  const std::array d_o = {d_residual_};
  lower(index, LoraGroup::o, low(LoraGroup::o), d_o, state.out);
  raise(index, LoraGroup::o, d_o, d_out.data, d_out.stride, Output::store_elements);
}

/// Through the projections before the attention.
void Backward::to_input(const Forward& forward,
                        std::size_t index,
                        const LayerState& state,
                        const FloatRows& d_x) {
  const auto& gain = model_.layer(index).input_norm;
  forward.norm(rows_, state.x, gain, normed_, inverse_);
  lower(index, LoraGroup::qkv, state.low[0], d_qkv_, normed_);
  raise(index, LoraGroup::qkv, d_qkv_, d_normed_.data, d_normed_.stride, Output::store);
  norm(forward, state.x, gain, d_x);
}

/// The queries at some positions of every sequence. The gradients of keys and values go on from
/// those of the positions before.
void Backward::attention(const Forward& forward, const LayerPass& pass, std::size_t step) {
  const auto& config = model_.config();
  const auto& batch = forward.batch();
  const auto& state = pass.state;
  const std::size_t group = config.heads / config.kv_heads;
  const float scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  const std::size_t begin = step * query_positions();
  threads_.run(sequences_.size() * config.kv_heads, [&](std::size_t unit, std::size_t thread) {
    const auto& range = sequences_[unit / config.kv_heads];
    if (begin >= range.count) return;
    const std::size_t end = std::min(range.count, begin + query_positions());
    const std::size_t kv_head = unit % config.kv_heads;
    const auto pages = batch.pages[batch.rows[range.first].sequence];
    const KvBlocks blocks(*pass.kv, pages, pass.page_layer, kv_head, end);
    std::vector<BackwardRow> rows;
    rows.reserve((end - begin) * group);
    for (std::size_t i = range.first + begin; i < range.first + end; ++i) {
      for (std::size_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        const std::size_t column = h * config.head_dim;
        rows.push_back({.q = state.q.row(i, column),
                        .out = state.out.row(i, column),
                        .d_out = d_out_.row(i, column),
                        .d_q = d_q_.row(i) + column,
                        .lse = state.lse.row(i)[h],
                        .limit = i - range.first + 1});
      }
    }
    model_.kernels().attention_backward({.rows = rows.data(),
                                         .row_count = rows.size(),
                                         .key_blocks = blocks.keys.data(),
                                         .value_blocks = blocks.values.data(),
                                         .keys = end,
                                         .begun_keys = begin,
                                         .d_k = d_k_.row(range.first) + kv_head * config.head_dim,
                                         .d_v = d_v_.row(range.first) + kv_head * config.head_dim,
                                         .d_kv_stride = d_k_.stride,
                                         .head_dim = config.head_dim,
                                         .value_stride = pass.kv->value_stride,
                                         .scale = scale,
                                         .scratch = scratch_[thread]});
  });
}

void Backward::rotate_back(const Forward& forward,
                           const RowPiece& piece,
                           std::size_t layer,
                           const LayerState& state) {
  const auto& config = model_.config();
  const auto& weights = model_.layer(layer);
  const auto& kernels = model_.kernels();
  const auto& plain = kernels_of(kernels.path, Precision::f32);
  const std::size_t n = config.head_dim;
  forward.for_rows(piece.count, [&](std::size_t first, std::size_t count, std::size_t /*thread*/) {
    std::vector<float> turned(n);
    std::vector<float> d_raw(n);
    std::vector<float> unused(n);
    // Of head h of row i, whose raw values are there where they are normed.
    const auto back = [&](const float* d,
                          const FloatRows& raw_rows,
                          std::size_t i,
                          std::size_t h,
                          const Floats& gain,
                          std::byte* out) {
      const std::size_t position = forward.batch().rows[piece.first + i].position;
      kernels.rotate(
          d, forward.rope().cos(position), forward.rope().minus_sin(position), n, turned.data());
      if (gain.size() == 0) {
        kernels.to_elements(turned.data(), n, out);
        return;
      }
      const float* raw = raw_rows.row(i) + h * n;
      const float inverse = plain.rms_norm(raw, gain.data(), n, config.rms_eps, unused.data());
      std::ranges::fill(d_raw, 0.0F);
      kernels.rms_norm_backward(turned.data(), raw, gain.data(), inverse, n, d_raw.data());
      kernels.to_elements(d_raw.data(), n, out);
    };
    for (std::size_t i = first; i < first + count; ++i) {
      const std::size_t row = piece.first + i;
      for (std::size_t h = 0; h < config.heads; ++h) {
        const float* d = d_q_.row(row) + h * n;
        back(d, state.raw_q, i, h, weights.q_norm, d_qkv_[0].row(i, h * n));
      }
      for (std::size_t h = 0; h < config.kv_heads; ++h) {
        const float* d = d_k_.row(row) + h * n;
        back(d, state.raw_k, i, h, weights.k_norm, d_qkv_[1].row(i, h * n));
      }
      kernels.to_elements(d_v_.row(row), config.kv_size(), d_qkv_[2].row(i));
    }
  });
}

}  // namespace tinker::engine
