#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/api_client.h"
#include "async/runtime_core.h"

namespace tinker::session {

/// Tells people about a wait: what is waited for, since when, why, until when, and what to set.
///
/// One warning when the second attempt has failed, then a line after 30 s and every 30 s from then
/// on, with an event "wait.long" each time. It counts from its beginning to its end, however many
/// attempts that takes.
///
/// A large batch may keep thousands waiting: the first 20 lines of any 30 s are warnings, the
/// others are written at debug level. Loop thread only.
class Watch final : public api::AttemptObserver {
 public:
  /// When whoever waits gives up, and the name of what says so.
  struct Limit {
    async::TimePoint until = {};
    std::string_view name = {};  ///< E.g. "start_timeout". Must outlive the watch.
  };

  /// Waits for `what` + `kind`, e.g. "the result of " "Sample". The texts must outlive the watch;
  /// `request_id` may be empty.
  Watch(std::shared_ptr<async::RuntimeCore> runtime,
        std::string_view what,
        std::string_view request_id,
        std::string_view kind = {});
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() override;

  /// What it waits for now, e.g. "paused_capacity" because of "waiting for GPUs". Without secrets.
  void set_state(std::string_view state, std::string_view reason = {});
  /// What is waited for from now on, by the same clock.
  void set_subject(std::string_view what, std::string_view request_id, std::string_view kind);
  /// Back to `what` of the constructor, alone.
  void reset_subject() { set_subject(name_, {}, {}); }
  void set_limit(Limit limit) noexcept { limit_ = limit; }
  [[nodiscard]] bool has_limit() const noexcept { return limit_.has_value(); }
  /// The limit while the server has not answered anything; comes before the other one.
  void set_start_limit(std::optional<Limit> limit) noexcept { start_limit_ = limit; }
  /// The deadline that the caller set.
  void set_deadline(std::optional<async::TimePoint> deadline) noexcept { deadline_ = deadline; }

  void attempt_failed(const api::FailedAttempt& attempt) override;
  /// The whole operation failed and is begun again. Counts unless it follows from an attempt that
  /// was told of at this very moment.
  void operation_failed(const Error& error, std::optional<async::TimePoint> deadline);
  /// The server answers again: what failed is not worth telling any more.
  void recovered() noexcept;
  [[nodiscard]] bool is_failing() const noexcept { return failures_ > 0; }

 private:
  void schedule();
  void report();
  void warn_of_failures();
  void write(std::string_view line);
  /// How long it goes on, and what to set: "; goes on for up to 240 s (…); …".
  [[nodiscard]] std::string outlook() const;
  [[nodiscard]] std::string last_failure() const;

  std::shared_ptr<async::RuntimeCore> runtime_;
  std::string_view name_;
  std::string_view what_;
  std::string_view kind_;
  std::string_view request_id_;
  std::string state_ = "waiting";
  std::string reason_ = {};
  async::TimePoint started_;
  std::optional<Limit> start_limit_ = {};
  std::optional<Limit> limit_ = {};
  std::optional<async::TimePoint> deadline_ = {};
  // Of the attempts that failed in a row.
  int failures_ = 0;
  int attempts_left_ = 0;
  std::shared_ptr<const async::Failure> failure_ = {};
  async::TimerId timer_ = {};
};

/// `call` with `watch` as its observer.
inline api::Call watched(api::Call call, const std::shared_ptr<Watch>& watch) {
  call.observer = watch;
  return call;
}

}  // namespace tinker::session
