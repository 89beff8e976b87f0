#include "session/billing_pause.h"

#include "base/logging.h"

namespace tinker::session {

namespace {
constexpr std::chrono::seconds kForgetAfter{300};
constexpr std::chrono::seconds kLogInterval{60};
}  // namespace

bool BillingPause::should_pause(async::TimePoint now,
                                std::chrono::seconds max_duration,
                                const Logger& logger) {
  if (last_logged_ && now - *last_logged_ > kForgetAfter) {
    first_seen_.reset();
    last_logged_.reset();
    last_given_up_.reset();
  }
  const auto is_due = [now](const std::optional<async::TimePoint>& logged) {
    return !logged || now - *logged > kLogInterval;
  };
  if (first_seen_ && now - *first_seen_ > max_duration) {
    // Every call in flight comes here; one line is enough for all of them.
    if (is_due(last_given_up_)) {
      last_given_up_ = now;
      TINKER_LOG(logger,
                 error,
                 "the account still has a billing problem (402) after ",
                 max_duration.count(),
                 " s; giving up");
    }
    return false;
  }
  if (!first_seen_) first_seen_ = now;
  if (is_due(last_logged_)) {
    last_logged_ = now;
    TINKER_LOG(logger,
               warn,
               "the account has a billing problem (402); pausing, for at most ",
               max_duration.count(),
               " s");
  }
  return true;
}

}  // namespace tinker::session
