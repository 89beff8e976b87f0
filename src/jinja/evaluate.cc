#include <optional>
#include <utility>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/interpreter.h"
#include "jinja/loops.h"

namespace tinker::jinja {

Result<Value> Interpreter::evaluate(const Expression& expression) {
  using Kind = Expression::Kind;
  if (expression.kind == Kind::constant) return expression.constant;
  if (!take_step()) return too_many_steps(expression.position);
  switch (expression.kind) {
    case Kind::constant: break;
    case Kind::name: return evaluate_name(expression);
    case Kind::list:
    case Kind::tuple: return evaluate_parts(expression);
    case Kind::dict: return evaluate_dict(expression);
    case Kind::attribute: {
      TINKER_TRY(const Held subject, hold(*expression.parts[0]));
      return located(expression.position, attribute(subject.get(), expression.constant));
    }
    case Kind::item: {
      TINKER_TRY(const Held subject, hold(*expression.parts[0]));
      TINKER_TRY(const Held key, hold(*expression.parts[1]));
      return located(expression.position, item(subject.get(), key.get()));
    }
    case Kind::slice: return evaluate_slice(expression);
    case Kind::call: return evaluate_call(expression);
    case Kind::filter: return evaluate_filter(expression);
    case Kind::test:
    case Kind::negation:
    case Kind::comparison: {
      TINKER_TRY(const bool holds, truth(expression));
      return Value(holds);
    }
    case Kind::unary: {
      TINKER_TRY(const Value operand, evaluate(*expression.parts[0]));
      return located(expression.position, unary(expression.operators[0], operand));
    }
    case Kind::binary: {
      if (is_appended(expression)) return evaluate_text(expression);
      TINKER_TRY(const Held left, hold(*expression.parts[0]));
      TINKER_TRY(const Held right, hold(*expression.parts[1]));
      return located(expression.position,
                     binary(expression.operators[0], left.get(), right.get(), options_.max_bytes));
    }
    case Kind::concatenation: return evaluate_text(expression);
    case Kind::conjunction:
    case Kind::disjunction: {
      TINKER_TRY(const Held left, hold(*expression.parts[0]));
      const bool decides = left.get().truth() == (expression.kind == Kind::disjunction);
      return decides ? left.get() : evaluate(*expression.parts[1]);
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
      if (expression.may_be_method && has_method(*subject, expression.constant.text())) {
        return nullptr;
      }
      const Value* const found = subject->dict().find(expression.constant);
      return found == nullptr ? &expression.missing : found;
    }
    case Kind::item: {
      const Value* const subject = find(*expression.parts[0]);
      const Value* const key = subject == nullptr ? nullptr : find(*expression.parts[1]);
      if (key == nullptr) return nullptr;
      const Value* const found = find_element(*subject, *key);
      const bool is_missing = found == nullptr && subject->is_dict() &&
                              expression.missing.is_undefined() && !expression.may_be_method;
      return is_missing ? &expression.missing : found;
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
  return global(syntax_.names[expression.name].text.text(), *this).value();
}

Result<bool> Interpreter::truth(const Expression& expression) {
  using Kind = Expression::Kind;
  switch (expression.kind) {
    case Kind::negation: {
      TINKER_TRY(const bool holds, truth(*expression.parts[0]));
      return !holds;
    }
    case Kind::conjunction:
    case Kind::disjunction: {
      TINKER_TRY(const bool holds, truth(*expression.parts[0]));
      const bool decides = holds == (expression.kind == Kind::disjunction);
      return decides ? Result<bool>(holds) : truth(*expression.parts[1]);
    }
    case Kind::test: return test(expression);
    case Kind::comparison: return compare(expression);
    default: {
      TINKER_TRY(const Held value, hold(expression));
      return value.get().truth();
    }
  }
}

/// `a + b + c` from the left. Text that is plain grows where it is wanted.
class Interpreter::Sum {
 public:
  Sum(std::string& out, std::size_t max_bytes)
      : out_(out), begin_(out.size()), max_bytes_(max_bytes) {}

  void start(Held first) {
    is_text_ = is_plain(first.get());
    if (is_text_) {
      out_ += first.get().text();
    } else {
      value_ = std::move(first);
    }
  }

  Result<void> add(const Value& next) {
    if (is_text_ && is_plain(next)) {
      out_ += next.text();
      if (out_.size() - begin_ <= max_bytes_) return {};
      return template_error(base::concat("the result of '+' has more than ", max_bytes_, " bytes"));
    }
    if (std::exchange(is_text_, false)) {
      value_ = {.made = Value(out_.substr(begin_))};
      out_.resize(begin_);
    }
    TINKER_TRY(Value both, binary(Operator::plus, value_.get(), next, max_bytes_));
    value_ = {.made = std::move(both)};
    return {};
  }

  /// Nothing where the sum is what was appended.
  std::optional<Value> finish() {
    return is_text_ ? std::nullopt : std::optional(std::move(value_.made));
  }

 private:
  static bool is_plain(const Value& value) { return value.is_string() && !value.is_markup(); }

  std::string& out_;
  std::size_t begin_;
  std::size_t max_bytes_;
  bool is_text_ = false;
  Held value_ = {};  // unless it is text
};

Result<void> Interpreter::append_sum(const Expression& expression, Sum& sum) {
  if (expression.kind != Expression::Kind::binary || !is_appended(expression)) {
    TINKER_TRY(Held first, hold(expression));
    sum.start(std::move(first));
    return {};
  }
  TINKER_TRY(append_sum(*expression.parts[0], sum));
  TINKER_TRY(const Held next, hold(*expression.parts[1]));
  return located(expression.position, sum.add(next.get()));
}

Result<std::optional<Value>> Interpreter::append(const Expression& expression, std::string& out) {
  if (expression.kind == Expression::Kind::binary) {
    Sum sum(out, options_.max_bytes);
    TINKER_TRY(append_sum(expression, sum));
    return sum.finish();
  }
  const std::size_t begin = out.size();
  for (const auto& part : expression.parts) {
    TINKER_TRY(const Held value, hold(*part));
    if (value.get().is_string()) {
      out += value.get().text();
    } else {
      out += to_text(value.get());
    }
  }
  if (out.size() - begin > options_.max_bytes) {
    return located(expression.position, template_error("the text is too long"));
  }
  return std::optional<Value>();
}

Result<Value> Interpreter::evaluate_text(const Expression& expression) {
  const std::size_t begin = scratch_.size();
  TINKER_TRY(auto value, append(expression, scratch_));
  if (value) return *std::move(value);
  Value text(scratch_.substr(begin));
  scratch_.resize(begin);
  return text;
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
    const std::string& name = what.constant.text();
    if (what.may_be_method && has_method(subject.get(), name)) {
      TINKER_TRY(auto arguments, evaluate_arguments(expression.arguments));
      return located(expression.position, call_method(subject.get(), name, std::move(arguments)));
    }
  }
  TINKER_TRY(const Value callee, evaluate(what));
  TINKER_TRY(auto arguments, evaluate_arguments(expression.arguments));
  const auto call = [&](const Value& target) {
    return located(expression.position, target.callable().call(std::move(arguments)));
  };
  if (callee.is(Value::Kind::callable)) return call(callee);
  if (callee.is(Value::Kind::loop) && !callee.loop().recursion.is_none()) {
    return call(callee.loop().recursion);
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
  if (expression.filter == nullptr) {
    return located(expression.position, no_filter(expression.text));
  }
  return located(expression.position,
                 expression.filter(*this, subject.get(), std::move(arguments)));
}

Result<bool> Interpreter::test(const Expression& expression) {
  TINKER_TRY(const Held subject, hold(*expression.parts[0]));
  TINKER_TRY(auto arguments, evaluate_arguments(expression.arguments));
  if (expression.test == nullptr) return located(expression.position, no_test(expression.text));
  return located(expression.position, expression.test(subject.get(), std::move(arguments)));
}

Result<bool> Interpreter::compare(const Expression& expression) {
  const auto holds = [](Operator sign, const Value& a, const Value& b) -> Result<bool> {
    switch (sign) {
      case Operator::equal: return equal(a, b);
      case Operator::unequal: return !equal(a, b);
      case Operator::in: return contains(b, a);
      case Operator::less: return less(a, b);
      case Operator::greater: return less(b, a);
      case Operator::not_in: {
        TINKER_TRY(const bool is_in, contains(b, a));
        return !is_in;
      }
      default: {
        TINKER_TRY(const bool is_less, sign == Operator::at_most ? less(a, b) : less(b, a));
        return is_less || equal(a, b);
      }
    }
  };
  TINKER_TRY(Held left, hold(*expression.parts[0]));
  for (std::size_t i = 0; i < expression.operators.size(); ++i) {
    TINKER_TRY(Held right, hold(*expression.parts[i + 1]));
    TINKER_TRY(
        const bool is_so,
        located(expression.position, holds(expression.operators[i], left.get(), right.get())));
    if (!is_so) return false;
    left = std::move(right);
  }
  return true;
}

Result<Value> Interpreter::evaluate_condition(const Expression& expression) {
  TINKER_TRY(const bool holds, truth(*expression.parts[0]));
  if (holds) return evaluate(*expression.parts[1]);
  if (expression.parts[2]) return evaluate(*expression.parts[2]);
  return Value::undefined("the condition is false, and there is no 'else'");
}

}  // namespace tinker::jinja
