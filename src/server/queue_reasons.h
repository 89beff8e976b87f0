#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "server/future_store.h"
#include "server/model_registry.h"
#include "tinker/engine.h"

namespace tinker::server {

/// "1 sample", "2 samples".
std::string counted(std::size_t count, std::string_view what);

/// For a training run's request that nothing of its own run comes before: who else has the engine.
/// Empty when nobody has.
std::string shared_with_others(const EngineQueue& queue);

/// Why a sample of `model` waits.
StillPending why_sample_waits(SampleProgress::Stage stage,
                              const ModelRegistry& models,
                              const std::string& model);

}  // namespace tinker::server
