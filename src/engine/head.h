#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/activations.h"
#include "engine/forward.h"

namespace tinker::engine {

/// From the last layer to logits. They are computed for a block of the vocabulary at a time.
///
/// Thread-compatible.
class Head {
 public:
  static constexpr std::size_t kBlockPanels = 32;
  static constexpr std::size_t kBlock = kBlockPanels * kPanelColumns;

  Head(const Model& model, ThreadPool& threads) : model_(model), threads_(threads) {}

  /// Rows that were through all layers, in the order of the runs of their adapters; what they look
  /// like behind the last norm, and behind the first factor of the head's adapter.
  struct Rows {
    std::span<const AdapterRun> runs = {};
    ElementRows normed = {};
    ElementRows low = {};
  };

  [[nodiscard]] std::size_t blocks() const noexcept {
    return (model_.config().vocab_size + kBlock - 1) / kBlock;
  }
  [[nodiscard]] std::size_t block_size(std::size_t block) const noexcept {
    return std::min(kBlock, model_.config().vocab_size - block * kBlock);
  }
  /// rows.low = A rows.normed
  void lower(const Rows& rows);
  /// logits: (rows, block_size)
  void logits(const Rows& rows, std::size_t block, const FloatRows& logits);
  /// logits: (rows, vocabulary)
  void all_logits(const Rows& rows, const FloatRows& logits);
  /// (hidden, block_size): the block's weights, until another one is asked for.
  const PackedMatrix& transposed(std::size_t block);
  /// Bytes of it, and those that are there already.
  [[nodiscard]] std::size_t bytes() const {
    return 2 * round_up(model_.config().hidden_size, kLanes) * kBlock *
           model_.kernels().element_bytes;
  }
  [[nodiscard]] std::size_t bytes_held() const noexcept {
    return transposed_.bytes() + transposed_rest_.bytes();
  }

 private:
  void multiply_panels(const Rows& rows,
                       std::size_t first_panel,
                       std::size_t panels,
                       const FloatRows& logits);

  const Model& model_;
  ThreadPool& threads_;
  std::vector<Product> products_;
  PackedMatrix transposed_;
  PackedMatrix transposed_rest_;  // of the last block, if it is shorter
};

/// log of the sum of exponentials, from those of the blocks, in order.
float log_sum_exp(std::span<const SoftmaxPart> parts);

}  // namespace tinker::engine
