#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace tinker::tokenizer {

/// A token that is found in text as it stands, before anything is split.
struct AddedToken {
  TokenId id = 0;
  std::string content = {};
  bool is_special = false;        ///< One that controls the model, such as an end of turn.
  bool is_shown = false;          ///< Decoded even where special tokens are left out.
  bool is_normalized = false;     ///< Looked for in the normalised text.
  bool strips_left = false;       ///< Takes the white space before it.
  bool strips_right = false;      ///< Takes the white space after it.
  std::string decoder_text = {};  ///< What the decoder is given for it.
};

/// Finds added tokens: the leftmost, and of those the longest.
///
/// Immutable once it is filled.
class AddedTokens {
 public:
  void add(AddedToken token);
  [[nodiscard]] bool empty() const noexcept { return tokens_.empty(); }

  struct Match {
    std::size_t begin;
    std::size_t end;
    const AddedToken* token;
  };
  /// The first match in `text` at `from` or later that is not `skips_special` away; what it strips
  /// is part of it. Null `token`: there is none.
  [[nodiscard]] Match find(std::string_view text, std::size_t from, bool skips_special) const;

 private:
  /// A trie; the children of a node are chained.
  struct Node {
    char byte = 0;
    std::uint32_t child = 0;    // 0: none, for the root is nobody's child
    std::uint32_t sibling = 0;  // likewise
    std::uint32_t token = 0;    // one more than its index
  };
  /// Where in `text`, at `from` or later, a token may begin.
  [[nodiscard]] std::size_t next_begin(std::string_view text, std::size_t from) const noexcept;
  [[nodiscard]] std::uint32_t child_of(std::uint32_t node, char byte) const noexcept;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_ = {Node()};
  std::array<bool, 256> begins_ = {};  // bytes that begin a token
  bool is_one_begin_ = true;           // all begin alike, as most do
};

}  // namespace tinker::tokenizer
