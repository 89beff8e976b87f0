#pragma once

#include <chrono>
#include <memory>

#include "async/timer_queue.h"
#include "tinker/clock.h"
#include "tinker/executor.h"

namespace tinker::async {

/// One thread on which all network and session work happens, so that none of it needs a lock.
///
/// `post` may be called from any thread, everything else on the loop's own.
class EventLoop : public Executor, public std::enable_shared_from_this<EventLoop> {
 public:
  /// Runs `work` on this loop at `when`, or right away when that has passed.
  virtual TimerId schedule(TimePoint when, UniqueFunction<void()> work) = 0;
  virtual void cancel(TimerId id) = 0;
  [[nodiscard]] virtual const Clock& clock() const noexcept = 0;

  [[nodiscard]] TimePoint now() const { return clock().now(); }
  TimerId schedule_after(std::chrono::nanoseconds delay, UniqueFunction<void()> work) {
    return schedule(time_after(now(), delay), std::move(work));
  }
};

}  // namespace tinker::async
