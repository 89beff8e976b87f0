#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tinker::jinja {

/// The code point at `text[at]`, which it moves behind it; a byte that is no UTF-8 stands for
/// U+FFFD. Requires `at < text.size()`.
char32_t next_code_point(std::string_view text, std::size_t& at) noexcept;

/// How many code points: Python's `len()`.
std::size_t length_of(std::string_view text) noexcept;
/// The byte at which code point `index` begins, or the end.
std::size_t offset_of(std::string_view text, std::size_t index) noexcept;

bool is_space(char32_t point);      ///< `str.isspace()`
bool is_printable(char32_t point);  ///< `str.isprintable()`
bool is_letter(char32_t point);     ///< `str.isalpha()`
bool is_digit(char32_t point);      ///< `str.isdigit()`, of decimal digits
bool is_word(char32_t point);       ///< `\w` of `re`: `str.isalnum()` or "_"

/// Where the text begins behind white space, and where it ends before it.
std::string_view trim_left(std::string_view text);
std::string_view trim_right(std::string_view text);
std::string_view trim(std::string_view text);

/// `str.upper()` and `str.lower()`.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// `str.capitalize()` and `str.title()`.
std::string capitalized(std::string_view text);
std::string titled(std::string_view text);

}  // namespace tinker::jinja
