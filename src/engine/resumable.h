#pragma once

#include <coroutine>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "tinker/result.h"

namespace tinker::engine {

/// Where a computation stops, so that something else may come in between.
enum class Cut {
  inside,     ///< It goes on with what is in the arrays of the passes: nobody else may use those.
  between,    ///< It left nothing there.
  waiting,    ///< The same, and it cannot go on before something else has happened.
  committed,  ///< The same as between, but from here on it neither fails nor can be undone.
};

/// The error of an exception in flight; call it in a handler only.
inline Error error_in_flight() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {.code = ErrorCode::internal, .message = "out of memory"};
  } catch (const std::exception& thrown) {
    return {.code = ErrorCode::internal, .message = thrown.what()};
  } catch (...) {
    return {.code = ErrorCode::internal, .message = "something unknown was thrown"};
  }
}

/// A computation that is done in steps, written as a coroutine: `co_yield cut` ends a step, and
/// `co_return` gives the result. The first step begins it. Destroyed before its end, it unwinds:
/// what its frame holds says what is undone then. An exception becomes its result.
///
/// Its arguments must live until it ends. Thread-compatible.
template <typename T>
class [[nodiscard]] Resumable {
 public:
  // NOLINTNEXTLINE(readability-identifier-naming): the language looks for this name.
  class promise_type {
   public:
    Resumable get_return_object() {
      return Resumable(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(Cut cut) noexcept {
      cut_ = cut;
      return {};
    }
    void return_value(Result<T> result) { result_.emplace(std::move(result)); }
    void unhandled_exception() { result_.emplace(error_in_flight()); }

   private:
    friend class Resumable;
    Cut cut_ = Cut::between;
    std::optional<Result<T>> result_;
  };

  Resumable(Resumable&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Resumable& operator=(Resumable&&) = delete;
  ~Resumable() {
    if (handle_) handle_.destroy();
  }

  /// Takes one step. Returns whether there are more; requires that there were.
  bool step() {
    handle_.resume();
    return !handle_.done();
  }
  /// Where the last step ended.
  [[nodiscard]] Cut cut() const noexcept { return handle_.promise().cut_; }
  /// What came of it. Requires that all steps are taken.
  Result<T> take() { return *std::move(handle_.promise().result_); }

  /// All steps in a row.
  Result<T> run() {
    while (step()) {
    }
    return take();
  }

 private:
  explicit Resumable(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

/// Some steps, and f(what came of them) with the last one.
template <typename T, typename From, typename F>
Resumable<T> and_then(Resumable<From> steps, F f) {
  while (steps.step()) co_yield steps.cut();
  TINKER_CO_TRY(auto value, steps.take());
  co_return f(std::move(value));
}

}  // namespace tinker::engine
