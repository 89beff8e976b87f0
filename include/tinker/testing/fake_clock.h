#pragma once

#include <atomic>
#include <chrono>

#include "tinker/clock.h"

namespace tinker::testing {

/// A clock that stands still until it is told to move. Thread-safe.
class FakeClock final : public Clock {
 public:
  /// Starts at `start`, by default 2026-01-01T00:00:00Z.
  explicit FakeClock(std::chrono::system_clock::time_point start =
                         std::chrono::sys_days{std::chrono::year{2026} / 1 / 1})
      : start_(start) {}

  void advance(std::chrono::nanoseconds by) { elapsed_ns_ += by.count(); }
  /// Somebody sets the clock on the wall: `now()` does not notice.
  void shift_wall_time(std::chrono::nanoseconds by) { shift_ns_ += by.count(); }

  [[nodiscard]] std::chrono::steady_clock::time_point now() const override {
    return std::chrono::steady_clock::time_point(elapsed());
  }
  [[nodiscard]] std::chrono::system_clock::time_point wall_time() const override {
    const auto shift = std::chrono::nanoseconds(shift_ns_.load());
    return start_ +
           std::chrono::duration_cast<std::chrono::system_clock::duration>(elapsed() + shift);
  }

 private:
  [[nodiscard]] std::chrono::nanoseconds elapsed() const {
    return std::chrono::nanoseconds(elapsed_ns_.load());
  }

  std::chrono::system_clock::time_point start_;
  std::atomic<std::chrono::nanoseconds::rep> elapsed_ns_ = 0;
  std::atomic<std::chrono::nanoseconds::rep> shift_ns_ = 0;
};

}  // namespace tinker::testing
