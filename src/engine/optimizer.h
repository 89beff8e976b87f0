#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>

#include "engine/adapter.h"
#include "engine/memory.h"
#include "engine/resumable.h"
#include "tinker/result.h"
#include "tinker/types/optimizer.h"

namespace tinker::engine {

/// Moments of AdamW and how many steps made them.
struct AdamState {
  Floats m = {};
  Floats v = {};
  std::int64_t step = 0;
};

/// The momentum of Muon and how many steps made it.
struct MuonState {
  Floats m = {};
  std::int64_t step = 0;
};

/// What an optimizer remembers from step to step. After no step it is of no family yet.
using OptimizerState = std::variant<AdamState, MuonState>;
std::int64_t steps_of(const OptimizerState& state);
/// "adamw" or "muon"
std::string_view family_of(const OptimizerState& state) noexcept;

/// What a copy of it takes.
std::size_t bytes_of(const OptimizerState& state);
Resumable<OptimizerState> copy_of(const OptimizerState& state, ThreadPool& threads);

/// What a step did.
struct StepReport {
  std::shared_ptr<const Adapter> adapter = {};
  double gradient_norm = 0;  ///< Before clipping.
};

/// Euclidean norm, in the same order on every machine.
Resumable<double> norm_of(const Kernels& kernels,
                          ThreadPool& threads,
                          std::span<const float> values);

/// The norm of the gradients that step number `step` would use. Fails with `invalid_argument` for
/// one that is not finite.
Resumable<double> checked_norm(const Kernels& kernels,
                               ThreadPool& threads,
                               std::span<const float> gradients,
                               std::int64_t step);
/// What gradients of this norm are multiplied by; as torch does it. A `limit` of 0 is none.
float clipping_scale(double norm, double limit);

/// "beta1 is 2; expected ..."
Error refuse_setting(std::string_view name, double value, std::string_view expected);
/// Fails unless 0 <= beta < 1.
Result<void> check_share(std::string_view name, double beta);
/// Fails unless it is finite as a float, which steps are computed in.
Result<void> check_finite(std::string_view name, double value);
/// The same, and not below 0: such a step climbs.
Result<void> check_learning_rate(double learning_rate);
/// Fails unless a weight decay, and its product with the learning rate, are finite as floats.
Result<void> check_decay(double learning_rate, double weight_decay);
Result<void> check_clipping(double grad_clip_norm);

/// One step of AdamW, as torch computes it. Fails with `invalid_argument` for settings that make no
/// sense and for gradients that are not finite. Then, if there is no memory for it, and if it is
/// dropped before `Cut::committed`, the state is as it was.
Resumable<StepReport> adam_step(const Model& model,
                                ThreadPool& threads,
                                const Adapter& adapter,
                                std::span<const float> gradients,
                                AdamParams params,
                                AdamState& state);

}  // namespace tinker::engine
