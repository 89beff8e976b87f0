#pragma once

#include <memory>
#include <string>
#include <thread>

#include "tinker/executor.h"
#include "tinker/future.h"
#include "tinker/secret.h"

namespace tinker::session {

/// Runs commands of the shell beside the event loop. One thread watches them all, so that slow ones
/// hold up neither each other nor the workers; it starts with the first command.
///
/// Thread-safe.
class CommandRunner {
 public:
  static constexpr std::size_t kMaxOutputBytes = std::size_t{64} << 10;
  static constexpr std::size_t kMaxAtOnce = 32;  ///< Later ones wait for their turn.

  CommandRunner();
  CommandRunner(const CommandRunner&) = delete;
  CommandRunner& operator=(const CommandRunner&) = delete;
  /// Ends what still runs.
  ~CommandRunner();

  /// What `/bin/sh -c command` prints, whatever its exit status. Its input is empty, what it says
  /// on standard error is dropped, and it has no other open files. Cancelling the future ends the
  /// shell; what that started may go on, unheard. Fails with `io_error` when the shell cannot be
  /// started or prints more than `kMaxOutputBytes`. Continuations run on `executor`.
  Future<std::string> run(Secret command, std::shared_ptr<Executor> executor);

 private:
  struct Inbox;
  class Watcher;

  std::shared_ptr<Inbox> inbox_;
  std::thread thread_;
};

}  // namespace tinker::session
