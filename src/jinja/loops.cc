#include "jinja/loops.h"

#include "base/strings.h"
#include "jinja/builtins.h"
#include "jinja/interpreter.h"

namespace tinker::jinja {

namespace {

Value cycle_of(const Value& loop) {
  const auto call =
      [weak = std::weak_ptr(loop.shared_loop())](const Arguments& arguments) -> Result<Value> {
    const auto state = weak.lock();
    if (!state || arguments.positional.empty()) {
      return template_error("loop.cycle: expected something to go through");
    }
    return arguments.positional[state->index % arguments.positional.size()];
  };
  return Value::callable({.name = "cycle", .call = call});
}

Value changed_of(const Value& loop) {
  const auto call = [weak =
                         std::weak_ptr(loop.shared_loop())](Arguments arguments) -> Result<Value> {
    const auto state = weak.lock();
    Value now = Value::tuple(std::move(arguments.positional));
    if (!state || (state->changed && equal(*state->changed, now))) return Value(false);
    state->changed = std::move(now);
    return Value(true);
  };
  return Value::callable({.name = "changed", .call = call});
}

}  // namespace

std::optional<Value> loop_member(const Value& loop, std::string_view name) {
  const LoopState& state = loop.loop();
  const List& items = state.items();
  const auto index = static_cast<std::int64_t>(state.index);
  const auto length = static_cast<std::int64_t>(items.size());
  const auto depth = static_cast<std::int64_t>(state.depth);
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == length;
  if (name == "length") return length;
  if (name == "revindex") return length - index;
  if (name == "revindex0") return length - index - 1;
  if (name == "depth") return depth + 1;
  if (name == "depth0") return depth;
  if (name == "previtem") {
    return index > 0 ? items[state.index - 1] : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < length ? items[state.index + 1] : Value::undefined("there is no next item");
  }
  if (name == "cycle") return cycle_of(loop);
  if (name == "changed") return changed_of(loop);
  return std::nullopt;
}

Result<Interpreter::Flow> Interpreter::execute_loop(const Statement& statement) {
  TINKER_TRY(Value over, evaluate(*statement.expressions[0]));
  TINKER_TRY(run_loop(statement, std::move(over), 0));
  return Flow::on;
}

Result<Value> Interpreter::filtered_items(const Statement& statement, Value over) {
  if (!over.is_sequence()) {
    TINKER_TRY(over, located(statement.expressions[0]->position, elements(over)));
  }
  const auto& condition = statement.expressions[1];
  if (!condition) return over;
  List kept;
  Scope* const scope = enter();
  auto done = [&]() -> Result<void> {
    for (const Value& item : over.items()) {
      TINKER_TRY(assign(statement.targets[0], item));
      TINKER_TRY(const bool is_wanted, truth(*condition));
      if (is_wanted) kept.push_back(item);
    }
    return {};
  }();
  leave(scope);
  if (!done.ok()) return std::move(done).error();
  return Value(std::move(kept));
}

Result<Interpreter::Flow> Interpreter::run_loop(const Statement& statement,
                                                Value over,
                                                std::size_t depth) {
  TINKER_TRY(over, filtered_items(statement, std::move(over)));
  if (over.items().empty()) {
    if (statement.blocks.size() > 1) {
      TINKER_TRY(execute_scope(statement.blocks[1]));
    }
    return Flow::on;
  }
  const auto loop = std::make_shared<LoopState>();
  loop->over = std::move(over);
  loop->depth = depth;
  if (statement.is_recursive) loop->recursion = recursion(statement, depth + 1);
  const List& items = loop->items();
  for (; loop->index < items.size(); ++loop->index) {
    if (!take_step()) return too_many_steps(statement.position);
    Scope* const scope = enter();
    auto flow = [&]() -> Result<Flow> {
      if (loop_name_ != kNoName) scope->set(loop_name_, Value::loop(loop));
      TINKER_TRY(assign(statement.targets[0], items[loop->index]));
      return execute(statement.blocks[0]);
    }();
    leave(scope);
    if (!flow.ok()) return flow;
    if (*flow == Flow::stop) break;
  }
  return Flow::on;
}

Value Interpreter::recursion(const Statement& statement, std::size_t depth) {
  const auto call =
      [this, &statement, depth, scope = scope_](const Arguments& arguments) -> Result<Value> {
    if (arguments.positional.size() != 1 || !arguments.named.empty()) {
      return template_error("loop: expected what to go through, and nothing else");
    }
    std::string text;
    Scope* const caller = std::exchange(scope_, scope);
    std::string* const outer = std::exchange(out_, &text);
    const auto done = run_loop(statement, arguments.positional[0], depth);
    out_ = outer;
    scope_ = caller;
    if (!done.ok()) return done.error();
    return Value(std::move(text));
  };
  return Value::callable({.name = "loop", .call = call});
}

}  // namespace tinker::jinja
