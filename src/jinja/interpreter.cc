#include "jinja/interpreter.h"

#include <algorithm>
#include <cstdlib>

#include "base/strings.h"
#include "jinja/builtins.h"

namespace tinker::jinja {

namespace {

/// How deep statements, expressions and macros may call each other.
constexpr int kMaxDepth = 1000;

/// And how much of the stack they may take, in bytes: a sanitizer's frames are large.
constexpr std::ptrdiff_t kMaxStack = std::ptrdiff_t{4} << 20U;

/// Where the stack is.
std::intptr_t stack_place() {
  return reinterpret_cast<std::intptr_t>(__builtin_frame_address(0));
}

/// How deep the value of a name may be nested: comparing and printing recurse.
constexpr std::size_t kMaxValueDepth = 500;

}  // namespace

Value* Scope::find(NameId name) {
  const auto found = std::ranges::find(names, name, [](const auto& entry) { return entry.first; });
  return found == names.end() ? nullptr : &found->second;
}

void Scope::set(NameId name, Value value) {
  if (Value* const known = find(name)) {
    *known = std::move(value);
  } else {
    names.emplace_back(name, std::move(value));
  }
}

class Interpreter::ScopeGuard {
 public:
  explicit ScopeGuard(Interpreter& interpreter)
      : interpreter_(interpreter), scope_(interpreter.enter()) {}
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;
  ~ScopeGuard() { interpreter_.leave(scope_); }

