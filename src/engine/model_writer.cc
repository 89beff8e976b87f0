#include "engine/model_writer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/strings.h"
#include "tinker/check.h"

namespace tinker::engine {

namespace {

using Dtype = formats::Safetensors::Dtype;

/// As PyTorch calls it.
std::string_view name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return "bfloat16";
    case Dtype::f16: return "float16";
    default: return "float32";
  }
}

/// The factors that llama.cpp makes of a scaling.
std::vector<double> factors_of(const Llama3RopeScaling& scaling, const ModelConfig& config) {
  std::vector<double> out;
  const auto original = static_cast<double>(scaling.original_context);
  for (std::size_t i = 0; i < config.head_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(config.head_dim);
    const double turns = original / (2 * std::numbers::pi * std::pow(config.rope_theta, exponent));
    const double share =
        (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
    const double smooth = std::clamp(share, 0.0, 1.0);
    out.push_back(1 / ((1 - smooth) / scaling.factor + smooth));
  }
  return out;
}

Result<void> write_config(const std::filesystem::path& folder,
                          const ModelConfig& config,
                          Dtype dtype) {
  TINKER_TRY(auto file, base::AtomicFile::create((folder / "config.json").string()));
  TINKER_TRY(file.write(to_json(config, name_of(dtype))));
  return file.commit();
}

/// Fails for what could not be read back, before anything is written.
Result<void> prepare(const std::filesystem::path& folder, const ModelConfig& config, Dtype dtype) {
  TINKER_TRY(read_model_config(to_json(config, name_of(dtype))));
  return base::make_folders_above((folder / "config.json").string());
}

constexpr auto kWeights = "model.safetensors";

}  // namespace

Result<void> write_model(const std::filesystem::path& folder,
                         const ModelConfig& config,
                         std::span<const formats::Safetensors::Tensor> tensors) {
  TINKER_CHECK(!tensors.empty());
  const auto dtype = tensors.front().dtype;
  TINKER_TRY(prepare(folder, config, dtype));
  TINKER_TRY(formats::write_safetensors(folder / kWeights, tensors, {{"format", "pt"}}));
  return write_config(folder, config, dtype);
}

Result<void> write_model(const std::filesystem::path& folder,
                         const ModelConfig& config,
                         Dtype dtype,
                         const MakeTensor& make_data) {
  TINKER_TRY(prepare(folder, config, dtype));
  const auto shapes = tensors_of(config);
  std::vector<formats::Safetensors::Tensor> tensors;
  tensors.reserve(shapes.size());
  for (const auto& shape : shapes)
    tensors.push_back({.name = shape.name, .dtype = dtype, .shape = shape.extents()});
  TINKER_TRY(formats::write_safetensors(folder / kWeights,
                                        tensors,
                                        {{"format", "pt"}},
                                        [&](std::size_t index, const formats::WriteBytes& write) {
                                          return make_data(shapes[index], write);
                                        }));
  return write_config(folder, config, dtype);
}

Result<void> check_new_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return {};
  const bool is_folder = std::filesystem::is_directory(folder, error);
  if (is_folder && std::filesystem::is_empty(folder, error)) return {};
  return Error{.code = ErrorCode::invalid_argument,
               .message = base::concat(folder.string(),
                                       is_folder ? " is there and not empty; it is not replaced"
                                                 : " is there and no folder; it is not replaced")};
}

Result<ModelConfig> in_words_of_config_json(ModelConfig config) {
  if (config.rope_factors.empty()) return config;
  // Those of all models that have some.
  const Llama3RopeScaling scaling = {
      .factor = static_cast<double>(std::ranges::max(config.rope_factors))};
  const auto expected = factors_of(scaling, config);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto found = static_cast<double>(config.rope_factors[i]);
    if (std::abs(found - expected[i]) <= 1e-4 * expected[i]) continue;
    return Error{.code = ErrorCode::invalid_argument,
                 .message = base::concat("rope factor ",
                                         i,
                                         " is ",
                                         found,
                                         "; config.json can express that of Llama 3, ",
                                         expected[i])};
  }
  config.rope_scaling = scaling;
  config.rope_factors.clear();
  return config;
}

}  // namespace tinker::engine
