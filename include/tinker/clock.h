#pragma once

#include <chrono>

namespace tinker {

/// Where the library gets the time from, so that tests can own it (`testing::FakeClock`).
///
/// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  /// For time-outs, back-off and everything else that measures elapsed time.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point now() const = 0;
  /// For time stamps that people or servers read.
  [[nodiscard]] virtual std::chrono::system_clock::time_point wall_time() const = 0;

  /// The machine's own clock.
  static const Clock& system() noexcept;

 protected:
  Clock() = default;
  Clock(const Clock&) = default;
  Clock& operator=(const Clock&) = default;
};

}  // namespace tinker
