#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/result.h"

namespace tinker::tokenizer {

using TokenId = std::int32_t;

/// Where ids end: far beyond any vocabulary, so that a broken file cannot ask for all the memory.
inline constexpr TokenId kMaxTokenId = (1 << 24) - 1;

/// Tokens by their bytes, and bytes by their ids. Ids may have gaps.
///
/// Immutable once it is filled.
class Vocabulary {
 public:
  void reserve(std::size_t tokens, std::size_t bytes);
  /// Fails when the id is taken or out of range. Of several ids with the same bytes the last one is
  /// found, as in the libraries.
  Result<void> add(std::string_view bytes, TokenId id);
  /// The same for one that is never found by its bytes.
  Result<void> add_hidden(std::string_view bytes, TokenId id);

  [[nodiscard]] std::optional<TokenId> find(std::string_view bytes) const noexcept;
  /// Empty when there is no such token. Valid as long as this is.
  [[nodiscard]] std::string_view bytes(TokenId id) const noexcept;
  [[nodiscard]] bool has(TokenId id) const noexcept;
  /// Whether it came by `add_hidden`.
  [[nodiscard]] bool is_hidden(TokenId id) const noexcept {
    return has(id) && entries_[static_cast<std::size_t>(id)].is_hidden;
  }
  /// How many there are.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// One more than the largest id.
  [[nodiscard]] std::size_t limit() const noexcept { return entries_.size(); }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Entry {
    std::uint32_t begin = kNone;
    std::uint32_t size = 0;
    bool is_hidden = false;
  };
  struct Slot {
    std::uint32_t id = kNone;
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };
  void grow(std::size_t slots);
  void fill_slot(TokenId id);
  [[nodiscard]] std::string_view text(std::uint32_t begin, std::uint32_t size) const noexcept {
    return {text_.data() + begin, size};
  }
  [[nodiscard]] std::size_t slot_of(std::string_view bytes, std::uint64_t hash) const noexcept;

  std::string text_;
  std::vector<Entry> entries_;  // by id
  // An open-addressing table. The tags, bits of the hashes, are near; they spare most looks at
  // slots.
  std::vector<std::uint8_t> tags_;  // 0: the slot is free
  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace tinker::tokenizer
