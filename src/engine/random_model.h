#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/model_config.h"
#include "formats/safetensors.h"
#include "tinker/result.h"

namespace tinker::engine {

/// Makes a Hugging Face folder with a model of random weights, for tests: large enough that every
/// operation matters, logits with a standard deviation near 2. The same bytes for the same
/// arguments on every machine. `dtype` is f32 or bf16. Fails as `write_model` does.
Result<void> write_random_model(
    const std::filesystem::path& folder,
    const ModelConfig& config,
    std::uint64_t seed,
    formats::Safetensors::Dtype dtype = formats::Safetensors::Dtype::f32);

}  // namespace tinker::engine
