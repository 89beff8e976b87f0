#include "render/golden_data.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

namespace tinker::testing {

namespace {

namespace fs = std::filesystem;

const fs::path kSource = TINKER_SOURCE_DIR;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path from_environment(const char* name, fs::path fallback) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return value != nullptr && *value != '\0' ? fs::path(value) : std::move(fallback);
}

std::vector<GoldenFile> read(std::initializer_list<fs::path> paths) {
  std::vector<GoldenFile> out;
  for (const auto& path : paths) {
    if (!fs::is_regular_file(path)) continue;
    auto document = wire::JsonDocument::parse(read_file(path));
    out.push_back({.path = path, .document = std::move(document).value()});
  }
  return out;
}

/// The control tokens of Inkling, whose text tokens are those of o200k_base.
TiktokenOptions inkling_options() {
  using Token = std::pair<std::string_view, std::int32_t>;
  constexpr std::array<Token, 19> kTokens = {{
      {"<|unused|>", 199998},
      {"<|endoftext|>", 199999},
      {"<|message_user|>", 200000},
      {"<|message_model|>", 200001},
      {"<|message_system|>", 200002},
      {"<|message_tool|>", 200003},
      {"<|content_text|>", 200004},
      {"<|content_image|>", 200005},
      {"<|content_model_end_sampling|>", 200006},
      {"<|content_thinking|>", 200008},
      {"<|end_message|>", 200010},
      {"<|content_audio_input|>", 200020},
      {"<|content_tool_error|>", 200022},
      {"<|audio|>", 200023},
      {"<|content_xml|>", 200024},
      {"<|begin_of_text|>", 200028},
      {"<|audio_end|>", 200043},
      {"<|content_invoke_tool_json|>", 200049},
      {"<|content_invoke_tool_text|>", 200057},
  }};
  auto out = TiktokenOptions::preset("o200k_base").value();
  out.special_tokens.clear();
  for (const auto& [content, id] : kTokens) {
    out.special_tokens.push_back({.content = std::string(content), .id = id});
  }
  for (std::int32_t id = 200000; id <= 200057; ++id) {
    const bool is_named = std::ranges::find(kTokens, id, &Token::second) != kTokens.end();
    if (!is_named)
      out.special_tokens.push_back({.content = "<|unused_" + std::to_string(id) + "|>", .id = id});
  }
  return out;
}

std::optional<Tokenizer> load_tokenizer(std::string_view model) {
  const auto folder = tokenizer_folder(model);
  if (!fs::is_directory(folder)) return std::nullopt;
  const auto ranks = folder / "o200k_base.tiktoken";
  if (model.starts_with("thinkingmachines/Inkling") && fs::exists(ranks)) {
    return Tokenizer::from_tiktoken(read_file(ranks), inkling_options()).value();
  }
  return Tokenizer::load(folder).value();
}

}  // namespace

std::vector<wire::JsonView> GoldenFile::entries_of(std::string_view renderer) const {
  std::vector<wire::JsonView> out;
  document.root().for_each_element([&](wire::JsonView entry) {
    if (entry.member("renderer").value().string() == renderer) out.push_back(entry);
    return true;
  });
  return out;
}

std::vector<std::string> GoldenFile::renderers() const {
  std::vector<std::string> out;
  document.root().for_each_element([&](wire::JsonView entry) {
    std::string name(entry.member("renderer").value().string());
    if (std::ranges::find(out, name) == out.end()) out.push_back(std::move(name));
    return true;
  });
  return out;
}

const std::vector<GoldenFile>& conversation_goldens() {
  static const auto files =
      read({from_environment("TINKER_RENDERER_GOLDENS",
                             kSource.parent_path() / "shared" / "data" / "renderer_goldens.json"),
            kSource / "tests" / "golden" / "render" / "sample.json"});
  return files;
}

const std::vector<GoldenFile>& response_goldens() {
  static const auto files = read({from_environment("TINKER_RENDERER_PARSES", {})});
  return files;
}

fs::path tokenizer_folder(std::string_view model) {
  const auto root = from_environment("TINKER_TOKENIZERS", kSource / "build" / "tokenizers");
  return root / "renderers" / model;
}

std::optional<Tokenizer> tokenizer_of(std::string_view model) {
  static std::map<std::string, std::optional<Tokenizer>, std::less<>> loaded;
  const auto known = loaded.find(model);
  if (known != loaded.end()) return known->second;
  return loaded.emplace(model, load_tokenizer(model)).first->second;
}

std::optional<std::int32_t> eos_token_of(std::string_view model, const Tokenizer& tokenizer) {
  if (model.starts_with("Qwen/")) return tokenizer.token_to_id("<|im_end|>");
  if (model.starts_with("meta-llama/")) return tokenizer.token_to_id("<|eot_id|>");
  return std::nullopt;
}

Json json_of(wire::JsonView view) {
  using Kind = wire::JsonView::Kind;
  switch (view.kind()) {
    case Kind::null: break;
    case Kind::boolean: return view.boolean();
    case Kind::integer: return view.integer();
    case Kind::large_integer: return view.large_integer();
    case Kind::number: return view.number();
    case Kind::string: return view.string();
    case Kind::array: {
      Json::Array out;
      view.for_each_element([&out](wire::JsonView element) {
        out.push_back(json_of(element));
        return true;
      });
      return out;
    }
    case Kind::object: {
      Json::Object out;
      view.for_each_member([&out](std::string_view name, wire::JsonView value) {
        out.emplace_back(name, json_of(value));
        return true;
      });
      return out;
    }
  }
  return nullptr;
}

}  // namespace tinker::testing
