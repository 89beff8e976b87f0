#pragma once

#include <filesystem>
#include <span>

#include "engine/model_config.h"
#include "formats/safetensors.h"
#include "tinker/result.h"

namespace tinker::engine {

/// Makes a Hugging Face folder, config.json and model.safetensors, of tensors that are `tensors_of`
/// its config, all of one dtype: f32, f16 or bf16. Fails with `invalid_argument` for a config that
/// cannot be read back, with `io_error` for a file that cannot be written.
Result<void> write_model(const std::filesystem::path& folder,
                         const ModelConfig& config,
                         std::span<const formats::Safetensors::Tensor> tensors);

}  // namespace tinker::engine
