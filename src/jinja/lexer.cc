#include "jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/strings.h"
#include "jinja/utf8.h"
#include "jinja/value.h"
#include "tokenizer/unicode.h"

// How a template is cut into tokens. Text runs up to the next "{{", "{%" or "{#". White space
// around a tag goes away where the tag says so ("{%-", "-%}"), and, because chat templates are
// rendered with trim_blocks and lstrip_blocks, the newline behind a block or comment and the blanks
// in front of one that begins its line. "+" in the place of "-" keeps them.

namespace tinker::jinja {

namespace {

using TokenKind = Token::Kind;

constexpr bool is_digit_char(char c) noexcept {
  return c >= '0' && c <= '9';
}
constexpr bool is_name_start(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
constexpr bool is_name_char(char c) noexcept {
  return is_name_start(c) || is_digit_char(c);
}

/// One kind of newline, and none at the end.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  Result<std::vector<Token>> read();

 private:
  Result<void> read_comment(std::size_t begin, std::size_t content);
  Result<bool> read_raw(std::size_t begin);
  Result<void> read_expression(std::string_view closing, std::size_t opened_at);
  Result<void> read_token();
  Result<void> read_string();
  Result<void> read_number();
  bool close_tag(std::string_view closing);

  /// Ends the text before a tag at `end`, without the white space that the tag takes away.
  void add_data(std::size_t end, char sign, bool is_variable);
  void add(TokenKind kind, std::size_t begin, std::string text);
  /// Goes on behind a tag that ended at `at_`.
  void leave_tag(char sign, bool trims_newline);
  void skip_space();
  [[nodiscard]] std::string_view rest() const { return std::string_view(source_).substr(at_); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  [[nodiscard]] Error fail(std::size_t where, std::string_view message) {
    return error_at(position(where), message);
  }
  Position position(std::size_t offset);

  std::string source_;
  std::size_t at_ = 0;
  bool is_line_start_ = true;  // the last tag, if any, ended with its line
  std::string brackets_;       // those that are open
  std::vector<Token> tokens_;
  // The position of the offset asked for last; they only grow, but for messages.
  std::size_t known_offset_ = 0;
  Position known_ = {};
};

Position Lexer::position(std::size_t offset) {
  if (offset < known_offset_) {
    known_offset_ = 0;
    known_ = {};
  }
  for (; known_offset_ < offset && known_offset_ < source_.size(); ++known_offset_) {
    if (source_[known_offset_] == '\n') {
      ++known_.line;
      known_.column = 1;
    } else if (!tokenizer::is_continuation(source_[known_offset_])) {
      ++known_.column;
    }
  }
  return known_;
}

void Lexer::add(TokenKind kind, std::size_t begin, std::string text) {
  tokens_.push_back({.kind = kind, .text = std::move(text), .position = position(begin)});
}

void Lexer::add_data(std::size_t end, char sign, bool is_variable) {
  std::string_view text = std::string_view(source_).substr(at_, end - at_);
  if (sign == '-') {
    text = trim_right(text);
  } else if (sign != '+' && !is_variable) {
    const std::size_t line = text.rfind('\n') + 1;  // 0 where there is none
    if ((line > 0 || is_line_start_) && trim(text.substr(line)).empty())
      text = text.substr(0, line);
  }
  if (!text.empty()) add(TokenKind::data, at_, std::string(text));
}

void Lexer::leave_tag(char sign, bool trims_newline) {
  const std::size_t end = at_;
  if (sign == '-') {
    at_ += rest().size() - trim_left(rest()).size();
  } else if (trims_newline && sign != '+' && peek() == '\n') {
    ++at_;
  }
  is_line_start_ = at_ > end ? source_[at_ - 1] == '\n' : false;
}

void Lexer::skip_space() {
  at_ += rest().size() - trim_left(rest()).size();
}

Result<std::vector<Token>> Lexer::read() {
  while (at_ < source_.size()) {
    std::size_t found = at_;
    std::string_view opening;
    for (;; ++found) {
      found = source_.find('{', found);
      if (found == std::string::npos) break;
      opening = std::string_view(source_).substr(found, 2);
      if (opening == "{{" || opening == "{%" || opening == "{#") break;
    }
    if (found == std::string::npos) {
      add(TokenKind::data, at_, source_.substr(at_));
      at_ = source_.size();
      break;
    }
    if (opening == "{%") {
      TINKER_TRY(const bool was_raw, read_raw(found));
      if (was_raw) continue;
    }
    const char sign = found + 2 < source_.size() ? source_[found + 2] : '\0';
    const bool is_signed = sign == '-' || sign == '+';
    add_data(found, is_signed ? sign : '\0', opening == "{{");
    at_ = found;
    if (opening == "{#") {
      TINKER_TRY(read_comment(found, found + (is_signed ? 3 : 2)));
      continue;
    }
    add(opening == "{{" ? TokenKind::variable_begin : TokenKind::block_begin, found, {});
    at_ += is_signed ? 3 : 2;
    TINKER_TRY(read_expression(opening == "{{" ? "}}" : "%}", found));
  }
  add(TokenKind::end, source_.size(), {});
  return std::move(tokens_);
}

Result<void> Lexer::read_comment(std::size_t begin, std::size_t content) {
  const std::size_t end = source_.find("#}", content);
  if (end == std::string::npos) return fail(begin, "a comment that nothing ends: expected '#}'");
  const char sign = end > content ? source_[end - 1] : '\0';
  at_ = end + 2;
  leave_tag(sign, true);
  return {};
}

/// Past "raw" or "endraw" between "{%" and "%}" at `at`; its end and the signs at both sides.
struct RawTag {
  std::size_t end;
  char opening;
  char closing;
};

std::optional<RawTag> raw_tag_at(std::string_view source, std::size_t at, std::string_view name) {
  const auto sign_at = [&](std::size_t i) {
    return i < source.size() && (source[i] == '-' || source[i] == '+') ? source[i] : '\0';
  };
  const auto skip = [&](std::size_t i) {
    const auto rest = source.substr(std::min(i, source.size()));
    return i + (rest.size() - trim_left(rest).size());
  };
  if (source.substr(at, 2) != "{%") return std::nullopt;
  at += 2;
  RawTag out = {.end = 0, .opening = sign_at(at), .closing = '\0'};
  if (out.opening != '\0') ++at;
  at = skip(at);
  if (source.substr(at, name.size()) != name) return std::nullopt;
  at = skip(at + name.size());
  out.closing = sign_at(at);
  if (out.closing != '\0') ++at;
  if (source.substr(at, 2) != "%}") return std::nullopt;
  out.end = at + 2;
  return out;
}

Result<bool> Lexer::read_raw(std::size_t begin) {
  const auto opened = raw_tag_at(source_, begin, "raw");
  if (!opened || opened->closing == '+') return false;
  add_data(begin, opened->opening, false);
  at_ = opened->end;
  leave_tag(opened->closing, false);
  for (std::size_t end = at_;; end += 2) {
    end = source_.find("{%", end);
    if (end == std::string::npos) return fail(begin, "raw that nothing ends: expected 'endraw'");
    const auto closed = raw_tag_at(source_, end, "endraw");
    if (!closed) continue;
    add_data(end, closed->opening, false);
    at_ = closed->end;
    leave_tag(closed->closing, true);
    return true;
  }
}

bool Lexer::close_tag(std::string_view closing) {
  const bool is_block = closing == "%}";
  const bool is_signed = peek() == '-' || (is_block && peek() == '+');
  const std::size_t begin = at_ + (is_signed ? 1 : 0);
  if (std::string_view(source_).substr(begin, 2) != closing) return false;
  const char sign = is_signed ? peek() : '\0';
  add(is_block ? TokenKind::block_end : TokenKind::variable_end, at_, {});
  at_ = begin + 2;
  leave_tag(sign, is_block);
  return true;
}

Result<void> Lexer::read_expression(std::string_view closing, std::size_t opened_at) {
  brackets_.clear();
  while (true) {
    skip_space();
    if (at_ == source_.size()) {
      return fail(opened_at, base::concat("a tag that nothing ends: expected '", closing, "'"));
    }
    if (brackets_.empty() && close_tag(closing)) return {};
    TINKER_TRY(read_token());
  }
}

Result<void> Lexer::read_token() {
  constexpr std::array<std::string_view, 23> kSigns = {"//", "**", "==", "!=", ">=", "<=", "+", "-",
                                                       "/",  "*",  "%",  "~",  "[",  "]",  "(", ")",
                                                       "{",  "}",  ">",  "<",  "=",  ".",  ":"};
  constexpr std::string_view kMore = "|,;";
  const std::size_t begin = at_;
  const char c = peek();
  if (is_name_start(c)) {
    while (is_name_char(peek())) ++at_;
    add(TokenKind::name, begin, source_.substr(begin, at_ - begin));
    return {};
  }
  if (is_digit_char(c)) return read_number();
  if (c == '"' || c == '\'') return read_string();
  const auto sign =
      std::ranges::find_if(kSigns, [&](std::string_view s) { return rest().starts_with(s); });
  const bool is_known = sign != kSigns.end();
  if (!is_known && kMore.find(c) == std::string_view::npos) {
    return fail(
        begin, base::concat("unexpected character '", rest().substr(0, offset_of(rest(), 1)), "'"));
  }
  const std::string_view text = is_known ? *sign : rest().substr(0, 1);
  if (text == "[" || text == "(" || text == "{") brackets_ += text;
  if (text == "]" || text == ")" || text == "}") {
    const char wanted = text == "]" ? '[' : text == ")" ? '(' : '{';
    if (!brackets_.ends_with(wanted)) {
      return fail(begin, base::concat("unexpected '", text, "'"));
    }
    brackets_.pop_back();
  }
  add(TokenKind::sign, begin, std::string(text));
  at_ += text.size();
  return {};
}

/// Digits, '_' between them left out.
void take_digits(std::string_view text, std::size_t& at, std::string& out) {
  while (at < text.size()) {
    const bool is_joint = text[at] == '_' && at + 1 < text.size() && is_digit_char(text[at + 1]);
    if (!is_digit_char(text[at]) && !is_joint) return;
    if (!is_joint) out += text[at];
    ++at;
  }
}

Result<void> Lexer::read_number() {
  const std::size_t begin = at_;
  std::string digits;
  take_digits(source_, at_, digits);
  bool is_real = false;
  if (peek() == '.' && is_digit_char(peek(1))) {
    is_real = true;
    digits += '.';
    ++at_;
    take_digits(source_, at_, digits);
  }
  const bool has_sign = peek(1) == '+' || peek(1) == '-';
  if ((peek() == 'e' || peek() == 'E') && is_digit_char(peek(has_sign ? 2 : 1))) {
    is_real = true;
    digits += 'e';
    if (has_sign) digits += peek(1);
    at_ += has_sign ? 2 : 1;
    take_digits(source_, at_, digits);
  }
  Token token = {.kind = is_real ? TokenKind::real : TokenKind::integer,
                 .position = position(begin)};
  const char* const first = digits.data();
  const char* const last = first + digits.size();
  const auto failure = is_real ? std::from_chars(first, last, token.real).ec
                               : std::from_chars(first, last, token.integer).ec;
  if (failure != std::errc()) {
    return fail(begin, base::concat("the number ", digits, " is too large"));
  }
  tokens_.push_back(std::move(token));
  return {};
}

/// The value of `count` hexadecimal digits at `at`.
std::optional<char32_t> hex_at(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  std::uint32_t value = 0;
  const char* const first = text.data() + at;
  const auto [end, failure] = std::from_chars(first, first + count, value, 16);
  if (failure != std::errc() || end != first + count) return std::nullopt;
  return static_cast<char32_t>(value);
}

/// What stands behind a backslash at `at`, as in Python; moves `at` behind it. False for nonsense.
bool append_escape(std::string& out, std::string_view text, std::size_t& at) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  const char c = text[at++];
  if (c == '\n') return true;
  if (const auto letter = kLetters.find(c); letter != std::string_view::npos) {
    out += kMeanings[letter];
    return true;
  }
  if (c == 'x' || c == 'u' || c == 'U') {
    const std::size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    const auto point = hex_at(text, at, count);
    if (!point || *point > 0x10FFFF || (*point >= 0xD800 && *point < 0xE000)) return false;
    tokenizer::append_utf8(out, *point);
    at += count;
    return true;
  }
  if (c >= '0' && c <= '7') {
    char32_t point = 0;
    for (--at; at < text.size() && text[at] >= '0' && text[at] <= '7' && point < 64; ++at) {
      point = point * 8 + static_cast<char32_t>(text[at] - '0');
    }
    tokenizer::append_utf8(out, point);
    return true;
  }
  out += '\\';
  out += c;
  return c != 'N';
}

Result<void> Lexer::read_string() {
  const std::size_t begin = at_;
  const char quote = source_[at_++];
  std::string text;
  while (true) {
    if (at_ == source_.size()) return fail(begin, "a string that nothing ends");
    const char c = source_[at_++];
    if (c == quote) break;
    if (c != '\\') {
      text += c;
      continue;
    }
    if (at_ == source_.size()) return fail(begin, "a string that nothing ends");
    const std::size_t escape = at_ - 1;
    if (!append_escape(text, source_, at_)) {
      return fail(
          escape,
          base::concat("the escape '\\", source_.substr(escape + 1, 1), "' makes no character"));
    }
  }
  add(TokenKind::string, begin, std::move(text));
  return {};
}

}  // namespace

Error error_at(Position position, std::string_view message) {
  return template_error(
      base::concat("line ", position.line, ", column ", position.column, ": ", message));
}

Result<std::vector<Token>> read_tokens(std::string_view source) {
  return Lexer(source).read();
}

}  // namespace tinker::jinja
