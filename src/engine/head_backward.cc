#include "engine/head_backward.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tinker::engine {

void HeadBackward::lay_out(const ActivationPlan& plan, std::size_t padded_rank, Arena& arena) {
  const std::size_t hidden = model_.config().hidden_size;
  normed_ = plan.elements(arena, hidden);
  low_ = plan.low(arena, LoraGroup::head);
  d_logits_ = plan.elements(arena, Head::kBlock);
  d_normed_ = plan.floats(arena, hidden);
  d_low_ = plan.floats(arena, padded_rank);
  d_low_elements_ = plan.low(arena, LoraGroup::head);
}

void HeadBackward::find_active() {
  const auto& state = state_;
  active_.clear();
  ranges_.clear();
  sums_.clear();
  for (std::size_t i = 0; i < state.ranges.size(); ++i) {
    const auto& sequence = state.sequences[i];
    const std::size_t first = active_.size();
    for (std::size_t position = 0; position < state.ranges[i].count; ++position) {
      float sum = 0;
      bool is_active = false;
      for (std::size_t t = sequence.begin_of(position); t < sequence.begin_of(position + 1); ++t) {
        sum += state.d_logprobs[i][t];
        is_active = is_active || state.d_logprobs[i][t] != 0;
      }
      if (!is_active) continue;
      active_.push_back(state.ranges[i].first + position);
      sums_.push_back(sum);
    }
    if (active_.size() > first)
      ranges_.push_back({.first = first, .count = active_.size() - first});
  }
}

void HeadBackward::begin(const Adapter& adapter,
                         const HeadState& state,
                         std::span<float> gradients,
                         const FloatRows& d_x) {
  adapter_ = &adapter;
  state_ = state;
  gradients_ = gradients;
  d_x_ = d_x;
  std::memset(d_x.data, 0, state.rows.size() * d_x.stride * sizeof(float));
  find_active();
  const bool has_adapter = adapter.find(0, LoraGroup::head) != nullptr;
  steps_ = active_.empty() ? 0 : has_adapter ? head_.blocks() * (pieces() + 1) : 1;
  if (steps_ != 0 && has_adapter) copy_active();
}

void HeadBackward::step(std::size_t step) {
  if (adapter_->find(0, LoraGroup::head) == nullptr) {
    from_means();
  } else {
    const std::size_t block = step / (pieces() + 1);
    const std::size_t piece = step % (pieces() + 1);
    if (piece < pieces()) return differentiate_block(block, piece);
    from_logits(block);
    if (step + 1 == steps_) lower();
  }
  if (step + 1 == steps_) finish();
}

/// Through the last norm.
void HeadBackward::finish() {
  const auto& config = model_.config();
  threads_.for_each(active_.size(), [&](std::size_t i) {
    const auto& kernels = model_.kernels();
    std::vector<std::byte> unused(config.hidden_size * kernels.element_bytes);
    const float* x = state_.x.row(active_[i]);
    const float* gain = model_.final_norm().data();
    const float inverse =
        kernels.rms_norm(x, gain, config.hidden_size, config.rms_eps, unused.data());
    kernels.rms_norm_backward(
        d_normed_.row(i), x, gain, inverse, config.hidden_size, d_x_.row(active_[i]));
  });
}

void HeadBackward::from_means() {
  const auto& state = state_;
  threads_.for_each(active_.size(), [&](std::size_t i) {
    const std::span d_normed(d_normed_.row(i), d_normed_.stride);
    const float* mean = scorer_.mean(active_[i]);
    for (std::size_t j = 0; j < d_normed.size(); ++j) d_normed[j] = -sums_[i] * mean[j];
    const auto& row = state.rows[active_[i]];
    const auto& sequence = state.sequences[row.sequence];
    std::vector<float> weights(d_normed.size());
    for (std::size_t t = sequence.begin_of(row.position); t < sequence.begin_of(row.position + 1);
         ++t) {
      const float d = state.d_logprobs[row.sequence][t];
      model_.head().read_row(static_cast<std::size_t>(sequence.targets[t]), weights);
      for (std::size_t j = 0; j < d_normed.size(); ++j) d_normed[j] += d * weights[j];
    }
  });
}

