#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace tinker::tokenizer {

/// Fast hashes for tables that live in memory only.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t product = (a ^ b * 0xE7037ED1A0B428DB) * 0x9E3779B97F4A7C15;
  return product ^ product >> 32U;
}

/// All of a text of up to 16 bytes: its first and its last eight bytes, which may overlap, and how
/// many there are.
struct ShortText {
  static constexpr std::size_t kMaxSize = 16;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t size = 0;

  ShortText() = default;
  explicit ShortText(std::string_view text) noexcept : size(text.size()) {
    if (size >= 8) {
      first = load<std::uint64_t>(text, 0);
      last = load<std::uint64_t>(text, size - 8);
    } else if (size >= 4) {
      first = load<std::uint32_t>(text, 0);
      last = load<std::uint32_t>(text, size - 4);
    } else if (size > 0) {
      const auto byte = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
      first = byte(0) | std::uint64_t{byte(size / 2)} << 8U | std::uint64_t{byte(size - 1)} << 16U;
    }
  }
  [[nodiscard]] std::uint64_t hash() const noexcept { return mix(size ^ first, last); }
  friend bool operator==(const ShortText&, const ShortText&) = default;

 private:
  template <typename Word>
  static std::uint64_t load(std::string_view text, std::size_t at) noexcept {
    Word word = 0;
    std::memcpy(&word, &text[at], sizeof(word));
    return word;
  }
};

inline std::uint64_t hash_bytes(std::string_view bytes) noexcept {
  std::uint64_t state = bytes.size();
  for (; bytes.size() > ShortText::kMaxSize; bytes.remove_prefix(ShortText::kMaxSize)) {
    state = mix(state, ShortText(bytes.substr(0, ShortText::kMaxSize)).hash());
  }
  return mix(state, ShortText(bytes).hash());
}

}  // namespace tinker::tokenizer
