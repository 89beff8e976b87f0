#pragma once

#include <filesystem>
#include <functional>
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

/// The same, of data that are made when they are written: `make_data` gives those of a tensor to
/// `write`, piece by piece.
using MakeTensor =
    std::function<Result<void>(const TensorShape& tensor, const formats::WriteBytes& write)>;
Result<void> write_model(const std::filesystem::path& folder,
                         const ModelConfig& config,
                         formats::Safetensors::Dtype dtype,
                         const MakeTensor& make_data);

/// Fails with `invalid_argument` unless the folder is empty or not there.
Result<void> check_new_folder(const std::filesystem::path& folder);

/// The same model in the words of config.json: factors of GGUF files as the scaling of Llama 3 that
/// they came from. Fails with `invalid_argument` for factors that came from something else.
Result<ModelConfig> in_words_of_config_json(ModelConfig config);

}  // namespace tinker::engine
