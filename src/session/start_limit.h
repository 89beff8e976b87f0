#pragma once

#include <chrono>
#include <memory>

#include "async/scope.h"
#include "session/session_core.h"

namespace tinker::session {

/// Cancels a start-up to which the server answers nothing at all (`HolderOptions::start_timeout`).
/// Lives as long as that start-up. Loop thread only.
class StartLimit {
 public:
  StartLimit(std::shared_ptr<SessionCore> core, std::chrono::nanoseconds timeout)
      : core_(std::move(core)), timeout_(timeout) {
    schedule(core_->now());
  }
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;
  ~StartLimit() { core_->runtime->loop()->cancel(timer_); }

  /// The scope that is cancelled: start-up runs in it.
  [[nodiscard]] const std::shared_ptr<async::Scope>& scope() const noexcept { return scope_; }

 private:
  void schedule(async::TimePoint since);
  void check();
  void expire();

  std::shared_ptr<SessionCore> core_;
  std::chrono::nanoseconds timeout_;
  std::shared_ptr<async::Scope> scope_ = std::make_shared<async::Scope>();
  async::TimerId timer_ = {};
};

}  // namespace tinker::session
