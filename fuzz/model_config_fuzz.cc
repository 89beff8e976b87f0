#include <cstdint>
#include <string_view>

#include "engine/model_config.h"
#include "tinker/check.h"

// config.json or a GGUF file: what is accepted is a model that can be, and, written as JSON, the
// same again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tinker;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto gguf = formats::Gguf::parse(file);
  const auto config =
      gguf.ok() ? engine::read_model_config(*gguf) : engine::read_model_config(file);
  if (!config.ok()) return 0;
  TINKER_CHECK(config->heads % config->kv_heads == 0 && config->head_dim % 2 == 0);
  for (const auto& tensor : engine::tensors_of(*config))
    TINKER_CHECK(tensor.rows * tensor.cols > 0);
  if (!config->rope_factors.empty()) return 0;
  TINKER_CHECK(*engine::read_model_config(engine::to_json(*config, "float32")) == *config);
  return 0;
}
