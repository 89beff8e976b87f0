#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "tinker/result.h"

namespace tinker::engine {

/// How Llama 3.1 and later stretch the slow rotations of their positions.
struct Llama3RopeScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::size_t original_context = 8192;

  friend bool operator==(const Llama3RopeScaling&, const Llama3RopeScaling&) = default;
};

/// What kind of model it is, and how large. One that was read is consistent: its sizes are not
/// zero, the product of any two fits, heads are a multiple of kv_heads, head_dim is even.
struct ModelConfig {
  enum class Architecture { llama, qwen2, qwen3 };

  Architecture architecture = Architecture::llama;
  std::size_t vocab_size = 0;
  std::size_t hidden_size = 0;
  std::size_t ffn_size = 0;
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;  ///< heads * head_dim need not be hidden_size.
  std::size_t context_length = 0;
  float rms_eps = 1e-6F;
  double rope_theta = 10'000;
  std::optional<Llama3RopeScaling> rope_scaling = {};
  /// The same, as GGUF files have it: what each of the head_dim / 2 frequencies is divided by.
  /// Empty where there is no such thing.
  std::vector<float> rope_factors = {};
  bool tied_head = false;                  ///< The embedding is also the head.
  std::vector<std::int32_t> eos_ids = {};  ///< Any of them ends an answer.
  std::optional<std::int32_t> bos_id = {};

  [[nodiscard]] bool has_qkv_bias() const noexcept { return architecture == Architecture::qwen2; }
  [[nodiscard]] bool has_qk_norm() const noexcept { return architecture == Architecture::qwen3; }
  [[nodiscard]] std::size_t q_size() const noexcept { return heads * head_dim; }
  [[nodiscard]] std::size_t kv_size() const noexcept { return kv_heads * head_dim; }

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// As in config.json: "llama".
std::string_view to_string(ModelConfig::Architecture architecture) noexcept;

/// From the text of config.json, as transformers 4 and 5 write it, with their defaults for what is
/// absent. What generation_config.json says of the end of an answer wins; it may be empty.
/// Fails with `invalid_argument` for what this engine cannot run, and names the member and its
/// value.
Result<ModelConfig> read_model_config(std::string_view config_json,
                                      std::string_view generation_config_json = {});
/// From the metadata of a GGUF file and the names of its tensors. Fails likewise.
Result<ModelConfig> read_model_config(const formats::Gguf& gguf);

/// config.json, for both versions of transformers; reads back as the same. Requires that there are
/// no `rope_factors`: it has no words for them.
std::string to_json(const ModelConfig& config, std::string_view dtype);

/// A tensor that a model consists of.
struct TensorShape {
  std::string name = {};  ///< Hugging Face's, e.g. "model.layers.0.self_attn.q_proj.weight".
  std::size_t rows = 1;
  std::size_t cols = 0;
  bool is_vector = false;  ///< Has one dimension only; one row.

  [[nodiscard]] std::vector<std::uint64_t> extents() const {
    if (is_vector) return {cols};
    return {rows, cols};
  }
};

/// All of them, in the order of the computation.
std::vector<TensorShape> tensors_of(const ModelConfig& config);

}  // namespace tinker::engine
