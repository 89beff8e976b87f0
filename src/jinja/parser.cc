#include "jinja/parser.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "jinja/builtins.h"

namespace tinker::jinja {

namespace {

using TokenKind = Token::Kind;

/// What Jinja knows and chat templates do without.
constexpr std::array<std::string_view, 9> kUnsupported = {
    "include", "import", "from", "extends", "block", "autoescape", "trans", "do", "debug"};

/// How deep blocks, brackets and conditions may be nested.
constexpr int kMaxLevels = 100;

}  // namespace

std::optional<NameId> Syntax::find(std::string_view name) const {
  const auto found = std::ranges::find(
      names, name, [](const Name& known) { return std::string_view(known.text.text()); });
  if (found == names.end()) return std::nullopt;
  return static_cast<NameId>(found - names.begin());
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data: return "text";
    case TokenKind::variable_begin: return "'{{'";
    case TokenKind::variable_end: return "'}}'";
    case TokenKind::block_begin: return "'{%'";
    case TokenKind::block_end: return "'%}'";
    case TokenKind::string: return "a string";
    case TokenKind::integer:
    case TokenKind::real: return "a number";
    case TokenKind::end: return "the end of the template";
    case TokenKind::name:
    case TokenKind::sign: break;
  }
  return base::concat("'", token.text, "'");
}

Parser::Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

Result<void> Parser::Level::check() const {
  if (parser_.depth_ <= kMaxLevels) return {};
  return error_at(parser_.current().position,
                  base::concat("nested more than ", kMaxLevels, " levels deep"));
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

bool Parser::skip_sign(std::string_view sign) {
  if (!current().is_sign(sign)) return false;
  take();
  return true;
}

Error Parser::unexpected(std::string_view wanted) const {
  return error_at(current().position,
                  base::concat("expected ", wanted, ", found ", describe(current())));
}

Result<void> Parser::expect_sign(std::string_view sign) {
  if (skip_sign(sign)) return {};
  return unexpected(base::concat("'", sign, "'"));
}

Result<void> Parser::expect_name(std::string_view name) {
  if (skip_name(name)) return {};
  return unexpected(base::concat("'", name, "'"));
}

Result<std::string> Parser::expect_any_name() {
  if (current().kind != TokenKind::name) return unexpected("a name");
  return take().text;
}

NameId Parser::id_of(std::string_view name) {
  const auto [entry, is_new] =
      ids_.try_emplace(std::string(name), static_cast<NameId>(syntax_.names.size()));
  if (is_new) {
    syntax_.names.push_back(
        {.text = name,
         .undefined = Value::undefined(base::concat("'", name, "' is undefined")),
         .is_global = is_global(name)});
  }
  return entry->second;
}

Result<Syntax> Parser::read() {
  TINKER_TRY(syntax_.block, read_block({}));
  return std::move(syntax_);
}

// ---- statements ---------------------------------------------------------------------------------

Result<void> Parser::expect_block_end() {
  if (current().kind != TokenKind::block_end) return unexpected("'%}'");
  take();
  return {};
}

Result<Block> Parser::read_block(std::initializer_list<std::string_view> ends) {
  const Position opened_at = current().position;
  Block out;
  while (true) {
    switch (current().kind) {
      case TokenKind::data: {
        Token text = take();
        out.push_back({.kind = Statement::Kind::text,
                       .position = text.position,
                       .text = std::move(text.text)});
        break;
      }
      case TokenKind::variable_begin: {
        Statement output = {.kind = Statement::Kind::output, .position = take().position};
        TINKER_TRY(auto expression, read_tuple());
        output.expressions.push_back(std::move(expression));
        if (current().kind != TokenKind::variable_end) return unexpected("'}}'");
        take();
        out.push_back(std::move(output));
        break;
      }
      case TokenKind::block_begin: {
        take();
        if (current().kind == TokenKind::name &&
            std::ranges::find(ends, current().text) != ends.end()) {
          return out;
        }
        TINKER_TRY(auto statement, read_statement());
        out.push_back(std::move(statement));
        break;
      }
      default:
        if (ends.size() == 0) return out;
        return error_at(opened_at, base::concat("a block that no '", *(ends.end() - 1), "' ends"));
    }
  }
}

Result<Block> Parser::read_whole_block(std::string_view end) {
  TINKER_TRY(expect_block_end());
  TINKER_TRY(auto block, read_block({end}));
  take();
  TINKER_TRY(expect_block_end());
  return block;
}

Result<Statement> Parser::read_statement() {
  const Level level(*this);
  TINKER_TRY(level.check());
  const Position position = current().position;
  TINKER_TRY(const std::string tag, expect_any_name());
  Result<Statement> out = [&]() -> Result<Statement> {
    if (tag == "if") return read_if();
    if (tag == "for") return read_for();
    if (tag == "set") return read_set();
    if (tag == "macro") return read_macro();
    if (tag == "call") return read_call_block();
    if (tag == "filter") return read_filter_block();
    if (tag == "with") return read_with();
    if (tag == "generation") {
      TINKER_TRY(auto block, read_whole_block("endgeneration"));
      Statement scope = {.kind = Statement::Kind::scope};
      scope.blocks.push_back(std::move(block));
      return scope;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) return error_at(position, base::concat("'", tag, "' outside of a loop"));
      TINKER_TRY(expect_block_end());
      return Statement{.kind = tag == "break" ? Statement::Kind::stop : Statement::Kind::next};
    }
    const bool is_known = std::ranges::find(kUnsupported, tag) != kUnsupported.end();
    return error_at(position,
                    is_known ? base::concat("the tag '", tag, "' is not supported")
                             : base::concat("unknown tag '", tag, "'"));
  }();
  if (out.ok()) out->position = position;
  return out;
}

