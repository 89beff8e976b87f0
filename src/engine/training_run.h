#pragma once

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

/// An adapter with its gradients and the state of its optimizer.
///
/// Thread-compatible.
class TrainingRun {
 public:
  TrainingRun(Trainer& trainer,
              std::shared_ptr<const Model> model,
              ThreadPool& threads,
              std::shared_ptr<const Adapter> adapter)
      : trainer_(trainer),
        model_(std::move(model)),
        threads_(threads),
        adapter_(std::move(adapter)),
        gradients_(adapter_->layout().parameters()) {}

  [[nodiscard]] const std::shared_ptr<const Adapter>& adapter() const noexcept { return adapter_; }

  /// With gradients or without. Errors name the datum.
  Result<ForwardBackwardOutput> run(std::span<const Datum> data,
                                    const TokenLoss& loss,
                                    bool differentiates);
  Result<ForwardBackwardOutput> run(std::span<const Datum> data,
                                    const loss::Formula& formula,
                                    bool differentiates);
  /// By the family of the steps before it. Fails with `invalid_argument` for another one.
  Result<OptimStepResponse> step(const AdamParams& params);
  Result<OptimStepResponse> step(const MuonParams& params);

  [[nodiscard]] const OptimizerState& optimizer() const noexcept { return state_; }
  /// Goes on from there, without the gradients that were added up here.
  void restore(std::shared_ptr<const Adapter> adapter, OptimizerState state);

  /// Bytes that a call over these data will use besides the model and the adapter.
  [[nodiscard]] Result<std::size_t> bytes_needed(std::span<const Datum> data) const;
  /// Bytes that the next step will take: moments, if there are none, and a new adapter.
  [[nodiscard]] std::size_t bytes_of_step() const;

 private:
  Result<void> score(std::span<const ScoredSequence> sequences,
                     const Trainer::Loss& loss,
                     bool differentiates);
  template <typename State>
  Result<State*> state_of();
  template <typename State, typename Params, typename Step>
  Result<OptimStepResponse> step_by(const Params& params, Step take);

  Trainer& trainer_;
  std::shared_ptr<const Model> model_;
  ThreadPool& threads_;
  std::shared_ptr<const Adapter> adapter_;
  Floats gradients_;
  OptimizerState state_;
};

}  // namespace tinker::engine
