#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace tinker::session {

/// Keeps a polling loop from running hot. Its pace is the server's business (long polls), so an
/// answer that took its time is followed by the next poll at once, and so is a single quick one;
/// only quick ones in a row bring pauses of 50 ms, 100 ms … 1 s. Deviates from R6.7 and R6.16 where
/// the official client asks hundreds of times a second.
class Pacing {
 public:
  /// The pause after an answer that changed nothing and came after `took`.
  std::chrono::nanoseconds after(std::chrono::nanoseconds took) {
    if (took >= kQuick) {
      reset();
      return {};
    }
    return std::exchange(next_, next_ == next_.zero() ? kFirst : std::min(2 * next_, kLongest));
  }
  void reset() { next_ = {}; }

 private:
  static constexpr std::chrono::milliseconds kQuick{100};
  static constexpr std::chrono::milliseconds kFirst{50};
  static constexpr std::chrono::milliseconds kLongest{1000};

  std::chrono::milliseconds next_ = {};
};

}  // namespace tinker::session
