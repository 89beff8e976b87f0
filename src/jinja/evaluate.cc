#include <optional>
#include <ranges>
#include <utility>

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
      TINKER_TRY(const Held subject, hold(*expression.parts[0]));
      return located(expression.position, attribute(subject.get(), expression.text));
    }
    case Kind::item: {
      TINKER_TRY(const Held subject, hold(*expression.parts[0]));
      TINKER_TRY(const Held key, hold(*expression.parts[1]));
      return located(expression.position, item(subject.get(), key.get()));
    }
    case Kind::slice: return evaluate_slice(expression);
    case Kind::call: return evaluate_call(expression);
    case Kind::filter: return evaluate_filter(expression);
    case Kind::test: return evaluate_test(expression);
    case Kind::negation: {
      TINKER_TRY(const Held operand, hold(*expression.parts[0]));
      return Value(!operand.get().truth());
    }
    case Kind::unary: {
      TINKER_TRY(const Value operand, evaluate(*expression.parts[0]));
      return located(expression.position, unary(expression.text, operand));
    }
    case Kind::binary: {
      if (expression.text == "+") return evaluate_sum(expression);
      TINKER_TRY(const Held left, hold(*expression.parts[0]));
      TINKER_TRY(const Held right, hold(*expression.parts[1]));
      return located(expression.position,
                     binary(expression.text, left.get(), right.get(), options_.max_bytes));
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

const Value* Interpreter::find_name(NameId name) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* const found = scope->find(name)) return found;
  }
  return given_[name];
}

// The members of namespaces are not where they were after a macro was called, so they are copied.
const Value* Interpreter::find(const Expression& expression) {
  using Kind = Expression::Kind;
  switch (expression.kind) {
    case Kind::constant: return &expression.constant;
    case Kind::name: return find_name(expression.name);
    case Kind::attribute: {
      const Value* const subject = find(*expression.parts[0]);
      if (subject == nullptr || !subject->is_dict()) return nullptr;
      return has_method(*subject, expression.text) ? nullptr
                                                   : subject->dict().member(expression.text);
    }
    case Kind::item: {
      const Value* const subject = find(*expression.parts[0]);
      const Value* const key = subject == nullptr ? nullptr : find(*expression.parts[1]);
      return key == nullptr ? nullptr : find_element(*subject, *key);
    }
    default: return nullptr;
  }
}

Result<Interpreter::Held> Interpreter::hold(const Expression& expression) {
  if (const Value* const there = find(expression)) {
    ++steps_;
    return Held{.there = there};
  }
  TINKER_TRY(Value made, evaluate(expression));
  return Held{.made = std::move(made)};
}

Result<Value> Interpreter::evaluate_name(const Expression& expression) {
  if (const Value* const found = find_name(expression.name)) return *found;
  const std::string& name = syntax_.names[expression.name];
  if (auto found = global(name, *this)) return *std::move(found);
  return Value::undefined(base::concat("'", name, "' is undefined"));
}

/// `a + b + c` from the left. Text that is plain grows in one place.
Result<Value> Interpreter::evaluate_sum(const Expression& expression) {
  std::vector<const Expression*> sums;
  const Expression* first = &expression;
  for (; first->kind == Expression::Kind::binary && first->text == "+";
       first = first->parts[0].get()) {
    sums.push_back(first);
  }
  const auto is_plain = [](const Value& value) { return value.is_string() && !value.is_markup(); };
  TINKER_TRY(Held left, hold(*first));
  std::optional<std::string> text;
  for (const Expression* const sum : sums | std::views::reverse) {
    TINKER_TRY(const Held right, hold(*sum->parts[1]));
    if (is_plain(right.get()) && (text || is_plain(left.get()))) {
      if (!text) text = left.get().text();
      *text += right.get().text();
      if (text->size() <= options_.max_bytes) continue;
      return located(sum->position,
                     template_error(base::concat(
                         "the result of '+' has more than ", options_.max_bytes, " bytes")));
    }
    if (text) left = {.made = Value(*std::exchange(text, std::nullopt))};
    TINKER_TRY(Value both,
               located(sum->position, binary("+", left.get(), right.get(), options_.max_bytes)));
    left = {.made = std::move(both)};
  }
  return text ? Value(*std::move(text)) : std::move(left.made);
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
    TINKER_TRY(const Held subject, hold(*what.parts[0]));
    if (has_method(subject.get(), what.text)) {
      TINKER_TRY(auto arguments, evaluate_arguments(expression.arguments));
      return located(expression.position,
                     call_method(subject.get(), what.text, std::move(arguments)));
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
  Held subject;
  if (expression.parts.empty()) {
    subject.made = Value(*filtered_);
  } else {
    TINKER_TRY(subject, hold(*expression.parts[0]));
  }
  TINKER_TRY(auto arguments, evaluate_arguments(expression.arguments));
  return located(expression.position, filter(expression.text, subject.get(), std::move(arguments)));
}

Result<Value> Interpreter::evaluate_test(const Expression& expression) {
  TINKER_TRY(const Held subject, hold(*expression.parts[0]));
  TINKER_TRY(auto arguments, evaluate_arguments(expression.arguments));
  TINKER_TRY(
      const bool holds,
      located(expression.position, test(expression.text, subject.get(), std::move(arguments))));
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
  TINKER_TRY(Held left, hold(*expression.parts[0]));
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    TINKER_TRY(Held right, hold(*expression.parts[i + 1]));
    TINKER_TRY(
        const bool holds,
        located(expression.position, compare(expression.operators[i], left.get(), right.get())));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::evaluate_concatenation(const Expression& expression) {
  std::string text;
  for (const auto& part : expression.parts) {
    TINKER_TRY(const Held value, hold(*part));
    if (value.get().is_string()) {
      text += value.get().text();
    } else {
      text += to_text(value.get());
    }
  }
  if (text.size() > options_.max_bytes) {
    return located(expression.position, template_error("the text is too long"));
  }
  return Value(std::move(text));
}

Result<Value> Interpreter::evaluate_condition(const Expression& expression) {
  TINKER_TRY(const Held condition, hold(*expression.parts[0]));
  if (condition.get().truth()) return evaluate(*expression.parts[1]);
  if (expression.parts[2]) return evaluate(*expression.parts[2]);
  return Value::undefined("the condition is false, and there is no 'else'");
}

}  // namespace tinker::jinja
