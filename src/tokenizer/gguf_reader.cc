#include "tokenizer/gguf_reader.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/strings.h"
#include "formats/gguf.h"
#include "tokenizer/patterns.h"
#include "tokenizer/tiktoken_reader.h"

namespace tinker::tokenizer {

namespace {

using formats::Gguf;

// llama.cpp's numbers for what a token is.
enum class TokenType : std::int64_t { normal = 1, unknown, control, user_defined, unused, byte };

Error refuse(std::string_view what) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("vocabulary of the GGUF file: ", what)};
}

Error missing(std::string_view key) {
  return refuse(base::concat("'", key, "' is missing or of another type"));
}

/// How a family cuts text, by the name that llama.cpp gives it; as its `tokenizer.json` says.
struct Family {
  std::string_view name;
  std::vector<std::string_view> splits;
  bool is_composed = false;  // NFC comes first
  bool ignore_merges = false;
};

const Family* find_family(std::string_view name) {
  static const std::array<Family, 10> families = {{
      {.name = "gpt-2", .splits = {patterns::kGpt2}},
      {.name = "smollm", .splits = {patterns::kDigit, patterns::kGpt2}},
      {.name = "starcoder", .splits = {patterns::kDigit, patterns::kGpt2}},
      {.name = "refact", .splits = {patterns::kDigit, patterns::kGpt2}},
      {.name = "qwen2", .splits = {patterns::kQwen2}, .is_composed = true},
      {.name = "llama-bpe", .splits = {patterns::kLlama3}, .ignore_merges = true},
      {.name = "llama3", .splits = {patterns::kLlama3}, .ignore_merges = true},
      {.name = "deepseek-v3",
       .splits = {patterns::kDigits3, patterns::kHanKana, patterns::kDeepSeek}},
      {.name = "gpt-4o", .splits = {patterns::kO200k}},
      {.name = "tekken", .splits = {patterns::kTekken}, .ignore_merges = true},
  }};
  const auto* const found = std::ranges::find(families, name, &Family::name);
  return found == families.end() ? nullptr : found;
}

class Reader {
 public:
  explicit Reader(const Gguf& file) : file_(file) {}

  Result<Pipeline> read() {
    const auto model = file_.string("tokenizer.ggml.model");
    if (!model) return missing("tokenizer.ggml.model");
    TINKER_TRY(read_tokens());
    if (*model == "gpt2") {
      TINKER_TRY(read_byte_level());
    } else if (*model == "llama") {
      TINKER_TRY(read_sentence_piece());
    } else {
      return refuse(base::concat("a model of type '", *model, "' is not supported"));
    }
    add_tokens();
    TINKER_TRY(read_ends());
    return std::move(out_);
  }

 private:
  Result<void> read_tokens();
  Result<void> read_byte_level();
  Result<void> read_sentence_piece();
  Result<std::vector<Bpe::Merge>> read_merges(const Vocabulary& vocabulary) const;
  void add_tokens();
  Result<void> read_ends();
  [[nodiscard]] bool is(std::size_t id, TokenType type) const {
    return types_[id] == static_cast<std::int64_t>(type);
  }
  /// Whether it is found in text as it stands.
  [[nodiscard]] bool is_added(std::size_t id) const {
    return is(id, TokenType::control) || is(id, TokenType::user_defined);
  }

  const Gguf& file_;
  std::vector<std::string_view> tokens_;
  std::vector<std::int64_t> types_;
  Pipeline out_;
};

Result<void> Reader::read_tokens() {
  auto tokens = file_.strings("tokenizer.ggml.tokens");
  if (!tokens || tokens->empty()) return missing("tokenizer.ggml.tokens");
  tokens_ = *std::move(tokens);
  types_.assign(tokens_.size(), static_cast<std::int64_t>(TokenType::normal));
  if (!file_.has("tokenizer.ggml.token_type")) return {};
  auto types = file_.integers("tokenizer.ggml.token_type");
  if (!types) return missing("tokenizer.ggml.token_type");
  if (types->size() != tokens_.size()) {
    return refuse(base::concat(tokens_.size(), " tokens, but ", types->size(), " token types"));
  }
  types_ = *std::move(types);
  return {};
}

