#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

namespace tinker::base {

/// One piece of `concat`: text, a character, or a number in its shortest exact form.
class Piece {
 public:
  // NOLINTBEGIN(google-explicit-constructor): arguments of concat() convert to pieces.
  Piece(std::string_view text) : text_(text) {}
  Piece(const char* text) : text_(text) {}
  Piece(const std::string& text) : text_(text) {}
  Piece(bool) = delete;  // it would go as a character or a number
  Piece(char c) : digits_{c}, text_(digits_.data(), 1) {}
  template <typename Number>
    requires(std::integral<Number> || std::floating_point<Number>) &&
            (!std::same_as<Number, bool>) && (!std::same_as<Number, char>)
  Piece(Number number) {
    const auto end = std::to_chars(digits_.data(), digits_.data() + digits_.size(), number).ptr;
    text_ = {digits_.data(), static_cast<std::size_t>(end - digits_.data())};
  }
  // NOLINTEND(google-explicit-constructor)
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  [[nodiscard]] std::string_view text() const noexcept { return text_; }

 private:
  std::array<char, 32> digits_ = {};
  std::string_view text_;
};

/// The pieces, one after the other: `concat("expected ", 3, " rows, found ", rows)`.
template <typename... Args>
std::string concat(const Args&... args) {
  return [](std::initializer_list<std::string_view> texts) {
    std::size_t size = 0;
    for (const auto text : texts) size += text.size();
    std::string out;
    out.reserve(size);
    for (const auto text : texts) out += text;
    return out;
  }({Piece(args).text()...});
}

/// Two lower-case digits for each byte.
inline std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4U];
    out += kDigits[static_cast<unsigned char>(c) & 0xfU];
  }
  return out;
}

}  // namespace tinker::base
