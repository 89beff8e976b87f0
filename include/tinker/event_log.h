#pragma once

#include "tinker/events.h"
#include "tinker/log.h"

namespace tinker {

/// Writes each event as one log line of its own level until the subscription dies:
///
///     event=http.response endpoint=/api/v1/asample status=429 attempt=1 elapsed_ms=12.5
///
/// Members that are empty or zero are left out; values with spaces, quotes or control characters
/// are quoted. Lines come beside those the library writes for people.
[[nodiscard]] Subscription log_events(const EventBus& bus, Logger logger);

}  // namespace tinker
