#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tinker/events.h"
#include "tinker/executor.h"
#include "tinker/log.h"

namespace tinker {

namespace async {
class RuntimeCore;
}

struct RuntimeOptions {
  /// Where log lines go. Default: `TINKER_LOG` decides.
  Logger logger = Logger::from_environment();
  /// Threads that encode, compress and decode large bodies. At least 1.
  unsigned worker_threads = 2;
  /// Where continuations and callbacks run. Default: a thread of the runtime's own.
  std::shared_ptr<Executor> callbacks = {};
  /// Makes ids and jitter repeatable. Default: from the operating system.
  std::optional<std::uint64_t> seed = {};
};

/// The threads behind the clients: one event loop for all input and output, a few workers for large
/// bodies, one for callbacks. Clients share one or have their own; it also holds what they share,
/// such as connections and the back-off of an account.
///
/// A copy is the same runtime. When the last copy goes, with the last client that uses it, all that
/// is in flight ends with `ErrorCode::cancelled`; nothing waits for the network. What its own
/// threads have queued, callbacks included, has run by then, unless the last copy goes in one of
/// them. Not usable in the child after `fork()`.
///
/// Thread-safe.
class Runtime {
 public:
  static Runtime start();
  static Runtime start(RuntimeOptions options);

  /// Where continuations run.
  [[nodiscard]] const std::shared_ptr<Executor>& callbacks() const noexcept;
  /// What happens inside, for loggers and metrics of the application's own.
  [[nodiscard]] const EventBus& events() const noexcept;

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<async::RuntimeCore>& core() const noexcept;

 private:
  friend class async::RuntimeCore;
  struct Handle;
  explicit Runtime(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}

  std::shared_ptr<Handle> handle_;
};

}  // namespace tinker
