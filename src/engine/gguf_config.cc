#include <algorithm>
#include <cstring>
#include <optional>

#include "base/strings.h"
#include "engine/config_checks.h"
#include "engine/model_config.h"
#include "formats/ggml_blocks.h"
#include "formats/shape_text.h"

namespace tinker::engine {

namespace {

/// Reads one value after the other of the keys that begin with the architecture's name.
class Reader {
 public:
  explicit Reader(const formats::Gguf& gguf) : gguf_(gguf) {}

  Result<ModelConfig> read() {
    const auto name = gguf_.string("general.architecture");
    if (!name) return missing("general.architecture");
    TINKER_TRY(out_.architecture, architecture_of("general.architecture", *name));
    TINKER_TRY(refuse_unsupported());
    TINKER_TRY(read_sizes());
    TINKER_TRY(read_rope());
    TINKER_TRY(read_tokens());
    out_.tied_head = gguf_.find_tensor("output.weight") == nullptr;
    return std::move(out_);
  }

 private:
  [[nodiscard]] static Error missing(std::string_view key) {
    return refuse(base::concat("'", key, "' is missing or of another kind"));
  }
  [[nodiscard]] std::string key(std::string_view name) const {
    return base::concat(to_string(out_.architecture), ".", name);
  }
  [[nodiscard]] Result<std::int64_t> integer(std::string_view name,
                                             std::optional<std::size_t> otherwise = {}) const {
    const auto full = key(name);
    const auto value = gguf_.integer(full);
    if (value) return *value;
    if (!otherwise || gguf_.has(full)) return missing(full);
    return static_cast<std::int64_t>(*otherwise);
  }
  [[nodiscard]] Result<std::size_t> size(std::string_view name,
                                         std::optional<std::size_t> otherwise = {}) const {
    TINKER_TRY(const auto value, integer(name, otherwise));
    return checked_size(key(name), value);
  }

  [[nodiscard]] Result<void> refuse_unsupported() const {
    const auto scaling = gguf_.string(key("rope.scaling.type"));
    if (scaling && *scaling != "none") return refuse_value(key("rope.scaling.type"), *scaling);
    TINKER_TRY(const auto experts, integer("expert_count", 0));
    if (experts != 0) return refuse_value(key("expert_count"), base::concat(experts));
    return {};
  }

  Result<void> read_sizes() {
    const auto* const embedding = gguf_.find_tensor("token_embd.weight");
    const bool has_rows = embedding != nullptr && embedding->shape.size() == 2;
    TINKER_TRY(out_.vocab_size,
               size("vocab_size", has_rows ? std::optional(embedding->shape[1]) : std::nullopt));
    TINKER_TRY(out_.hidden_size, size("embedding_length"));
    TINKER_TRY(out_.ffn_size, size("feed_forward_length"));
    TINKER_TRY(const auto layers, integer("block_count"));
    TINKER_TRY(out_.layers, checked_layers(key("block_count"), layers));
    TINKER_TRY(out_.context_length, size("context_length"));
    TINKER_TRY(out_.heads, size("attention.head_count"));
    TINKER_TRY(out_.kv_heads, size("attention.head_count_kv", out_.heads));
    TINKER_TRY(out_.head_dim, size("attention.key_length", out_.hidden_size / out_.heads));
    for (const auto* const name : {"attention.value_length", "rope.dimension_count"}) {
      TINKER_TRY(const auto same, size(name, out_.head_dim));
      if (same != out_.head_dim) return refuse_value(key(name), base::concat(same));
    }
    const auto eps = key("attention.layer_norm_rms_epsilon");
    const auto found = gguf_.number(eps);
    if (!found) return missing(eps);
    TINKER_TRY(out_.rms_eps, checked_eps(eps, *found));
    return check_heads(out_);
  }

  Result<void> read_rope() {
    const auto base_key = key("rope.freq_base");
    TINKER_TRY(out_.rope_theta,
               checked_positive(base_key, gguf_.number(base_key).value_or(out_.rope_theta)));
    constexpr std::string_view kName = "rope_freqs.weight";
    const auto* const tensor = gguf_.find_tensor(kName);
    if (tensor == nullptr) return {};
    const std::size_t count = out_.head_dim / 2;
    if (tensor->type != formats::find_ggml_type("F32")->number ||
        tensor->data.size() != count * sizeof(float)) {
      return refuse(base::concat("tensor '",
                                 kName,
                                 "' of shape ",
                                 formats::shape_text(tensor->shape),
                                 " is not ",
                                 count,
                                 " numbers of type F32"));
    }
    out_.rope_factors.resize(count);
    std::memcpy(out_.rope_factors.data(), tensor->data.data(), tensor->data.size());
    for (const float factor : out_.rope_factors) {
      TINKER_TRY(checked_positive(kName, factor));
    }
    return {};
  }

  Result<void> read_tokens() {
    for (const auto* const name : {"eos", "eot", "eom"}) {
      TINKER_TRY(const auto id, token(name));
      if (id && std::ranges::find(out_.eos_ids, *id) == out_.eos_ids.end())
        out_.eos_ids.push_back(*id);
    }
    TINKER_TRY(out_.bos_id, token("bos"));
    return {};
  }
  [[nodiscard]] Result<std::optional<std::int32_t>> token(std::string_view name) const {
    const auto full = base::concat("tokenizer.ggml.", name, "_token_id");
    const auto value = gguf_.integer(full);
    if (!value) return std::optional<std::int32_t>();
    TINKER_TRY(const auto id, checked_token(full, *value, out_));
    return std::optional(id);
  }

  const formats::Gguf& gguf_;
  ModelConfig out_;
};

}  // namespace

Result<ModelConfig> read_model_config(const formats::Gguf& gguf) {
  return Reader(gguf).read();
}

}  // namespace tinker::engine
