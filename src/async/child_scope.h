#pragma once

#include <memory>
#include <utility>

#include "async/task.h"

namespace tinker::async {

/// Moves the coroutine that awaits it, and all that it awaits from then on, to another scope. Its
/// caller stays where it is.
class EnterScope {
 public:
  explicit EnterScope(Scope& scope) noexcept : scope_(&scope) {}

  static bool await_ready() noexcept { return false; }
  template <std::derived_from<TaskPromiseBase> Promise>
  [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> handle) const noexcept {
    handle.promise().context.scope = scope_;
    return false;
  }
  static void await_resume() noexcept {}

 private:
  Scope* scope_;
};

/// Runs `task` in `scope`, which becomes a child of the current one while that lasts. Whoever holds
/// `scope` can cancel it: `task` then ends with that reason and the caller goes on. The end of this
/// task is the end of `task`; nothing is left behind.
template <typename T>
Task<T> in_child_scope(std::shared_ptr<Scope> scope, Task<T> task) {
  auto ask = this_context();
  const Context outer = co_await ask;
  // Whoever awaits this task keeps the outer scope alive, so the link needs no share of it.
  scope->attach(std::shared_ptr<Scope>(std::shared_ptr<Scope>(), outer.scope));
  if (scope->is_cancelled()) {
    scope->detach();
    co_return scope->reason();
  }
  auto enter = EnterScope(*scope);
  co_await enter;
  Result<T> result = co_await std::move(task);
  scope->detach();
  co_return result;
}

}  // namespace tinker::async
