#include "engine/model_config.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include <simdjson.h>

#include "base/strings.h"
#include "engine/config_checks.h"
#include "formats/json_object.h"
#include "tinker/check.h"

namespace tinker::engine {

namespace {

using Architecture = ModelConfig::Architecture;
using Element = simdjson::dom::element;
using formats::JsonObject;

constexpr std::array<std::string_view, 3> kArchitectures = {"llama", "qwen2", "qwen3"};

Result<std::size_t> size_in(const JsonObject& json, std::string_view name, std::int64_t otherwise) {
  TINKER_TRY(const auto value, json.integer(name, otherwise));
  return checked_size(name, value);
}

Result<void> refuse_unsupported(const JsonObject& json, Architecture architecture) {
  TINKER_TRY(const auto activation, json.string("hidden_act", "silu"));
  if (activation != "silu") return refuse_value("hidden_act", activation);
  for (const auto* const name : {"attention_bias", "mlp_bias"}) {
    TINKER_TRY(const bool has_bias, json.boolean(name, false));
    const bool is_ignored = architecture == Architecture::qwen2;  // it knows neither
    if (has_bias && !is_ignored) return refuse_value(name, "true");
  }
  TINKER_TRY(const double rotated, json.number("partial_rotary_factor", 1));
  if (rotated != 1) return refuse_value("partial_rotary_factor", base::concat(rotated));
  if (json.has("quantization_config")) return refuse_value("quantization_config", "there");
  return {};
}

/// Some layers would see the last tokens only.
Result<void> refuse_sliding_window(const JsonObject& json, std::size_t layers) {
  if (json.has("layer_types")) {
    return json.for_each("layer_types", [](Element element) -> Result<void> {
      std::string_view type;
      if (element.get_string().get(type) == simdjson::SUCCESS && type == "full_attention")
        return {};
      return refuse_value("layer_types", simdjson::minify(element));
    });
  }
  constexpr std::int64_t kFirstLayer = 28;
  TINKER_TRY(const bool is_used, json.boolean("use_sliding_window", false));
  TINKER_TRY(const auto first, json.integer("max_window_layers", kFirstLayer));
  const bool has_size = !json.mentions("sliding_window") || json.has("sliding_window");
  if (is_used && has_size && std::cmp_less(first, layers)) {
    return refuse_value("use_sliding_window", "true");
  }
  return {};
}

Result<void> read_heads(const JsonObject& json, ModelConfig& out) {
  TINKER_TRY(out.heads, size_in(json, "num_attention_heads", 32));
  const auto heads = static_cast<std::int64_t>(out.heads);
  TINKER_TRY(out.kv_heads, size_in(json, "num_key_value_heads", heads));
  const bool is_derived = !json.has("head_dim") && out.architecture != Architecture::qwen3;
  if (is_derived && out.hidden_size % out.heads != 0) {
    return refuse(base::concat("'hidden_size' ",
                               out.hidden_size,
                               " is not a multiple of 'num_attention_heads' ",
                               out.heads));
  }
  const auto derived = static_cast<std::int64_t>(out.hidden_size / out.heads);
  TINKER_TRY(out.head_dim, size_in(json, "head_dim", is_derived ? derived : 128));
  return check_heads(out);
}

Result<void> read_llama3(const JsonObject& json, ModelConfig& out) {
  Llama3RopeScaling scaling;
  for (auto [name, value] : {std::pair("factor", &scaling.factor),
                             std::pair("low_freq_factor", &scaling.low_freq_factor),
                             std::pair("high_freq_factor", &scaling.high_freq_factor)}) {
    TINKER_TRY(const double found, json.number(name));
    TINKER_TRY(*value, checked_positive(name, found));
  }
  if (scaling.low_freq_factor >= scaling.high_freq_factor) {
    return refuse(base::concat("'low_freq_factor' ",
                               scaling.low_freq_factor,
                               " is not below 'high_freq_factor' ",
                               scaling.high_freq_factor));
  }
  const auto context = static_cast<std::int64_t>(out.context_length);
  TINKER_TRY(scaling.original_context, size_in(json, "original_max_position_embeddings", context));
  out.rope_scaling = scaling;
  return {};
}

/// A theta beside an object with the rest, or, since transformers 5, inside of one.
Result<void> read_rope(const JsonObject& json, ModelConfig& out) {
  TINKER_TRY(const double theta, json.number("rope_theta", out.rope_theta));
  TINKER_TRY(out.rope_theta, checked_positive("rope_theta", theta));
  const auto* const name = json.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (!json.has(name)) return {};
  TINKER_TRY(const auto rope, json.object(name));
  TINKER_TRY(const double inner, rope.number("rope_theta", theta));
  TINKER_TRY(out.rope_theta, checked_positive("rope_theta", inner));
  TINKER_TRY(const double rotated, rope.number("partial_rotary_factor", 1));
  if (rotated != 1) return refuse_value("partial_rotary_factor", base::concat(rotated));
  TINKER_TRY(const auto old_type, rope.string("type", "default"));
  TINKER_TRY(const auto type, rope.string("rope_type", old_type));
  if (type == "default") return {};
  if (type == "llama3") return read_llama3(rope, out);
  return refuse_value("rope_type", type);
}

Result<void> read_eos(const JsonObject& json, ModelConfig& out) {
  constexpr std::string_view kName = "eos_token_id";
  out.eos_ids.clear();
  if (!json.has(kName)) return {};
  if (!json.element(kName).is_array()) {
    TINKER_TRY(const auto value, json.integer(kName));
    TINKER_TRY(out.eos_ids.emplace_back(), checked_token(kName, value, out));
    return {};
  }
  return json.for_each(kName, [&](Element element) -> Result<void> {
    std::int64_t value = 0;
    if (element.get_int64().get(value) != simdjson::SUCCESS) {
      return refuse_value(kName, simdjson::minify(element));
    }
    TINKER_TRY(out.eos_ids.emplace_back(), checked_token(kName, value, out));
    return {};
  });
}

Result<void> read_tokens(const JsonObject& json, ModelConfig& out) {
  const auto is_default = [&](std::string_view name) {
    return out.architecture == Architecture::llama && !json.mentions(name);
  };
  TINKER_TRY(read_eos(json, out));
  if (is_default("eos_token_id")) {
    TINKER_TRY(out.eos_ids.emplace_back(), checked_token("eos_token_id", 2, out));
  }
  if (json.has("bos_token_id") || is_default("bos_token_id")) {
    TINKER_TRY(const auto value, json.integer("bos_token_id", 1));
    TINKER_TRY(out.bos_id, checked_token("bos_token_id", value, out));
  }
  return {};
}

Result<ModelConfig> read_config(const JsonObject& json) {
  ModelConfig out;
  TINKER_TRY(const auto type, json.string("model_type"));
  TINKER_TRY(out.architecture, architecture_of("model_type", type));
  const bool is_llama = out.architecture == Architecture::llama;
  TINKER_TRY(refuse_unsupported(json, out.architecture));
  TINKER_TRY(out.vocab_size, size_in(json, "vocab_size", is_llama ? 32'000 : 151'936));
  TINKER_TRY(out.hidden_size, size_in(json, "hidden_size", 4096));
  TINKER_TRY(out.ffn_size, size_in(json, "intermediate_size", is_llama ? 11'008 : 22'016));
  TINKER_TRY(const auto layers, json.integer("num_hidden_layers", 32));
  TINKER_TRY(out.layers, checked_layers("num_hidden_layers", layers));
  TINKER_TRY(out.context_length,
             size_in(json, "max_position_embeddings", is_llama ? 2048 : 32'768));
  TINKER_TRY(read_heads(json, out));
  TINKER_TRY(refuse_sliding_window(json, out.layers));
  TINKER_TRY(const double eps, json.number("rms_norm_eps", 1e-6));
  TINKER_TRY(out.rms_eps, checked_eps("rms_norm_eps", eps));
  TINKER_TRY(read_rope(json, out));
  TINKER_TRY(out.tied_head, json.boolean("tie_word_embeddings", false));
  TINKER_TRY(read_tokens(json, out));
  return out;
}

/// Calls `read(JsonObject)` for the object that a text is.
template <typename Read>
std::invoke_result_t<Read, const JsonObject&> with_json(std::string_view text,
                                                        std::string_view file,
                                                        Read read) {
  simdjson::dom::parser parser;
  const auto json = JsonObject::parse(text, parser);
  if (!json.ok()) return json.error().with_context(file);
  auto done = read(*json);
  if (!done.ok()) return done.error().with_context(file);
  return done;
}

/// A number that Python reads as a float.
template <typename Float>
std::string real(Float value) {
  auto out = base::concat(value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string rope_json(const Llama3RopeScaling& scaling) {
  return base::concat(R"({"rope_type": "llama3", "factor": )",
                      real(scaling.factor),
                      R"(, "low_freq_factor": )",
                      real(scaling.low_freq_factor),
                      R"(, "high_freq_factor": )",
                      real(scaling.high_freq_factor),
                      R"(, "original_max_position_embeddings": )",
                      scaling.original_context,
                      "}");
}

std::string eos_json(const std::vector<std::int32_t>& ids) {
  if (ids.size() == 1) return base::concat(ids.front());
  std::string out;
  for (const auto id : ids) out += base::concat(out.empty() ? "[" : ", ", id);
  return out.empty() ? "null" : out + "]";
}

}  // namespace

std::string_view to_string(Architecture architecture) noexcept {
  return kArchitectures.at(static_cast<std::size_t>(architecture));
}

Result<Architecture> architecture_of(std::string_view name, std::string_view value) {
  const auto* const found = std::ranges::find(kArchitectures, value);
  if (found == kArchitectures.end()) return refuse_value(name, value);
  return static_cast<Architecture>(found - kArchitectures.begin());
}

Result<ModelConfig> read_model_config(std::string_view config_json,
                                      std::string_view generation_config_json) {
  TINKER_TRY(auto out, with_json(config_json, "config.json", read_config));
  if (generation_config_json.empty()) return out;
  TINKER_TRY(with_json(generation_config_json,
                       "generation_config.json",
                       [&out](const JsonObject& json) -> Result<void> {
                         return json.has("eos_token_id") ? read_eos(json, out) : Result<void>();
                       }));
  return out;
}

std::string to_json(const ModelConfig& config, std::string_view dtype) {
  TINKER_CHECK(config.rope_factors.empty());
  std::string out = "{\n";
  const auto add = [&out](std::string_view name, const std::string& value) {
    out += base::concat("  \"", name, "\": ", value, ",\n");
  };
  const auto text = [](std::string_view value) { return base::concat("\"", value, "\""); };
  constexpr std::array<std::string_view, 3> kClasses = {"Llama", "Qwen2", "Qwen3"};
  const auto name = kClasses.at(static_cast<std::size_t>(config.architecture));
  add("architectures", base::concat("[\"", name, "ForCausalLM\"]"));
  add("model_type", text(to_string(config.architecture)));
  add("vocab_size", base::concat(config.vocab_size));
  add("hidden_size", base::concat(config.hidden_size));
  add("intermediate_size", base::concat(config.ffn_size));
  add("num_hidden_layers", base::concat(config.layers));
  add("num_attention_heads", base::concat(config.heads));
  add("num_key_value_heads", base::concat(config.kv_heads));
  add("head_dim", base::concat(config.head_dim));
  add("max_position_embeddings", base::concat(config.context_length));
  add("hidden_act", text("silu"));
  add("rms_norm_eps", real(config.rms_eps));
  add("rope_theta", real(config.rope_theta));
  add("rope_scaling", config.rope_scaling ? rope_json(*config.rope_scaling) : "null");
  add("tie_word_embeddings", config.tied_head ? "true" : "false");
  add("bos_token_id", config.bos_id ? base::concat(*config.bos_id) : "null");
  add("eos_token_id", eos_json(config.eos_ids));
  add("torch_dtype", text(dtype));
  out.replace(out.size() - 2, 2, "\n}\n");
  return out;
}

std::vector<TensorShape> tensors_of(const ModelConfig& config) {
  std::vector<TensorShape> out;
  std::string prefix = "model.";
  const auto matrix = [&](std::string_view name, std::size_t rows, std::size_t cols) {
    out.push_back({.name = base::concat(prefix, name, ".weight"), .rows = rows, .cols = cols});
  };
  const auto vector = [&](std::string_view name, std::size_t size) {
    out.push_back({.name = base::concat(prefix, name), .cols = size, .is_vector = true});
  };
  const std::size_t hidden = config.hidden_size;
  matrix("embed_tokens", config.vocab_size, hidden);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    prefix = base::concat("model.layers.", layer, ".");
    vector("input_layernorm.weight", hidden);
    matrix("self_attn.q_proj", config.q_size(), hidden);
    matrix("self_attn.k_proj", config.kv_size(), hidden);
    matrix("self_attn.v_proj", config.kv_size(), hidden);
    if (config.has_qkv_bias()) {
      vector("self_attn.q_proj.bias", config.q_size());
      vector("self_attn.k_proj.bias", config.kv_size());
      vector("self_attn.v_proj.bias", config.kv_size());
    }
    if (config.has_qk_norm()) {
      vector("self_attn.q_norm.weight", config.head_dim);
      vector("self_attn.k_norm.weight", config.head_dim);
    }
    matrix("self_attn.o_proj", hidden, config.q_size());
    vector("post_attention_layernorm.weight", hidden);
    matrix("mlp.gate_proj", config.ffn_size, hidden);
    matrix("mlp.up_proj", config.ffn_size, hidden);
    matrix("mlp.down_proj", hidden, config.ffn_size);
  }
  prefix = "model.";
  vector("norm.weight", hidden);
  prefix.clear();
  if (!config.tied_head) matrix("lm_head", config.vocab_size, hidden);
  return out;
}

}  // namespace tinker::engine
