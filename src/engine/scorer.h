#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/activations.h"
#include "engine/forward.h"
#include "engine/head.h"
#include "engine/scored_sequence.h"

namespace tinker::engine {

/// Logprobs of what is scored after each row. Rows go through the head in pieces, so that a block
/// of their logits stays in the cache.
///
/// Where the head has no adapter, the derivative of a logprob by the head's input is the head's row
/// of the target less the mean of its rows, each weighted with its probability. Those means are
/// made along the way, with a running soft-max, so that logits need not be computed again.
///
/// Thread-compatible.
class Scorer {
 public:
  /// Rows of a piece.
  static constexpr std::size_t kPiece = 512;

  Scorer(const Model& model, ThreadPool& threads, Head& head)
      : model_(model), threads_(threads), head_(head) {}

  void lay_out(const ActivationPlan& plan, Arena& arena);
  /// Bytes that rows take besides what is laid out.
  [[nodiscard]] std::size_t bytes(std::size_t rows) const;

  /// What is scored: `normed` is the output of the last layer behind the last norm, a row for each
  /// of `rows`. Its parts must live until all steps are taken.
  struct Batch {
    const Adapter* adapter = nullptr;
    std::span<const ScoredSequence> sequences = {};
    std::span<const TokenRow> rows = {};
    ElementRows normed = {};
    bool wants_means = false;
  };
  void begin(const Batch& batch);
  /// A block of the vocabulary for some rows is a step. The results are there after the last.
  [[nodiscard]] std::size_t steps() const noexcept { return head_.blocks() * pieces(); }
  void step(std::size_t step);

  /// Of the targets of each sequence.
  [[nodiscard]] std::span<const std::vector<float>> logprobs() const noexcept { return logprobs_; }
  /// The logarithm of the sum of exponentials of each row's logits.
  [[nodiscard]] std::span<const float> lse() const noexcept { return lse_; }
  /// A x of the head's adapter, a row for each row; without means only.
  [[nodiscard]] const ElementRows& low() const noexcept { return low_; }
  /// (hidden) of a row; with means only, and only of rows that are not inert.
  [[nodiscard]] const float* mean(std::size_t row) const noexcept {
    return means_.row(place_[row]);
  }
  /// Room for a piece's block of logits, for whoever needs it afterwards.
  [[nodiscard]] const FloatRows& logits() const noexcept { return logits_; }

 private:
  /// Some neighbours of the order in which rows are computed.
  struct Piece {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  [[nodiscard]] std::size_t pieces() const noexcept {
    return (batch_.rows.size() + kPiece - 1) / kPiece;
  }
  void order();
  template <typename F>
  void for_targets(const TokenRow& row, F f);
  void score_piece(const Piece& piece, std::size_t block);
  void add_to_means(const Piece& piece);
  void finish();
  void weigh(std::size_t i, const Piece& piece, std::size_t block);

  const Model& model_;
  ThreadPool& threads_;
  Head& head_;
  Batch batch_;
  const PackedMatrix* transposed_ = nullptr;  // the block's weights, for the means

  ElementRows normed_;   // (rows, hidden), in their order
  ElementRows low_;      // (rows, padded rank)
  FloatRows means_;      // (rows, hidden)
  FloatRows logits_;     // (piece, block)
  ElementRows weights_;  // (piece, block): exp(logit - highest so far)

  std::vector<std::size_t> order_;  // of the rows
  std::vector<std::size_t> place_;  // of each row in that order
  std::size_t with_means_ = 0;      // the first ones of that order
  std::vector<float> tops_;         // of them: the highest logit so far
  std::vector<SoftmaxPart> parts_;  // (rows, blocks)
  std::vector<float> lse_;
  std::vector<std::vector<float>> logprobs_;
};

}  // namespace tinker::engine
