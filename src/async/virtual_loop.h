#pragma once

#include <deque>
#include <memory>

#include "async/event_loop.h"
#include "async/this_thread.h"
#include "tinker/detail/mutex.h"
#include "tinker/testing/fake_clock.h"

namespace tinker::async {

/// An event loop without a thread: a test runs it, and time passes only when all work is done. So
/// an hour of back-off takes microseconds, and the order of events is the same every time.
class VirtualLoop final : public EventLoop, public Pump {
 public:
  void post(UniqueFunction<void()> work) override;
  TimerId schedule(TimePoint when, UniqueFunction<void()> work) override;
  void cancel(TimerId id) override { timers_.cancel(id); }
  [[nodiscard]] const Clock& clock() const noexcept override { return clock_; }

  /// Runs all that is posted and due now.
  void run_ready();
  /// Lets time pass, running what falls due on the way.
  void advance(std::chrono::nanoseconds by);
  void shift_wall_time(std::chrono::nanoseconds by) { clock_.shift_wall_time(by); }
  /// Runs, and lets time jump from timer to timer, until `core` is ready. `stuck` when nothing is
  /// left that could make it so, or nothing but timers that go on for ever.
  std::optional<Error> run_until_ready(const detail::FutureCore& core,
                                       std::optional<std::chrono::nanoseconds> timeout) override;
  /// Ends it: what is posted and scheduled is destroyed, and so is all that comes later.
  void stop();

 private:
  UniqueFunction<void()> take_posted();
  /// Jumps to the next timer when that is not after `limit`.
  bool jump(TimePoint limit);

  testing::FakeClock clock_;
  TimerQueue timers_;
  detail::Mutex mutex_;
  std::deque<UniqueFunction<void()>> posted_ TINKER_GUARDED_BY(mutex_);
  bool is_stopped_ TINKER_GUARDED_BY(mutex_) = false;
};

}  // namespace tinker::async
