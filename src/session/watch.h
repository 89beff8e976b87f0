#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "async/runtime_core.h"

namespace tinker::session {

/// Tells people about a wait that takes long. While it lives it logs a line after 30 s and every
/// 30 s from then on: what is waited for, its request, for how long, in which state and why; with
/// an event "wait.long" each time.
///
/// A large batch may keep thousands waiting: the first 20 lines of any 30 s are warnings, the
/// others are written at debug level. Loop thread only.
class Watch {
 public:
  /// Waits for `what` + `kind`, e.g. "the result of " "Sample". The texts must outlive the watch;
  /// `request_id` may be empty.
  Watch(std::shared_ptr<async::RuntimeCore> runtime,
        std::string_view what,
        std::string_view request_id,
        std::string_view kind = {});
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  /// What it waits for now, e.g. "paused_capacity" because of "waiting for GPUs". Without secrets.
  void set_state(std::string_view state, std::string_view reason = {});

 private:
  void schedule();
  void report();

  std::shared_ptr<async::RuntimeCore> runtime_;
  std::string_view what_;
  std::string_view kind_;
  std::string_view request_id_;
  std::string state_ = "waiting";
  std::string reason_ = {};
  async::TimePoint started_;
  async::TimerId timer_ = {};
};

}  // namespace tinker::session
