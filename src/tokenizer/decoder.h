#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace tinker::tokenizer {

/// Makes text of tokens.
///
/// Immutable.
class Decoder {
 public:
  /// The bytes of the tokens, whatever is not UTF-8 replaced.
  struct Bytes {};
  struct ReplaceIn {
    std::string from = {};
    std::string to = {};
  };
  /// Runs of "<0x41>" and its like become the text they spell, or U+FFFD for each.
  struct ByteFallback {};
  /// All are one from here on.
  struct Fuse {};
  /// Takes up to that many of a character off each token.
  struct StripFrom {
    char32_t character = ' ';
    std::size_t left = 0;
    std::size_t right = 0;
  };
  /// `replacement` becomes a space, which the first token goes without.
  struct MetaspaceBack {
    std::string replacement = "▁";
    bool strips_first = true;
  };
  using Step = std::variant<Bytes, ReplaceIn, ByteFallback, Fuse, StripFrom, MetaspaceBack>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  /// Without any step tokens are joined by spaces, as in the library.
  [[nodiscard]] std::string decode(std::vector<std::string> tokens) const;
  /// Whether it has the one step that needs no knowledge of other tokens.
  [[nodiscard]] bool is_bytes() const noexcept {
    return steps_.size() == 1 && std::holds_alternative<Bytes>(steps_[0]);
  }

 private:
  std::vector<Step> steps_;
};

/// `bytes` as UTF-8: each of what is not becomes U+FFFD, longest beginnings of code points as one.
std::string to_utf8(std::string_view bytes);
/// How many bytes at the end of `bytes` may be the beginning of a code point.
std::size_t unfinished_bytes(std::string_view bytes) noexcept;

}  // namespace tinker::tokenizer
