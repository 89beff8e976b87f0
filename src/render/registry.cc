// The renderers by name, and the models they are for: the tables of the official cookbook 0.5.8.
#include "render/registry.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>

#include "base/strings.h"
#include "render/formats.h"

namespace tinker::render {

namespace {

using base::concat;

struct FormatRow {
  std::string_view name;
  Format (*make)(Tokenizer tokenizer, const RendererOptions& options);
};

// Rows of formats without options of the user's.
template <auto kMake, auto... kVariant>
Format variant(Tokenizer tokenizer, const RendererOptions& /*options*/) {
  return kMake(std::move(tokenizer), kVariant...);
}
template <GptOss kVariant>
Format gpt_oss(Tokenizer tokenizer, const RendererOptions& options) {
  return make_gpt_oss(std::move(tokenizer), kVariant, options);
}

// NOLINTBEGIN(modernize-use-designated-initializers): the columns of two tables.
constexpr std::array kFormats = {
    FormatRow{"role_colon", make_role_colon},
    FormatRow{"llama3", variant<make_llama3>},
    FormatRow{"qwen3", variant<make_qwen3, Qwen3::thinking>},
    FormatRow{"qwen3_disable_thinking", variant<make_qwen3, Qwen3::no_thinking>},
    FormatRow{"qwen3_instruct", variant<make_qwen3, Qwen3::instruct>},
    FormatRow{"qwen3_vl", variant<make_qwen3_vl, Qwen3Vl::thinking>},
    FormatRow{"qwen3_vl_instruct", variant<make_qwen3_vl, Qwen3Vl::instruct>},
    FormatRow{"qwen3_5", variant<make_qwen3_5, Qwen35::strips_thinking>},
    FormatRow{"qwen3_5_disable_thinking", variant<make_qwen3_5, Qwen35::no_thinking>},
    FormatRow{"qwen3_5_preserve_thinking", variant<make_qwen3_5, Qwen35::keeps_thinking>},
    FormatRow{"qwen3_8_xhigh_reasoning", variant<make_qwen3_8, Qwen38::xhigh>},
    FormatRow{"qwen3_8_medium_reasoning", variant<make_qwen3_8, Qwen38::medium>},
    FormatRow{"qwen3_8_low_reasoning", variant<make_qwen3_8, Qwen38::low>},
    FormatRow{"qwen3_8_disable_thinking", variant<make_qwen3_8, Qwen38::no_thinking>},
    FormatRow{"deepseekv3", variant<make_deepseek_v3, DeepSeekV3::no_thinking>},
    FormatRow{"deepseekv3_disable_thinking", variant<make_deepseek_v3, DeepSeekV3::no_thinking>},
    FormatRow{"deepseekv3_thinking", variant<make_deepseek_v3, DeepSeekV3::thinking>},
    FormatRow{"deepseekv4_1", variant<make_deepseek_v4_1, DeepSeekV41::high>},
    FormatRow{"deepseekv4_1_low_reasoning", variant<make_deepseek_v4_1, DeepSeekV41::low>},
    FormatRow{"deepseekv4_1_max_reasoning", variant<make_deepseek_v4_1, DeepSeekV41::max>},
    FormatRow{"deepseekv4_1_disable_thinking",
              variant<make_deepseek_v4_1, DeepSeekV41::no_thinking>},
    FormatRow{"deepseekv4_1_preserve_thinking",
              variant<make_deepseek_v4_1, DeepSeekV41::keeps_thinking>},
    FormatRow{"glm5_3_max_reasoning", variant<make_glm5_3, Glm53::max>},
    FormatRow{"glm5_3_low_reasoning", variant<make_glm5_3, Glm53::low>},
    FormatRow{"glm5_3_high_reasoning", variant<make_glm5_3, Glm53::high>},
    FormatRow{"kimi_k2", variant<make_kimi, Kimi::k2>},
    FormatRow{"kimi_k25", variant<make_kimi, Kimi::k25>},
    FormatRow{"kimi_k25_disable_thinking", variant<make_kimi, Kimi::k25_no_thinking>},
    FormatRow{"kimi_k26", variant<make_kimi, Kimi::k25>},
    FormatRow{"kimi_k26_disable_thinking", variant<make_kimi, Kimi::k25_no_thinking>},
    FormatRow{"kimi_k26_preserve_thinking", variant<make_kimi, Kimi::k26_keeps_thinking>},
    FormatRow{"nemotron3", variant<make_nemotron3, Nemotron3::thinking, false>},
    FormatRow{"nemotron3_low_thinking", variant<make_nemotron3, Nemotron3::low, false>},
    FormatRow{"nemotron3_disable_thinking", variant<make_nemotron3, Nemotron3::no_thinking, false>},
    FormatRow{"nemotron3_preserve_thinking",
              variant<make_nemotron3, Nemotron3::keeps_thinking, false>},
    FormatRow{"nemotron3_ultra", variant<make_nemotron3, Nemotron3::thinking, true>},
    FormatRow{"nemotron3_ultra_disable_thinking",
              variant<make_nemotron3, Nemotron3::no_thinking, true>},
    FormatRow{"nemotron3_ultra_medium_thinking", variant<make_nemotron3, Nemotron3::medium, true>},
    FormatRow{"nemotron3_ultra_preserve_thinking",
              variant<make_nemotron3, Nemotron3::keeps_thinking, true>},
    FormatRow{"gpt_oss_no_sysprompt", gpt_oss<GptOss::no_system_prompt>},
    FormatRow{"gpt_oss_low_reasoning", gpt_oss<GptOss::low>},
    FormatRow{"gpt_oss_medium_reasoning", gpt_oss<GptOss::medium>},
    FormatRow{"gpt_oss_high_reasoning", gpt_oss<GptOss::high>},
    FormatRow{"tml_v0", make_tml_v0},
};

/// Models that share their renderers; the recommended one first. Names are separated by spaces.
struct ModelRow {
  std::string_view organisation;
  std::string_view models;
  std::string_view renderers;
};

constexpr std::array kModels = {
    ModelRow{"meta-llama", "Llama-3.1-8B-Instruct Llama-3.3-70B-Instruct", "llama3"},
    ModelRow{"meta-llama", "Llama-3.2-1B Llama-3.2-3B Llama-3.1-8B Llama-3.1-70B", "role_colon"},
    ModelRow{"Qwen", "Qwen3-VL-30B-A3B-Instruct Qwen3-VL-235B-A22B-Instruct", "qwen3_vl_instruct"},
    ModelRow{"Qwen",
             "Qwen3-8B-Base Qwen3-30B-A3B-Base Qwen3.5-9B-Base Qwen3.5-35B-A3B-Base",
             "role_colon"},
    ModelRow{"Qwen", "Qwen3-8B Qwen3-32B Qwen3-30B-A3B", "qwen3 qwen3_disable_thinking"},
    ModelRow{"Qwen",
             "Qwen3-4B-Instruct-2507 Qwen3-30B-A3B-Instruct-2507 Qwen3-235B-A22B-Instruct-2507",
             "qwen3_instruct"},
    ModelRow{"Qwen",
             "Qwen3.5-4B Qwen3.5-9B Qwen3.5-27B Qwen3.5-35B-A3B Qwen3.5-397B-A17B Qwen3.6-27B "
             "Qwen3.6-35B-A3B",
             "qwen3_5 qwen3_5_disable_thinking qwen3_5_preserve_thinking"},
    ModelRow{"Qwen",
             "Qwen3.8-27B",
             "qwen3_8_xhigh_reasoning qwen3_8_disable_thinking qwen3_8_medium_reasoning "
             "qwen3_8_low_reasoning"},
    ModelRow{"deepseek-ai", "DeepSeek-V3.1", "deepseekv3 deepseekv3_thinking"},
    ModelRow{"deepseek-ai", "DeepSeek-V3.1-Base", "role_colon"},
    ModelRow{"deepseek-ai",
             "DeepSeek-V4.1-Flash DeepSeek-V4.1-Flash-1017",
             "deepseekv4_1 deepseekv4_1_low_reasoning deepseekv4_1_max_reasoning "
             "deepseekv4_1_disable_thinking deepseekv4_1_preserve_thinking"},
    ModelRow{"openai", "gpt-oss-20b gpt-oss-120b", "gpt_oss_no_sysprompt gpt_oss_medium_reasoning"},
    ModelRow{"moonshotai", "Kimi-K2-Thinking", "kimi_k2"},
    ModelRow{"moonshotai", "Kimi-K2.5", "kimi_k25 kimi_k25_disable_thinking"},
    ModelRow{
        "moonshotai", "Kimi-K2.6", "kimi_k26 kimi_k26_disable_thinking kimi_k26_preserve_thinking"},
    ModelRow{"zai-org",
             "GLM-5.3 GLM-5.3-Flash",
             "glm5_3_max_reasoning glm5_3_low_reasoning glm5_3_high_reasoning"},
    ModelRow{"nvidia",
             "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
             "nemotron3 nemotron3_disable_thinking nemotron3_preserve_thinking"},
    ModelRow{"nvidia",
             "NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
             "nemotron3 nemotron3_disable_thinking nemotron3_preserve_thinking "
             "nemotron3_low_thinking"},
    ModelRow{"nvidia",
             "NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16 NVIDIA-Nemotron-3.5-Super-VL-120B-A12B-BF16",
             "nemotron3_ultra nemotron3_ultra_disable_thinking nemotron3_ultra_medium_thinking "
             "nemotron3_ultra_preserve_thinking"},
    ModelRow{"nvidia",
             "NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16",
             "nemotron3_ultra nemotron3_ultra_disable_thinking nemotron3_ultra_preserve_thinking"},
    ModelRow{"thinkingmachines", "Inkling Inkling-Small", "tml_v0"},
};
// NOLINTEND(modernize-use-designated-initializers)

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string joined(std::span<const std::string_view> words) {
  std::string out;
  for (const auto word : words) out += concat(out.empty() ? "" : ", ", word);
  return out;
}

}  // namespace

Result<void> require_tokens(const Tokenizer& tokenizer,
                            std::initializer_list<std::string_view> tokens) {
  for (const auto token : tokens) {
    if (tokenizer.token_to_id(token)) continue;
    return Error::invalid_argument(
        concat("the tokenizer has no token '", token, "': it is of another model"));
  }
  return {};
}

Result<void> require_plain_tokens(const Tokenizer& tokenizer,
                                  std::initializer_list<std::string_view> tokens) {
  for (const auto token : tokens) {
    const auto ids = tokenizer.encode(token, {.add_special_tokens = false, .parse_special = false});
    if (ids.size() == 1) continue;
    return Error::invalid_argument(concat("the tokenizer does not write '",
                                          token,
                                          "' in a text as one token: it is of another model"));
  }
  return {};
}

Format make_format(std::string_view name, Tokenizer tokenizer, const RendererOptions& options) {
  const auto* const row = std::ranges::find(kFormats, name, &FormatRow::name);
  if (row == kFormats.end()) {
    return Error::invalid_argument(
        concat("there is no renderer '", name, "'; there are ", joined(renderer_names())));
  }
  auto format = row->make(std::move(tokenizer), options);
  if (!format.ok()) return std::move(format).error().with_context(concat("renderer '", name, "'"));
  return format;
}

}  // namespace tinker::render

namespace tinker {

std::vector<std::string_view> renderer_names() {
  std::vector<std::string_view> out;
  out.reserve(render::kFormats.size());
  for (const auto& row : render::kFormats) out.push_back(row.name);
  return out;
}

Result<std::vector<std::string_view>> renderers_of(std::string_view model) {
  const std::string_view id = model.substr(0, model.find(':'));
  const auto slash = id.find('/');
  const auto organisation = id.substr(0, slash);
  const auto name = slash == std::string_view::npos ? std::string_view() : id.substr(slash + 1);
  for (const auto& row : render::kModels) {
    if (row.organisation != organisation) continue;
    const auto models = render::words_of(row.models);
    const bool is_any_of_family = organisation == "thinkingmachines" && name.starts_with("Inkling");
    if (is_any_of_family || std::ranges::find(models, name) != models.end()) {
      return render::words_of(row.renderers);
    }
  }
  return Error{.code = ErrorCode::not_found,
               .message = base::concat("no renderer is known for the model '",
                                       model,
                                       "'; Renderer::create takes one by its name, "
                                       "Renderer::from_folder uses the model's own template")};
}

}  // namespace tinker
