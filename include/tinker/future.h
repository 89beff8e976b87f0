#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tinker/detail/mutex.h"
#include "tinker/executor.h"
#include "tinker/result.h"

namespace tinker {

template <typename T>
class Future;
template <typename T>
class Promise;

namespace detail {

/// What a future is without its value: readiness, waiting, one continuation, cancellation.
class FutureCore {
 public:
  explicit FutureCore(std::shared_ptr<Executor> executor) : executor_(std::move(executor)) {}
  FutureCore(const FutureCore&) = delete;
  FutureCore& operator=(const FutureCore&) = delete;
  virtual ~FutureCore() = default;

  [[nodiscard]] bool is_ready() const noexcept { return ready_.load(std::memory_order_acquire); }
  /// Nothing when it is ready, otherwise why waiting ended.
  std::optional<Error> wait(std::optional<std::chrono::nanoseconds> timeout);
  /// Runs `f` on `executor` (null: this future's own) once it is ready. At most one caller.
  void when_ready(UniqueFunction<void()> f, const std::shared_ptr<Executor>& executor);
  /// Asks whoever makes the value to stop. Ignored once it is ready.
  void cancel();
  /// What `cancel()` calls, at once when it has been called already.
  void on_cancel(UniqueFunction<void()> f);
  [[nodiscard]] std::shared_ptr<Executor> executor() const;
  /// A coroutine learns where it runs from the first future it waits for.
  void adopt_executor(const std::shared_ptr<Executor>& executor);

 protected:
  /// True for the first caller, who then stores the value and calls `publish`.
  bool claim() noexcept { return !claimed_.exchange(true); }
  void publish();

 private:
  static void run(const std::shared_ptr<Executor>& executor, UniqueFunction<void()> f);

  std::atomic<bool> claimed_ = false;
  std::atomic<bool> ready_ = false;
  mutable Mutex mutex_;
  // Made by the first thread that waits: most futures are never waited for by one.
  std::unique_ptr<std::condition_variable_any> changed_ TINKER_GUARDED_BY(mutex_);
  std::shared_ptr<Executor> executor_ TINKER_GUARDED_BY(mutex_);
  std::shared_ptr<Executor> continuation_executor_ TINKER_GUARDED_BY(mutex_);
  UniqueFunction<void()> continuation_ TINKER_GUARDED_BY(mutex_);
  UniqueFunction<void()> canceller_ TINKER_GUARDED_BY(mutex_);
  bool cancelled_ TINKER_GUARDED_BY(mutex_) = false;
};

/// Whether this thread belongs to the library, where blocking on a future could wait for itself.
bool on_library_thread() noexcept;

/// The error of an exception in flight; call it in a handler only.
Error error_from_current_exception(const char* where);

inline Error abandoned_error() {
  return {.code = ErrorCode::cancelled,
          .message = "abandoned: whoever was to give a result went away"};
}

/// What is said to whoever uses a future that has no state.
Error empty_future_error();
/// What is said to the second consumer of a future.
Error taken_future_error();

/// A large result that comes late: it takes no room before it is there.
template <typename T>
class LateBox {
 public:
  void emplace(Result<T> result) { result_ = std::make_unique<Result<T>>(std::move(result)); }
  void reset() noexcept { result_.reset(); }
  [[nodiscard]] Result<T>& operator*() & noexcept { return *result_; }
  [[nodiscard]] Result<T>&& operator*() && noexcept { return std::move(*result_); }

 private:
  std::unique_ptr<Result<T>> result_;
};

/// Where a result is kept once it is there.
template <typename T>
using Late = std::conditional_t<(sizeof(Result<T>) > 128), LateBox<T>, std::optional<Result<T>>>;

template <typename T>
class FutureState final : public FutureCore {
 public:
  using FutureCore::FutureCore;

  void resolve(Result<T> result) {
    if (!claim()) return;
    result_.emplace(std::move(result));
    publish();
  }
  /// As `resolve` with what is in `result`.
  void adopt(Late<T> result) {
    if (!claim()) return;
    result_ = std::move(result);
    publish();
  }
  /// As `resolve` with `abandoned_error()`.
  void abandon() {
    if (!is_ready()) resolve(abandoned_error());
  }
  /// True for the first consumer, who alone may `take()` the result.
  bool reserve() noexcept { return !is_reserved_.exchange(true); }
  [[nodiscard]] bool is_reserved() const noexcept { return is_reserved_.load(); }
  /// Requires `is_ready()`, and a caller who has reserved the result.
  Result<T> take() {
    Result<T> out = *std::move(result_);
    result_.reset();
    return out;
  }

