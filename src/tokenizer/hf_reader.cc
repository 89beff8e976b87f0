#include "tokenizer/hf_reader.h"

#include <array>
#include <utility>

#include <simdjson.h>

#include "base/strings.h"
#include "formats/json_object.h"
#include "tokenizer/patterns.h"

namespace tinker::tokenizer {

namespace {

using formats::JsonObject;
using Element = simdjson::dom::element;

constexpr int kMaxDepth = 16;

Error refuse(std::string_view what) {
  return {.code = ErrorCode::invalid_argument, .message = base::concat("tokenizer.json: ", what)};
}

Error unsupported(std::string_view where, std::string_view type) {
  return refuse(base::concat(where, " of type '", type, "' is not supported"));
}

/// Builds a pipeline part by part.
class Reader {
 public:
  Result<Pipeline> read(Element root);

 private:
  Result<void> read_normalizer(Element element, int depth);
  Result<void> read_replace(const JsonObject& object);
  Result<void> read_pre_tokenizer(Element element, int depth);
  Result<void> read_split(const JsonObject& object);
  Result<void> read_byte_level(const JsonObject& object);
  Result<void> read_metaspace(const JsonObject& object);
  Result<void> add_split(std::string_view regex, Split::Options options);
  Result<void> read_model(const JsonObject& model);
  Result<Vocabulary> read_vocabulary(const JsonObject& model);
  Result<std::vector<Bpe::Merge>> read_merges(const JsonObject& model, const Vocabulary& tokens);
  Result<void> read_added_tokens(Element element);
  Result<void> read_post_processor(Element element, int depth);
  Result<void> read_template(const JsonObject& object);
  Result<void> read_decoder(Element element, int depth);
  /// A token as the model has it, the bytes of a byte-level one; false when it is none.
  [[nodiscard]] bool append_token(std::string_view token, std::string& out) const {
    if (is_byte_level_) return ByteAlphabet::instance().append_bytes(token, out);
    out += token;
    return true;
  }

