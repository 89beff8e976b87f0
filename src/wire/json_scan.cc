#include "wire/json_scan.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/strings.h"
#include "wire/path.h"

namespace tinker::wire {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// A recursive-descent reader of RFC 8259 that keeps nothing but its place.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  JsonDiagnosis run() {
    if (value(0)) {
      skip_space();
      if (at_ < text_.size()) expected("nothing after the document");
    }
    if (problem_) return {.problem = problem_};
    if (wide_integer_ends_.empty()) return {};
    std::string repaired;
    std::size_t from = 0;
    for (const std::size_t end : wide_integer_ends_) {
      repaired += text_.substr(from, end - from);
      repaired += ".0";
      from = end;
    }
    repaired += text_.substr(from);
    return {.repaired = repaired};
  }

 private:
  static constexpr int kDeepest = 1024;  // the parser's limit, too

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool expected(std::string_view what) {
    // Words are shown, other bytes are not: they need not be text.
    constexpr std::string_view kShown =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-.<>\"'_";
    std::size_t length = 0;
    while (length < 24 && at_ + length < text_.size() &&
           kShown.find(text_[at_ + length]) != std::string_view::npos) {
      ++length;
    }
    const std::string found = at_ == text_.size() ? "the end"
                              : length == 0       ? "another character"
                                            : base::concat("'", text_.substr(at_, length), "'");
    problem_ = base::concat(path_.to_string(), ": expected ", what, ", found ", found);
    return false;
  }

  bool value(int depth) {
    if (depth > kDeepest) return expected("nesting of at most 1024");
    skip_space();
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return string();
      case 't': return word("true");
      case 'f': return word("false");
      case 'n': return word("null");
      default: return peek() == '-' || is_digit(peek()) ? number() : expected("a JSON value");
    }
  }

  bool word(std::string_view spelling) {
    if (!text_.substr(at_).starts_with(spelling)) return expected("a JSON value");
    at_ += spelling.size();
    return true;
  }

  bool object(int depth) {
    accept('{');
    if (accept('}')) return true;
    do {
      skip_space();
      const std::size_t begin = at_ + 1;
      if (peek() != '"' || !string()) return problem_ ? false : expected("a member's name");
      const Path::Step step(path_, text_.substr(begin, at_ - 1 - begin));
      if (!accept(':')) return expected("':'");
      if (!value(depth + 1)) return false;
    } while (accept(','));
    return accept('}') || expected("',' or '}'");
  }

  bool array(int depth) {
    accept('[');
    if (accept(']')) return true;
    std::size_t index = 0;
    do {
      const Path::Step step(path_, index++);
      if (!value(depth + 1)) return false;
    } while (accept(','));
    return accept(']') || expected("',' or ']'");
  }

  bool string() {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return expected("no control character");
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    if (at_ >= text_.size()) {
      at_ = text_.size();
      return expected("the end of a string");
    }
    ++at_;
    return true;
  }

  bool digits() {
    if (!is_digit(peek())) return false;
    while (is_digit(peek())) ++at_;
    return true;
  }

  bool number() {
    const std::size_t begin = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else if (!digits()) {
      return expected("a digit");
    }
    bool is_integer = true;
    if (peek() == '.') {
      ++at_;
      is_integer = false;
      if (!digits()) return expected("a digit");
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      is_integer = false;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return expected("a digit");
    }
    return in_range(begin, is_integer);
  }

  bool in_range(std::size_t begin, bool is_integer) {
    const char* first = text_.data() + begin;
    const char* last = text_.data() + at_;
    // from_chars does not tell too large from too small, strtod does.
    if (std::isinf(std::strtod(std::string(first, last).c_str(), nullptr))) {
      at_ = begin;
      return expected("a number within the range of a double");
    }
    std::int64_t as_signed = 0;
    std::uint64_t as_unsigned = 0;
    if (is_integer && std::from_chars(first, last, as_signed).ec != std::errc() &&
        std::from_chars(first, last, as_unsigned).ec != std::errc()) {
      wide_integer_ends_.push_back(at_);
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Path path_;
  std::optional<std::string> problem_;
  std::vector<std::size_t> wide_integer_ends_;
};

}  // namespace

JsonDiagnosis diagnose_json(std::string_view text) {
  return Scanner(text).run();
}

}  // namespace tinker::wire
