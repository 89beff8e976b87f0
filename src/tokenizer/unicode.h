#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/aligned_text.h"

namespace tinker::tokenizer {

/// Stands for a byte that is no part of a code point: text need not be UTF-8.
inline constexpr char32_t kNoCodePoint = 0x110000;

struct Decoded {
  char32_t code_point;
  std::size_t size;  ///< In bytes; 1 for `kNoCodePoint`.
};

/// What is at `text[at]`; requires `at < text.size()`.
Decoded decode_at(std::string_view text, std::size_t at) noexcept;

void append_utf8(std::string& out, char32_t code_point);

/// Whether a byte goes on with a code point that began before it.
constexpr bool is_continuation(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Both ends belong to it.
struct CodePointRange {
  char32_t first;
  char32_t last;
};

/// Code points, `kNoCodePoint` among the possible ones.
///
/// Thread-compatible.
class CodePointSet {
 public:
  CodePointSet() = default;
  static CodePointSet all() { return of({.first = 0, .last = kNoCodePoint}); }
  static CodePointSet of(CodePointRange range);
  /// By the name between the braces of `\p{…}`: a general category such as "L" or "Lu", or "Han".
  static std::optional<CodePointSet> property(std::string_view name);
  /// `\s`: the characters of White_Space.
  static const CodePointSet& space();

  void add(CodePointRange range);
  void add(const CodePointSet& other);
  [[nodiscard]] CodePointSet complement() const;
  [[nodiscard]] CodePointSet intersection(const CodePointSet& other) const;
  [[nodiscard]] bool contains(char32_t code_point) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
  /// Sorted, with gaps between them.
  [[nodiscard]] const std::vector<CodePointRange>& ranges() const noexcept { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

/// The same for many questions: an answer costs two loads.
///
/// Immutable.
class CodePointTable {
 public:
  explicit CodePointTable(const CodePointSet& set);

  [[nodiscard]] bool has_ascii(char c) const noexcept {
    return ascii_[static_cast<unsigned char>(c)] != 0;
  }
  [[nodiscard]] bool contains(char32_t code_point) const noexcept {
    const Block& block = blocks_[pages_[code_point >> kBlockBits]];
    return (block.bits[(code_point & kBlockMask) / 64] >> (code_point % 64) & 1U) != 0;
  }

 private:
  static constexpr unsigned kBlockBits = 8;
  static constexpr char32_t kBlockMask = (1U << kBlockBits) - 1;
  struct Block {
    std::array<std::uint64_t, 4> bits = {};
    friend auto operator<=>(const Block&, const Block&) = default;
  };

  std::array<std::uint8_t, 256> ascii_ = {};  // by the first byte; 0 beyond ASCII
  std::vector<std::uint16_t> pages_;
  std::vector<Block> blocks_;
};

/// Canonical composition and decomposition, as the Hugging Face library has them: characters of
/// Unicode 10 and later stay as they are. Bytes that are not UTF-8 stay, too.
enum class NormalForm : std::uint8_t { nfc, nfd };
/// `origins`, where given, is told which bytes of `text` each byte of the result stands for.
std::string normalize(std::string_view text,
                      NormalForm form,
                      std::vector<Origin>* origins = nullptr);

/// Whether `normalize` would change nothing, for certain.
bool is_surely_normalized(std::string_view text, NormalForm form);

}  // namespace tinker::tokenizer