  Pipeline out_;
  bool is_byte_level_ = false;
  bool has_split_ = false;  // nothing may change the text from here on
};

Result<void> Reader::read_normalizer(Element element, int depth) {
  if (element.is_null()) return {};
  if (depth > kMaxDepth) return refuse("normalizers nested too deeply");
  TINKER_TRY(const auto object, JsonObject::from(element, "normalizer"));
  TINKER_TRY(const auto type, object.string("type"));
  if (type == "Sequence") {
    return object.for_each("normalizers",
                           [&](Element part) { return read_normalizer(part, depth + 1); });
  }
  if (type == "NFC") {
    out_.normalizer.add(NormalForm::nfc);
  } else if (type == "NFD") {
    out_.normalizer.add(NormalForm::nfd);
  } else if (type == "Prepend") {
    TINKER_TRY(const auto content, object.string("prepend"));
    out_.normalizer.add(Prepend{.content = std::string(content)});
  } else if (type == "Replace") {
    return read_replace(object);
  } else if (type == "Strip") {
    TINKER_TRY(const bool left, object.boolean("strip_left"));
    TINKER_TRY(const bool right, object.boolean("strip_right"));
    out_.normalizer.add(Strip{.left = left, .right = right});
  } else {
    return unsupported("a normalizer", type);
  }
  return {};
}

Result<void> Reader::read_replace(const JsonObject& object) {
  TINKER_TRY(const auto pattern, object.object("pattern"));
  if (!pattern.has("String")) return refuse("a Replace of a regular expression is not supported");
  TINKER_TRY(const auto from, pattern.string("String"));
  TINKER_TRY(const auto to, object.string("content"));
  out_.normalizer.add(Replace{.from = std::string(from), .to = std::string(to)});
  return {};
}

Result<void> Reader::read_pre_tokenizer(Element element, int depth) {
  if (element.is_null()) return {};
  if (depth > kMaxDepth) return refuse("pre-tokenizers nested too deeply");
  TINKER_TRY(const auto object, JsonObject::from(element, "pre_tokenizer"));
  TINKER_TRY(const auto type, object.string("type"));
  if (is_byte_level_) return refuse("a pre-tokenizer after ByteLevel is not supported");
  if (type == "Sequence") {
    return object.for_each("pretokenizers",
                           [&](Element part) { return read_pre_tokenizer(part, depth + 1); });
  }
  if (type == "Split") return read_split(object);
  if (type == "ByteLevel") return read_byte_level(object);
  if (type == "Metaspace") return read_metaspace(object);
  if (type == "Digits") {
    TINKER_TRY(const bool is_individual, object.boolean("individual_digits"));
    using enum Split::Behavior;
    return add_split("\\p{N}", {.behavior = is_individual ? isolated : contiguous});
  }
  if (type == "WhitespaceSplit") return add_split("\\s", {.behavior = Split::Behavior::removed});
  return unsupported("a pre-tokenizer", type);
}

Result<void> Reader::add_split(std::string_view regex, Split::Options options) {
  TINKER_TRY(auto pattern, Pattern::compile(regex, Dialect::oniguruma));
  out_.pre_tokenizer.add(Split(std::move(pattern), options));
  has_split_ = true;
  return {};
}

Result<void> Reader::read_split(const JsonObject& object) {
  using enum Split::Behavior;
  constexpr std::array<std::pair<std::string_view, Split::Behavior>, 5> kBehaviors = {{
      {"Isolated", isolated},
      {"Removed", removed},
      {"MergedWithPrevious", merged_with_previous},
      {"MergedWithNext", merged_with_next},
      {"Contiguous", contiguous},
  }};
  Split::Options options;
  TINKER_TRY(const auto name, object.string("behavior"));
  const auto* const behavior =
      std::ranges::find(kBehaviors, name, [](const auto& known) { return known.first; });
  if (behavior == kBehaviors.end()) return refuse(base::concat("no behavior '", name, "'"));
  options.behavior = behavior->second;
  TINKER_TRY(options.is_inverted, object.boolean("invert"));
  TINKER_TRY(const auto pattern, object.object("pattern"));
  if (pattern.has("Regex")) {
    TINKER_TRY(const auto regex, pattern.string("Regex"));
    return add_split(regex, options);
  }
  TINKER_TRY(const auto literal, pattern.string("String"));
  if (literal.empty()) return refuse("a Split at an empty string");
  out_.pre_tokenizer.add(Split(std::string(literal), options));
  has_split_ = true;
  return {};
}

Result<void> Reader::read_byte_level(const JsonObject& object) {
  TINKER_TRY(const bool adds_space, object.boolean("add_prefix_space"));
  TINKER_TRY(const bool uses_regex, object.boolean("use_regex", true));
  if (adds_space && has_split_) {
    return refuse("ByteLevel with add_prefix_space after a split is not supported");
  }
  if (adds_space) out_.normalizer.add(PrefixSpace());
  if (uses_regex) {
    TINKER_TRY(add_split(patterns::kGpt2, {}));
  }
  is_byte_level_ = true;
  return {};
}

Result<void> Reader::read_metaspace(const JsonObject& object) {
  if (has_split_) return refuse("Metaspace after a split is not supported");
  TINKER_TRY(const auto replacement, object.string("replacement"));
  TINKER_TRY(const auto scheme, object.string("prepend_scheme", "always"));
  TINKER_TRY(const bool is_split, object.boolean("split", true));
  Metaspace step = {.replacement = std::string(replacement)};
  if (scheme == "first") {
    step.scheme = Metaspace::Scheme::first;
  } else if (scheme == "never") {
    step.scheme = Metaspace::Scheme::never;
  } else if (scheme != "always") {
    return refuse(base::concat("no prepend_scheme '", scheme, "'"));
  }
  if (replacement.empty()) return refuse("a Metaspace with an empty replacement");
  out_.normalizer.add(step);
  if (!is_split) return {};
  out_.pre_tokenizer.add(
      Split(std::string(replacement), {.behavior = Split::Behavior::merged_with_next}));
  has_split_ = true;
  return {};
}

Result<Vocabulary> Reader::read_vocabulary(const JsonObject& model) {
  TINKER_TRY(const auto vocabulary, model.object("vocab"));
  Vocabulary out;
  out.reserve(vocabulary.size(), 8 * vocabulary.size());
  std::string bytes;
  TINKER_TRY(vocabulary.for_each_member([&](std::string_view token, Element value) -> Result<void> {
    std::int64_t id = 0;
    if (value.get_int64().get(id) != simdjson::SUCCESS || id < 0 || id > kMaxTokenId) {
      return refuse(base::concat("the id of token '", token, "' is not one"));
    }
    bytes.clear();
    if (append_token(token, bytes)) return out.add(bytes, static_cast<TokenId>(id));
    return out.add_hidden(token, static_cast<TokenId>(id));
  }));
  return out;
}

Result<std::vector<Bpe::Merge>> Reader::read_merges(const JsonObject& model,
                                                    const Vocabulary& tokens) {
  std::vector<Bpe::Merge> merges;
  std::string bytes;
  const auto merge_of = [&](std::string_view left,
                            std::string_view right) -> std::optional<Bpe::Merge> {
    bytes.clear();
    if (!append_token(left, bytes)) return std::nullopt;
    const std::size_t cut = bytes.size();
    if (!append_token(right, bytes)) return std::nullopt;
    const auto first = tokens.find(std::string_view(bytes).substr(0, cut));
    const auto second = tokens.find(std::string_view(bytes).substr(cut));
    const auto whole = tokens.find(bytes);
    if (!first || !second || !whole) return std::nullopt;
    return Bpe::Merge{.left = *first, .right = *second, .whole = *whole};
  };
  TINKER_TRY(model.for_each("merges", [&](Element element) -> Result<void> {
    std::string_view left;
    std::string_view right;
    simdjson::dom::array pair;
    if (element.get_string().get(left) == simdjson::SUCCESS) {
      const std::size_t space = left.find(' ');
      if (space == std::string_view::npos) return refuse(base::concat("no merge: '", left, "'"));
      right = left.substr(space + 1);
      left = left.substr(0, space);
    } else if (element.get_array().get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
               pair.at(0).get_string().get(left) != simdjson::SUCCESS ||
               pair.at(1).get_string().get(right) != simdjson::SUCCESS) {
      return refuse(base::concat("merge ", merges.size(), " is no pair of tokens"));
    }
    const auto merge = merge_of(left, right);
    if (!merge) {
      return refuse(base::concat(
          "merge ", merges.size(), " ('", left, "', '", right, "') is of what are no tokens"));
    }
    merges.push_back(*merge);
    return {};
  }));
  return merges;
}

Result<void> Reader::read_model(const JsonObject& model) {
  TINKER_TRY(const auto type, model.string("type", "BPE"));
  if (type != "BPE") return unsupported("a model", type);
  for (const auto* const name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    TINKER_TRY(const auto affix, model.string(name, ""));
    if (!affix.empty()) return refuse(base::concat(name, " '", affix, "' is not supported"));
  }
  if (model.has("dropout")) return refuse("dropout is not supported");
  Bpe::Options options = {.is_byte_level = is_byte_level_};
  TINKER_TRY(options.ignore_merges, model.boolean("ignore_merges", false));
  TINKER_TRY(options.byte_fallback, model.boolean("byte_fallback", false));
  TINKER_TRY(options.fuse_unknown, model.boolean("fuse_unk", false));
  if (is_byte_level_ && options.byte_fallback) {
    return refuse("byte_fallback with ByteLevel is not supported");
  }
  TINKER_TRY(auto vocabulary, read_vocabulary(model));
  TINKER_TRY(const auto unknown, model.string("unk_token", ""));
  if (!unknown.empty()) {
    std::string bytes;
    if (append_token(unknown, bytes)) options.unknown = vocabulary.find(bytes);
    if (!options.unknown) return refuse(base::concat("unk_token '", unknown, "' is no token"));
  }
  TINKER_TRY(const auto merges, read_merges(model, vocabulary));
  out_.model = std::make_unique<Bpe>(std::move(vocabulary), merges, options);
  return {};
}

Result<void> Reader::read_added_tokens(Element element) {
  TINKER_TRY(const auto object, JsonObject::from(element, "added_tokens"));
  AddedToken token;
  TINKER_TRY(const auto content, object.string("content"));
  TINKER_TRY(const auto id, object.integer("id"));
  if (id < 0 || id > kMaxTokenId) return refuse(base::concat("added token id ", id));
  TINKER_TRY(const bool is_single_word, object.boolean("single_word", false));
  if (is_single_word) {
    return refuse(base::concat("single_word of token '", content, "' is not supported"));
  }
  token.content = std::string(content);
  token.id = static_cast<TokenId>(id);
  TINKER_TRY(token.is_special, object.boolean("special", false));
  TINKER_TRY(token.is_normalized, object.boolean("normalized", !token.is_special));
  TINKER_TRY(token.strips_left, object.boolean("lstrip", false));
  TINKER_TRY(token.strips_right, object.boolean("rstrip", false));
  if (token.is_normalized) {
    // It is looked for as the normaliser would leave it, and known by what it was.
    AlignedText aligned(token.content, 0, false);
    out_.normalizer.apply(aligned, false);
    if (aligned.text() != token.content) {
      return refuse(base::concat("token '", content, "' changes when it is normalized"));
    }
  }
  out_.add_token(std::move(token));
  return {};
}

Result<void> Reader::read_post_processor(Element element, int depth) {
  if (element.is_null()) return {};
  if (depth > kMaxDepth) return refuse("post-processors nested too deeply");
  TINKER_TRY(const auto object, JsonObject::from(element, "post_processor"));
  TINKER_TRY(const auto type, object.string("type"));
  if (type == "Sequence") {
    return object.for_each("processors",
                           [&](Element part) { return read_post_processor(part, depth + 1); });
  }
  if (type == "ByteLevel") return {};  // concerns offsets; ours are of all that a token stands for
  if (type == "TemplateProcessing") return read_template(object);
  return unsupported("a post-processor", type);
}

Result<void> Reader::read_template(const JsonObject& object) {
  TINKER_TRY(const auto specials, object.object("special_tokens"));
  bool is_before = true;
  if (!out_.before.empty() || !out_.after.empty()) return refuse("two templates");
  TINKER_TRY(object.for_each("single", [&](Element element) -> Result<void> {
    TINKER_TRY(const auto part, JsonObject::from(element, "a part of the template"));
    if (part.has("Sequence")) {
      if (!is_before) return refuse("a template with two sequences for one text");
      is_before = false;
      return {};
    }
    TINKER_TRY(const auto token, part.object("SpecialToken"));
    TINKER_TRY(const auto name, token.string("id"));
    TINKER_TRY(const auto special, specials.object(name));
    return special.for_each("ids", [&](Element id_element) -> Result<void> {
      std::int64_t id = 0;
      if (id_element.get_int64().get(id) != simdjson::SUCCESS || id < 0 || id > kMaxTokenId) {
        return refuse(base::concat("special token '", name, "' has no id"));
      }
      (is_before ? out_.before : out_.after).push_back(static_cast<TokenId>(id));
      return {};
    });
  }));
  if (is_before) return refuse("a template without a sequence");
  return {};
}

Result<void> Reader::read_decoder(Element element, int depth) {
  if (element.is_null()) return {};
  if (depth > kMaxDepth) return refuse("decoders nested too deeply");
  TINKER_TRY(const auto object, JsonObject::from(element, "decoder"));
  TINKER_TRY(const auto type, object.string("type"));
  if (type == "Sequence") {
    return object.for_each("decoders", [&](Element part) { return read_decoder(part, depth + 1); });
  }
  if (type == "ByteLevel") {
    if (!is_byte_level_) return refuse("a ByteLevel decoder without its pre-tokenizer");
    out_.decoder.add(Decoder::Bytes());
  } else if (type == "ByteFallback") {
    out_.decoder.add(Decoder::ByteFallback());
  } else if (type == "Fuse") {
    out_.decoder.add(Decoder::Fuse());
  } else if (type == "Replace") {
    TINKER_TRY(const auto pattern, object.object("pattern"));
    if (!pattern.has("String")) return refuse("a Replace of a regular expression is not supported");
    TINKER_TRY(const auto from, pattern.string("String"));
    TINKER_TRY(const auto to, object.string("content"));
    if (from.empty()) return refuse("a Replace of an empty string");
    out_.decoder.add(Decoder::ReplaceIn{.from = std::string(from), .to = std::string(to)});
  } else if (type == "Strip") {
    TINKER_TRY(const auto content, object.string("content"));
    TINKER_TRY(const auto left, object.integer("start"));
    TINKER_TRY(const auto right, object.integer("stop"));
    if (content.empty() || left < 0 || right < 0) return refuse("a Strip of nothing");
    const auto character = content.substr(0, decode_at(content, 0).size);
    out_.decoder.add(Decoder::StripFrom{.character = std::string(character),
                                        .left = static_cast<std::size_t>(left),
                                        .right = static_cast<std::size_t>(right)});
  } else if (type == "Metaspace") {
    TINKER_TRY(const auto replacement, object.string("replacement"));
    TINKER_TRY(const auto scheme, object.string("prepend_scheme", "always"));
    if (replacement.empty()) return refuse("a Metaspace with an empty replacement");
    out_.decoder.add(Decoder::MetaspaceBack{.replacement = std::string(replacement),
                                            .strips_first = scheme != "never"});
  } else {
    return unsupported("a decoder", type);
  }
  return {};
}

Result<Pipeline> Reader::read(Element root) {
  TINKER_TRY(const auto object, JsonObject::from(root, "the file"));
  for (const auto* const name : {"truncation", "padding"}) {
    if (object.has(name)) return refuse(base::concat(name, " is not supported"));
  }
  TINKER_TRY(read_normalizer(object.element("normalizer"), 0));
  TINKER_TRY(read_pre_tokenizer(object.element("pre_tokenizer"), 0));
  TINKER_TRY(const auto model, object.object("model"));
  TINKER_TRY(read_model(model));
  if (object.has("added_tokens")) {
    TINKER_TRY(object.for_each("added_tokens",
                               [this](Element token) { return read_added_tokens(token); }));
  }
  TINKER_TRY(read_post_processor(object.element("post_processor"), 0));
  TINKER_TRY(read_decoder(object.element("decoder"), 0));
  return std::move(out_);
}

}  // namespace

Result<Pipeline> read_tokenizer_json(std::string_view json) {
  simdjson::dom::parser parser;
  Element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root)) {
    return refuse(simdjson::error_message(error));
  }
  return Reader().read(root);
}

}  // namespace tinker::tokenizer
