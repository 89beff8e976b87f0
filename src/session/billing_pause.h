#pragma once

#include <chrono>
#include <optional>

#include "async/event_loop.h"
#include "tinker/log.h"

namespace tinker::session {

/// Whether a 402 is waited out or given to the caller (R5.5). One per holder. Loop thread only.
class BillingPause {
 public:
  static constexpr std::chrono::seconds kPause{5};

  /// A 402 came at `now`. True when the caller should pause and ask again; false when this incident
  /// has lasted longer than `max_duration`. An incident is over when none was logged for 300 s.
  bool should_pause(async::TimePoint now, std::chrono::seconds max_duration, const Logger& logger);

 private:
  std::optional<async::TimePoint> first_seen_ = {};
  std::optional<async::TimePoint> last_logged_ = {};
  std::optional<async::TimePoint> last_given_up_ = {};  // when that was logged
};

}  // namespace tinker::session
