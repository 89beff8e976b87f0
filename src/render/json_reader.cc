#include "render/json_reader.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/strings.h"
#include "jinja/utf8.h"

namespace tinker::render {

namespace {

using jinja::Value;

constexpr std::size_t kMaxDepth = 200;  // as deep as the writer goes

void append_utf8(std::string& out, char32_t point) {
  const auto add = [&out](char32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xC0 | (point >> 6U));
  } else if (point < 0x10000) {
    add(0xE0 | (point >> 12U));
    add(0x80 | ((point >> 6U) & 0x3FU));
  } else {
    add(0xF0 | (point >> 18U));
    add(0x80 | ((point >> 12U) & 0x3FU));
    add(0x80 | ((point >> 6U) & 0x3FU));
  }
  add(0x80 | (point & 0x3FU));
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<Value> read_document() {
    skip_space();
    TINKER_TRY(auto value, read_value(0));
    skip_space();
    if (at_ < text_.size()) return error("Extra data", at_);
    return value;
  }

 private:
  Result<Value> read_value(std::size_t depth);
  Result<Value> read_object(std::size_t depth);
  Result<Value> read_list(std::size_t depth);
  Result<std::string> read_string();
  Result<void> read_escape(std::string& out, std::size_t begin);
  Result<char32_t> read_hex();
  Result<Value> read_number();

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size()); }
  bool take_digits() {
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    return at_ > begin;
  }

  /// "Expecting value: line 1 column 2 (char 1)"; positions count characters.
  [[nodiscard]] Error error(std::string_view what, std::size_t at) const {
    const std::string_view before = text_.substr(0, at);
    std::size_t lines = 1;
    for (const char c : before) lines += c == '\n' ? 1U : 0U;
    const auto newline = before.rfind('\n');
    const auto line = newline == std::string_view::npos ? before : before.substr(newline + 1);
    return Error::invalid_argument(base::concat(what,
                                                ": line ",
                                                lines,
                                                " column ",
                                                jinja::length_of(line) + 1,
                                                " (char ",
                                                jinja::length_of(before),
                                                ")"));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Result<Value> Reader::read_value(std::size_t depth) {
  if (depth > kMaxDepth) return error("Nested too deeply", at_);
  switch (peek()) {
    case '{': return read_object(depth);
    case '[': return read_list(depth);
    case '"': {
      TINKER_TRY(auto text, read_string());
      return Value(std::move(text));
    }
    default: break;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (take("null")) return Value();
  if (take("true")) return Value(true);
  if (take("false")) return Value(false);
  if (take("NaN")) return Value(std::numeric_limits<double>::quiet_NaN());
  if (take("Infinity")) return Value(kInfinity);
  if (take("-Infinity")) return Value(-kInfinity);
  return read_number();
}

Result<Value> Reader::read_object(std::size_t depth) {
  ++at_;
  jinja::Dict out;
  skip_space();
  if (take("}")) return Value(std::move(out));
  while (true) {
    if (peek() != '"') return error("Expecting property name enclosed in double quotes", at_);
    TINKER_TRY(auto name, read_string());
    skip_space();
    if (!take(":")) return error("Expecting ':' delimiter", at_);
    skip_space();
    TINKER_TRY(auto value, read_value(depth + 1));
    out.set(std::move(name), std::move(value));
    skip_space();
    if (take("}")) return Value(std::move(out));
    if (!take(",")) return error("Expecting ',' delimiter", at_);
    skip_space();
  }
}

Result<Value> Reader::read_list(std::size_t depth) {
  ++at_;
  jinja::List out;
  skip_space();
  if (take("]")) return Value(std::move(out));
  while (true) {
    TINKER_TRY(auto value, read_value(depth + 1));
    out.push_back(std::move(value));
    skip_space();
    if (take("]")) return Value(std::move(out));
    if (!take(",")) return error("Expecting ',' delimiter", at_);
    skip_space();
  }
}

Result<std::string> Reader::read_string() {
  const std::size_t begin = at_++;
  std::string out;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return out;
    }
    if (static_cast<unsigned char>(c) < 0x20) return error("Invalid control character at", at_);
    ++at_;
    if (c == '\\') {
      TINKER_TRY(read_escape(out, begin));
    } else {
      out += c;
    }
  }
  return error("Unterminated string starting at", begin);
}

/// What follows the backslash in a string that began at `begin`.
Result<void> Reader::read_escape(std::string& out, std::size_t begin) {
  if (at_ == text_.size()) return error("Unterminated string starting at", begin);
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const auto which = kEscapes.find(text_[at_]); which != std::string_view::npos) {
    out += kMeanings[which];
    ++at_;
    return {};
  }
  if (!take("u")) return error("Invalid \\escape", at_ - 1);
  const std::size_t digits = at_;
  TINKER_TRY(char32_t point, read_hex());
  if (point >= 0xD800 && point < 0xDC00 && take("\\u")) {
    TINKER_TRY(const char32_t low, read_hex());
    if (low < 0xDC00 || low >= 0xE000) return error("Half of a surrogate pair", digits);
    point = 0x10000 + ((point - 0xD800) << 10U) + (low - 0xDC00);
  } else if (point >= 0xD800 && point < 0xE000) {
    return error("Half of a surrogate pair", digits);  // no UTF-8 has it; Python lets it pass
  }
  append_utf8(out, point);
  return {};
}

Result<char32_t> Reader::read_hex() {
  constexpr std::size_t kDigits = 4;
  const std::string_view digits = text_.substr(at_, kDigits);
  std::uint32_t point = 0;
  const auto [stop, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), point, 16);
  if (digits.size() < kDigits || code != std::errc() || stop != digits.data() + kDigits) {
    return error("Invalid \\uXXXX escape", at_ - 1);
  }
  at_ += kDigits;
  return static_cast<char32_t>(point);
}

Result<Value> Reader::read_number() {
  const std::size_t begin = at_;
  take("-");
  if (!take("0") && !take_digits()) return error("Expecting value", begin);
  const std::size_t whole_end = at_;
  if (take(".") && !take_digits()) at_ = whole_end;
  const std::size_t fraction_end = at_;
  if (take("e") || take("E")) {
    if (!take("+")) take("-");
    if (!take_digits()) at_ = fraction_end;
  }
  const std::string_view digits = text_.substr(begin, at_ - begin);
  const bool is_whole = at_ == whole_end;
  if (is_whole) {
    std::int64_t integer = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), integer).ec == std::errc())
      return Value(integer);
  }
  double real = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), real).ec ==
      std::errc::result_out_of_range) {
    const bool is_tiny =
        digits.find("e-") != std::string_view::npos || digits.find("E-") != std::string_view::npos;
    const double size = is_tiny ? 0 : std::numeric_limits<double>::infinity();
    real = digits.starts_with('-') ? -size : size;
  }
  return is_whole ? Value::large_integer(real, std::string(digits)) : Value(real);
}

}  // namespace

Result<Value> read_python_json(std::string_view text) {
  return Reader(text).read_document();
}

}  // namespace tinker::render
