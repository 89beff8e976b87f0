#include "jinja/utf8.h"

#include <algorithm>
#include <array>
#include <span>

#include "tokenizer/unicode.h"

namespace tinker::jinja {

namespace {

using tokenizer::CodePointSet;
using tokenizer::CodePointTable;

/// A code point, and what it becomes.
struct CaseMapping {
  char32_t point;
  std::string_view text;
};

#include "jinja/case_data.inc"

CodePointSet set_of(std::initializer_list<std::string_view> properties) {
  CodePointSet out;
  for (const auto property : properties) {
    out.add(CodePointSet::property(property).value_or(CodePointSet()));
  }
  return out;
}

using CaseTable = std::span<const CaseMapping>;

/// `text` is how `point` is written.
void append_mapped(std::string& out, CaseTable table, char32_t point, std::string_view text) {
  const auto found = std::ranges::lower_bound(table, point, {}, &CaseMapping::point);
  out += found != table.end() && found->point == point ? found->text : text;
}

std::string mapped(CaseTable table, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t point = next_code_point(text, at);
    append_mapped(out, table, point, text.substr(begin, at - begin));
  }
  return out;
}

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& at) noexcept {
  const auto [point, size] = tokenizer::decode_at(text, at);
  at += size;
  return point == tokenizer::kNoCodePoint ? 0xFFFD : point;
}

std::size_t length_of(std::string_view text) noexcept {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) next_code_point(text, at);
  return count;
}

std::size_t offset_of(std::string_view text, std::size_t index) noexcept {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) next_code_point(text, at);
  return at;
}

bool is_space(char32_t point) {
  // Python adds four separators of ASCII to Unicode's white space.
  static const CodePointTable table([] {
    CodePointSet out = CodePointSet::space();
    out.add({.first = 0x1C, .last = 0x1F});
    return out;
  }());
  return table.contains(point);
}

bool is_printable(char32_t point) {
  static const CodePointTable unprintable(set_of({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}));
  return point == ' ' || !unprintable.contains(point);
}

bool is_letter(char32_t point) {
  static const CodePointTable table(set_of({"Lu", "Ll", "Lt", "Lm", "Lo"}));
  return table.contains(point);
}

bool is_digit(char32_t point) {
  static const CodePointTable table(set_of({"Nd"}));
  return table.contains(point);
}

bool is_word(char32_t point) {
  static const CodePointTable table(set_of({"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No"}));
  return point == '_' || table.contains(point);
}

std::string_view trim_left(std::string_view text) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); begin = at) {
    if (!is_space(next_code_point(text, at))) break;
  }
  return text.substr(begin);
}

std::string_view trim_right(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && tokenizer::is_continuation(text[begin])) --begin;
    std::size_t at = begin;
    if (!is_space(next_code_point(text, at)) || at != end) break;
    end = begin;
  }
  return text.substr(0, end);
}

std::string_view trim(std::string_view text) {
  return trim_right(trim_left(text));
}

std::string to_upper(std::string_view text) {
  return mapped(kUpper, text);
}

std::string to_lower(std::string_view text) {
  return mapped(kLower, text);
}

std::string capitalized(std::string_view text) {
  const std::size_t first = offset_of(text, 1);
  return mapped(kTitle, text.substr(0, first)) + to_lower(text.substr(first));
}

std::string titled(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool is_inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t point = next_code_point(text, at);
    const CaseTable table = is_inside ? CaseTable(kLower) : CaseTable(kTitle);
    append_mapped(out, table, point, text.substr(begin, at - begin));
    is_inside = is_letter(point);
  }
  return out;
}

}  // namespace tinker::jinja