Result<Statement> Parser::read_if() {
  Statement out = {.kind = Statement::Kind::branch};
  while (true) {
    TINKER_TRY(auto condition, read_tuple(Conditions::without));
    out.expressions.push_back(std::move(condition));
    TINKER_TRY(expect_block_end());
    TINKER_TRY(auto block, read_block({"elif", "else", "endif"}));
    out.blocks.push_back(std::move(block));
    const std::string end = take().text;
    if (end == "elif") continue;
    if (end == "else") {
      TINKER_TRY(auto otherwise, read_whole_block("endif"));
      out.blocks.push_back(std::move(otherwise));
    } else {
      TINKER_TRY(expect_block_end());
    }
    return out;
  }
}

Result<Statement> Parser::read_for() {
  Statement out = {.kind = Statement::Kind::loop};
  TINKER_TRY(auto target, read_target(false));
  out.targets.push_back(std::move(target));
  TINKER_TRY(expect_name("in"));
  TINKER_TRY(auto over, read_tuple(Conditions::without));
  out.expressions.push_back(std::move(over));
  out.expressions.emplace_back();
  if (skip_name("if")) {
    TINKER_TRY(out.expressions.back(), read_expression());
  }
  out.is_recursive = skip_name("recursive");
  TINKER_TRY(expect_block_end());
  ++loops_;
  auto body = read_block({"else", "endfor"});
  --loops_;
  if (!body.ok()) return std::move(body).error();
  out.blocks.push_back(*std::move(body));
  if (take().text == "else") {
    TINKER_TRY(auto otherwise, read_whole_block("endfor"));
    out.blocks.push_back(std::move(otherwise));
  } else {
    TINKER_TRY(expect_block_end());
  }
  return out;
}

Result<Statement> Parser::read_set() {
  Statement out = {.kind = Statement::Kind::set};
  TINKER_TRY(auto target, read_target(true));
  out.targets.push_back(std::move(target));
  if (skip_sign("=")) {
    TINKER_TRY(auto value, read_tuple());
    out.expressions.push_back(std::move(value));
    TINKER_TRY(expect_block_end());
    return out;
  }
  out.kind = Statement::Kind::set_block;
  TINKER_TRY(auto filters, read_filters(nullptr, false));
  out.expressions.push_back(std::move(filters));
  TINKER_TRY(auto block, read_whole_block("endset"));
  out.blocks.push_back(std::move(block));
  return out;
}

Result<Statement> Parser::read_macro() {
  Statement out = {.kind = Statement::Kind::macro};
  TINKER_TRY(out.text, expect_any_name());
  out.name = id_of(out.text);
  TINKER_TRY(out.parameters, read_parameters());
  const std::size_t first = at_;
  const int loops = std::exchange(loops_, 0);
  auto block = read_whole_block("endmacro");
  loops_ = loops;
  if (!block.ok()) return std::move(block).error();
  const auto uses = [&](std::string_view name) {
    return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(first),
                       tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                       [&](const Token& token) { return token.is_name(name); });
  };
  out.takes_varargs = uses("varargs");
  out.takes_kwargs = uses("kwargs");
  out.blocks.push_back(*std::move(block));
  return out;
}

