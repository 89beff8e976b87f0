#include "tokenizer/pattern_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/strings.h"

namespace tinker::tokenizer {

namespace {

using Kind = PatternNode::Kind;

constexpr int kMaxDepth = 32;
constexpr std::uint32_t kMaxCount = 1000;

bool is_letter(char32_t c) {
  return (c | 0x20U) >= 'a' && (c | 0x20U) <= 'z' && c < 0x80;
}

/// With the other cases of its letters. Of those beyond ASCII only the two that fold into it.
CodePointSet fold_case(const CodePointSet& set) {
  CodePointSet out = set;
  for (char32_t c = 'A'; c <= 'Z'; ++c) {
    const char32_t lower = c | 0x20U;
    if (!set.contains(c) && !set.contains(lower)) continue;
    out.add({.first = c, .last = c});
    out.add({.first = lower, .last = lower});
    if (c == 'S') out.add({.first = 0x17F, .last = 0x17F});
    if (c == 'K') out.add({.first = 0x212A, .last = 0x212A});
  }
  return out;
}

class Parser {
 public:
  Parser(std::string_view text, Dialect dialect) : text_(text), dialect_(dialect) {}

  Result<PatternNode> parse() {
    TINKER_TRY(auto node, alternatives(0));
    if (at_ < text_.size()) return refuse("')' without '('");
    return node;
  }

 private:
  [[nodiscard]] Error refuse(std::string_view what) const {
    return {.code = ErrorCode::invalid_argument,
            .message = base::concat("regular expression '", text_, "': ", what, " at byte ", at_)};
  }
  [[nodiscard]] bool is_at(std::string_view token) const {
    return text_.substr(at_).starts_with(token);
  }
  bool take(std::string_view token) {
    if (!is_at(token)) return false;
    at_ += token.size();
    return true;
  }
  [[nodiscard]] bool is_over() const { return at_ == text_.size(); }

  Result<PatternNode> alternatives(int depth);
  Result<PatternNode> sequence(int depth);
  Result<PatternNode> repeated(int depth);
  Result<PatternNode> atom(int depth);
  Result<PatternNode> group(int depth);
  Result<PatternNode> quantified(PatternNode node);
  Result<bool> counts(PatternNode& node);
  Result<CodePointSet> bracket(int depth);
  Result<CodePointSet> bracket_items(int depth);
  Result<CodePointSet> bracket_item(int depth);
  Result<CodePointSet> escape();
  Result<CodePointSet> property(bool is_inverted);
  Result<char32_t> code_point();
  Result<char32_t> hexadecimal(std::size_t digits);
  [[nodiscard]] PatternNode set_node(CodePointSet set) const {
    return {.kind = Kind::set, .set = ignores_case_ ? fold_case(set) : std::move(set)};
  }

  std::string_view text_;
  Dialect dialect_;
  std::size_t at_ = 0;
  bool ignores_case_ = false;
};

Result<PatternNode> Parser::alternatives(int depth) {
  if (depth > kMaxDepth) return refuse("groups nested too deeply");
  PatternNode out = {.kind = Kind::alternatives};
  do {
    TINKER_TRY(auto part, sequence(depth));
    out.parts.push_back(std::move(part));
  } while (take("|"));
  if (out.parts.size() == 1) return std::move(out.parts.front());
  return out;
}

Result<PatternNode> Parser::sequence(int depth) {
  PatternNode out = {.kind = Kind::sequence};
  while (!is_over() && text_[at_] != '|' && text_[at_] != ')') {
    TINKER_TRY(auto part, repeated(depth));
    out.parts.push_back(std::move(part));
  }
  return out;
}

Result<PatternNode> Parser::repeated(int depth) {
  TINKER_TRY(auto node, atom(depth));
  return quantified(std::move(node));
}

/// Whether there is a quantifier; its numbers go into `node`.
Result<bool> Parser::counts(PatternNode& node) {
  if (take("?")) {
    node.min = 0;
  } else if (take("*")) {
    node.min = 0;
    node.max = kNoLimit;
  } else if (take("+")) {
    node.max = kNoLimit;
  } else if (take("{")) {
    const auto number = [this](std::uint32_t& out) {
      const char* const begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), out);
      at_ += static_cast<std::size_t>(end - begin);
      return error == std::errc();
    };
    if (!number(node.min)) return refuse("a number is missing after '{'");
    node.max = node.min;
    if (take(",") && !number(node.max)) node.max = kNoLimit;
    if (!take("}")) return refuse("'}' is missing");
    const bool is_limited = node.max != kNoLimit;
    if (node.min > kMaxCount || (is_limited && (node.max > kMaxCount || node.max < node.min))) {
      return refuse("a repetition that is out of order or over 1000");
    }
  } else {
    return false;
  }
  return true;
}

