#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tinker/result.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/word_cache.h"

namespace tinker::tokenizer {

/// Byte pair encoding: a word becomes its characters, then the pair of neighbours whose merge came
/// first in training becomes one, as long as there is any.
///
/// Immutable; safe to use on many threads.
class Bpe {
 public:
  struct Options {
    /// The characters of a word are its bytes; otherwise they are code points.
    bool is_byte_level = false;
    /// A word that is a token is that token, whatever the merges make of it.
    bool ignore_merges = false;
    /// For code points that are no tokens: the tokens "<0x00>" to "<0xFF>" of their bytes.
    bool byte_fallback = false;
    /// For what has no token at all; without one it is left out.
    std::optional<TokenId> unknown = {};
    /// Neighbours that are unknown become one.
    bool fuse_unknown = false;
  };
  /// Room for words, one after the other, and memory of the last ones. For one model only.
  class Scratch;

  /// Two tokens, in the order of their training.
  struct Merge {
    TokenId left;
    TokenId right;
    TokenId whole;
  };
  Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, Options options);

  /// Appends the tokens of a word.
  void encode(std::string_view word, std::vector<Piece>& out, Scratch& scratch) const;

  [[nodiscard]] const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  [[nodiscard]] const Options& options() const noexcept { return options_; }
  /// The id of "<0x41>" and its like where bytes fall back to them.
  [[nodiscard]] std::optional<TokenId> byte_token(unsigned char byte) const noexcept;

 private:
  static constexpr std::uint32_t kNever = 0xFFFFFFFF;
  static constexpr TokenId kNoToken = -1;
  struct Slot {
    TokenId left = kNoToken;
    TokenId right = kNoToken;
    std::uint32_t rank = kNever;
  };
  enum class Whole : std::uint8_t { unknown, yes, no };

  /// Of a word that is not known yet.
  void encode_new(std::string_view word, std::vector<Piece>& out, Scratch& scratch) const;
  /// Whether some token may hold that byte in front of that character; sometimes wrongly yes.
  [[nodiscard]] bool may_join(char before, char32_t after) const noexcept;
  void find_joins(const std::vector<Merge>& merges);
  /// Of a word whose tokens begin at `out[first]`.
  void encode_part(std::string_view word,
                   std::size_t first,
                   std::vector<Piece>& out,
                   Scratch& scratch) const;
  /// When the two become one: `kNever`, or an index of `results_`.
  [[nodiscard]] std::uint32_t rank(TokenId left, TokenId right) const noexcept;
  void add_merges(const std::vector<Merge>& merges);
  void find_byte_tokens();
  [[nodiscard]] std::optional<TokenId> whole_word(std::string_view word, Scratch& scratch) const;
  void begin(std::string_view word, Scratch& scratch) const;
  void begin_code_points(std::string_view word, Scratch& scratch) const;
  void add_unknown(std::uint32_t size, Scratch& scratch) const;
  void merge(Scratch& scratch) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  Vocabulary vocabulary_;
  Options options_;
  // Bits of the pairs that merge, some of them shared. Most pairs do not, and learn it here,
  // nearby.
  std::vector<std::uint64_t> pairs_;
  std::vector<Slot> slots_;       // merges, by their pair
  std::vector<TokenId> results_;  // of merges, by their rank
  std::array<TokenId, 256> byte_tokens_ = {};
  // Bits of what stands side by side in tokens: where nothing does, a text can be cut.
  std::vector<std::uint64_t> joins_ = {};
  // Whether the merges make the one token of a word that is one: found out when it is asked first.
  mutable std::vector<std::atomic<Whole>> wholes_;
};

class Bpe::Scratch {
 public:
  /// For words of so many bytes of text.
  explicit Scratch(std::size_t text_bytes = 0) : cache_(text_bytes) {}

 private:
  friend class Bpe;
  struct Symbol {
    TokenId id;
    std::uint32_t size;
    std::uint32_t previous;
    std::uint32_t next;
    std::uint32_t rank;  // with the next
  };
  WordCache cache_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> ranks_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> queue_;  // a heap of ranks and, below them, where
};

}  // namespace tinker::tokenizer