Result<std::vector<Bpe::Merge>> Reader::read_merges(const Vocabulary& vocabulary) const {
  const auto texts = file_.strings("tokenizer.ggml.merges");
  if (!texts) return missing("tokenizer.ggml.merges");
  const auto& alphabet = ByteAlphabet::instance();
  std::vector<Bpe::Merge> merges;
  for (const auto text : *texts) {
    const std::size_t space = std::min(text.find(' ', 1), text.size());
    const auto left = alphabet.to_bytes(text.substr(0, space));
    const auto right = alphabet.to_bytes(text.substr(std::min(space + 1, text.size())));
    const auto first = left ? vocabulary.find(*left) : std::nullopt;
    const auto second = right ? vocabulary.find(*right) : std::nullopt;
    const auto whole = first && second ? vocabulary.find(*left + *right) : std::nullopt;
    if (!whole) {
      return refuse(
          base::concat("merge ", merges.size(), " ('", text, "') is of what are no tokens"));
    }
    merges.push_back({.left = *first, .right = *second, .whole = *whole});
  }
  return merges;
}

Result<void> Reader::read_byte_level() {
  const auto name = file_.string("tokenizer.ggml.pre").value_or("(none)");
  const Family* const family = find_family(name);
  if (family == nullptr)
    return refuse(base::concat("the pre-tokenizer '", name, "' is not supported"));
  Vocabulary vocabulary;
  vocabulary.reserve(tokens_.size(), 8 * tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    const auto bytes = ByteAlphabet::instance().to_bytes(tokens_[id]);
    const bool is_findable = bytes && !is_added(id);
    const auto number = static_cast<TokenId>(id);
    TINKER_TRY(is_findable ? vocabulary.add(*bytes, number)
                           : vocabulary.add_hidden(tokens_[id], number));
  }
  TINKER_TRY(const auto merges, read_merges(vocabulary));
  out_.model = std::make_unique<Bpe>(
      std::move(vocabulary),
      merges,
      Bpe::Options{.is_byte_level = true, .ignore_merges = family->ignore_merges});
  if (family->is_composed) out_.normalizer.add(NormalForm::nfc);
  for (const auto split : family->splits) {
    TINKER_TRY(auto pattern, Pattern::compile(split, Dialect::oniguruma));
    out_.pre_tokenizer.add(Split(std::move(pattern), {}));
  }
  out_.decoder.add(Decoder::Bytes());
  return {};
}

/// Pairs merge that make a token, the one with the best score first.
Result<void> Reader::read_sentence_piece() {
  const auto scores = file_.numbers("tokenizer.ggml.scores");
  if (!scores || scores->size() != tokens_.size()) return missing("tokenizer.ggml.scores");
  Vocabulary vocabulary;
  vocabulary.reserve(tokens_.size(), 8 * tokens_.size());
  Bpe::Options options = {.byte_fallback = true, .fuse_unknown = true};
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    const auto number = static_cast<TokenId>(id);
    TINKER_TRY(is_added(id) ? vocabulary.add_hidden(tokens_[id], number)
                            : vocabulary.add(tokens_[id], number));
    if (is(id, TokenType::unknown)) options.unknown = number;
  }
  auto merges = merges_of(vocabulary);
  std::ranges::sort(merges, {}, [&](const Bpe::Merge& merge) {
    return std::tuple(-(*scores)[static_cast<std::size_t>(merge.whole)], merge.whole, merge.left);
  });
  out_.model = std::make_unique<Bpe>(std::move(vocabulary), merges, options);
  const bool has_prefix = file_.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  if (has_prefix) out_.normalizer.add(Prepend{.content = "▁"});
  out_.normalizer.add(Replace{.from = " ", .to = "▁"});
  out_.decoder.add(Decoder::ReplaceIn{.from = "▁", .to = " "});
  out_.decoder.add(Decoder::ByteFallback());
  out_.decoder.add(Decoder::Fuse());
  if (has_prefix) out_.decoder.add(Decoder::StripFrom{.left = 1});
  return {};
}

void Reader::add_tokens() {
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (!is_added(id)) continue;
    out_.add_token({.id = static_cast<TokenId>(id),
                    .content = std::string(tokens_[id]),
                    .is_special = is(id, TokenType::control)});
  }
}

Result<void> Reader::read_ends() {
  const auto read_end =
      [&](std::string_view flag, std::string_view key, std::vector<TokenId>& out) -> Result<void> {
    if (!file_.boolean(flag).value_or(false)) return {};
    const auto id = file_.integer(key);
    if (!id || *id < 0 || std::cmp_greater_equal(*id, tokens_.size())) return missing(key);
    out.push_back(static_cast<TokenId>(*id));
    return {};
  };
  TINKER_TRY(read_end("tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", out_.before));
  return read_end("tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", out_.after);
}

}  // namespace

Result<Pipeline> read_gguf_vocabulary(std::string_view file) {
  TINKER_TRY(const auto parsed, Gguf::parse(file));
  return Reader(parsed).read();
}

}  // namespace tinker::tokenizer
