#include "engine/adapter_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <simdjson.h>

#include "base/strings.h"
#include "engine/config_checks.h"
#include "formats/json_object.h"
#include "formats/json_string.h"

namespace tinker::engine {
namespace {

using Element = simdjson::dom::element;
using formats::JsonObject;

constexpr std::array<std::string_view, 4> kAttention = {"q_proj", "k_proj", "v_proj", "o_proj"};
constexpr std::array<std::string_view, 3> kMlp = {"gate_proj", "up_proj", "down_proj"};
constexpr std::array<std::string_view, 1> kUnembed = {"lm_head"};

/// Modules that are trained together, and what says so.
struct Group {
  bool LoraShape::* is_trained = nullptr;
  std::span<const std::string_view> modules = {};
};
constexpr std::array<Group, 3> kGroups = {
    Group{.is_trained = &LoraShape::train_attn, .modules = kAttention},
    Group{.is_trained = &LoraShape::train_mlp, .modules = kMlp},
    Group{.is_trained = &LoraShape::train_unembed, .modules = kUnembed}};

// Variants of LoRA that compute something else, or add to something else.
constexpr std::array<std::string_view, 5> kMustBeFalse = {
    "use_rslora", "use_dora", "fan_in_fan_out", "lora_bias", "use_qalora"};
constexpr std::array<std::string_view, 14> kMustBeEmpty = {"rank_pattern",
                                                           "alpha_pattern",
                                                           "modules_to_save",
                                                           "layers_to_transform",
                                                           "layer_replication",
                                                           "exclude_modules",
                                                           "target_parameters",
                                                           "trainable_token_indices",
                                                           "alora_invocation_tokens",
                                                           "arrow_config",
                                                           "kasa_config",
                                                           "monteclora_config",
                                                           "velora_config",
                                                           "use_bdlora"};
// How it began; others change the base model as well.
constexpr std::array<std::string_view, 3> kHarmlessBeginnings = {"gaussian", "orthogonal", "eva"};

bool is_empty(Element element) {
  simdjson::dom::array array;
  simdjson::dom::object object;
  if (element.get_array().get(array) == simdjson::SUCCESS) return array.size() == 0;
  if (element.get_object().get(object) == simdjson::SUCCESS) return object.size() == 0;
  return element.is_null();
}

Error refuse_member(std::string_view name, Element value) {
  return refuse_value(name, simdjson::minify(value));
}

Result<void> refuse_variants(const JsonObject& json) {
  TINKER_TRY(const auto type, json.string("peft_type"));
  if (type != "LORA") return refuse_value("peft_type", type);
  TINKER_TRY(const auto bias, json.string("bias", "none"));
  if (bias != "none") return refuse_value("bias", bias);
  for (const auto name : kMustBeFalse) {
    TINKER_TRY(const bool is_set, json.boolean(name, false));
    if (is_set) return refuse_value(name, "true");
  }
  for (const auto name : kMustBeEmpty) {
    if (!is_empty(json.element(name))) return refuse_member(name, json.element(name));
  }
  const auto beginning = json.element("init_lora_weights");
  std::string_view name;
  if (beginning.get_string().get(name) == simdjson::SUCCESS &&
      std::ranges::find(kHarmlessBeginnings, name) == kHarmlessBeginnings.end()) {
    return refuse_value("init_lora_weights", name);
  }
  return {};
}

std::string list(std::span<const std::string_view> names) {
  std::string out;
  for (const auto name : names) out += base::concat(out.empty() ? "" : ", ", name);
  return out;
}

Result<void> read_targets(const JsonObject& json, LoraShape& out) {
  constexpr std::string_view kName = "target_modules";
  std::set<std::string_view> named;
  TINKER_TRY(json.for_each(kName, [&](Element element) -> Result<void> {
    std::string_view name;
    if (element.get_string().get(name) != simdjson::SUCCESS) return refuse_member(kName, element);
    const auto has = [&](const Group& group) {
      return std::ranges::find(group.modules, name) != group.modules.end();
    };
    if (std::ranges::none_of(kGroups, has)) return refuse_member(kName, element);
    named.insert(name);
    return {};
  }));
  for (const auto& [is_trained, modules] : kGroups) {
    const auto is_named = [&](std::string_view name) { return named.contains(name); };
    out.*is_trained = std::ranges::all_of(modules, is_named);
    if (out.*is_trained || std::ranges::none_of(modules, is_named)) continue;
    const auto missing = std::ranges::find_if_not(modules, is_named);
    return refuse(base::concat(
        "'", kName, "' lacks ", *missing, ", expected all of ", list(modules), " or none"));
  }
  if (named.empty()) return refuse_value(kName, "empty");
  return {};
}

}  // namespace

Result<LoraShape> read_adapter_config(std::string_view text) {
  simdjson::dom::parser parser;
  TINKER_TRY(const auto json, JsonObject::parse(text, parser));
  TINKER_TRY(refuse_variants(json));
  LoraShape out;
  TINKER_TRY(const auto rank, json.integer("r"));
  TINKER_TRY(out.rank, checked_size("r", rank));
  TINKER_TRY(const double alpha, json.number("lora_alpha"));
  out.alpha = static_cast<float>(alpha);
  TINKER_TRY(checked_positive("lora_alpha", static_cast<double>(out.alpha)));
  TINKER_TRY(read_targets(json, out));
  return out;
}

std::string to_json(const LoraShape& shape, std::string_view base_model) {
  std::string name = "null";
  if (simdjson::validate_utf8(base_model)) {
    name.clear();
    formats::append_json_string(name, base_model);
  }
  std::string modules;
  for (const auto& [is_trained, names] : kGroups) {
    if (!(shape.*is_trained)) continue;
    for (const auto module : names)
      modules += base::concat(modules.empty() ? "" : ", ", "\"", module, "\"");
  }
  return base::concat("{\n  \"base_model_name_or_path\": ",
                      name,
                      ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                      "  \"inference_mode\": true,\n  \"init_lora_weights\": true,\n"
                      "  \"lora_alpha\": ",
                      shape.alpha,
                      ",\n  \"lora_dropout\": 0.0,\n  \"modules_to_save\": null,\n"
                      "  \"peft_type\": \"LORA\",\n  \"r\": ",
                      shape.rank,
                      ",\n  \"target_modules\": [",
                      modules,
                      "],\n  \"task_type\": \"CAUSAL_LM\",\n  \"use_dora\": false,\n"
                      "  \"use_rslora\": false\n}\n");
}

}  // namespace tinker::engine
