#include <algorithm>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/interpreter.h"
#include "jinja/loops.h"

namespace tinker::jinja {

Result<Value> Interpreter::evaluate(const Expression& expression) {
  using Kind = Expression::Kind;
  if (expression.kind == Kind::constant) return expression.constant;
  if (const auto spent = spend(1); !spent.ok()) return located(expression.position, spent.error());
  switch (expression.kind) {
    case Kind::constant: break;
    case Kind::name: return evaluate_name(expression);
    case Kind::list:
    case Kind::tuple: return evaluate_parts(expression);
    case Kind::dict: return evaluate_dict(expression);
    case Kind::attribute: {
      TINKER_TRY(const Value subject, evaluate(*expression.parts[0]));
      return located(expression.position, attribute(subject, expression.text));
    }
    case Kind::item: {
      TINKER_TRY(const Value subject, evaluate(*expression.parts[0]));
      TINKER_TRY(const Value key, evaluate(*expression.parts[1]));
      return located(expression.position, item(subject, key));
    }
    case Kind::slice: return evaluate_slice(expression);
    case Kind::call: return evaluate_call(expression);
    case Kind::filter: return evaluate_filter(expression);
    case Kind::test: return evaluate_test(expression);
    case Kind::negation: {
      TINKER_TRY(const Value operand, evaluate(*expression.parts[0]));
      return Value(!operand.truth());
    }
    case Kind::unary: {
      TINKER_TRY(const Value operand, evaluate(*expression.parts[0]));
      return located(expression.position, unary(expression.text, operand));
    }
    case Kind::binary: {
      TINKER_TRY(const Value left, evaluate(*expression.parts[0]));
      TINKER_TRY(const Value right, evaluate(*expression.parts[1]));
      return located(expression.position, binary(expression.text, left, right, options_.max_bytes));
    }
    case Kind::comparison: return evaluate_comparison(expression);
    case Kind::concatenation: return evaluate_concatenation(expression);
    case Kind::conjunction: {
      TINKER_TRY(Value left, evaluate(*expression.parts[0]));
      return left.truth() ? evaluate(*expression.parts[1]) : std::move(left);
    }
    case Kind::disjunction: {
      TINKER_TRY(Value left, evaluate(*expression.parts[0]));
      return left.truth() ? std::move(left) : evaluate(*expression.parts[1]);
    }
    case Kind::condition: return evaluate_condition(expression);
  }
  return Value();
}

Result<Value> Interpreter::evaluate_name(const Expression& expression) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* const found = scope->find(expression.name)) return *found;
  }
  const std::string& name = syntax_.names[expression.name];
  if (const Value* const found = variables_.member(name)) return *found;
  if (auto found = global(name, *this)) return *std::move(found);
  return Value::undefined(base::concat("'", name, "' is undefined"));
}

Result<Value> Interpreter::evaluate_parts(const Expression& expression) {
  List out;
  out.reserve(expression.parts.size());
  for (const auto& part : expression.parts) {
    TINKER_TRY(Value value, evaluate(*part));
    out.push_back(std::move(value));
  }
  const bool is_list = expression.kind == Expression::Kind::list;
  return is_list ? Value(std::move(out)) : Value::tuple(std::move(out));
}

Result<Value> Interpreter::evaluate_dict(const Expression& expression) {
  Dict out;
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    TINKER_TRY(Value key, evaluate(*expression.parts[i]));
    TINKER_TRY(Value value, evaluate(*expression.parts[i + 1]));
    if (key.is(Value::Kind::list) || key.is_dict()) {
      return located(expression.position,
                     template_error(base::concat(described(key), " cannot be the key of a dict")));
    }
    out.set(std::move(key), std::move(value));
  }
  return Value(std::move(out));
}

Result<Value> Interpreter::evaluate_slice(const Expression& expression) {
  TINKER_TRY(const Value subject, evaluate(*expression.parts[0]));
  Slice parts;
  std::size_t next = 1;
  for (Value* const part : {&parts.start, &parts.stop, &parts.step}) {
    if (const auto& written = expression.parts[next++]) {
      TINKER_TRY(*part, evaluate(*written));
    }
  }
  return located(expression.position, slice(subject, parts));
}