 private:
  Interpreter& interpreter_;
  Scope* scope_;
};

Interpreter::Interpreter(const Syntax& syntax, const Dict& variables, const RenderOptions& options)
    : syntax_(syntax),
      options_(options),
      stack_begin_(stack_place()),
      loop_name_(syntax.find("loop").value_or(kNoName)),
      caller_name_(syntax.find("caller").value_or(kNoName)) {
  given_.reserve(syntax.names.size());
  for (const Name& name : syntax.names) {
    const Value* const given = variables.find(name.text);
    given_.push_back(given != nullptr || name.is_global ? given : &name.undefined);
  }
}

Interpreter::~Interpreter() {
  // A namespace may hold itself, by whatever detour. The oldest goes first, so that none that goes
  // takes a chain of others with it.
  for (const auto& members : namespaces_) *members = Dict();
}

Value Interpreter::make_namespace(Dict members) {
  namespaces_.push_back(std::make_shared<Dict>(std::move(members)));
  return Value::name_space(namespaces_.back());
}

Result<std::string> Interpreter::run() {
  constexpr std::size_t kUsualSize = 4096;
  std::string out;
  out.reserve(kUsualSize);
  out_ = &out;
  scope_ = enter();
  TINKER_TRY(execute(syntax_.block));
  return out;
}

Scope* Interpreter::enter() {
  if (free_.empty()) {
    scopes_.push_back(std::make_unique<Scope>());
    free_.push_back(scopes_.back().get());
  }
  Scope* const scope = free_.back();
  free_.pop_back();
  scope->parent = scope_;
  scope_ = scope;
  return scope;
}

void Interpreter::leave(Scope* scope) {
  scope_ = scope->parent;
  if (scope->is_kept) return;
  scope->names.clear();
  free_.push_back(scope);
}

Error Interpreter::located(Position position, Error error) {
  if (is_located_) return error;
  is_located_ = true;
  return error_at(position, error.message);
}

Result<void> Interpreter::spend(std::size_t steps) {
  steps_ += steps;
  if (steps_ <= options_.max_steps) return {};
  return template_error(
      base::concat("the template takes more than ", options_.max_steps, " steps"));
}

Error Interpreter::too_many_steps(Position position) {
  return located(position, spend(0).error());
}

Result<void> Interpreter::count_bytes(std::size_t bytes, Position position) {
  bytes_ += bytes;
  if (bytes_ <= options_.max_bytes) return {};
  return located(
      position,
      template_error(base::concat("the template prints more than ", options_.max_bytes, " bytes")));
}

Result<void> Interpreter::print(std::string_view text, Position position) {
  TINKER_TRY(count_bytes(text.size(), position));
  *out_ += text;
  return {};
}

Result<void> Interpreter::print(const Expression& expression, Position position) {
  if (!is_appended(expression)) {
    TINKER_TRY(const Held value, hold(expression));
    return print(value.get(), position);
  }
  std::string& out = *out_;
  const std::size_t begin = out.size();
  TINKER_TRY(const auto value, append(expression, out));
  if (value) return print(*value, position);
  return count_bytes(out.size() - begin, position);
}

Result<void> Interpreter::print(const Value& value, Position position) {
  if (value.is_string()) return print(std::string_view(value.text()), position);
  return print(std::string_view(to_text(value)), position);
}

Result<Interpreter::Flow> Interpreter::execute(const Block& block) {
  for (const Statement& statement : block) {
    TINKER_TRY(const Flow flow, execute(statement));
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Result<Interpreter::Flow> Interpreter::execute(const Statement& statement) {
  using Kind = Statement::Kind;
  if (statement.kind == Kind::text) {
    TINKER_TRY(print(std::string_view(statement.text), statement.position));
    return Flow::on;
  }
  if (!take_step()) return too_many_steps(statement.position);
  if (depth_ >= kMaxDepth || std::abs(stack_place() - stack_begin_) > kMaxStack) {
    return located(statement.position, template_error("macros call each other without end"));
  }
  ++depth_;
  auto flow = [&]() -> Result<Flow> {
    switch (statement.kind) {
      case Kind::text: return Flow::on;
      case Kind::output:
        TINKER_TRY(print(*statement.expressions[0], statement.position));
        return Flow::on;
      case Kind::branch: return execute_branch(statement);
      case Kind::loop: return execute_loop(statement);
      case Kind::set: {
        TINKER_TRY(Value value, evaluate(*statement.expressions[0]));
        TINKER_TRY(assign(statement.targets[0], std::move(value)));
        return Flow::on;
      }
      case Kind::set_block: {
        TINKER_TRY(std::string text, capture(statement.blocks[0]));
        TINKER_TRY(Value value, filter_text(statement.expressions[0], std::move(text)));
        TINKER_TRY(assign(statement.targets[0], std::move(value)));
        return Flow::on;
      }
      case Kind::macro:
        scope_->set(statement.name, make_macro(statement, statement.text));
        return Flow::on;
      case Kind::call_block: TINKER_TRY(execute_call_block(statement)); return Flow::on;
      case Kind::filter_block: {
        TINKER_TRY(std::string text, capture(statement.blocks[0]));
        TINKER_TRY(const Value value, filter_text(statement.expressions[0], std::move(text)));
        TINKER_TRY(print(value, statement.position));
        return Flow::on;
      }
      case Kind::with: TINKER_TRY(execute_with(statement)); return Flow::on;
      case Kind::scope: return execute_scope(statement.blocks[0]);
      case Kind::stop: return Flow::stop;
      case Kind::next: return Flow::next;
    }
    return Flow::on;
  }();
  --depth_;
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute_branch(const Statement& statement) {
  for (std::size_t i = 0; i < statement.expressions.size(); ++i) {
    TINKER_TRY(const bool holds, truth(*statement.expressions[i]));
    if (holds) return execute(statement.blocks[i]);
  }
  if (statement.blocks.size() == statement.expressions.size()) return Flow::on;
  return execute(statement.blocks.back());
}

Result<Interpreter::Flow> Interpreter::execute_scope(const Block& block) {
  const ScopeGuard guard(*this);
  return execute(block);
}

Result<void> Interpreter::execute_with(const Statement& statement) {
  List values;
  for (const auto& expression : statement.expressions) {
    TINKER_TRY(Value value, evaluate(*expression));
    values.push_back(std::move(value));
  }
  const ScopeGuard guard(*this);
  for (std::size_t i = 0; i < values.size(); ++i) {
    TINKER_TRY(assign(statement.targets[i], std::move(values[i])));
  }
  TINKER_TRY(execute(statement.blocks[0]));
  return {};
}

Result<std::string> Interpreter::capture(const Block& block) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  const ScopeGuard guard(*this);
  const auto flow = execute(block);
  out_ = outer;
  if (!flow.ok()) return flow.error();
  return text;
}

Result<Value> Interpreter::filter_text(const ExpressionPtr& filters, std::string text) {
  if (!filters) return Value(std::move(text));
  const std::string* const outer = std::exchange(filtered_, &text);
  auto out = evaluate(*filters);
  filtered_ = outer;
  return out;
}

Result<void> Interpreter::assign(const Target& target, Value value) {
  if (target.is_many) {
    auto items = elements(value);
    if (!items.ok()) return located(target.position, std::move(items).error());
    if (items->size() != target.targets.size()) {
      return located(
          target.position,
          template_error(base::concat(
              "expected ", target.targets.size(), " values to unpack, found ", items->size())));
    }
    for (std::size_t i = 0; i < items->size(); ++i) {
      TINKER_TRY(assign(target.targets[i], std::move((*items)[i])));
    }
    return {};
  }
  if (value.depth() > kMaxValueDepth) {
    return located(target.position, template_error("a value that is nested too deep"));
  }
  if (!target.member) {
    scope_->set(target.name, std::move(value));
    return {};
  }
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const Value* const found = scope->find(target.name);
    if (found == nullptr) continue;
    if (!found->is(Value::Kind::name_space)) break;
    found->name_space().set(*target.member, std::move(value));
    return {};
  }
  return located(
      target.position,
      template_error(base::concat("'",
                                  syntax_.names[target.name].text.text(),
                                  "' is no namespace: only members of those can be set")));
}

// ---- for filters and tests
// ------------------------------------------------------------------------

Error no_filter(std::string_view name) {
  return template_error(base::concat("no filter is named '", name, "'"));
}

Error no_test(std::string_view name) {
  return template_error(base::concat("no test is named '", name, "'"));
}

Result<Value> Interpreter::filter(std::string_view name,
                                  const Value& subject,
                                  Arguments arguments) {
  const Filter found = find_filter(name);
  if (found == nullptr) return no_filter(name);
  return found(*this, subject, std::move(arguments));
}

Result<bool> Interpreter::test(std::string_view name, const Value& subject, Arguments arguments) {
  const Test found = find_test(name);
  if (found == nullptr) return no_test(name);
  return found(subject, std::move(arguments));
}

// ---- the template -------------------------------------------------------------------------------

Result<Template> Template::parse(std::string_view source) {
  TINKER_TRY(auto syntax, jinja::parse(source));
  return Template(std::make_shared<const Syntax>(std::move(syntax)));
}

Result<std::string> Template::render(const Dict& variables, const RenderOptions& options) const {
  return Interpreter(*syntax_, variables, options).run();
}

}  // namespace tinker::jinja
