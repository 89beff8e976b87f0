#include <algorithm>

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/interpreter.h"

namespace tinker::jinja {

Value Interpreter::make_macro(const Statement& statement, std::string name) {
  // The macro outlives the block that defines it when something else holds it.
  for (Scope* scope = scope_; scope != nullptr && !scope->is_kept; scope = scope->parent) {
    scope->is_kept = true;
  }
  return Value::callable(
      {.name = std::move(name), .call = [this, &statement, scope = scope_](Arguments arguments) {
         return call_macro(statement, scope, std::move(arguments));
       }});
}

Result<Value> Interpreter::call_macro(const Statement& statement,
                                      Scope* defined_in,
                                      Arguments arguments) {
  std::string text;
  Scope* const caller = std::exchange(scope_, defined_in);
  std::string* const outer = std::exchange(out_, &text);
  Scope* const own = enter();
  auto done = [&]() -> Result<void> {
    TINKER_TRY(bind_parameters(statement, arguments));
    TINKER_TRY(execute(statement.blocks[0]));
    return {};
  }();
  leave(own);
  out_ = outer;
  scope_ = caller;
  if (!done.ok()) return std::move(done).error();
  return Value(std::move(text));
}

Result<void> Interpreter::bind_parameters(const Statement& statement, Arguments& arguments) {
  const auto& parameters = statement.parameters;
  const auto fail = [&](const auto&... what) {
    return template_error(base::concat("macro '", statement.text, "' ", what...));
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = syntax_.names[parameters[i].name].text.text();
    if (auto value = arguments.take(i, name)) {
      scope_->set(parameters[i].name, *std::move(value));
    } else if (parameters[i].fallback) {
      TINKER_TRY(Value fallback, evaluate(*parameters[i].fallback));
      scope_->set(parameters[i].name, std::move(fallback));
    } else {
      scope_->set(parameters[i].name,
                  Value::undefined(base::concat("parameter '", name, "' was not provided")));
    }
  }
  const auto caller = std::ranges::find_if(
      arguments.named, [](const auto& argument) { return argument.first == "caller"; });
  if (caller != arguments.named.end()) {
    scope_->set(caller_name_, std::move(caller->second));
    arguments.named.erase(caller);
  }
  const std::size_t taken = std::min(parameters.size(), arguments.positional.size());
  List rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(taken),
            arguments.positional.end());
  if (statement.takes_varargs) {
    scope_->set(*syntax_.find("varargs"), Value::tuple(std::move(rest)));
  } else if (!rest.empty()) {
    return fail(
        "takes at most ", parameters.size(), " arguments, found ", arguments.positional.size());
  }
  if (statement.takes_kwargs) {
    Dict named;
    for (auto& [name, value] : arguments.named) named.set(name, std::move(value));
    scope_->set(*syntax_.find("kwargs"), std::move(named));
  } else if (!arguments.named.empty()) {
    return fail("has no parameter '", arguments.named.front().first, "'");
  }
  return {};
}

Result<void> Interpreter::execute_call_block(const Statement& statement) {
  const Expression& call = *statement.expressions[0];
  TINKER_TRY(const Value callee, evaluate(*call.parts[0]));
  TINKER_TRY(auto arguments, evaluate_arguments(call.arguments));
  if (!callee.is(Value::Kind::callable)) {
    return located(call.position,
                   template_error(base::concat(described(callee), " cannot be called")));
  }
  arguments.named.emplace_back("caller", make_macro(statement, "caller"));
  TINKER_TRY(const Value text,
             located(call.position, callee.callable().call(std::move(arguments))));
  return print(text, statement.position);
}

}  // namespace tinker::jinja
