#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "engine/losses.h"
#include "engine/optimizer.h"
#include "engine/trainer.h"
#include "tinker/engine.h"
#include "tinker/loss.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/optimizer.h"

namespace tinker::engine {

/// What computes: threads, a model, and the passes of training, which take turns.
struct Compute {
  Compute(std::unique_ptr<ThreadPool> pool, std::shared_ptr<const Model> loaded);

  std::unique_ptr<ThreadPool> threads;
  std::shared_ptr<const Model> model;
  Trainer trainer;
  /// What passes may take; 0: what their run may. Set from any thread.
  std::atomic<std::size_t> training_limit = 0;
  /// What passes took and keep. Read from any thread.
  std::atomic<std::size_t> training_bytes = 0;
};

/// An adapter with its gradients and the state of its optimizer.
///
/// Thread-compatible.
class TrainingRun {
 public:
  /// Passes take at most `training_bytes`; 0: what the machine has left.
  TrainingRun(std::shared_ptr<Compute> compute,
              std::shared_ptr<const Adapter> adapter,
              std::size_t training_bytes,
              OptimizerState state = {})
      : compute_(std::move(compute)),
        training_bytes_(training_bytes),
        adapter_(std::move(adapter)),
        gradients_(adapter_->layout().parameters(), Zeroed::on_use),
        state_(std::move(state)) {}

  [[nodiscard]] const std::shared_ptr<const Adapter>& adapter() const noexcept { return adapter_; }

  /// With gradients or without. Errors name the datum. The data must live until it ends.
  Resumable<ForwardBackwardOutput> run(std::span<const Datum> data,
                                       TokenLoss loss,
                                       bool differentiates);
  Resumable<ForwardBackwardOutput> run(std::span<const Datum> data,
                                       loss::Formula formula,
                                       bool differentiates);
  /// By the family of the steps before it. Fails with `invalid_argument` for another one.
  Resumable<OptimStepResponse> step(AdamParams params);
  Resumable<OptimStepResponse> step(MuonParams params);
  /// Forgets the gradients that were added up.
  Resumable<void> discard_gradients();

  [[nodiscard]] const OptimizerState& optimizer() const noexcept { return state_; }
  [[nodiscard]] ThreadPool& threads() const noexcept { return *compute_->threads; }
  /// Goes on from there, without the gradients that were added up here.
  Resumable<void> restore(std::shared_ptr<const Adapter> adapter, OptimizerState state);

  /// Bytes that a call over these data will use besides the model and the adapter.
  [[nodiscard]] Result<std::size_t> bytes_needed(std::span<const Datum> data,
                                                 bool may_keep_layers = true) const;
  /// Bytes that the next step will take: moments, if there are none, and a new adapter.
  [[nodiscard]] std::size_t bytes_of_step() const;

 private:
  [[nodiscard]] Result<PassLimits> limits_for(std::span<const Datum> data) const;
  Resumable<void> score(std::span<const ScoredSequence> sequences,
                        Trainer::Loss loss,
                        bool differentiates,
                        PassLimits limits);
  template <typename State>
  Result<State*> state_of();
  template <typename State, typename Params, typename Step>
  Resumable<OptimStepResponse> step_by(Params params, Step take);

  std::shared_ptr<Compute> compute_;
  std::size_t training_bytes_;
  std::shared_ptr<const Adapter> adapter_;
  Floats gradients_;
  OptimizerState state_;
};

}  // namespace tinker::engine
