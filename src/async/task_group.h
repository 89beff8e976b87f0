#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "async/task.h"
#include "tinker/check.h"

namespace tinker::async {

/// Runs tasks side by side below the scope of the coroutine that holds it; the first error cancels
/// the others. Whoever starts one has to `co_await join()` before the group dies. Loop thread only.
///
///     auto ask = this_context();
///     TaskGroup group(co_await ask);
///     for (auto& file : files) group.start(fetch(file));
///     auto all = group.join();
///     TINKER_CO_TRY(co_await all);
class TaskGroup {
 public:
  class Join;

  explicit TaskGroup(const Context& context) : loop_(context.loop->shared_from_this()) {
    // Joined before its coroutine ends, so the link needs no share of the outer scope.
    scope_->attach(std::shared_ptr<Scope>(std::shared_ptr<Scope>(), context.scope));
  }
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  ~TaskGroup() {
    TINKER_CHECK(running_ == 0);
    scope_->detach();
  }

  /// Begins at once.
  void start(Task<> task) {
    ++running_;
    run_detached(loop_, scope_, std::move(task), [this](detail::Late<void> result) {
      ended(*std::move(result));
    });
  }
  [[nodiscard]] bool has_failed() const noexcept { return error_.has_value(); }
  /// Awaited, ends after the last task, also when the scope is cancelled: with the first error.
  [[nodiscard]] Join join();

 private:
  void ended(Result<void> result) {
    --running_;
    if (!result.ok() && !error_) {
      error_ = result.error();
      scope_->cancel(*error_);
    }
    if (running_ == 0 && waiter_) {
      loop_->post([waiter = std::exchange(waiter_, nullptr)] { waiter.resume(); });
    }
  }

  std::shared_ptr<EventLoop> loop_;
  std::shared_ptr<Scope> scope_ = std::make_shared<Scope>();
  std::size_t running_ = 0;
  std::optional<Error> error_ = {};
  std::coroutine_handle<> waiter_ = {};
};

class [[nodiscard]] TaskGroup::Join {
 public:
  explicit Join(TaskGroup& group) noexcept : group_(group) {}

  [[nodiscard]] bool await_ready() const noexcept { return group_.running_ == 0; }
  void await_suspend(std::coroutine_handle<> handle) noexcept { group_.waiter_ = handle; }
  Result<void> await_resume() {
    if (group_.error_) return *group_.error_;
    return {};
  }

 private:
  TaskGroup& group_;
};

inline TaskGroup::Join TaskGroup::join() {
  return Join(*this);
}

}  // namespace tinker::async
