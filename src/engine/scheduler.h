#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "engine/policy.h"
#include "engine/resumable.h"
#include "engine/sampler.h"
#include "tinker/clock.h"
#include "tinker/result.h"
#include "tinker/unique_function.h"

namespace tinker {
struct EngineQueue;
}

namespace tinker::engine {

struct SchedulerOptions {
  PolicyOptions policy = {};
  /// How long a step of the sampler may take on account of prompts, while others wait for it.
  std::chrono::nanoseconds quantum = std::chrono::milliseconds(20);
  const Clock* clock = &Clock::system();
};

/// Why work ends when the engine does.
Error engine_went_away();

/// Who asks for something, and until when it is wanted.
struct WorkOptions {
  std::string name = {};    ///< What errors call it: "forward_backward".
  std::string tenant = {};  ///< Whose share of the engine it is done in.
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  std::stop_token stop = {};
  /// Whether it uses the arrays of the passes between `Cut::inside` and `Cut::between`.
  bool uses_passes = false;
};

/// The one thread that computes, and what it computes next. Work arrives from any thread without
/// waiting; its end is told to a callback on the thread that computes, which must not wait for
/// anything; what it throws is dropped. Work of one line is done in the order in which it came;
/// lines and samples take turns as the `Policy` says, a step of a `Resumable` or of the `Sampler`
/// at a time.
///
/// What is stopped, or has passed its deadline, ends before the next step, unless that would leave
/// it half done (`Cut::committed`). Its destructor ends everything with `cancelled` and returns
/// after the step that is being taken; on the thread that computes, it does not wait for that.
///
/// Thread-safe.
class Scheduler {
 public:
  explicit Scheduler(std::shared_ptr<Sampler> sampler, const SchedulerOptions& options = {});
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler();

  LineId new_line() noexcept;
  [[nodiscard]] EngineQueue queue() const noexcept;
  /// Lets the first work of a line go on, if it waits (`Cut::waiting`). For any thread, and also
  /// after the scheduler's end.
  [[nodiscard]] UniqueFunction<void()> waker_of(LineId line) const;

  /// `start` makes the work when its turn has come, and `done` is called once, with its result or
  /// with why there is none. What `start` refers to must live until then.
  template <typename T>
  void submit(LineId line,
              WorkOptions options,
              UniqueFunction<Resumable<T>()> start,
              UniqueFunction<void(Result<T>)> done) {
    enqueue(line,
            std::move(options),
            std::make_unique<TypedWork<T>>(std::move(start), std::move(done)));
  }
  /// Draws from the sampler; `done` as above.
  void sample(SampleJob job,
              WorkOptions options,
              UniqueFunction<void(Result<SampleResponse>)> done);

 private:
  /// A piece of work whose result has any type.
  class Work {
   public:
    Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    virtual ~Work() = default;
    /// Returns whether there are more steps.
    virtual bool step() = 0;
    [[nodiscard]] virtual Cut cut() const noexcept = 0;
    /// After the last step: hands the result over.
    virtual void finish() = 0;
    /// Before it: undoes what was done.
    virtual void abandon(Error why) = 0;
  };
  template <typename T>
  class TypedWork final : public Work {
   public:
    TypedWork(UniqueFunction<Resumable<T>()> start, UniqueFunction<void(Result<T>)> done)
        : start_(std::move(start)), done_(std::move(done)) {}
    bool step() override {
      try {
        if (!running_) running_.emplace(start_());
      } catch (...) {  // no memory for it
        failure_ = error_in_flight();
        return false;
      }
      return running_->step();
    }
    [[nodiscard]] Cut cut() const noexcept override {
      return running_ ? running_->cut() : Cut::between;
    }
    void finish() override {
      Result<T> result = running_ ? running_->take() : *std::move(failure_);
      running_.reset();
      done_(std::move(result));
    }
    void abandon(Error why) override {
      running_.reset();
      done_(std::move(why));
    }

   private:
    UniqueFunction<Resumable<T>()> start_;
    std::optional<Resumable<T>> running_;
    std::optional<Error> failure_;
    UniqueFunction<void(Result<T>)> done_;
  };
  class State;
  void enqueue(LineId line, WorkOptions options, std::unique_ptr<Work> work);

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace tinker::engine
