#include "server/random_source.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <system_error>

#include "base/files.h"
#include "base/relative_path.h"
#include "base/strings.h"
#include "engine/random_model.h"
#include "formats/json_string.h"
#include "formats/safetensors.h"
#include "tokenizer/pipeline.h"

namespace tinker::server {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "random:";
constexpr std::string_view kForm = "random:LAYERSxDIM[,vocab=N][,heads=N][,seed=N]";

constexpr std::size_t kBytes = 256;
constexpr std::array<std::string_view, 5> kControlTokens = {
    "<|pad|>", "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"};
constexpr std::int32_t kBosId = kBytes + 1;
constexpr std::int32_t kEosId = kBytes + 2;

constexpr std::size_t kLeastVocab = kBytes + kControlTokens.size();
constexpr std::size_t kMostVocab = 1'000'000;
constexpr std::size_t kMostLayers = 1000;
constexpr std::size_t kMostDim = 16'384;
constexpr std::size_t kContext = 32'768;

Error refuse(std::string_view what, std::string_view found, std::string_view expected) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat(what, " is ", base::quoted(found), "; expected ", expected)};
}

Result<std::size_t> number(std::string_view what,
                           std::string_view text,
                           std::size_t least,
                           std::size_t most) {
  std::size_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && out >= least && out <= most) return out;
  return refuse(what, text, base::concat("a number from ", least, " to ", most));
}

/// What is before the next `mark`, which is taken off `text` with it.
std::string_view take_until(std::string_view& text, char mark) {
  const auto out = text.substr(0, text.find(mark));
  text.remove_prefix(std::min(text.size(), out.size() + 1));
  return out;
}

/// Heads of 64 where there can be several, as those of most models are; else up to four.
std::size_t default_heads(std::size_t dim) {
  constexpr std::size_t kHeadDim = 64;
  if (dim >= 4 * kHeadDim && dim % kHeadDim == 0) return dim / kHeadDim;
  if (dim % 8 == 0) return 4;
  return dim % 4 == 0 ? 2 : 1;
}

Result<void> read_setting(std::string_view setting, RandomSource& out) {
  auto value = setting;
  const auto name = take_until(value, '=');
  if (name == "vocab") {
    TINKER_TRY(out.vocab, number(name, value, kLeastVocab, kMostVocab));
  } else if (name == "heads") {
    TINKER_TRY(out.heads, number(name, value, 1, kMostDim));
  } else if (name == "seed") {
    TINKER_TRY(out.seed, number(name, value, 0, std::numeric_limits<std::size_t>::max()));
  } else {
    return refuse("a setting", setting, "vocab=N, heads=N or seed=N");
  }
  return {};
}

Result<RandomSource> parse(std::string_view text) {
  RandomSource out;
  auto sizes = take_until(text, ',');
  if (sizes.find('x') == std::string_view::npos) return refuse("the size", sizes, "LAYERSxDIM");
  TINKER_TRY(out.layers, number("LAYERS", take_until(sizes, 'x'), 1, kMostLayers));
  TINKER_TRY(out.dim, number("DIM", sizes, 2, kMostDim));
  while (!text.empty()) {
    TINKER_TRY(read_setting(take_until(text, ','), out));
  }
  if (out.heads == 0) out.heads = default_heads(out.dim);
  if (out.dim % (2 * out.heads) != 0) {
    return refuse("DIM", base::concat(out.dim), base::concat("a multiple of ", 2 * out.heads));
  }
  return out;
}

/// The vocabulary and the merges of tokenizer.json.
struct Vocabulary {
  std::string tokens = {};
  std::string merges = {};
};