 private:
  Late<T> result_;
  std::atomic<bool> is_reserved_ = false;
};

template <typename R>
struct Unwrap {
  using Type = R;
};
template <typename R>
struct Unwrap<Result<R>> {
  using Type = R;
};
template <typename R>
struct Unwrap<Future<R>> {
  using Type = R;
};

/// Resumes a coroutine once, or destroys it when nobody will: its promise then ends its future.
class Resumption {
 public:
  explicit Resumption(std::coroutine_handle<> handle) noexcept : handle_(handle) {}
  Resumption(Resumption&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Resumption& operator=(Resumption&&) = delete;
  ~Resumption() {
    if (handle_) handle_.destroy();
  }
  void operator()() { std::exchange(handle_, nullptr).resume(); }

 private:
  std::coroutine_handle<> handle_;
};

template <typename T>
class FutureAwaiter;
template <typename T>
class FutureCoroutine;

}  // namespace detail

/// A `Result<T>` that arrives later.
///
///     Future<Sample> sample = client.sample(prompt);    // under way already
///     Result<Sample> now = sample.get();                 // wait for it, or
///     auto done = std::move(sample).then([](Result<Sample> s) {});  // be called with it, or
///     Result<Sample> s = co_await sample;                // go on with it in a coroutine
///
/// The work has started; dropping the future lets it go on unobserved, `cancel()` asks it to stop.
///
/// A future has one consumer. A second one, and whoever uses a future that was moved from, gets
/// `ErrorCode::invalid_argument`.
///
/// Functions that return a `Future` may be coroutines. A coroutine awaits futures that have a name;
/// `co_await client.sample(prompt)` does not compile, because g++ 12 destroys the arguments of such
/// a call twice. Guide: docs/guides/coroutines.md.
///
/// Thread-compatible; the other end may be on any thread.
template <typename T>
class [[nodiscard]] Future {
 public:
  using value_type = T;
  // NOLINTNEXTLINE(readability-identifier-naming): the language looks for this name.
  using promise_type = detail::FutureCoroutine<T>;

  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  /// One that is ready.
  static Future ready(Result<T> result) {
    auto state = std::make_shared<detail::FutureState<T>>(nullptr);
    state->resolve(std::move(result));
    return Future(std::move(state));
  }

  /// Waits and takes the result. On a thread of the library (inside a callback) an unfinished
  /// future gives `invalid_argument` at once: there it would wait for itself.
  Result<T> get() { return collect(std::nullopt); }
  /// As `get()`, for at most `timeout`. `deadline_exceeded` leaves the work running and the future
  /// good for another wait (R6.10); `is_ready()` tells it from a deadline of the work itself.
  Result<T> get(std::chrono::nanoseconds timeout) { return collect(timeout); }

  /// Calls `f(Result<T>)` with the result, on the executor of the client this came from; never
  /// inside this call, unless the future has no executor. The new future holds what `f` returns
  /// (`U`, `Result<U>` or `Future<U>`); an exception becomes `ErrorCode::internal`. Cancelling it
  /// cancels this one. This future is empty afterwards: a named one says
  /// `std::move(future).then(f)`.
  template <typename F>
  auto then(F f) && -> Future<typename detail::Unwrap<std::invoke_result_t<F&, Result<T>>>::Type>;
  template <typename F>
  void then(F f) & = delete;  // a named future is given away: std::move(future).then(f)

  /// Asks the work to stop; the future then ends, with `ErrorCode::cancelled` unless a result was
  /// faster.
  void cancel() {
    if (state_) state_->cancel();
  }

  /// Whether `get()` would return at once. True also when the future is empty.
  [[nodiscard]] bool is_ready() const noexcept { return !state_ || state_->is_ready(); }

  /// For coroutines of other types. Temporaries cannot be awaited, as in coroutines of ours.
  detail::FutureAwaiter<T> operator co_await() &;
  detail::FutureAwaiter<T> operator co_await() && = delete;

 private:
  template <typename U>
  friend class Future;
  friend class Promise<T>;
  friend class detail::FutureCoroutine<T>;
  friend struct FutureAccess;

  explicit Future(std::shared_ptr<detail::FutureState<T>> state) : state_(std::move(state)) {}

