#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/activations.h"
#include "engine/backward.h"
#include "engine/head.h"
#include "engine/scored_sequence.h"
#include "engine/scorer.h"

namespace tinker::engine {

/// What the forward pass left, and what the loss made of it.
struct HeadState {
  std::span<const ScoredSequence> sequences = {};
  std::span<const TokenRow> rows = {};
  std::span<const RowRange> ranges = {};  ///< Rows of each sequence.
  std::span<const std::vector<float>> d_logprobs =
      {};            ///< By the logprobs of each sequence's targets.
  FloatRows x = {};  ///< Output of the last layer.
  ElementRows normed = {};
};

/// From derivatives by logprobs to the gradient of the last layer's output. Rows whose derivatives
/// are all zero are left out. Where the head has an adapter, logits are computed again, a block at
/// a time.
///
/// Thread-compatible.
class HeadBackward {
 public:
  HeadBackward(
      const Model& model, ThreadPool& threads, Head& head, const Scorer& scorer, Backward& backward)
      : model_(model), threads_(threads), head_(head), scorer_(scorer), backward_(backward) {}

  void lay_out(const ActivationPlan& plan, std::size_t padded_rank, Arena& arena);
  /// The steps from now on are of this state, which must live until all are taken. They write d_x,
  /// and add to the gradients of the head's factors.
  void begin(const Adapter& adapter,
             const HeadState& state,
             std::span<float> gradients,
             const FloatRows& d_x);
  /// Where the head has an adapter, a block of the vocabulary takes a step for some rows at a time
  /// and one for all of them; else there is one step.
  [[nodiscard]] std::size_t steps() const noexcept { return steps_; }
  void step(std::size_t step);

 private:
  void find_active();
  void from_means();
  void copy_active();
  [[nodiscard]] std::size_t pieces() const noexcept {
    return (active_.size() + Scorer::kPiece - 1) / Scorer::kPiece;
  }
  void differentiate_block(std::size_t block, std::size_t piece);
  void from_logits(std::size_t block);
  void lower();
  void finish();

  const Model& model_;
  ThreadPool& threads_;
  Head& head_;
  const Scorer& scorer_;
  Backward& backward_;

  const Adapter* adapter_ = nullptr;
  HeadState state_;
  std::span<float> gradients_;
  FloatRows d_x_;
  std::size_t steps_ = 0;

  ElementRows normed_;    // (active rows, hidden)
  ElementRows low_;       // (active rows, padded rank)
  ElementRows d_logits_;  // (active rows, block)
  FloatRows d_normed_;    // (active rows, hidden)
  FloatRows d_low_;       // (active rows, padded rank)
  ElementRows d_low_elements_;

  std::vector<std::size_t> active_;  // rows that have a derivative
  std::vector<RowRange> ranges_;     // among them, of each sequence
  std::vector<float> sums_;          // of the derivatives of each of them
};

}  // namespace tinker::engine
