#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <typeindex>
#include <utility>

#include "async/event_loop.h"
#include "async/scope.h"
#include "async/task.h"
#include "tinker/detail/mutex.h"
#include "tinker/events.h"
#include "tinker/future.h"
#include "tinker/log.h"
#include "tinker/rng.h"
#include "tinker/runtime.h"

namespace tinker::async {

/// How a task is started from outside the loop.
struct SpawnOptions {
  /// Ends it with `deadline_exceeded`.
  std::optional<std::chrono::nanoseconds> deadline = {};
  /// Ends it with `cancelled` when a stop is requested.
  std::stop_token stop_token = {};
};

/// What a `Runtime` is inside. Everything that is spawned hangs below its scope.
class RuntimeCore : public std::enable_shared_from_this<RuntimeCore> {
 public:
  struct Parts {
    std::shared_ptr<EventLoop> loop;
    std::shared_ptr<Executor> workers;
    std::shared_ptr<Executor> callbacks;
    Logger logger;
    Rng rng;
  };
  explicit RuntimeCore(Parts parts);
  RuntimeCore(const RuntimeCore&) = delete;
  RuntimeCore& operator=(const RuntimeCore&) = delete;
  virtual ~RuntimeCore();

  [[nodiscard]] const std::shared_ptr<EventLoop>& loop() const noexcept { return parts_.loop; }
  [[nodiscard]] const std::shared_ptr<Executor>& workers() const noexcept { return parts_.workers; }
  [[nodiscard]] const std::shared_ptr<Executor>& callbacks() const noexcept {
    return parts_.callbacks;
  }
  [[nodiscard]] const Logger& logger() const noexcept { return parts_.logger; }
  [[nodiscard]] const EventBus& events() const noexcept { return events_; }
  [[nodiscard]] const Clock& clock() const noexcept { return parts_.loop->clock(); }
  /// Cancelled when the runtime ends. Attach to it on the loop thread.
  [[nodiscard]] const std::shared_ptr<Scope>& scope() const noexcept { return scope_; }
  /// Loop thread only.
  [[nodiscard]] Rng& rng() noexcept { return parts_.rng; }
  /// A version 4 UUID. Any thread: has its own generator.
  std::string uuid4();

  /// The one `T` of this runtime, made by `make()` on first use. Any thread. `make` may ask for
  /// other types.
  template <typename T, typename Make>
  std::shared_ptr<T> shared(Make make) {
    const auto place = slot(std::type_index(typeid(T)));
    const detail::MutexLock lock(place->mutex);
    if (!place->object) place->object = std::shared_ptr<T>(make());
    return std::static_pointer_cast<T>(place->object);
  }

  /// Runs `task` on the loop, below `parent`. Any thread; tasks start in the order of the calls.
  template <typename T>
  Future<T> spawn(std::shared_ptr<Scope> parent, Task<T> task, SpawnOptions options);
  template <typename T>
  Future<T> spawn(std::shared_ptr<Scope> parent, Task<T> task) {
    return spawn(std::move(parent), std::move(task), SpawnOptions());
  }

  /// Runs `f()` on the workers. The future's continuation runs on the loop.
  template <typename F>
  auto offload(F f) -> Future<typename detail::Unwrap<std::invoke_result_t<F&>>::Type> {
    using T = detail::Unwrap<std::invoke_result_t<F&>>::Type;
    Promise<T> promise(parts_.loop);
    auto future = promise.future();
    parts_.workers->post([f = std::move(f), promise = std::move(promise)]() mutable {
      try {
        promise.set(f());
      } catch (...) {
        promise.set(detail::error_from_current_exception("work on a large body failed"));
      }
    });
    return future;
  }

  /// Wraps it for users; `end` runs when the last copy goes.
  static Runtime make_handle(std::shared_ptr<RuntimeCore> core,
                             UniqueFunction<void(RuntimeCore&)> end);

  /// Loop thread: cancels everything; `done` runs when the last task has ended.
  void shut_down(UniqueFunction<void()> done);
  /// Loop thread, after the last task: lets go of what `shared` made.
  void clear_shared();

 private:
  /// One task from outside: its scope, its deadline, its stop token.
  class Operation;
  struct Slot {
    detail::Mutex mutex;
    std::shared_ptr<void> object TINKER_GUARDED_BY(mutex);
  };
  std::shared_ptr<Slot> slot(std::type_index type);
  std::shared_ptr<Operation> begin(const SpawnOptions& options);
  void started();
  void ended();

  Parts parts_;
  EventBus events_;
  std::shared_ptr<Scope> scope_ = std::make_shared<Scope>();
  std::size_t running_ = 0;                // loop thread
  UniqueFunction<void()> when_idle_ = {};  // loop thread
  detail::Mutex mutex_;
  std::map<std::type_index, std::shared_ptr<Slot>> shared_ TINKER_GUARDED_BY(mutex_);
  bool is_cleared_ TINKER_GUARDED_BY(mutex_) = false;
  Rng id_rng_ TINKER_GUARDED_BY(mutex_);
};

class RuntimeCore::Operation : public std::enable_shared_from_this<Operation> {
 public:
  Operation(std::shared_ptr<RuntimeCore> core, const SpawnOptions& options);

  [[nodiscard]] std::shared_ptr<Scope> scope() { return {shared_from_this(), &scope_}; }
  [[nodiscard]] const std::shared_ptr<RuntimeCore>& core() const noexcept { return core_; }
  /// Any thread.
  void cancel(Error reason);
  /// Loop thread.
  void start(std::shared_ptr<Scope> parent);
  void end();

 private:
  void expire();
  void cancel_now(const Error& reason);
  struct OnStop {
    std::weak_ptr<Operation> operation;
    void operator()() const;
  };

  std::shared_ptr<RuntimeCore> core_;
  Scope scope_;
  std::stop_token stop_token_;
  std::optional<std::stop_callback<OnStop>> on_stop_ = {};
  std::optional<TimePoint> deadline_ = {};
  std::chrono::nanoseconds time_limit_ = {};
  TimerId timer_ = {};
};

template <typename T>
Future<T> RuntimeCore::spawn(std::shared_ptr<Scope> parent, Task<T> task, SpawnOptions options) {
  Promise<T> promise(parts_.callbacks);
  Future<T> future = promise.future();
  const auto operation = begin(options);
  promise.on_cancel([weak = std::weak_ptr(operation)] {
    if (const auto alive = weak.lock()) {
      alive->cancel({.code = ErrorCode::cancelled, .message = "cancelled by the caller"});
    }
  });
  parts_.loop->post([operation,
                     parent = std::move(parent),
                     task = std::move(task),
                     promise = std::move(promise)]() mutable {
    operation->start(std::move(parent));
    run_detached(operation->core()->loop(),
                 operation->scope(),
                 std::move(task),
                 [operation, promise = std::move(promise)](detail::Late<T> result) mutable {
                   operation->end();
                   FutureAccess::adopt(promise, std::move(result));
                 });
  });
  return future;
}

}  // namespace tinker::async
