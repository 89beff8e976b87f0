#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "tinker/unique_function.h"

namespace tinker::async {

using TimePoint = std::chrono::steady_clock::time_point;

/// `delay` after `start`; the end of time, which never comes, where that cannot be told.
inline TimePoint time_after(TimePoint start, std::chrono::nanoseconds delay) {
  return delay > TimePoint::max() - start ? TimePoint::max() : start + delay;
}

/// Names one timer of a `TimerQueue`; the default names none.
struct TimerId {
  TimePoint when = {};
  std::uint64_t sequence = 0;
  std::uint32_t slot = 0;
  friend auto operator<=>(const TimerId&, const TimerId&) = default;
};

/// What is to run when. Equal times run in the order they were added.
///
/// Nearly all timers are cancelled, so that is what costs least: the work goes at once, its place
/// in the heap later.
class TimerQueue {
 public:
  TimerId add(TimePoint when, UniqueFunction<void()> work);
  /// Harmless for timers that ran or were cancelled.
  void cancel(TimerId id);
  [[nodiscard]] std::optional<TimePoint> next();
  /// The earliest work that is due at `now`, removed; null when there is none.
  UniqueFunction<void()> take_due(TimePoint now);
  /// Destroys all that is scheduled, also what that schedules in turn.
  void clear();

 private:
  struct Slot {
    std::uint64_t sequence = 0;  // of the timer that has it; 0: free
    UniqueFunction<void()> work = {};
  };
  [[nodiscard]] bool is_live(const TimerId& id) const noexcept {
    return slots_[id.slot].sequence == id.sequence;
  }
  UniqueFunction<void()> release(const TimerId& id);
  void drop_dead();
  void compact();

  std::vector<TimerId> heap_;  // the earliest first; also cancelled ones
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t sequence_ = 0;
};

}  // namespace tinker::async
