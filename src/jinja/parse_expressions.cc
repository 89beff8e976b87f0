#include <algorithm>
#include <array>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/parser.h"

// The expressions of templates. Each function reads one level of precedence and what binds
// stronger, from "a if b else c" down to names and literals, as Jinja's own grammar has them.

namespace tinker::jinja {

namespace {

using TokenKind = Token::Kind;
using Part = Expression::Kind;

std::unique_ptr<Expression> make(Part kind, Position position) {
  auto out = std::make_unique<Expression>();
  out->kind = kind;
  out->position = position;
  return out;
}

std::unique_ptr<Expression> make(Part kind, Position position, ExpressionPtr first) {
  auto out = make(kind, position);
  out->parts.push_back(std::move(first));
  return out;
}

std::unique_ptr<Expression> constant(Position position, Value value) {
  auto out = make(Part::constant, position);
  out->constant = std::move(value);
  return out;
}

/// As they are written, in the order of `Operator`.
constexpr std::array<std::string_view, 15> kSigns = {
    "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

/// Nothing where no operator is written so.
std::optional<Operator> operator_of(std::string_view sign) {
  const auto found = std::ranges::find(kSigns, sign);
  if (found == kSigns.end()) return std::nullopt;
  return static_cast<Operator>(found - kSigns.begin());
}

bool compares(Operator what) {
  return what >= Operator::equal;
}

/// Of an attribute, or of an item whose key is text.
void set_member(Expression& out, const std::string& name) {
  out.may_be_method = is_method(name);
  out.missing = no_member(Value(Dict()), name);
}

/// How deep the tree of an expression may be: rendering recurses.
constexpr std::size_t kMaxExpressionDepth = 300;

/// An expression whose parts are complete.
Result<ExpressionPtr> finish(std::unique_ptr<Expression> out) {
  const auto include = [&out](const ExpressionPtr& part) {
    if (part) out->depth = std::max(out->depth, part->depth + 1);
  };
  for (const auto& part : out->parts) include(part);
  for (const auto& part : out->arguments.positional) include(part);
  for (const auto& [name, part] : out->arguments.named) include(part);
  include(out->arguments.more_positional);
  include(out->arguments.more_named);
  if (out->depth <= kMaxExpressionDepth) return ExpressionPtr(std::move(out));
  return error_at(out->position, "an expression of too many parts");
}

}  // namespace

std::string_view sign_of(Operator what) {
  return kSigns[static_cast<std::size_t>(what)];
}

Result<ExpressionPtr> Parser::read_tuple(Conditions conditions) {
  const Position position = current().position;
  TINKER_TRY(auto first, read_expression(conditions));
  if (!current().is_sign(",")) return first;
  auto out = make(Part::tuple, position, std::move(first));
  while (skip_sign(",")) {
    const bool is_over = current().kind == TokenKind::variable_end ||
                         current().kind == TokenKind::block_end || current().is_sign(")") ||
                         current().is_name("recursive");
    if (is_over) break;
    TINKER_TRY(auto next, read_expression(conditions));
    out->parts.push_back(std::move(next));
  }
  return finish(std::move(out));
}

Result<ExpressionPtr> Parser::read_expression(Conditions conditions) {
  const Level level(*this);
  TINKER_TRY(level.check());
  return conditions == Conditions::with ? read_condition() : read_disjunction();
}

Result<ExpressionPtr> Parser::read_condition() {
  TINKER_TRY(auto out, read_disjunction());
  while (current().is_name("if")) {
    auto condition = make(Part::condition, take().position);
    TINKER_TRY(auto test, read_disjunction());
    condition->parts.push_back(std::move(test));
    condition->parts.push_back(std::move(out));
    condition->parts.emplace_back();
    if (skip_name("else")) {
      TINKER_TRY(condition->parts.back(), read_expression());
    }
    TINKER_TRY(out, finish(std::move(condition)));
  }
  return out;
}

Result<ExpressionPtr> Parser::read_disjunction() {
  TINKER_TRY(auto out, read_conjunction());
  while (current().is_name("or")) {
    auto both = make(Part::disjunction, take().position, std::move(out));
    TINKER_TRY(auto right, read_conjunction());
    both->parts.push_back(std::move(right));
    TINKER_TRY(out, finish(std::move(both)));
  }
  return out;
}

Result<ExpressionPtr> Parser::read_conjunction() {
  TINKER_TRY(auto out, read_negation());
  while (current().is_name("and")) {
    auto both = make(Part::conjunction, take().position, std::move(out));
    TINKER_TRY(auto right, read_negation());
    both->parts.push_back(std::move(right));
    TINKER_TRY(out, finish(std::move(both)));
  }
  return out;
}

Result<ExpressionPtr> Parser::read_negation() {
  if (!current().is_name("not")) return read_comparison();
  const Level level(*this);
  TINKER_TRY(level.check());
  const Position position = take().position;
  TINKER_TRY(auto operand, read_negation());
  return finish(make(Part::negation, position, std::move(operand)));
}

Result<ExpressionPtr> Parser::read_comparison() {
  const Position position = current().position;
  TINKER_TRY(auto first, read_sum());
  auto out = make(Part::comparison, position, std::move(first));
  while (true) {
    if (skip_name("in")) {
      out->operators.push_back(Operator::in);
    } else if (current().is_name("not") && ahead().is_name("in")) {
      take();
      take();
      out->operators.push_back(Operator::not_in);
    } else {
      const auto what =
          current().kind == TokenKind::sign ? operator_of(current().text) : std::nullopt;
      if (!what || !compares(*what)) break;
      take();
      out->operators.push_back(*what);
    }
    TINKER_TRY(auto next, read_sum());
    out->parts.push_back(std::move(next));
  }
  if (out->operators.empty()) return std::move(out->parts.front());
  return finish(std::move(out));
}

Result<ExpressionPtr> Parser::read_binaries(ExpressionResult (Parser::*operand)(),
                                            std::initializer_list<std::string_view> signs) {
  TINKER_TRY(auto out, (this->*operand)());
  while (current().kind == TokenKind::sign &&
         std::ranges::find(signs, current().text) != signs.end()) {
    const Token sign = take();
    auto both = make(Part::binary, sign.position, std::move(out));
    both->operators.push_back(operator_of(sign.text).value());
    TINKER_TRY(auto right, (this->*operand)());
    both->parts.push_back(std::move(right));
    TINKER_TRY(out, finish(std::move(both)));
  }
  return out;
}

Result<ExpressionPtr> Parser::read_sum() {
  return read_binaries(&Parser::read_concatenation, {"+", "-"});
}

Result<ExpressionPtr> Parser::read_concatenation() {
  const Position position = current().position;
  TINKER_TRY(auto first, read_product());
  if (!current().is_sign("~")) return first;
  auto out = make(Part::concatenation, position, std::move(first));
  while (skip_sign("~")) {
    TINKER_TRY(auto next, read_product());
    out->parts.push_back(std::move(next));
  }
  return finish(std::move(out));
}

Result<ExpressionPtr> Parser::read_product() {
  return read_binaries(&Parser::read_power, {"*", "/", "//", "%"});
}

Result<ExpressionPtr> Parser::read_power() {
  TINKER_TRY(auto out, read_unary(true));
  while (current().is_sign("**")) {
    auto both = make(Part::binary, take().position, std::move(out));
    both->operators.push_back(Operator::power);
    TINKER_TRY(auto right, read_unary(true));
    both->parts.push_back(std::move(right));
    TINKER_TRY(out, finish(std::move(both)));
  }
  return out;
}

Result<ExpressionPtr> Parser::read_unary(bool with_filters) {
  const Level level(*this);
  TINKER_TRY(level.check());
  ExpressionPtr out;
  if (current().is_sign("-") || current().is_sign("+")) {
    const Token sign = take();
    TINKER_TRY(auto operand, read_unary(false));
    auto unary = make(Part::unary, sign.position, std::move(operand));
    unary->operators.push_back(operator_of(sign.text).value());
    TINKER_TRY(out, finish(std::move(unary)));
  } else {
    TINKER_TRY(out, read_primary());
  }
  TINKER_TRY(out, read_postfix(std::move(out)));
  if (!with_filters) return out;
  return read_filters_and_tests(std::move(out));
}

Result<ExpressionPtr> Parser::read_primary() {
  const Position position = current().position;
  switch (current().kind) {
    case TokenKind::name: {
      const std::string name = take().text;
      if (name == "true" || name == "True") return ExpressionPtr(constant(position, true));
      if (name == "false" || name == "False") return ExpressionPtr(constant(position, false));
      if (name == "none" || name == "None") return ExpressionPtr(constant(position, {}));
      auto out = make(Part::name, position);
      out->name = id_of(name);
      return finish(std::move(out));
    }
    case TokenKind::string: {
      std::string text = take().text;
      while (current().kind == TokenKind::string) text += take().text;
      return ExpressionPtr(constant(position, std::move(text)));
    }
    case TokenKind::integer: return ExpressionPtr(constant(position, take().integer));
    case TokenKind::real: return ExpressionPtr(constant(position, take().real));
    case TokenKind::sign:
      if (current().text == "(") return read_parenthesis();
      if (current().text == "[") return read_list();
      if (current().text == "{") return read_dict();
      break;
    default: break;
  }
  return unexpected("an expression");
}

Result<ExpressionPtr> Parser::read_parenthesis() {
  const Position position = take().position;
  if (skip_sign(")")) return ExpressionPtr(make(Part::tuple, position));
  TINKER_TRY(auto out, read_tuple());
  TINKER_TRY(expect_sign(")"));
  return out;
}

Result<ExpressionPtr> Parser::read_list() {
  auto out = make(Part::list, take().position);
  while (!current().is_sign("]")) {
    if (!out->parts.empty()) {
      TINKER_TRY(expect_sign(","));
    }
    if (current().is_sign("]")) break;
    TINKER_TRY(auto item, read_expression());
    out->parts.push_back(std::move(item));
  }
  take();
  return finish(std::move(out));
}

Result<ExpressionPtr> Parser::read_dict() {
  auto out = make(Part::dict, take().position);
  while (!current().is_sign("}")) {
    if (!out->parts.empty()) {
      TINKER_TRY(expect_sign(","));
    }
    if (current().is_sign("}")) break;
    TINKER_TRY(auto key, read_expression());
    TINKER_TRY(expect_sign(":"));
    TINKER_TRY(auto value, read_expression());
    out->parts.push_back(std::move(key));
    out->parts.push_back(std::move(value));
  }
  take();
  return finish(std::move(out));
}

Result<ExpressionPtr> Parser::read_postfix(ExpressionPtr subject) {
  while (true) {
    if (current().is_sign(".")) {
      TINKER_TRY(subject, read_attribute(std::move(subject)));
    } else if (current().is_sign("[")) {
      TINKER_TRY(subject, read_subscript(std::move(subject)));
    } else if (current().is_sign("(")) {
      TINKER_TRY(subject, read_call(std::move(subject)));
    } else {
      return subject;
    }
  }
}

Result<ExpressionPtr> Parser::read_filters_and_tests(ExpressionPtr subject) {
  while (true) {
    if (current().is_sign("|")) {
      TINKER_TRY(subject, read_filters(std::move(subject), false));
    } else if (current().is_name("is")) {
      TINKER_TRY(subject, read_test(std::move(subject)));
    } else if (current().is_sign("(")) {
      TINKER_TRY(subject, read_call(std::move(subject)));
    } else {
      return subject;
    }
  }
}

Result<ExpressionPtr> Parser::read_attribute(ExpressionPtr subject) {
  const Position position = take().position;
  if (current().kind == TokenKind::name) {
    auto out = make(Part::attribute, position, std::move(subject));
    const std::string name = take().text;
    out->constant = name;
    set_member(*out, name);
    return finish(std::move(out));
  }
  if (current().kind != TokenKind::integer) return unexpected("a name or a number");
  auto out = make(Part::item, position, std::move(subject));
  out->parts.push_back(constant(current().position, current().integer));
  take();
  return finish(std::move(out));
}

Result<ExpressionPtr> Parser::read_subscript(ExpressionPtr subject) {
  const Position position = take().position;
  std::vector<ExpressionPtr> parts;
  bool is_slice = false;
  parts.emplace_back();
  while (!current().is_sign("]")) {
    if (skip_sign(":")) {
      is_slice = true;
      parts.emplace_back();
      if (parts.size() > 3) return unexpected("']'");
      continue;
    }
    if (parts.back()) return unexpected("']'");
    TINKER_TRY(parts.back(), read_tuple());
  }
  if (!is_slice && !parts.front()) return unexpected("an expression");
  take();
  auto out = make(is_slice ? Part::slice : Part::item, position, std::move(subject));
  if (!is_slice && parts.front()->kind == Part::constant && parts.front()->constant.is_string()) {
    set_member(*out, parts.front()->constant.text());
  }
  for (auto& part : parts) out->parts.push_back(std::move(part));
  if (is_slice) out->parts.resize(4);
  return finish(std::move(out));
}

Result<ExpressionPtr> Parser::read_call(ExpressionPtr callee) {
  auto out = make(Part::call, current().position, std::move(callee));
  TINKER_TRY(out->arguments, read_arguments());
  return finish(std::move(out));
}

Result<CallArguments> Parser::read_arguments() {
  CallArguments out;
  TINKER_TRY(expect_sign("("));
  bool is_first = true;
  while (!current().is_sign(")")) {
    if (!is_first) {
      TINKER_TRY(expect_sign(","));
    }
    if (current().is_sign(")")) break;
    is_first = false;
    if (skip_sign("**")) {
      TINKER_TRY(out.more_named, read_expression());
    } else if (skip_sign("*")) {
      TINKER_TRY(out.more_positional, read_expression());
    } else if (current().kind == TokenKind::name && ahead().is_sign("=")) {
      std::string name = take().text;
      take();
      TINKER_TRY(auto value, read_expression());
      out.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!out.named.empty() || out.more_named || out.more_positional) {
        return error_at(current().position, "an argument without a name behind one with a name");
      }
      TINKER_TRY(auto value, read_expression());
      out.positional.push_back(std::move(value));
    }
  }
  take();
  return out;
}

Result<std::string> Parser::read_dotted_name() {
  TINKER_TRY(std::string name, expect_any_name());
  while (skip_sign(".")) {
    TINKER_TRY(const std::string more, expect_any_name());
    name += base::concat(".", more);
  }
  return name;
}

Result<ExpressionPtr> Parser::read_filters(ExpressionPtr subject, bool is_begun) {
  while (is_begun || current().is_sign("|")) {
    if (!is_begun) take();
    is_begun = false;
    auto out = make(Part::filter, current().position);
    if (subject) out->parts.push_back(std::move(subject));
    TINKER_TRY(out->text, read_dotted_name());
    out->filter = find_filter(out->text);
    if (current().is_sign("(")) {
      TINKER_TRY(out->arguments, read_arguments());
    }
    TINKER_TRY(subject, finish(std::move(out)));
  }
  return subject;
}

Result<ExpressionPtr> Parser::read_test(ExpressionPtr subject) {
  const Position position = take().position;
  const bool is_negated = skip_name("not");
  auto out = make(Part::test, current().position, std::move(subject));
  TINKER_TRY(out->text, read_dotted_name());
  out->test = find_test(out->text);
  const bool begins_argument =
      current().kind == TokenKind::name || current().kind == TokenKind::string ||
      current().kind == TokenKind::integer || current().kind == TokenKind::real ||
      current().is_sign("[") || current().is_sign("{");
  const bool goes_on = current().is_name("else") || current().is_name("or") ||
                       current().is_name("and") || current().is_name("if");
  if (current().is_sign("(")) {
    TINKER_TRY(out->arguments, read_arguments());
  } else if (begins_argument && !goes_on) {
    if (current().is_name("is")) return unexpected("no second test");
    TINKER_TRY(auto argument, read_primary());
    TINKER_TRY(argument, read_postfix(std::move(argument)));
    out->arguments.positional.push_back(std::move(argument));
  }
  if (!is_negated) return finish(std::move(out));
  return finish(make(Part::negation, position, std::move(out)));
}

}  // namespace tinker::jinja
