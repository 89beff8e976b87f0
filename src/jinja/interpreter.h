#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/syntax.h"
#include "jinja/template.h"
#include "jinja/value.h"

namespace tinker::jinja {

constexpr NameId kNoName = std::numeric_limits<NameId>::max();

/// The names that a block defines, in front of those around it.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<NameId, Value>> names = {};
  bool is_kept = false;  ///< A macro was defined in it, or within.

  [[nodiscard]] Value* find(NameId name);
  void set(NameId name, Value value);
};

/// One rendering of a template.
class Interpreter {
 public:
  Interpreter(const Syntax& syntax, const Dict& variables, const RenderOptions& options);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter();

  Result<std::string> run();

  // ---- for filters and tests
  Result<Value> filter(std::string_view name, const Value& subject, Arguments arguments);
  Result<bool> test(std::string_view name, const Value& subject, Arguments arguments);
  [[nodiscard]] const RenderOptions& options() const noexcept { return options_; }
  Value make_namespace(Dict members);
  /// Counts work that is no step by itself; fails once there was too much.
  Result<void> spend(std::size_t steps);

 private:
  enum class Flow { on, stop, next };
  class ScopeGuard;
  class Depth;
  class Sum;

  // ---- statements (interpreter.cc)
  Result<Flow> execute(const Block& block);
  Result<Flow> execute(const Statement& statement);
  Result<Flow> execute_branch(const Statement& statement);
  Result<Flow> execute_scope(const Block& block);
  Result<void> print(std::string_view text, Position position);
  Result<void> print(const Value& value, Position position);
  Result<void> print(const Expression& expression, Position position);
  /// Counts what was printed.
  Result<void> count_bytes(std::size_t bytes, Position position);
  Result<void> assign(const Target& target, Value value);
  Result<void> execute_with(const Statement& statement);
  Result<void> execute_call_block(const Statement& statement);
  /// What the block prints, in a scope of its own.
  Result<std::string> capture(const Block& block);
  /// `text` through filters that have no subject of their own.
  Result<Value> filter_text(const ExpressionPtr& filters, std::string text);

  // ---- macros (macros.cc)
  Value make_macro(const Statement& statement, std::string name);
  Result<Value> call_macro(const Statement& statement, Scope* defined_in, Arguments arguments);
  Result<void> bind_parameters(const Statement& statement, Arguments& arguments);

  // ---- loops (loops.cc)
  Result<Flow> execute_loop(const Statement& statement);
  Result<Flow> run_loop(const Statement& statement, Value over, std::size_t depth);
  /// What the loop goes through, as a list or a tuple.
  Result<Value> filtered_items(const Statement& statement, Value over);
  Value recursion(const Statement& statement, std::size_t depth);

  // ---- expressions (evaluate.cc)
  Result<Value> evaluate(const Expression& expression);
  /// A value that is where it was, until the next statement is executed, or one that was made.
  struct Held {
    const Value* there = nullptr;
    Value made = {};

    [[nodiscard]] const Value& get() const noexcept { return there != nullptr ? *there : made; }
  };
  /// Like `evaluate`, without copying what need not be.
  Result<Held> hold(const Expression& expression);
  Result<bool> truth(const Expression& expression);
  /// Where the value of the expression is, if it is somewhere.
  const Value* find(const Expression& expression);
  const Value* find_name(NameId name);
  Result<Value> evaluate_parts(const Expression& expression);
  Result<Value> evaluate_name(const Expression& expression);
  Result<Value> evaluate_dict(const Expression& expression);
  Result<Value> evaluate_slice(const Expression& expression);
  Result<Value> evaluate_call(const Expression& expression);
  Result<Value> evaluate_filter(const Expression& expression);
  Result<bool> test(const Expression& expression);
  Result<bool> compare(const Expression& expression);
  /// The value of a sum or a concatenation: behind what `out` holds, nothing is returned then; or,
  /// of a sum that is no plain text, as a value.
  Result<std::optional<Value>> append(const Expression& expression, std::string& out);
  Result<void> append_sum(const Expression& expression, Sum& sum);
  Result<Value> evaluate_text(const Expression& expression);
  Result<Value> evaluate_condition(const Expression& expression);
  Result<Arguments> evaluate_arguments(const CallArguments& arguments);

  /// `error` with the position, unless it has one.
  Error located(Position position, Error error);
  template <typename T>
  Result<T> located(Position position, Result<T> result) {
    if (result.ok()) return result;
    return located(position, std::move(result).error());
  }

  [[nodiscard]] bool take_step() noexcept { return ++steps_ <= options_.max_steps; }
  Error too_many_steps(Position position);

  Scope* enter();
  void leave(Scope* scope);

  const Syntax& syntax_;
  const RenderOptions& options_;
  std::intptr_t stack_begin_;  // where the stack was
  // By the names of the template: the variables; what is undefined; null for what all templates
  // have.
  std::vector<const Value*> given_;
  std::vector<std::unique_ptr<Scope>> scopes_;  // all of them
  std::vector<Scope*> free_;                    // those that nobody uses
  Scope* scope_ = nullptr;                      // the innermost
  std::string* out_ = nullptr;
  std::string scratch_;  // the sums that are being made, the inner behind the outer
  const std::string* filtered_ = nullptr;          // what a filter without subject is applied to
  std::vector<std::shared_ptr<Dict>> namespaces_;  // all of them, until the end
  std::size_t steps_ = 0;
  std::size_t bytes_ = 0;
  int depth_ = 0;
  bool is_located_ = false;  // the error that ends the rendering has its position
  NameId loop_name_ = 0;
  NameId caller_name_ = 0;
};

}  // namespace tinker::jinja