Result<Arguments> Interpreter::evaluate_arguments(const CallArguments& arguments) {
  Arguments out;
  for (const auto& argument : arguments.positional) {
    TINKER_TRY(Value value, evaluate(*argument));
    out.positional.push_back(std::move(value));
  }
  for (const auto& [name, argument] : arguments.named) {
    TINKER_TRY(Value value, evaluate(*argument));
    out.named.emplace_back(name, std::move(value));
  }
  if (arguments.more_positional) {
    TINKER_TRY(const Value more, evaluate(*arguments.more_positional));
    TINKER_TRY(auto items, located(arguments.more_positional->position, elements(more)));
    for (Value& item : items) out.positional.push_back(std::move(item));
  }
  if (arguments.more_named) {
    TINKER_TRY(const Value more, evaluate(*arguments.more_named));
    if (!more.is_dict()) {
      return located(arguments.more_named->position,
                     template_error(base::concat("'**' wants a dict, found ", described(more))));
    }
    for (const auto& [name, value] : more.dict()) out.named.emplace_back(to_text(name), value);
  }
  return out;
}

Result<Value> Interpreter::evaluate_call(const Expression& expression) {
  const Expression& what = *expression.parts[0];
  // A method is called without being made a value first.
  if (what.kind == Expression::Kind::attribute) {
    TINKER_TRY(const Value subject, evaluate(*what.parts[0]));
    if (has_method(subject, what.text)) {
      TINKER_TRY(auto arguments, evaluate_arguments(expression.arguments));
      return located(expression.position, call_method(subject, what.text, std::move(arguments)));
    }
  }
  TINKER_TRY(const Value callee, evaluate(what));
  TINKER_TRY(auto arguments, evaluate_arguments(expression.arguments));
  const auto call = [&](const Value& target) {
    return located(expression.position, target.callable().call(std::move(arguments)));
  };
  if (callee.is(Value::Kind::callable)) return call(callee);
  if (callee.is(Value::Kind::loop) && !callee.loop()->recursion.is_none()) {
    return call(callee.loop()->recursion);
  }
  return located(
      expression.position,
      template_error(callee.is_undefined() ? callee.why()
                                           : base::concat(described(callee), " cannot be called")));
}

Result<Value> Interpreter::evaluate_filter(const Expression& expression) {
  Value subject;
  if (expression.parts.empty()) {
    subject = Value(*filtered_);
  } else {
    TINKER_TRY(subject, evaluate(*expression.parts[0]));
  }
  TINKER_TRY(auto arguments, evaluate_arguments(expression.arguments));
  return located(expression.position, filter(expression.text, subject, std::move(arguments)));
}

Result<Value> Interpreter::evaluate_test(const Expression& expression) {
  TINKER_TRY(const Value subject, evaluate(*expression.parts[0]));
  TINKER_TRY(auto arguments, evaluate_arguments(expression.arguments));
  TINKER_TRY(const bool holds,
             located(expression.position, test(expression.text, subject, std::move(arguments))));
  return Value(holds);
}

Result<Value> Interpreter::evaluate_comparison(const Expression& expression) {
  const auto compare = [](std::string_view sign, const Value& a, const Value& b) -> Result<bool> {
    if (sign == "==") return equal(a, b);
    if (sign == "!=") return !equal(a, b);
    if (sign == "in") return contains(b, a);
    if (sign == "not in") {
      TINKER_TRY(const bool is_in, contains(b, a));
      return !is_in;
    }
    if (sign == "<") return less(a, b);
    if (sign == ">") return less(b, a);
    TINKER_TRY(const bool is_less, sign == "<=" ? less(a, b) : less(b, a));
    return is_less || equal(a, b);
  };
  TINKER_TRY(Value left, evaluate(*expression.parts[0]));
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    TINKER_TRY(Value right, evaluate(*expression.parts[i + 1]));
    TINKER_TRY(const bool holds,
               located(expression.position, compare(expression.operators[i], left, right)));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::evaluate_concatenation(const Expression& expression) {
  std::string text;
  for (const auto& part : expression.parts) {
    TINKER_TRY(const Value value, evaluate(*part));
    if (value.is_string()) {
      text += value.text();
    } else {
      text += to_text(value);
    }
  }
  if (text.size() > options_.max_bytes) {
    return located(expression.position, template_error("the text is too long"));
  }
  return Value(std::move(text));
}

Result<Value> Interpreter::evaluate_condition(const Expression& expression) {
  TINKER_TRY(const Value condition, evaluate(*expression.parts[0]));
  if (condition.truth()) return evaluate(*expression.parts[1]);
  if (expression.parts[2]) return evaluate(*expression.parts[2]);
  return Value::undefined("the condition is false, and there is no 'else'");
}

}  // namespace tinker::jinja
