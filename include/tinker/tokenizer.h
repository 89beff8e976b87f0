#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/result.h"

namespace tinker {

namespace tokenizer {
struct Pipeline;
class TokenStream;
}  // namespace tokenizer

struct EncodeOptions {
  /// Adds what the model expects around a text, such as a begin-of-sequence token.
  bool add_special_tokens = true;
  /// Lets text such as "<|im_end|>" become the control token. Off, it is encoded as the plain text
  /// it is: what users write cannot end a turn. Added tokens that are not special, such as
  /// "<think>" of some models, are always found.
  bool parse_special = false;
};

struct DecodeOptions {
  /// Leaves control tokens out.
  bool skip_special_tokens = false;
};

/// A part of a text, in bytes; the end does not belong to it.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

/// Tokens, and which part of the text each stands for. A token that was added stands for an empty
/// part; where several tokens share a character, each has all of it or the bytes it covers.
struct Encoding {
  std::vector<std::int32_t> ids = {};
  std::vector<TextSpan> offsets = {};
};

/// What a `.tiktoken` file does not say.
struct TiktokenOptions {
  /// The regular expression that cuts text into words.
  std::string pattern = {};
  struct Special {
    std::string content = {};
    std::int32_t id = 0;
    /// Kept by `skip_special_tokens`: one that belongs to the text, such as "<think>".
    bool is_shown = false;
  };
  std::vector<Special> special_tokens = {};

  /// Those of tiktoken's encodings: r50k_base, p50k_base, cl100k_base, o200k_base, o200k_harmony
  /// (which has the ranks of o200k_base).
  static std::optional<TiktokenOptions> preset(std::string_view name);
};

/// Text to tokens and back, exactly as the library that a model was trained with does it.
///
///     Result<Tokenizer> tokenizer = Tokenizer::load("models/Qwen3-8B");
///     std::vector<std::int32_t> ids = tokenizer->encode("Once upon a time");
///     std::string text = tokenizer->decode(ids);
///
/// Reads Hugging Face `tokenizer.json`, tiktoken files and the vocabulary of GGUF files. What a
/// file asks for and this does not know is refused by name when it is loaded.
///
/// Text should be UTF-8. Bytes that are not come through as they are where the vocabulary has
/// tokens for bytes.
///
/// Immutable; copies share everything and may be used on any thread.
class Tokenizer {
 public:
  class DecodeStream;

  /// A folder with one of these in it, looked for in this order, or such a file:
  /// - `tokenizer.json`;
  /// - `tiktoken.model` with the `tokenizer_config.json` of a Kimi model beside it;
  /// - a single `NAME.tiktoken` that `TiktokenOptions::preset` knows by its name;
  /// - a single `*.gguf`, of which only what it says of itself is read.
  static Result<Tokenizer> load(const std::filesystem::path& path);
  /// The content of a `tokenizer.json`.
  static Result<Tokenizer> from_json(std::string_view json);
  /// The content of a GGUF file, whose vocabulary it reads.
  static Result<Tokenizer> from_gguf(std::string_view file);
  /// The content of a `.tiktoken` file: a line for each token, its bytes in base64 and its rank.
  static Result<Tokenizer> from_tiktoken(std::string_view ranks, const TiktokenOptions& options);

  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 const EncodeOptions& options) const;
  [[nodiscard]] Encoding encode_with_offsets(std::string_view text) const;
  [[nodiscard]] Encoding encode_with_offsets(std::string_view text,
                                             const EncodeOptions& options) const;
  /// The same for many texts, on up to `threads` threads (0: one for each processor).
  [[nodiscard]] std::vector<std::vector<std::int32_t>> encode_batch(
      std::span<const std::string> texts, const EncodeOptions& options, unsigned threads = 0) const;

  /// Always UTF-8. Ids that stand for nothing are left out: models may have more of them than their
  /// vocabulary.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const;
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids,
                                   const DecodeOptions& options) const;
  /// For tokens that come one by one.
  [[nodiscard]] DecodeStream decode_stream() const;
  [[nodiscard]] DecodeStream decode_stream(const DecodeOptions& options) const;

  /// A token as its file spells it ("Ġworld", "▁world", "<|im_end|>").
  [[nodiscard]] std::optional<std::int32_t> token_to_id(std::string_view token) const;
  [[nodiscard]] std::optional<std::string> id_to_token(std::int32_t id) const;
  /// The bytes that a token stands for in the middle of a text; they may be no UTF-8.
  [[nodiscard]] std::optional<std::string> id_to_bytes(std::int32_t id) const;
  /// `id_to_bytes` as a function of its own, which gives nothing for unknown ids. An engine takes
  /// it for stop strings: `EngineOptions{.token_bytes = tokenizer.token_bytes()}`.
  [[nodiscard]] std::function<std::string(std::int32_t)> token_bytes() const;
  [[nodiscard]] bool is_special(std::int32_t id) const;
  /// How many tokens there are, added ones included.
  [[nodiscard]] std::size_t vocab_size() const;

 private:
  explicit Tokenizer(std::shared_ptr<const tokenizer::Pipeline> pipeline)
      : pipeline_(std::move(pipeline)) {}

  std::shared_ptr<const tokenizer::Pipeline> pipeline_;
};

/// Text as its tokens come: what it gave, put together, is what `decode` makes of all of them.
///
///     auto stream = tokenizer.decode_stream();
///     for (auto id : ids) std::cout << stream.push(id) << std::flush;
///     std::cout << stream.finish();
///
/// Thread-compatible.
class Tokenizer::DecodeStream {
 public:
  DecodeStream(DecodeStream&& other) noexcept;
  DecodeStream& operator=(DecodeStream&& other) noexcept;
  ~DecodeStream();

  /// The text that is certain with this token, often empty in the middle of a character. Always
  /// whole characters.
  std::string push(std::int32_t id);
  /// What was held back. The stream may then begin anew.
  std::string finish();

 private:
  friend class Tokenizer;
  DecodeStream(std::shared_ptr<const tokenizer::Pipeline> pipeline, DecodeOptions options);

  std::shared_ptr<const tokenizer::Pipeline> pipeline_;
  DecodeOptions options_;
  std::unique_ptr<tokenizer::TokenStream> stream_;
};

}  // namespace tinker
