#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "engine/backward.h"
#include "engine/forward.h"
#include "engine/head.h"
#include "engine/head_backward.h"
#include "engine/resumable.h"
#include "engine/scored_sequence.h"
#include "tinker/result.h"

namespace tinker::engine {

struct TrainerOptions {
  /// Tokens that go through the layers together. Longer sequences go alone.
  std::size_t micro_batch_tokens = 2048;
  /// Of those, the ones that go through a layer together.
  std::size_t piece_tokens = kPieceRows;
  /// What may be kept of all layers between the two passes; beyond it, layers are computed again.
  std::size_t kept_bytes = std::size_t{2} << 30U;
};

/// What a pass may take.
struct PassLimits {
  /// Whether layers may be kept between the two passes, if they are few enough. Not: all are
  /// computed again, to the same bits.
  bool may_keep_layers = true;
  /// Bytes that arrays may take which also suit the passes before; a pass alone takes what it
  /// needs.
  std::size_t most_bytes = std::numeric_limits<std::size_t>::max();
};

/// Scores sequences and differentiates the scores. Logits are never all there at once, and what is
/// kept of the layers is bounded.
///
/// A pass is cut after each piece of a layer and each block of the vocabulary, which is `inside`,
/// and between two micro-batches. Between micro-batches other passes may come, also of other
/// adapters.
///
/// Thread-compatible.
class Trainer {
 public:
  /// Gets the logprobs of a sequence's targets and writes the derivative of the loss by each of
  /// them, if there is room for it: `forward` gives none.
  using Loss = std::function<Result<void>(
      std::size_t sequence, std::span<const float> logprobs, std::span<float> d_logprobs)>;

  Trainer(std::shared_ptr<const Model> model, ThreadPool& threads, const TrainerOptions& options);

  /// Fails with `invalid_argument` for tokens outside of the vocabulary and for sequences beyond
  /// the model's context, and with what the loss fails.
  Resumable<void> forward(const Adapter* adapter,
                          std::span<const ScoredSequence> sequences,
                          Loss loss,
                          PassLimits limits = {});
  /// Adds to the gradients, which are as many as the adapter's parameters. They are left as they
  /// were if it fails, also for gradients that are not finite, or is destroyed before its end.
  Resumable<void> forward_backward(const Adapter& adapter,
                                   std::span<const ScoredSequence> sequences,
                                   Loss loss,
                                   std::span<float> gradients,
                                   PassLimits limits = {});

  /// Bytes that a pass over these sequences will use besides the model and the adapter.
  [[nodiscard]] std::size_t bytes_needed(std::size_t padded_rank,
                                         std::span<const ScoredSequence> sequences,
                                         bool may_keep_layers = true) const;
  /// Bytes that it has already.
  [[nodiscard]] std::size_t bytes_held() const noexcept;

 private:
  struct Plan {
    PassShape shape = {};
    bool keeps_layers = true;
  };
  /// Some neighbouring sequences.
  struct MicroBatch {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  [[nodiscard]] Result<void> check(std::span<const ScoredSequence> sequences) const;
  [[nodiscard]] std::vector<MicroBatch> cut(std::span<const ScoredSequence> sequences) const;
  [[nodiscard]] Plan plan_for(std::size_t padded_rank,
                              std::span<const ScoredSequence> sequences,
                              bool may_keep_layers) const;
  [[nodiscard]] bool may_keep(Plan plan) const;
  [[nodiscard]] std::size_t bytes_of(const Plan& plan) const;
  void lay_out(const Plan& plan, Arena& arena);
  void reserve(const Plan& plan, std::size_t most_bytes);
  Resumable<void> run(const Adapter* adapter,
                      std::span<const ScoredSequence> sequences,
                      Loss loss,
                      std::span<float> gradients,
                      PassLimits limits);
  void begin(const Adapter* adapter, std::span<const ScoredSequence> sequences);
  [[nodiscard]] LayerPass pass_of(std::size_t layer, bool keeps) const;
  [[nodiscard]] Result<void> evaluate(const Loss& loss,
                                      const MicroBatch& batch,
                                      bool differentiates);
  [[nodiscard]] Result<void> check_gradients(const Adapter& adapter,
                                             std::span<const float> gradients) const;

  std::shared_ptr<const Model> model_;
  ThreadPool& threads_;
  TrainerOptions options_;
  Forward forward_;
  Backward backward_;
  Head head_;
  Scorer scorer_;
  HeadBackward head_backward_;

  Plan plan_;
  Arena arena_;
  KvLayout kv_;
  std::vector<std::byte*> free_pages_;
  std::vector<FloatRows> inputs_;   // of each layer, and of the head
  std::vector<LayerState> states_;  // of each layer, or one for all
  ElementRows normed_;              // (rows, hidden)
  FloatRows unused_;                // (rows, hidden): a layer's output that is known already
  FloatRows d_x_;                   // (rows, hidden)

  // Of the micro-batch:
  std::vector<TokenRow> rows_;
  std::vector<RowRange> ranges_;
  std::vector<AdapterRun> runs_;
  std::vector<std::span<std::byte* const>> pages_;
  std::vector<std::vector<float>> d_logprobs_;
};

}  // namespace tinker::engine
