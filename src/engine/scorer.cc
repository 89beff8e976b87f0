#include "engine/scorer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace tinker::engine {
namespace {

bool is_inert(const ScoredSequence& sequence, std::size_t position) {
  if (sequence.inert.empty()) return false;
  for (std::size_t t = sequence.begin_of(position); t < sequence.begin_of(position + 1); ++t) {
    if (!sequence.inert[t]) return false;
  }
  return true;
}

}  // namespace

void Scorer::lay_out(const ActivationPlan& plan, Arena& arena) {
  const std::size_t hidden = model_.config().hidden_size;
  normed_ = plan.elements(arena, hidden);
  low_ = plan.low(arena, LoraGroup::head);
  means_ = plan.floats(arena, hidden);
  const ActivationPlan piece(model_, {.rows = std::min(kPiece, plan.shape().rows)});
  logits_ = piece.floats(arena, Head::kBlock);
  weights_ = piece.elements(arena, Head::kBlock);
}

std::size_t Scorer::bytes(std::size_t rows) const {
  return rows * (head_.blocks() * sizeof(SoftmaxPart) + 2 * sizeof(float) + 2 * sizeof order_[0]);
}

void Scorer::order() {
  const auto rows = batch_.rows;
  order_.clear();
  std::vector<std::size_t> inert;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool waits =
        batch_.wants_means && is_inert(batch_.sequences[rows[i].sequence], rows[i].position);
    (waits ? inert : order_).push_back(i);
  }
  with_means_ = batch_.wants_means ? order_.size() : 0;
  order_.insert(order_.end(), inert.begin(), inert.end());
  place_.resize(rows.size());
  for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
}

/// Calls f(target, logprob) for each target of a row.
template <typename F>
void Scorer::for_targets(const TokenRow& row, F f) {
  const auto& sequence = batch_.sequences[row.sequence];
  for (std::size_t t = sequence.begin_of(row.position); t < sequence.begin_of(row.position + 1);
       ++t) {
    f(static_cast<std::size_t>(sequence.targets[t]), logprobs_[row.sequence][t]);
  }
}

void Scorer::begin(const Batch& batch) {
  batch_ = batch;
  const std::size_t rows = batch.rows.size();
  order();
  parts_.resize(rows * head_.blocks());
  lse_.resize(rows);
  tops_.assign(with_means_, -std::numeric_limits<float>::infinity());
  logprobs_.resize(batch.sequences.size());
  for (std::size_t i = 0; i < batch.sequences.size(); ++i)
    logprobs_[i].resize(batch.sequences[i].targets.size());
  for (std::size_t i = 0; i < rows; ++i) {
    std::memcpy(normed_.row(i),
                batch.normed.row(order_[i]),
                batch.normed.stride * model_.kernels().element_bytes);
  }
  std::memset(means_.data, 0, with_means_ * means_.stride * sizeof(float));
  const std::array all = {AdapterRun{.adapter = batch.adapter, .first = 0, .count = rows}};
  head_.lower({.runs = all, .normed = normed_, .low = low_});
}

void Scorer::step(std::size_t step) {
  const std::size_t block = step / pieces();
  const std::size_t first = step % pieces() * kPiece;
  if (first == 0 && with_means_ != 0) transposed_ = &head_.transposed(block);
  const Piece piece = {.first = first, .count = std::min(kPiece, batch_.rows.size() - first)};
  const std::array runs = {AdapterRun{.adapter = batch_.adapter, .first = 0, .count = piece.count}};
  head_.logits(
      {.runs = runs, .normed = normed_.from(first), .low = low_.from(first)}, block, logits_);
  score_piece(piece, block);
  if (first < with_means_) add_to_means(piece);
  if (step + 1 == steps()) finish();
}

/// Adds the weighted rows of the head's block.
void Scorer::add_to_means(const Piece& piece) {
  Product product = {.rows = std::min(piece.count, with_means_ - piece.first),
                     .c = means_.row(piece.first),
                     .c_stride = means_.stride,
                     .output = Output::add};
  product.terms[0] = {.a = weights_.data, .a_stride = weights_.stride, .w = transposed_};
  multiply(threads_, model_.kernels(), {&product, 1});
}

/// Logits become logprobs and sums become means, now that the sums of exponentials are known.
void Scorer::finish() {
  const std::size_t blocks = head_.blocks();
  for (std::size_t i = 0; i < batch_.rows.size(); ++i) {
    lse_[i] = log_sum_exp({parts_.data() + i * blocks, blocks});
    for_targets(batch_.rows[i],
                [&](std::size_t /*target*/, float& logprob) { logprob -= lse_[i]; });
  }
  threads_.for_each(with_means_, [&](std::size_t i) {
    const float share = std::exp(tops_[i] - lse_[order_[i]]);
    for (float& value : std::span(means_.row(i), means_.stride)) value *= share;
  });
}

void Scorer::score_piece(const Piece& piece, std::size_t block) {
  const std::size_t begin = block * Head::kBlock;
  const std::size_t size = head_.block_size(block);
  threads_.for_each(piece.count, [&](std::size_t i) {
    const std::size_t row = order_[piece.first + i];
    const float* logits = logits_.row(i);
    parts_[row * head_.blocks() + block] = model_.kernels().softmax_part(logits, size, 1.0F);
    for_targets(batch_.rows[row], [&](std::size_t target, float& logprob) {
      if (target >= begin && target < begin + size) logprob = logits[target - begin];
    });
    if (piece.first + i < with_means_) weigh(i, piece, block);
  });
}

/// The row's logits become weights; what its mean holds of earlier blocks is scaled to the new top.
void Scorer::weigh(std::size_t i, const Piece& piece, std::size_t block) {
  const auto& kernels = model_.kernels();
  const std::size_t size = head_.block_size(block);
  const std::size_t place = piece.first + i;
  float& top = tops_[place];
  const float highest = parts_[order_[place] * head_.blocks() + block].max;
  if (highest > top) {
    const float share = std::exp(top - highest);
    for (float& value : std::span(means_.row(place), means_.stride)) value *= share;
    top = highest;
  }
  kernels.softmax_values(logits_.row(i), size, top, 1.0F);
  kernels.to_elements(logits_.row(i), size, weights_.row(i));
  std::memset(
      weights_.row(i, size), 0, (round_up(size, kernels.step) - size) * kernels.element_bytes);
}

}  // namespace tinker::engine
