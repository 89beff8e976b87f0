#pragma once

#include <span>

#include "engine/optimizer.h"
#include "tinker/engine.h"

namespace tinker::engine {

/// One step of Muon on every factor of the adapter, each a matrix of its own: (rank, in) and
/// (out, rank). Fails as `adam_step` does. A factor is not cut: that of the head takes as long as
/// its columns are many.
Resumable<StepReport> muon_step(const Model& model,
                                ThreadPool& threads,
                                const Adapter& adapter,
                                std::span<const float> gradients,
                                MuonParams params,
                                MuonState& state);

}  // namespace tinker::engine
