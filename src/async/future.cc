#include "tinker/future.h"

#include "async/this_thread.h"
#include "async/timer_queue.h"
#include "base/strings.h"
#include "tinker/clock.h"

namespace tinker {

namespace async {

ThisThread& this_thread() noexcept {
  static thread_local ThisThread state;
  return state;
}

}  // namespace async

namespace detail {

bool on_library_thread() noexcept {
  return async::this_thread().is_library;
}

Error error_from_current_exception(const char* where) {
  try {
    throw;
  } catch (const ResultError& e) {
    return e.error().with_context(where);
  } catch (const std::exception& e) {
    return {.code = ErrorCode::internal, .message = base::concat(where, ": ", e.what())};
  } catch (...) {
    return {.code = ErrorCode::internal, .message = base::concat(where, " something unknown")};
  }
}

Error empty_future_error() {
  return {.code = ErrorCode::invalid_argument,
          .message = "this future is empty: it was moved from, or given away by then()"};
}

Error taken_future_error() {
  return {.code = ErrorCode::invalid_argument,
          .message = "the result of this future was taken already, by get(), co_await or when_all"};
}

std::optional<Error> FutureCore::wait(std::optional<std::chrono::nanoseconds> timeout) {
  if (is_ready()) return std::nullopt;
  if (on_library_thread()) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message =
                     "get() of an unfinished future inside a callback would wait for itself; "
                     "use then() or co_await"};
  }
  if (auto* pump = async::this_thread().pump) return pump->run_until_ready(*this, timeout);

  const MutexLock lock(mutex_);
  if (!changed_) changed_ = std::make_unique<std::condition_variable_any>();
  const auto ready = [this] { return is_ready(); };
  if (!timeout) {
    changed_->wait(mutex_, ready);
  } else if (const auto end = async::time_after(Clock::system().now(), *timeout);
             !changed_->wait_until(mutex_, end, ready)) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(*timeout).count();
    return Error{.code = ErrorCode::deadline_exceeded,
                 .message = base::concat("no result within ", ms, " ms; the work goes on")};
  }
  return std::nullopt;
}

void FutureCore::when_ready(UniqueFunction<void()> f, const std::shared_ptr<Executor>& executor) {
  std::shared_ptr<Executor> on;
  {
    const MutexLock lock(mutex_);
    TINKER_CHECK(!continuation_);
    on = executor ? executor : executor_;
    if (!is_ready()) {
      continuation_ = std::move(f);
      continuation_executor_ = std::move(on);
      return;
    }
  }
  run(on, std::move(f));
}

void FutureCore::cancel() {
  UniqueFunction<void()> canceller;
  {
    const MutexLock lock(mutex_);
    if (is_ready() || cancelled_) return;
    cancelled_ = true;
    canceller = std::move(canceller_);
  }
  if (canceller) canceller();
}

void FutureCore::on_cancel(UniqueFunction<void()> f) {
  {
    const MutexLock lock(mutex_);
    if (is_ready()) return;
    if (!cancelled_) {
      std::swap(canceller_, f);  // the old one is destroyed outside the lock
      return;
    }
  }
  f();
}

std::shared_ptr<Executor> FutureCore::executor() const {
  const MutexLock lock(mutex_);
  return executor_;
}

void FutureCore::adopt_executor(const std::shared_ptr<Executor>& executor) {
  const MutexLock lock(mutex_);
  if (!executor_) executor_ = executor;
}

void FutureCore::publish() {
  UniqueFunction<void()> continuation;
  UniqueFunction<void()> canceller;
  std::shared_ptr<Executor> executor;
  {
    const MutexLock lock(mutex_);
    ready_.store(true, std::memory_order_release);
    continuation = std::move(continuation_);
    canceller = std::move(canceller_);
    // A coroutine may have learnt its executor after the continuation was set.
    executor = continuation_executor_ ? std::move(continuation_executor_) : executor_;
    if (changed_) changed_->notify_all();
  }
  if (continuation) run(executor, std::move(continuation));
}

void FutureCore::run(const std::shared_ptr<Executor>& executor, UniqueFunction<void()> f) {
  if (!executor) return f();
  try {
    executor->post(std::move(f));
  } catch (...) {  // NOLINT(bugprone-empty-catch): as if it had stopped; `f` says so as it dies.
  }
}

}  // namespace detail
}  // namespace tinker
