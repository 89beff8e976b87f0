#pragma once

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "async/event_loop.h"
#include "async/scope.h"
#include "base/block_pool.h"
#include "tinker/future.h"

namespace tinker::async {

/// Where a coroutine runs and what can stop it. Handed down from caller to callee.
struct Context {
  EventLoop* loop = nullptr;
  Scope* scope = nullptr;
};

/// What the promise of every coroutine on a loop has.
struct TaskPromiseBase {
  Context context = {};
  std::coroutine_handle<> continuation = {};

  // Where the frame lives.
  static void* operator new(std::size_t size) { return base::allocate_block(size); }
  static void operator delete(void* frame, std::size_t size) noexcept {
    base::free_block(frame, size);
  }
};

/// A coroutine of the library's own: runs on the loop when it is awaited, yields a `Result<T>`.
///
///     Task<int> answer() {
///       auto pause = sleep_for(1s);
///       TINKER_CO_TRY(co_await std::move(pause));
///       co_return 42;
///     }
///
/// Make the task on one line and await it on the next (STYLE 5: g++ 12). What waits inside it ends
/// with the reason when its scope is cancelled, so cancellation needs no code here. A suspended
/// frame is never destroyed: it is woken and runs to its end.
template <typename T = void>
class [[nodiscard]] Task {
 public:
  struct promise_type;
  class Awaiter;
  class LateAwaiter;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  Awaiter operator co_await() && noexcept { return Awaiter(handle_); }
  /// `co_await`ed, yields the result as it is kept, so that the frame of the one who waits need not
  /// have room for a large one.
  LateAwaiter late() && noexcept { return LateAwaiter(handle_); }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

template <typename T>
struct Task<T>::promise_type : TaskPromiseBase {
  struct Final {
    static bool await_ready() noexcept { return false; }
    static void await_suspend(std::coroutine_handle<promise_type> me) noexcept {
      // The one who awaits may destroy this frame; nothing may touch it after the call.
      if (!me.promise().is_starting) me.promise().continuation.resume();
    }
    static void await_resume() noexcept {}
  };

  Task get_return_object() {
    return Task(std::coroutine_handle<promise_type>::from_promise(*this));
  }
  static std::suspend_always initial_suspend() noexcept { return {}; }
  static Final final_suspend() noexcept { return {}; }
  void return_value(Result<T> value) { result.emplace(std::move(value)); }
  /// What another task's `late()` yielded, as it is.
  template <std::same_as<detail::Late<T>> Kept>
  void return_value(Kept value) {
    result = std::move(value);
  }
  void unhandled_exception() {
    result.emplace(detail::error_from_current_exception("a task threw"));
  }

  detail::Late<T> result;
  bool is_starting =
      true;  // inside the call that began it, which goes on itself when it ends there
};

template <typename T>
class Task<T>::Awaiter {
 public:
  explicit Awaiter(std::coroutine_handle<promise_type> task) noexcept : task_(task) {}

  static bool await_ready() noexcept { return false; }
  // Does not hand over by returning the task's handle: without optimisation each of those takes
  // another piece of the stack, and a loop over tasks that end at once uses it up.
  template <std::derived_from<TaskPromiseBase> Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent) {
    task_.promise().context = parent.promise().context;
    task_.promise().continuation = parent;
    task_.resume();
    if (task_.done()) return false;
    task_.promise().is_starting = false;
    return true;
  }
  Result<T> await_resume() { return *std::move(task_.promise().result); }

 protected:
  [[nodiscard]] promise_type& promise() const noexcept { return task_.promise(); }

 private:
  std::coroutine_handle<promise_type> task_;
};

template <typename T>
class Task<T>::LateAwaiter : public Awaiter {
 public:
  using Awaiter::Awaiter;
  // NOLINTNEXTLINE(bugprone-derived-method-shadowing-base-method): that is what differs.
  detail::Late<T> await_resume() { return std::move(this->promise().result); }
};

/// Base of what a task can wait for: resumes the coroutine once, on the loop; ends with the reason
/// when the scope is cancelled.
class Wait : public Scope::Hook {
 public:
  /// True when the coroutine has to sleep; false when the scope is cancelled already.
  bool suspend(const Context& context, std::coroutine_handle<> handle);
  /// Resumes later, so that whoever wakes need not expect anything to happen inside the call.
  void wake(Result<void> outcome);
  /// Resumes inside the call: only for work that the loop itself called.
  void wake_here();
  [[nodiscard]] bool is_awake() const noexcept { return outcome_.has_value(); }
  [[nodiscard]] EventLoop& loop() const noexcept { return *context_.loop; }
  [[nodiscard]] const Context& context() const noexcept { return context_; }
  /// Requires `is_awake()`.
  Result<void> take_outcome() { return *std::move(outcome_); }