  Result<T> collect(std::optional<std::chrono::nanoseconds> timeout) {
    if (!state_) return detail::empty_future_error();
    // A result that goes to another consumer is not waited for.
    if (state_->is_reserved()) return detail::taken_future_error();
    if (auto error = state_->wait(timeout)) return *std::move(error);
    if (!state_->reserve()) return detail::taken_future_error();
    return state_->take();
  }

  std::shared_ptr<detail::FutureState<T>> state_;  // null after a move
};

/// The other end of a `Future`. If the promise is destroyed without a result, its future ends with
/// `ErrorCode::cancelled`.
///
/// Thread-compatible; the future may be on any thread.
template <typename T>
class Promise {
 public:
  /// Continuations of the future run on `executor`; without one, on whichever thread comes last.
  explicit Promise(std::shared_ptr<Executor> executor = nullptr)
      : state_(std::make_shared<detail::FutureState<T>>(std::move(executor))) {}
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&& other) noexcept {
    Promise replaced(std::move(other));
    std::swap(state_, replaced.state_);
    return *this;
  }
  ~Promise() {
    if (state_) state_->abandon();
  }

  /// To be called once.
  Future<T> future() { return Future<T>(state_); }
  /// The first result counts; later ones are ignored.
  void set(Result<T> result) { state_->resolve(std::move(result)); }
  /// What `Future::cancel` runs, on the thread that cancels; at once when that has happened.
  void on_cancel(UniqueFunction<void()> f) { state_->on_cancel(std::move(f)); }

 private:
  friend struct FutureAccess;

  std::shared_ptr<detail::FutureState<T>> state_;
};

/// For the library's own coroutines, which resume on their loop.
struct FutureAccess {
  template <typename T>
  static void adopt(Promise<T>& promise, detail::Late<T> result) {
    promise.state_->adopt(std::move(result));
  }
  /// Reserves the result for the caller, who may `take()` it once the state is ready. Where that
  /// cannot be, the state is another one, which is ready with the reason.
  template <typename T>
  static std::shared_ptr<detail::FutureState<T>> consume(const Future<T>& future) {
    if (future.state_ && future.state_->reserve()) return future.state_;
    auto refused = std::make_shared<detail::FutureState<T>>(
        future.state_ ? future.state_->executor() : nullptr);
    refused->resolve(future.state_ ? detail::taken_future_error() : detail::empty_future_error());
    return refused;
  }
};

namespace detail {

/// Gives `promise` what `f` makes of `result`.
template <typename U, typename F, typename T>
void fulfil(Promise<U> promise, F& f, Result<T> result) {
  try {
    using R = std::invoke_result_t<F&, Result<T>>;
    if constexpr (std::is_void_v<R>) {
      f(std::move(result));
      promise.set(Result<void>());
    } else if constexpr (requires { typename R::promise_type; }) {
      const auto inner = f(std::move(result));
      const auto state = FutureAccess::consume(inner);
      promise.on_cancel([weak = std::weak_ptr(state)] {
        if (const auto alive = weak.lock()) alive->cancel();
      });
      state->when_ready(
          [state, promise = std::move(promise)]() mutable { promise.set(state->take()); }, nullptr);
    } else {
      promise.set(f(std::move(result)));
    }
  } catch (...) {
    promise.set(error_from_current_exception("a continuation threw"));
  }
}

template <typename T>
class FutureAwaiter {
 public:
  explicit FutureAwaiter(std::shared_ptr<FutureState<T>> state) : state_(std::move(state)) {}

  [[nodiscard]] bool await_ready() const noexcept { return state_->is_ready(); }
  void await_suspend(std::coroutine_handle<> handle) {
    // The frame, and this object in it, may be gone as soon as the state knows the continuation.
    const auto state = state_;
    state->when_ready(Resumption(handle), nullptr);
  }
  Result<T> await_resume() { return state_->take(); }

 private:
  std::shared_ptr<FutureState<T>> state_;
};

/// Makes `Future<T>` a coroutine type. The frame owns itself; it starts in the caller and goes on
/// where the futures it waits for run their continuations.
template <typename T>
class FutureCoroutine {
 public:
  Future<T> get_return_object() { return Future<T>(state_); }
  static std::suspend_never initial_suspend() noexcept { return {}; }
  static std::suspend_never final_suspend() noexcept { return {}; }
  void return_value(Result<T> result) { state_->resolve(std::move(result)); }
  void unhandled_exception() { state_->resolve(error_from_current_exception("a coroutine threw")); }

