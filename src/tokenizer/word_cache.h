#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/hash.h"
#include "tokenizer/vocabulary.h"

namespace tinker::tokenizer {

/// A token, and how many bytes of the text it stands for.
struct Piece {
  TokenId id;
  std::uint32_t size;
};

/// The tokens of short words that were met lately: most of a text are words that it had before.
/// Each word has one place, which it takes from the one that was there.
///
/// Thread-compatible.
class WordCache {
 public:
  /// For so many bytes of text; none for a few.
  explicit WordCache(std::size_t text_bytes)
      : entries_(text_bytes < kMinText ? 0
                                       : std::bit_ceil(std::min(text_bytes / 16, kMaxEntries))) {}

  /// A place for the tokens of one word, in one line of the processor's cache.
  class alignas(64) Entry {
   public:
    [[nodiscard]] bool is_of(ShortText word) const noexcept { return word_ == word; }
    void append_to(std::vector<Piece>& out) const {
      for (std::size_t i = 0; i < count_; ++i) out.push_back({.id = ids_[i], .size = sizes_[i]});
    }
    void assign(ShortText word, std::span<const Piece> pieces) noexcept {
      if (pieces.size() > ids_.size()) return;
      word_ = word;
      count_ = static_cast<std::uint8_t>(pieces.size());
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        ids_[i] = pieces[i].id;
        sizes_[i] = static_cast<std::uint8_t>(pieces[i].size);
      }
    }

   private:
    ShortText word_ = {};
    std::uint8_t count_ = 0;
    std::array<std::uint8_t, 7> sizes_ = {};
    std::array<TokenId, 7> ids_ = {};
  };

  [[nodiscard]] bool takes(std::string_view word) const noexcept {
    return !word.empty() && word.size() <= ShortText::kMaxSize && !entries_.empty();
  }
  /// Where a word that it takes would be.
  [[nodiscard]] Entry& place_of(ShortText word) noexcept {
    return entries_[word.hash() & (entries_.size() - 1)];
  }

 private:
  static constexpr std::size_t kMinText = 512;
  static constexpr std::size_t kMaxEntries = std::size_t{1} << 13U;

  std::vector<Entry> entries_;
};

}  // namespace tinker::tokenizer
