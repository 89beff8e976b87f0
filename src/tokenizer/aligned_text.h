#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tinker::tokenizer {

/// Where something came from, in bytes of the original.
struct Origin {
  std::uint32_t begin;
  std::uint32_t end;
};

/// Text that may differ from the original, and knows, if asked to, what each of its bytes stands
/// for.
///
/// Thread-compatible.
class AlignedText {
 public:
  AlignedText(std::string_view text, std::size_t offset, bool is_tracked);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] bool is_tracked() const noexcept { return is_tracked_; }
  /// What `[begin, end)` of the text stands for; requires `is_tracked()` and `begin < end`.
  [[nodiscard]] Origin origin(std::size_t begin, std::size_t end) const;

  /// Puts `content` in place of `[begin, end)`; it stands for what was there.
  void replace(std::size_t begin, std::size_t end, std::string_view content);
  void replace_all(std::string_view from, std::string_view to);
  /// Another text; each byte of it stands for what `origins` say of the old one.
  void assign(std::string text, const std::vector<Origin>& origins);

 private:
  std::string text_;
  std::vector<Origin> origins_;  // of each byte; empty when nobody asks
  std::uint32_t at_;             // what an empty text stands for
  bool is_tracked_;
};

}  // namespace tinker::tokenizer