  template <typename U>
  void await_transform(Future<U>&&) = delete;  // name it first: auto f = call(); co_await f;
  template <typename U>
  FutureAwaiter<U> await_transform(Future<U>& future) {
    const auto inner = FutureAccess::consume(future);
    state_->adopt_executor(inner->executor());
    state_->on_cancel([weak = std::weak_ptr(inner)] {
      if (const auto alive = weak.lock()) alive->cancel();
    });
    return FutureAwaiter<U>(inner);
  }

  FutureCoroutine() = default;
  FutureCoroutine(const FutureCoroutine&) = delete;
  FutureCoroutine& operator=(const FutureCoroutine&) = delete;
  ~FutureCoroutine() { state_->abandon(); }

 private:
  std::shared_ptr<FutureState<T>> state_ = std::make_shared<FutureState<T>>(nullptr);
};

}  // namespace detail

template <typename T>
detail::FutureAwaiter<T> Future<T>::operator co_await() & {
  return detail::FutureAwaiter<T>(FutureAccess::consume(*this));
}

template <typename T>
template <typename F>
auto Future<T>::then(
    F f) && -> Future<typename detail::Unwrap<std::invoke_result_t<F&, Result<T>>>::Type> {
  using U = detail::Unwrap<std::invoke_result_t<F&, Result<T>>>::Type;
  const auto state = FutureAccess::consume(*this);
  state_.reset();
  Promise<U> promise(state->executor());
  Future<U> out = promise.future();
  promise.on_cancel([weak = std::weak_ptr(state)] {
    if (const auto alive = weak.lock()) alive->cancel();
  });
  state->when_ready(
      [state, promise = std::move(promise), f = std::move(f)]() mutable {
        detail::fulfil<U>(std::move(promise), f, state->take());
      },
      nullptr);
  return out;
}

namespace detail {

/// What `when_all` waits with: counts down, keeps the values, ends early on an error.
template <typename T>
class Gather {
 public:
  using Values =
      std::conditional_t<std::is_void_v<T>, std::monostate, std::vector<std::optional<T>>>;
  using Out = std::conditional_t<std::is_void_v<T>, void, std::vector<T>>;

  Gather(std::size_t count, std::shared_ptr<Executor> executor)
      : promise_(std::move(executor)), pending_(count) {
    if constexpr (!std::is_void_v<T>) values_.resize(count);
  }

  Promise<Out>& promise() { return promise_; }
  void deliver([[maybe_unused]] std::size_t index, Result<T> result) {
    if (!result.ok()) return promise_.set(std::move(result).error());
    if constexpr (!std::is_void_v<T>) values_[index].emplace(*std::move(result));
    if (pending_.fetch_sub(1) == 1) finish();
  }
  void finish() {
    if constexpr (std::is_void_v<T>) {
      promise_.set(Result<void>());
    } else {
      std::vector<T> out;
      out.reserve(values_.size());
      for (auto& value : values_) out.push_back(*std::move(value));
      promise_.set(std::move(out));
    }
  }

 private:
  Promise<Out> promise_;
  std::atomic<std::size_t> pending_;
  Values values_;
};

}  // namespace detail

/// All values in order, or the first error to arrive; the others then go on unobserved. Cancelling
/// it cancels them all.
template <typename T>
auto when_all(std::vector<Future<T>> futures) -> Future<typename detail::Gather<T>::Out> {
  using State = std::shared_ptr<detail::FutureState<T>>;
  std::vector<State> states;
  std::shared_ptr<Executor> executor;
  for (const auto& future : futures) {
    states.push_back(FutureAccess::consume(future));
    if (!executor) executor = states.back()->executor();
  }
  auto gather = std::make_shared<detail::Gather<T>>(states.size(), std::move(executor));
  auto out = gather->promise().future();
  if (states.empty()) gather->finish();
  gather->promise().on_cancel(
      [weak = std::vector<std::weak_ptr<detail::FutureState<T>>>(states.begin(), states.end())] {
        for (const auto& state : weak) {
          if (const auto alive = state.lock()) alive->cancel();
        }
      });
  for (std::size_t i = 0; i < states.size(); ++i) {
    const State& state = states[i];
    state->when_ready([state, gather, i] { gather->deliver(i, state->take()); }, nullptr);
  }
  return out;
}

}  // namespace tinker
