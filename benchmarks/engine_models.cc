#include "engine_models.h"

#include <cstdint>
#include <deque>
#include <vector>

#include "base/half.h"
#include "engine/model.h"
#include "engine/model_files.h"
#include "engine/model_writer.h"
#include "engine/random_model.h"
#include "formats/safetensors.h"

namespace tinker {
namespace {

using engine::ModelConfig;
using formats::Safetensors;

Result<ModelConfig> config_of(const std::string& shape) {
  if (shape == "d512") {
    return ModelConfig{.vocab_size = 32'000,
                       .hidden_size = 512,
                       .ffn_size = 1408,
                       .layers = 12,
                       .heads = 8,
                       .kv_heads = 8,
                       .head_dim = 64,
                       .context_length = 2048};
  }
  if (shape == "smollm2") {
    return ModelConfig{.vocab_size = 49'152,
                       .hidden_size = 576,
                       .ffn_size = 1536,
                       .layers = 30,
                       .heads = 9,
                       .kv_heads = 3,
                       .head_dim = 64,
                       .context_length = 8192,
                       .rms_eps = 1e-5F,
                       .rope_theta = 100'000,
                       .tied_head = true};
  }
  return Error{.code = ErrorCode::invalid_argument,
               .message = "no shape is called '" + shape + "': expected d512 or smollm2"};
}

struct Sizes {
  double matrices = 0;  // of one layer, elements
  double borders = 0;   // of one layer, in + out
};
Sizes sizes_of(const ModelConfig& config) {
  Sizes out;
  for (const auto projection : engine::kAllProjections) {
    const auto size = engine::size_of(config, projection);
    out.matrices += static_cast<double>(size.in * size.out);
    out.borders += static_cast<double>(size.in + size.out);
  }
  return out;
}

/// Of one token and one layer, forward: scores and values, of half of the context.
double attention_flop(const ModelConfig& config, double context) {
  return 2 * 2 * static_cast<double>(config.q_size()) * context / 2;
}

}  // namespace

Result<void> make_model(const std::string& shape, const std::filesystem::path& folder) {
  TINKER_TRY(const auto config, config_of(shape));
  return engine::write_random_model(folder, config, 1, Safetensors::Dtype::bf16);
}

Result<void> convert_model(const std::filesystem::path& model,
                           const std::filesystem::path& folder) {
  TINKER_TRY(const auto files, engine::ModelFiles::open(model));
  std::deque<std::vector<std::uint16_t>> data;
  std::vector<Safetensors::Tensor> tensors;
  std::vector<float> row;
  for (const auto& shape : engine::tensors_of(files.config())) {
    TINKER_TRY(const auto tensor, files.tensor(shape.name, shape.rows, shape.cols));
    auto& halves = data.emplace_back();
    row.resize(shape.cols);
    for (std::size_t i = 0; i < shape.rows; ++i) {
      tensor.read_row(i, row);
      for (const float value : row) halves.push_back(base::to_bf16(value));
    }
    tensors.push_back({.name = shape.name,
                       .dtype = Safetensors::Dtype::bf16,
                       .shape = shape.extents(),
                       .data = {reinterpret_cast<const char*>(halves.data()), 2 * halves.size()}});
  }
  return engine::write_model(folder, files.config(), tensors);
}

double lora_flop_per_token(const ModelConfig& config, double rank, double context) {
  const auto sizes = sizes_of(config);
  const auto head = static_cast<double>(config.vocab_size * config.hidden_size);
  const double layer =
      4 * sizes.matrices + 6 * rank * sizes.borders + attention_flop(config, context) * (1 + 2.5);
  return static_cast<double>(config.layers) * layer + 4 * head;
}

double prefill_flop_per_token(const ModelConfig& config, double context) {
  const auto sizes = sizes_of(config);
  const auto head = static_cast<double>(config.vocab_size * config.hidden_size);
  return static_cast<double>(config.layers) *
             (2 * sizes.matrices + attention_flop(config, context)) +
         2 * head / context;
}

}  // namespace tinker