 private:
  void on_cancel(const Error& reason) override;
  /// Undoes what the wait had arranged: a timer, a place in a queue.
  virtual void abandon() = 0;

  Context context_ = {};
  std::coroutine_handle<> handle_ = {};
  std::optional<Result<void>> outcome_ = {};
};

/// `co_await`ed, ends at that time; or earlier, with the reason, when the scope is cancelled.
class [[nodiscard]] Sleep final : public Wait {
 public:
  explicit Sleep(std::chrono::nanoseconds delay) : delay_(delay) {}

  static bool await_ready() noexcept { return false; }
  template <std::derived_from<TaskPromiseBase> Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    return start(handle.promise().context, handle);
  }
  Result<void> await_resume() { return take_outcome(); }

 private:
  bool start(const Context& context, std::coroutine_handle<> handle);
  void abandon() override { loop().cancel(timer_); }

  std::chrono::nanoseconds delay_;
  TimerId timer_ = {};
};

inline Sleep sleep_for(std::chrono::nanoseconds delay) {
  return Sleep(delay);
}

/// Waits for a future inside a task, back on the loop. A cancelled scope cancels the future and
/// does not wait for it to notice.
template <typename T>
class FutureWait final : public Wait {
 public:
  explicit FutureWait(Future<T>&& future) : state_(FutureAccess::consume(future)) {}

  [[nodiscard]] bool await_ready() const noexcept { return state_->is_ready(); }
  template <std::derived_from<TaskPromiseBase> Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    if (!suspend(handle.promise().context, handle)) {
      state_->cancel();
      return false;
    }
    link_ = std::make_shared<FutureWait*>(this);
    state_->when_ready(
        [link = link_] {
          if (*link != nullptr) (*link)->wake_here();
        },
        loop().shared_from_this());
    return true;
  }
  Result<T> await_resume() {
    if (is_awake()) {
      if (auto outcome = take_outcome(); !outcome.ok()) return outcome.error();
    }
    return state_->take();
  }

 private:
  void abandon() override {
    *link_ = nullptr;
    state_->cancel();
  }

  std::shared_ptr<detail::FutureState<T>> state_;
  std::shared_ptr<FutureWait*> link_ = {};  // cleared when nobody waits any more
};

/// How tasks await futures: `co_await until(std::move(future))`.
template <typename T>
FutureWait<T> until(Future<T> future) {
  return FutureWait<T>(std::move(future));
}

/// The context of the coroutine that awaits it: `const auto context = co_await this_context();`.
class ThisContext {
 public:
  static bool await_ready() noexcept { return false; }
  template <std::derived_from<TaskPromiseBase> Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) noexcept {
    context_ = handle.promise().context;
    return false;
  }
  [[nodiscard]] Context await_resume() const noexcept { return context_; }

 private:
  Context context_ = {};
};
inline ThisContext this_context() noexcept {
  return {};
}

/// Whether what runs there will be cancelled before `delay` has passed.
[[nodiscard]] inline bool expires_within(const Context& context, std::chrono::nanoseconds delay) {
  const auto deadline = context.scope->deadline();
  return deadline && *deadline - context.loop->now() <= delay;
}

/// A coroutine nobody waits for; its frame ends with it.
struct Detached {
  struct promise_type : TaskPromiseBase {
    static Detached get_return_object() noexcept { return {}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    [[noreturn]] static void unhandled_exception() noexcept { std::terminate(); }
  };
};

/// Gives the coroutine that awaits it its context.
class Enter {
 public:
  explicit Enter(Context context) noexcept : context_(context) {}
  static bool await_ready() noexcept { return false; }
  [[nodiscard]] bool await_suspend(
      std::coroutine_handle<Detached::promise_type> handle) const noexcept {
    handle.promise().context = context_;
    return false;
  }
  static void await_resume() noexcept {}

 private:
  Context context_;
};

/// Runs `task` in `scope` now, on the loop thread, and calls `done(Late<T>)` at its end.
template <typename T, typename Done>
Detached run_detached(std::shared_ptr<EventLoop> loop,
                      std::shared_ptr<Scope> scope,
                      Task<T> task,
                      Done done) {
  auto enter = Enter(Context{.loop = loop.get(), .scope = scope.get()});
  co_await enter;
  // Whoever sees the result sees that all the task held is let go.
  std::optional<Task<T>> running(std::move(task));
  if (scope->is_cancelled()) {
    running.reset();
    detail::Late<T> unrun;
    unrun.emplace(scope->reason());
    done(std::move(unrun));
    co_return;
  }
  auto wait = std::move(*running).late();
  auto result = co_await wait;
  running.reset();
  done(std::move(result));
}

}  // namespace tinker::async