/// d_logits = (one at the targets - soft-max), each times its derivative.
void HeadBackward::differentiate_block(std::size_t block, std::size_t piece) {
  const auto& kernels = model_.kernels();
  const std::size_t begin = block * Head::kBlock;
  const std::size_t size = head_.block_size(block);
  const std::size_t first = piece * Scorer::kPiece;
  const std::size_t count = std::min(Scorer::kPiece, active_.size() - first);
  const std::array runs = {AdapterRun{.adapter = adapter_, .first = 0, .count = count}};
  head_.logits({.runs = runs, .normed = normed_.from(first), .low = low_.from(first)},
               block,
               scorer_.logits());
  threads_.for_each(count, [&](std::size_t in_piece) {
    const std::size_t i = first + in_piece;
    const auto& row = state_.rows[active_[i]];
    const auto& sequence = state_.sequences[row.sequence];
    float* logits = scorer_.logits().row(in_piece);
    kernels.softmax_values(logits, size, scorer_.lse()[active_[i]], -sums_[i]);
    for (std::size_t t = sequence.begin_of(row.position); t < sequence.begin_of(row.position + 1);
         ++t) {
      const auto target = static_cast<std::size_t>(sequence.targets[t]);
      if (target < begin || target >= begin + size) continue;
      logits[target - begin] += state_.d_logprobs[row.sequence][t];
    }
    kernels.to_elements(logits, size, d_logits_.row(i));
    std::memset(
        d_logits_.row(i, size), 0, (round_up(size, kernels.step) - size) * kernels.element_bytes);
  });
}

/// What is computed of the rows that have a derivative begins here.
void HeadBackward::copy_active() {
  threads_.for_each(active_.size(), [&](std::size_t i) {
    const std::size_t bytes = model_.kernels().element_bytes;
    std::memcpy(normed_.row(i), state_.normed.row(active_[i]), normed_.stride * bytes);
    std::memcpy(low_.row(i), scorer_.low().row(active_[i]), low_.stride * bytes);
    std::memset(d_normed_.row(i), 0, d_normed_.stride * sizeof(float));
    std::memset(d_low_.row(i), 0, d_low_.stride * sizeof(float));
  });
}

void HeadBackward::from_logits(std::size_t block) {
  const std::size_t count = active_.size();
  const auto& lora = *adapter_->find(0, LoraGroup::head);
  const auto& module = adapter_->layout().module(0, LoraGroup::head, 0);
  const std::size_t begin = block * Head::kBlock;
  const std::size_t size = head_.block_size(block);
  std::array<Product, 2> products = {
      {{.rows = count, .c = d_normed_.data, .c_stride = d_normed_.stride, .output = Output::add},
       {.rows = count, .c = d_low_.data, .c_stride = d_low_.stride, .output = Output::add}}};
  products[0].terms[0] = {
      .a = d_logits_.data, .a_stride = d_logits_.stride, .w = &head_.transposed(block)};
  products[1].terms[0] = {.a = d_logits_.data,
                          .a_stride = d_logits_.stride,
                          .w = &lora.b_transposed[0],
                          .first_k = begin,
                          .k = size};
  multiply(threads_, model_.kernels(), products);
  backward_.add({.u = low_,
                 .scale = adapter_->layout().scale(),
                 .x = d_logits_,
                 .columns = size,
                 .g = gradients_.data() + module.b + begin,
                 .g_stride = module.out},
                ranges_);
}

/// What goes through the head's first factor.
void HeadBackward::lower() {
  const auto& module = adapter_->layout().module(0, LoraGroup::head, 0);
  threads_.for_each(active_.size(), [&](std::size_t i) {
    model_.kernels().to_elements(d_low_.row(i), adapter_->padded_rank(), d_low_elements_.row(i));
  });
  backward_.add({.u = d_low_elements_,
                 .x = normed_,
                 .columns = module.in,
                 .g = gradients_.data() + module.a,
                 .g_stride = module.in},
                ranges_);
  Product product = {.rows = active_.size(),
                     .c = d_normed_.data,
                     .c_stride = d_normed_.stride,
                     .output = Output::add};
  product.terms[0] = {.a = d_low_elements_.data,
                      .a_stride = d_low_elements_.stride,
                      .w = &adapter_->find(0, LoraGroup::head)->a_transposed[0]};
  multiply(threads_, model_.kernels(), {&product, 1});
}

}  // namespace tinker::engine