Vocabulary vocabulary_of(std::size_t size) {
  Vocabulary out;
  const auto add_token = [&out](std::string_view token, std::size_t id) {
    if (!out.tokens.empty()) out.tokens += ',';
    formats::append_json_string(out.tokens, token);
    out.tokens += base::concat(':', id);
  };
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    const char c = static_cast<char>(byte);
    add_token(tokenizer::ByteAlphabet::instance().to_text({&c, 1}), byte);
  }
  // Without these, Hugging Face's library would give them other ids: the ones after the last.
  std::size_t id = kBytes;
  for (const auto token : kControlTokens) add_token(token, id++);
  for (char first = 'a'; first <= 'z'; ++first) {
    for (char second = 'a'; second <= 'z' && id < size; ++second, ++id) {
      add_token(base::concat(first, second), id);
      if (!out.merges.empty()) out.merges += ',';
      out.merges += base::concat('"', first, ' ', second, '"');
    }
  }
  return out;
}

std::string tokenizer_json(std::size_t vocab) {
  std::string control_tokens;
  for (std::size_t i = 0; i < kControlTokens.size(); ++i) {
    control_tokens += base::concat(
        i == 0 ? "" : ",",
        R"({"id":)",
        kBytes + i,
        R"(,"content":")",
        kControlTokens[i],
        R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})");
  }
  constexpr std::string_view kByteLevel =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
  const auto [tokens, merges] = vocabulary_of(vocab);
  return base::concat(
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)",
      control_tokens,
      R"(],"normalizer":null,"pre_tokenizer":)",
      kByteLevel,
      R"(,"post_processor":null,"decoder":)",
      kByteLevel,
      R"(,"model":{"type":"BPE","dropout":null,"unk_token":null,)"
      R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
      R"("byte_fallback":false,"vocab":{)",
      tokens,
      R"(},"merges":[)",
      merges,
      "]}}\n");
}

/// What transformers needs beside tokenizer.json.
std::string tokenizer_config_json() {
  return base::concat(R"({"tokenizer_class":"PreTrainedTokenizerFast",)"
                      R"("bos_token":"<|bos|>","eos_token":"<|eos|>","pad_token":"<|pad|>",)"
                      R"("clean_up_tokenization_spaces":false,"model_max_length":)",
                      kContext,
                      "}\n");
}

/// The folder is temporary, so nothing here need survive a power cut.
Result<void> write_file(const fs::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file.fail()) return {};
  return Error{.code = ErrorCode::io_error, .message = "cannot write " + path.string()};
}

}  // namespace

bool is_random_source(std::string_view source) {
  return source.starts_with(kPrefix);
}

Result<RandomSource> parse_random_source(std::string_view source) {
  auto out = parse(source.substr(kPrefix.size()));
  if (out.ok()) return out;
  return out.error().with_context(base::concat(base::quoted(source), " (", kForm, ")"));
}

engine::ModelConfig config_of(const RandomSource& source) {
  return {.architecture = engine::ModelConfig::Architecture::qwen3,
          .vocab_size = source.vocab,
          .hidden_size = source.dim,
          .ffn_size = 2 * source.dim,
          .layers = source.layers,
          .heads = source.heads,
          .kv_heads = source.heads % 2 == 0 ? source.heads / 2 : source.heads,
          .head_dim = source.dim / source.heads,
          .context_length = kContext,
          .tied_head = true,
          .eos_ids = {kEosId},
          .bos_id = kBosId};
}

std::string folder_name(const RandomSource& source) {
  return base::concat("random-",
                      source.layers,
                      'x',
                      source.dim,
                      "-vocab",
                      source.vocab,
                      "-heads",
                      source.heads,
                      "-seed",
                      source.seed);
}

Result<void> write_random_tokenizer(const fs::path& folder, const RandomSource& source) {
  const auto path = folder / "tokenizer.json";
  TINKER_TRY(base::make_folders_above(path.string()));
  TINKER_TRY(write_file(path, tokenizer_json(source.vocab)));
  return write_file(folder / "tokenizer_config.json", tokenizer_config_json());
}

Result<void> make_random_model(const fs::path& folder, const RandomSource& source) {
  std::error_code error;
  if (fs::exists(folder / "config.json", error)) return {};  // it is written last
  return engine::write_random_model(
      folder, config_of(source), source.seed, formats::Safetensors::Dtype::bf16);
}

}  // namespace tinker::server