Result<PatternNode> Parser::quantified(PatternNode node) {
  for (int level = 0;; ++level) {
    if (level > kMaxDepth) return refuse("too many quantifiers in a row");
    PatternNode repetition = {.kind = Kind::repetition};
    const bool is_counted = !is_over() && text_[at_] == '{';
    TINKER_TRY(const bool is_repeated, counts(repetition));
    if (!is_repeated) return node;
    if (is_at("?")) return refuse("the lazy quantifier '?' is not supported");
    // After numbers a '+' is another repetition for Oniguruma.
    const bool may_keep = !is_counted || dialect_ == Dialect::rust;
    repetition.keeps_all = may_keep && take("+");
    repetition.parts.push_back(std::move(node));
    node = std::move(repetition);
  }
}

Result<PatternNode> Parser::atom(int depth) {
  const bool has_lines = dialect_ == Dialect::oniguruma;
  if (take("(")) return group(depth);
  if (take("[")) {
    TINKER_TRY(auto set, bracket(depth));
    return set_node(std::move(set));
  }
  if (take("^")) return PatternNode{.kind = has_lines ? Kind::line_begin : Kind::text_begin};
  if (take("$")) return PatternNode{.kind = has_lines ? Kind::line_end : Kind::text_end};
  if (take("\\z")) return PatternNode{.kind = Kind::text_end};
  if (take("\\A")) return PatternNode{.kind = Kind::text_begin};
  if (take(".")) {
    return PatternNode{.kind = Kind::set,
                       .set = CodePointSet::of({.first = '\n', .last = '\n'}).complement()};
  }
  if (is_at("*") || is_at("+") || is_at("?") || is_at("{")) return refuse("nothing to repeat");
  if (is_at("\\")) {
    TINKER_TRY(auto set, escape());
    return set_node(std::move(set));
  }
  TINKER_TRY(const char32_t c, code_point());
  if (ignores_case_ && c >= 0x80) return refuse("letters beyond ASCII where case is ignored");
  return set_node(CodePointSet::of({.first = c, .last = c}));
}

Result<PatternNode> Parser::group(int depth) {
  Kind look = Kind::sequence;
  const bool outer_case = ignores_case_;
  if (take("?=")) {
    look = Kind::look_ahead;
  } else if (take("?!")) {
    look = Kind::look_ahead_not;
  } else if (take("?i:")) {
    ignores_case_ = true;
  } else if (!take("?:") && is_at("?")) {
    return refuse(base::concat("the group '(", text_.substr(at_, 3), "' is not supported"));
  }
  TINKER_TRY(auto node, alternatives(depth + 1));
  ignores_case_ = outer_case;
  if (!take(")")) return refuse("')' is missing");
  if (look == Kind::sequence) return node;
  PatternNode out = {.kind = look};
  out.parts.push_back(std::move(node));
  return out;
}

Result<CodePointSet> Parser::bracket(int depth) {
  if (depth > kMaxDepth) return refuse("classes nested too deeply");
  const bool is_inverted = take("^");
  TINKER_TRY(auto set, bracket_items(depth));
  while (take("&&")) {
    TINKER_TRY(const auto other, bracket_items(depth));
    set = set.intersection(other);
  }
  if (!take("]")) return refuse("']' is missing");
  return is_inverted ? set.complement() : set;
}

Result<CodePointSet> Parser::bracket_items(int depth) {
  CodePointSet set;
  while (!is_over() && text_[at_] != ']' && !is_at("&&")) {
    TINKER_TRY(const auto item, bracket_item(depth));
    set.add(item);
  }
  return set;
}

