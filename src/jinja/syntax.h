#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/lexer.h"
#include "jinja/value.h"

namespace tinker::jinja {

/// A name of the template, as its place in `Syntax::names`.
using NameId = std::uint32_t;

class Interpreter;
struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Block = std::vector<Statement>;

/// What is written between two operands, or before one.
enum class Operator : std::uint8_t {
  plus,
  minus,
  times,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  unequal,
  less,
  at_most,
  greater,
  at_least,
  in,
  not_in,
};
/// As it is written.
std::string_view sign_of(Operator what);

/// What a filter and a test do. Without one of that name, null.
using Filter = Result<Value> (*)(Interpreter& interpreter,
                                 const Value& subject,
                                 Arguments arguments);
using Test = Result<bool> (*)(const Value& subject, Arguments arguments);

struct CallArguments {
  std::vector<ExpressionPtr> positional = {};
  std::vector<std::pair<std::string, ExpressionPtr>> named = {};
  ExpressionPtr more_positional = {};  ///< *these
  ExpressionPtr more_named = {};       ///< **these
};

struct Expression {
  enum class Kind : std::uint8_t {
    constant,
    name,
    list,        // parts
    tuple,       // parts
    dict,        // parts: keys and values in turn
    attribute,   // parts[0].constant, which is text
    item,        // parts[0][parts[1]]
    slice,       // parts[0][parts[1]:parts[2]:parts[3]], null for what is left out
    call,        // parts[0](arguments)
    filter,      // parts[0]|text(arguments); no part: what a block gives
    test,        // parts[0] is text(arguments)
    negation,    // not parts[0]
    unary,       // operators[0] parts[0]
    binary,      // parts[0] operators[0] parts[1]
    comparison,  // parts[0] operators[0] parts[1] operators[1] parts[2] …
    concatenation,
    conjunction,
    disjunction,
    condition,  // parts[1] if parts[0] else parts[2], which may be null
  };
  Kind kind = Kind::constant;
  Position position = {};
  Value constant = {};
  NameId name = 0;
  std::string text = {};
  Filter filter = nullptr;
  Test test = nullptr;
  std::vector<ExpressionPtr> parts = {};
  std::vector<Operator> operators = {};
  CallArguments arguments = {};
  // Of an attribute, and of an item whose key is text:
  bool may_be_method = false;  ///< Values of some type have a method of that name.
  Value missing = {};          ///< What it is of a dict that has no such member.
  std::size_t depth = 1;       ///< Of its tree.
};

/// Whether its value is made by appending one text to another.
[[nodiscard]] inline bool is_appended(const Expression& expression) {
  return expression.kind == Expression::Kind::concatenation ||
         (expression.kind == Expression::Kind::binary && expression.operators[0] == Operator::plus);
}

/// What is assigned to: a name, a member of a namespace, or several of both.
struct Target {
  Position position = {};
  NameId name = 0;
  std::optional<Value> member = {};  ///< Of the namespace `name`; text.
  std::vector<Target> targets = {};  ///< In the place of a name: what is unpacked.
  bool is_many = false;
};

struct Parameter {
  NameId name = 0;
  ExpressionPtr fallback = {};
};

struct Statement {
  enum class Kind : std::uint8_t {
    text,
    output,      // expressions[0]
    branch,      // blocks[i] if expressions[i]; a block more for else
    loop,        // target in expressions[0], if expressions[1], which may be null; blocks[1]: else
    set,         // target = expressions[0]
    set_block,   // target = blocks[0], through expressions[0], which may be null
    macro,       // name(parameters): blocks[0]
    call_block,  // expressions[0], with blocks[0] as its caller(parameters)
    filter_block,  // blocks[0] through expressions[0]
    with,          // targets[i] = expressions[i] in blocks[0]
    scope,         // blocks[0], whose assignments end with it
    stop,          // break
    next,          // continue
  };
  Kind kind = Kind::text;
  Position position = {};
  std::string text = {};
  NameId name = 0;
  std::vector<ExpressionPtr> expressions = {};
  std::vector<Target> targets = {};
  std::vector<Parameter> parameters = {};
  std::vector<Block> blocks = {};
  bool is_recursive = false;
  // Which of its three special names a macro uses.
  bool takes_varargs = false;
  bool takes_kwargs = false;
};

struct Name {
  Value text = {};
  Value undefined = {};    ///< What it is where nothing defines it,
  bool is_global = false;  ///< unless every template has it.
};

struct Syntax {
  Block block = {};
  std::vector<Name> names = {};

  [[nodiscard]] std::optional<NameId> find(std::string_view name) const;
};

/// Errors name line and column.
Result<Syntax> parse(std::string_view source);

}  // namespace tinker::jinja
