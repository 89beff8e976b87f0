#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
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
  bool uses_passes = false;  ///< As `WorkOptions` have it.
};

/// The adapter of a checkpoint, packed. For the thread that computes.
Resumable<std::shared_ptr<const Adapter>> adapter_of(const Compute& compute, Checkpoint& saved);

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
    scheduler_.submit<T>(line, std::move(options), std::move(start), setter(std::move(promise)));
    return future;
  }
  /// The same of a single step.
  template <typename T>
  Future<T> submit_once(EngineCall call, LineId line, UniqueFunction<Result<T>()> f) {
    return submit<T>(
        std::move(call), line, [f = std::move(f)]() mutable { return once<T>(std::move(f)); });
  }
  /// Work in a line, and then something that takes long but computes nothing, on the thread for
  /// files: the future is that of the latter. It is not begun once the call is stopped or late, and
  /// goes on to its end once it is begun.
  template <typename T>
  Future<void> submit_then(EngineCall call,
                           LineId line,
                           UniqueFunction<Resumable<T>()> start,
                           UniqueFunction<Result<void>(T)> then) {
    Promise<void> promise(callbacks_);
    auto future = promise.future();
    auto options = work_options(std::move(call), promise);
    auto finish = [files = files_,
                   promise = std::move(promise),
                   then = std::move(then),
                   ticket = options](Result<T> result) mutable {
      if (!result.ok()) return promise.set(std::move(result).error());
      files->post([value = *std::move(result),
                   promise = std::move(promise),
                   then = std::move(then),
                   ticket = std::move(ticket)]() mutable {
        write(promise, ticket, [&] { return then(std::move(value)); });
      });
    };
    scheduler_.submit<T>(line, std::move(options), std::move(start), std::move(finish));
    return future;
  }
  /// Something that computes nothing, on the thread for files.
  Future<void> submit_file_work(EngineCall call, UniqueFunction<Result<void>()> work);
  /// For work of this line that reads a checkpoint first. Fails as `load_checkpoint` does.
  [[nodiscard]] UniqueFunction<Resumable<Checkpoint>()> reader_of(LineId line,
                                                                  std::filesystem::path folder,
                                                                  CheckpointParts parts) const;
  Future<SampleResponse> sample(EngineCall call, SampleJob job);

  [[nodiscard]] EngineQueue queue() const noexcept {
    EngineQueue out = scheduler_.queue();
    out.training_bytes = compute_->training_bytes;
    return out;
  }
  [[nodiscard]] LineId new_line() noexcept { return scheduler_.new_line(); }
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
      void operator()() const noexcept { source.request_stop(); }
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
  /// Why a call that was to write is over before it has begun to.
  static std::optional<Error> end_of(const WorkOptions& ticket);
  template <typename F>
  static void write(Promise<void>& promise, const WorkOptions& ticket, F&& work) {
    if (auto why = end_of(ticket)) return promise.set(*std::move(why));
    try {
      promise.set(work());
    } catch (...) {
      promise.set(error_in_flight());
    }
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
};

template <typename T>
WorkOptions EngineCore::work_options(EngineCall call, Promise<T>& promise) {
  const auto stop = std::make_shared<Stop>(call.options.stop_token);
  promise.on_cancel([stop] { stop->source.request_stop(); });
  WorkOptions out = {.name = std::move(call.name),
                     .tenant = std::move(call.tenant),
                     .stop = stop->source.get_token(),
                     .uses_passes = call.uses_passes};
  if (call.options.deadline)
    out.deadline = async::time_after(Clock::system().now(), *call.options.deadline);
  return out;
}

/// What the handles of one trainer share. Work that is under way owns it, and not the engine, with
/// which it ends.
struct TrainerState {
  TrainerState(EngineCore& core,
               std::shared_ptr<const Adapter> adapter,
               OptimizerState optimizer = {})
      : run(core.compute(),
            std::move(adapter),
            core.options().training_bytes,
            std::move(optimizer)),
        line(core.new_line()) {}

  TrainingRun run;  // of the thread that computes
  const LineId line;
};

}  // namespace tinker::engine