Result<CodePointSet> Parser::bracket_item(int depth) {
  if (is_at("[:")) return refuse("'[:' is not supported");
  if (take("[")) return bracket(depth + 1);
  CodePointSet first;
  if (is_at("\\")) {
    TINKER_TRY(first, escape());
  } else {
    TINKER_TRY(const char32_t c, code_point());
    if (ignores_case_ && c >= 0x80) return refuse("letters beyond ASCII where case is ignored");
    first = CodePointSet::of({.first = c, .last = c});
  }
  const bool is_single =
      first.ranges().size() == 1 && first.ranges()[0].first == first.ranges()[0].last;
  // A '-' at the end stands for itself.
  if (!is_single || !is_at("-") || is_at("-]")) return first;
  take("-");
  CodePointSet last;
  if (is_at("\\")) {
    TINKER_TRY(last, escape());
  } else {
    TINKER_TRY(const char32_t c, code_point());
    last = CodePointSet::of({.first = c, .last = c});
  }
  const bool is_range = last.ranges().size() == 1 &&
                        last.ranges()[0].first == last.ranges()[0].last &&
                        first.ranges()[0].first <= last.ranges()[0].first;
  if (!is_range) return refuse("a range that has no end or runs backwards");
  return CodePointSet::of({.first = first.ranges()[0].first, .last = last.ranges()[0].last});
}

Result<CodePointSet> Parser::escape() {
  take("\\");
  if (is_over()) return refuse("'\\' at the end");
  const char c = text_[at_++];
  const auto single = [](char32_t only) { return CodePointSet::of({.first = only, .last = only}); };
  switch (c) {
    case 'n': return single('\n');
    case 'r': return single('\r');
    case 't': return single('\t');
    case 'f': return single('\f');
    case 'v': return single('\v');
    case 's': return CodePointSet::space();
    case 'S': return CodePointSet::space().complement();
    case 'd': return *CodePointSet::property("Nd");
    case 'D': return CodePointSet::property("Nd")->complement();
    case 'p': return property(false);
    case 'P': return property(true);
    case 'u': {
      TINKER_TRY(const char32_t code, hexadecimal(4));
      return single(code);
    }
    case 'x': {
      const bool is_braced = take("{");
      TINKER_TRY(const char32_t code, hexadecimal(is_braced ? 8 : 2));
      if (is_braced && !take("}")) return refuse("'}' is missing");
      return single(code);
    }
    default: break;
  }
  --at_;
  const auto byte = static_cast<unsigned char>(c);
  if (is_letter(byte) || (c >= '0' && c <= '9') || byte >= 0x80) {
    return refuse(base::concat("'\\", std::string_view(&c, 1), "' is not supported"));
  }
  ++at_;
  return single(byte);
}

Result<CodePointSet> Parser::property(bool is_inverted) {
  const bool is_braced = take("{");
  if (is_braced && take("^")) is_inverted = !is_inverted;
  const std::size_t end = is_braced ? text_.find('}', at_) : at_ + 1;
  if (end == std::string_view::npos || end > text_.size()) return refuse("no name after '\\p'");
  const auto name = text_.substr(at_, end - at_);
  const auto set = CodePointSet::property(name);
  if (!set) return refuse(base::concat("the property '", name, "' is not supported"));
  at_ = is_braced ? end + 1 : end;
  return is_inverted ? set->complement() : *set;
}

Result<char32_t> Parser::hexadecimal(std::size_t digits) {
  std::uint32_t value = 0;
  const char* const begin = text_.data() + at_;
  const char* const limit = begin + std::min(digits, text_.size() - at_);
  const auto [end, error] = std::from_chars(begin, limit, value, 16);
  if (error != std::errc() || value > 0x10FFFF) return refuse("no code point in hexadecimal");
  at_ += static_cast<std::size_t>(end - begin);
  return static_cast<char32_t>(value);
}

Result<char32_t> Parser::code_point() {
  if (is_over()) return refuse("something is missing");
  const auto [code_point, size] = decode_at(text_, at_);
  if (code_point == kNoCodePoint) return refuse("text that is not UTF-8");
  at_ += size;
  return code_point;
}

}  // namespace

Result<PatternNode> parse_pattern(std::string_view text, Dialect dialect) {
  return Parser(text, dialect).parse();
}

}  // namespace tinker::tokenizer
