#pragma once

#include <chrono>
#include <optional>

#include "tinker/future.h"

namespace tinker::async {

class EventLoop;

/// How a thread that drives virtual time waits: by letting that time pass.
class Pump {
 public:
  virtual ~Pump() = default;
  /// Runs what is due until `core` is ready; otherwise says why that did not happen.
  virtual std::optional<Error> run_until_ready(const detail::FutureCore& core,
                                               std::optional<std::chrono::nanoseconds> timeout) = 0;

 protected:
  Pump() = default;
  Pump(const Pump&) = default;
  Pump& operator=(const Pump&) = default;
};

/// What the library knows about the thread it runs on.
struct ThisThread {
  bool is_library = false;          ///< It runs a loop, the workers or the callbacks.
  const EventLoop* loop = nullptr;  ///< The one it runs.
  Pump* pump = nullptr;             ///< Set where a test drives virtual time.
};
ThisThread& this_thread() noexcept;

}  // namespace tinker::async
