#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/adapter.h"
#include "engine/memory.h"
#include "tinker/result.h"
#include "tinker/types/optimizer.h"

namespace tinker::engine {

/// Moments of AdamW and how many steps made them.
struct AdamState {
  Floats m = {};
  Floats v = {};
  std::int64_t step = 0;
};

/// What a step did.
struct StepReport {
  std::shared_ptr<const Adapter> adapter = {};
  double gradient_norm = 0;  ///< Before clipping.
};

/// Euclidean norm, in the same order on every machine.
double norm_of(const Kernels& kernels, ThreadPool& threads, std::span<const float> values);

/// One step of AdamW, as torch computes it. Fails with `invalid_argument` for settings that make no
/// sense and for gradients that are not finite; the state is then as it was.
Result<StepReport> adam_step(const Model& model,
                             ThreadPool& threads,
                             const Adapter& adapter,
                             std::span<const float> gradients,
                             const AdamParams& params,
                             AdamState& state);

}  // namespace tinker::engine
