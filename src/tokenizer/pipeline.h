#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace tinker::tokenizer {

/// All that a tokenizer consists of.
struct Pipeline {
  AddedTokens raw_tokens = {};         ///< Looked for in the text as it came.
  AddedTokens normalized_tokens = {};  ///< Looked for in the normalised text.
  Normalizer normalizer = {};
  PreTokenizer pre_tokenizer = {};
  std::unique_ptr<const Bpe> model = {};
  std::vector<TokenId> before = {};  ///< What comes first with special tokens.
  std::vector<TokenId> after = {};   ///< What comes last.
  Decoder decoder = {};
  /// Added tokens by their ids; they come before those of the model.
  std::unordered_map<TokenId, AddedToken> added = {};
  std::unordered_map<std::string, TokenId> added_ids = {};

  void add_token(AddedToken token);
};

/// Room for one text after the other, with one pipeline.
struct EncodeScratch {
  explicit EncodeScratch(std::size_t text_bytes) : word(text_bytes) {}

  PreTokenizer::Scratch words = {};
  Bpe::Scratch word;
  std::vector<Piece> pieces = {};
};

struct EncodeRequest {
  bool adds_special = true;
  bool parses_special = false;
  bool wants_offsets = false;
};

/// Tokens, and, where wanted, what each stands for.
struct Encoded {
  std::vector<TokenId> ids = {};
  std::vector<Origin> origins = {};
};

Encoded encode(const Pipeline& pipeline,
               std::string_view text,
               const EncodeRequest& request,
               EncodeScratch& scratch);

/// How GPT-2 writes bytes as printable characters, and every byte-level vocabulary since.
class ByteAlphabet {
 public:
  static const ByteAlphabet& instance();
  [[nodiscard]] std::string to_text(std::string_view bytes) const;
  /// Nothing when there is a character that stands for no byte.
  [[nodiscard]] std::optional<std::string> to_bytes(std::string_view text) const;
  /// The same at the end of `out`; false when there is such a character.
  [[nodiscard]] bool append_bytes(std::string_view text, std::string& out) const;

 private:
  ByteAlphabet();
  std::array<char32_t, 256> characters_ = {};
  std::array<std::int16_t, 0x144> bytes_ = {};
};

}  // namespace tinker::tokenizer