Result<Statement> Parser::read_call_block() {
  Statement out = {.kind = Statement::Kind::call_block, .text = "caller"};
  if (current().is_sign("(")) {
    TINKER_TRY(out.parameters, read_parameters());
  }
  TINKER_TRY(auto call, read_expression());
  if (call->kind != Expression::Kind::call) {
    return error_at(call->position, "expected the call of a macro");
  }
  out.expressions.push_back(std::move(call));
  TINKER_TRY(auto block, read_whole_block("endcall"));
  out.blocks.push_back(std::move(block));
  return out;
}

Result<Statement> Parser::read_filter_block() {
  Statement out = {.kind = Statement::Kind::filter_block};
  TINKER_TRY(auto filters, read_filters(nullptr, true));
  out.expressions.push_back(std::move(filters));
  TINKER_TRY(auto block, read_whole_block("endfilter"));
  out.blocks.push_back(std::move(block));
  return out;
}

Result<Statement> Parser::read_with() {
  Statement out = {.kind = Statement::Kind::with};
  while (current().kind != TokenKind::block_end) {
    if (!out.targets.empty()) {
      TINKER_TRY(expect_sign(","));
    }
    TINKER_TRY(auto target, read_target(false));
    TINKER_TRY(expect_sign("="));
    TINKER_TRY(auto value, read_expression());
    out.targets.push_back(std::move(target));
    out.expressions.push_back(std::move(value));
  }
  TINKER_TRY(auto block, read_whole_block("endwith"));
  out.blocks.push_back(std::move(block));
  return out;
}

Result<Target> Parser::read_target(bool with_member) {
  const Position position = current().position;
  TINKER_TRY(auto first, read_single_target(with_member));
  if (!current().is_sign(",")) return first;
  Target out = {.position = position, .is_many = true};
  out.targets.push_back(std::move(first));
  while (skip_sign(",")) {
    const bool is_over = current().is_name("in") || current().is_sign("=") ||
                         current().is_sign(")") || current().kind == TokenKind::block_end;
    if (is_over) break;
    TINKER_TRY(auto next, read_single_target(with_member));
    out.targets.push_back(std::move(next));
  }
  return out;
}

Result<Target> Parser::read_single_target(bool with_member) {
  const Level level(*this);
  TINKER_TRY(level.check());
  if (skip_sign("(")) {
    TINKER_TRY(auto out, read_target(with_member));
    TINKER_TRY(expect_sign(")"));
    return out;
  }
  Target out = {.position = current().position};
  TINKER_TRY(const std::string name, expect_any_name());
  out.name = id_of(name);
  if (with_member && skip_sign(".")) {
    TINKER_TRY(const std::string member, expect_any_name());
    out.member = member;
    return out;
  }
  constexpr std::array<std::string_view, 6> kConstants = {
      "true", "false", "none", "True", "False", "None"};
  if (std::ranges::find(kConstants, name) != kConstants.end()) {
    return error_at(out.position, base::concat("'", name, "' cannot be assigned to"));
  }
  return out;
}

Result<std::vector<Parameter>> Parser::read_parameters() {
  std::vector<Parameter> out;
  TINKER_TRY(expect_sign("("));
  while (!current().is_sign(")")) {
    if (!out.empty()) {
      TINKER_TRY(expect_sign(","));
    }
    const Position position = current().position;
    TINKER_TRY(const std::string name, expect_any_name());
    Parameter parameter = {.name = id_of(name)};
    if (skip_sign("=")) {
      TINKER_TRY(parameter.fallback, read_expression());
    } else if (!out.empty() && out.back().fallback) {
      return error_at(position,
                      base::concat("parameter '", name, "' has no default, but one before it has"));
    }
    out.push_back(std::move(parameter));
  }
  take();
  return out;
}

Result<Syntax> parse(std::string_view source) {
  TINKER_TRY(auto tokens, read_tokens(source));
  return Parser(std::move(tokens)).read();
}

}  // namespace tinker::jinja
