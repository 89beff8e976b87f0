#pragma once

#include "tinker/unique_function.h"

namespace tinker {

/// Where work is handed to be run later: an event loop, a thread pool, or a user interface's main
/// loop.
///
/// Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Runs `work` later, never inside this call. An executor that has stopped destroys it instead;
  /// what the work would have resolved ends with `ErrorCode::cancelled` then. So it does when this
  /// throws.
  virtual void post(UniqueFunction<void()> work) = 0;

 protected:
  Executor() = default;
  Executor(const Executor&) = default;
  Executor& operator=(const Executor&) = default;
};

}  // namespace tinker
