#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

#include "tinker/trace_context.h"

namespace tinker {

/// What a caller can ask of a single call.
struct CallOptions {
  /// Ends the call with `deadline_exceeded`, counted from the call, retries and waiting included.
  /// Default: none beyond the rules of the service.
  std::optional<std::chrono::nanoseconds> deadline = {};
  /// Ends the call with `cancelled` when a stop is requested. Default: never.
  std::stop_token stop_token = {};
  /// Sent with every request of the call, so that traces of client and server join. Default: none.
  std::optional<TraceContext> trace = {};
};

}  // namespace tinker
