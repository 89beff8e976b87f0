#include "tokenizer/kimi_reader.h"

#include <charconv>
#include <map>
#include <utility>

#include <simdjson.h>

#include "base/strings.h"
#include "formats/json_object.h"
#include "tokenizer/patterns.h"
#include "tokenizer/tiktoken_reader.h"

namespace tinker::tokenizer {

namespace {

using formats::JsonObject;
using Element = simdjson::dom::element;
using Special = TiktokenOptions::Special;

constexpr std::size_t kSpecialTokens = 256;  // behind the ranks, named or not

Error refuse(std::string_view what) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("tokenizer_config.json: ", what)};
}

/// The class that reads the file in Python, "FILE.CLASS": alone, or first of a list.
Result<std::string_view> class_of(const JsonObject& config) {
  if (!config.has("auto_map")) return config.string("tokenizer_class", "(none)");
  TINKER_TRY(const auto map, config.object("auto_map"));
  std::string_view name;
  if (map.element("AutoTokenizer").at(0).get_string().get(name) == simdjson::SUCCESS) return name;
  return map.string("AutoTokenizer", "(none)");
}

Result<std::map<std::size_t, Special>> read_named(const JsonObject& config) {
  std::map<std::size_t, Special> out;
  TINKER_TRY(const auto tokens, config.object("added_tokens_decoder"));
  TINKER_TRY(tokens.for_each_member([&](std::string_view key, Element element) -> Result<void> {
    std::size_t id = 0;
    const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || stop != key.data() + key.size() || id > kMaxTokenId) {
      return refuse(base::concat("'", key, "' is no token id"));
    }
    TINKER_TRY(const auto token, JsonObject::from(element, key));
    TINKER_TRY(const auto content, token.string("content"));
    TINKER_TRY(const bool is_special, token.boolean("special", false));
    out[id] = {
        .content = std::string(content), .id = static_cast<TokenId>(id), .is_shown = !is_special};
    return {};
  }));
  return out;
}

Result<TiktokenOptions> read_config(std::string_view json, std::size_t ranks) {
  simdjson::dom::parser parser;
  Element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root)) {
    return refuse(simdjson::error_message(error));
  }
  TINKER_TRY(const auto config, JsonObject::from(root, "tokenizer_config.json"));
  TINKER_TRY(const auto name, class_of(config));
  // A model that borrows it writes its owner in front: "moonshotai/Kimi-K2-Instruct--FILE.CLASS".
  if (!name.ends_with("tokenization_kimi.TikTokenTokenizer")) {
    return refuse(base::concat("the tokenizer '", name, "' is not supported"));
  }
  TINKER_TRY(auto named, read_named(config));
  TiktokenOptions out = {.pattern = std::string(patterns::kKimi)};
  for (std::size_t id = ranks; id < ranks + kSpecialTokens; ++id) {
    if (auto found = named.extract(id); !found.empty()) {
      out.special_tokens.push_back(std::move(found.mapped()));
    } else {
      out.special_tokens.push_back(
          {.content = base::concat("<|reserved_token_", id, "|>"), .id = static_cast<TokenId>(id)});
    }
  }
  if (!named.empty()) {
    return refuse(base::concat("token '",
                               named.begin()->second.content,
                               "' has id ",
                               named.begin()->first,
                               ", which is not among the ",
                               kSpecialTokens,
                               " behind the ranks"));
  }
  return out;
}

}  // namespace

Result<Pipeline> read_kimi(std::string_view ranks, std::string_view config) {
  TINKER_TRY(auto vocabulary, read_ranks(ranks));
  TINKER_TRY(const auto options, read_config(config, vocabulary.size()));
  return tiktoken_pipeline(std::move(vocabulary), options);
}

}  // namespace tinker::tokenizer
