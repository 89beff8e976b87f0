#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "async/thread_pool.h"
#include "async/timer_queue.h"
#include "engine/checkpoint.h"
#include "engine/scheduler.h"
#include "engine/training_run.h"
#include "tinker/detail/mutex.h"
#include "tinker/engine.h"
#include "tinker/rng.h"

namespace tinker::engine {

/// A call of an `Engine` or a `LocalTrainer`.
struct EngineCall {
  std::string name = {};  ///< What errors call it.
  CallOptions options = {};
  std::string tenant = {};
};

/// The adapter of a checkpoint, packed. For the thread that computes.
std::shared_ptr<const Adapter> adapter_of(const Compute& compute, Checkpoint& saved);

/// Waits for a call, which `submit()` makes. Inside a callback it makes none, because waiting there
/// is refused.
template <typename F>
auto wait_for(F submit) -> decltype(submit().get()) {
  if (tinker::detail::on_library_thread()) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message =
                     "a call that waits, inside a callback, would wait for itself; nothing "
                     "was done: use the one that ends in a future"};
  }
  return submit().get();
}

/// Work of a single step.
template <typename T>
Resumable<T> once(UniqueFunction<Result<T>()> f) {
  co_return f();
}

/// What the handles of one engine share: the model with what computes, and the scheduler.
///
/// Thread-safe.
class EngineCore {
 public:
  EngineCore(std::shared_ptr<Compute> compute,
             std::filesystem::path source,
             const EngineOptions& options);

  /// A future for work in a line. `start` makes it when its turn has come; what it refers to must
  /// live until then.
  template <typename T>
  Future<T> submit(EngineCall call, LineId line, UniqueFunction<Resumable<T>()> start) {
    Promise<T> promise(callbacks_);
    auto future = promise.future();
    auto options = work_options(std::move(call), promise);
    options.uses_passes = true;
    scheduler_.submit<T>(line, std::move(options), std::move(start), setter(std::move(promise)));
    return future;
  }
  /// The same of a single step, which leaves the arrays of the passes alone.
  template <typename T>
  Future<T> submit_once(EngineCall call, LineId line, UniqueFunction<Result<T>()> f) {
    Promise<T> promise(callbacks_);
    auto future = promise.future();
    auto options = work_options(std::move(call), promise);
    scheduler_.submit<T>(
        line, std::move(options), one_step(std::move(f)), setter(std::move(promise)));
    return future;
  }
  /// A single step, and then something that takes long but computes nothing, on a thread of its
  /// own: the future is that of the latter.
  template <typename T>
  Future<void> submit_then(EngineCall call,
                           LineId line,
                           UniqueFunction<Result<T>()> f,
                           UniqueFunction<Result<void>(T)> then) {
    Promise<void> promise(callbacks_);
    auto future = promise.future();
    auto options = work_options(std::move(call), promise);
    scheduler_.submit<T>(line,
                         std::move(options),
                         one_step(std::move(f)),
                         [files = files_, promise = std::move(promise), then = std::move(then)](
                             Result<T> result) mutable {
                           if (!result.ok()) return promise.set(std::move(result).error());
                           files->post([value = *std::move(result),
                                        promise = std::move(promise),
                                        then = std::move(then)]() mutable {
                             try {
                               promise.set(then(std::move(value)));
                             } catch (...) {
                               promise.set(error_in_flight());
                             }
                           });
                         });
    return future;
  }
  Future<SampleResponse> sample(EngineCall call, SampleJob job);

  [[nodiscard]] LineId new_line() noexcept { return scheduler_.new_line(); }
  /// For what belongs to no trainer.
  [[nodiscard]] LineId own_line() const noexcept { return own_line_; }
  std::uint64_t next_seed();
  /// Fails if there is no memory for an adapter and its gradients.
  [[nodiscard]] Result<void> check_adapter(const LoraLayout& layout) const;

  [[nodiscard]] const std::shared_ptr<Compute>& compute() const noexcept { return compute_; }
  [[nodiscard]] const Model& model() const noexcept { return *compute_->model; }
  [[nodiscard]] const EngineOptions& options() const noexcept { return options_; }
  /// Where the model was read from.
  [[nodiscard]] const std::filesystem::path& source() const noexcept { return source_; }

 private:
  /// Both ways of stopping a call: by its future, and by the caller's token, which `link` holds.
  struct Stop {
    explicit Stop(const std::stop_token& token) : link(token, Request{source}) {}
    struct Request {
      std::stop_source source;
      void operator()() noexcept { source.request_stop(); }
    };
    std::stop_source source;
    std::stop_callback<Request> link;
  };
  template <typename T>
  WorkOptions work_options(EngineCall call, Promise<T>& promise);
  template <typename T>
  static UniqueFunction<void(Result<T>)> setter(Promise<T> promise) {
    return [promise = std::move(promise)](Result<T> result) mutable {
      promise.set(std::move(result));
    };
  }
  template <typename T>
  static UniqueFunction<Resumable<T>()> one_step(UniqueFunction<Result<T>()> f) {
    return [f = std::move(f)]() mutable { return once<T>(std::move(f)); };
  }

  EngineOptions options_;
  std::filesystem::path source_;  // absolute
  std::shared_ptr<Compute> compute_;
  std::shared_ptr<async::ThreadPool> files_ =
      std::make_shared<async::ThreadPool>("tinker-files", 1U);
  std::shared_ptr<Executor> callbacks_;
  detail::Mutex mutex_;
  Rng rng_ TINKER_GUARDED_BY(mutex_) = Rng::from_entropy();
  Scheduler scheduler_;  // ends before what it uses
  LineId own_line_;
};

template <typename T>
WorkOptions EngineCore::work_options(EngineCall call, Promise<T>& promise) {
  const auto stop = std::make_shared<Stop>(call.options.stop_token);
  promise.on_cancel([stop] { stop->source.request_stop(); });
  WorkOptions out = {.name = std::move(call.name),
                     .tenant = std::move(call.tenant),
                     .stop = stop->source.get_token()};
  if (call.options.deadline)
    out.deadline = async::time_after(Clock::system().now(), *call.options.deadline);
  return out;
}

/// What the handles of one trainer share. Work that is under way owns it, and not the engine, with
/// which it ends.
struct TrainerState {
  TrainerState(EngineCore& core, std::shared_ptr<const Adapter> adapter)
      : run(core.compute(), std::move(adapter), core.options().training_bytes),
        line(core.new_line()) {}

  TrainingRun run;  // of the thread that computes
  const LineId line;
};

}  // namespace tinker::engine
