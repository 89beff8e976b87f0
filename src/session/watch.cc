#include "session/watch.h"

#include <array>
#include <utility>

#include "base/durations.h"
#include "base/strings.h"

namespace tinker::session {

namespace {

constexpr std::chrono::seconds kInterval{30};
constexpr int kWarningsPerInterval = 20;

/// How loud all watches of a runtime may be together.
class WarningBudget {
 public:
  LogLevel next_level(async::TimePoint now) {
    if (now - since_ >= kInterval) {
      since_ = now;
      used_ = 0;
    }
    return used_++ < kWarningsPerInterval ? LogLevel::warn : LogLevel::debug;
  }

 private:
  async::TimePoint since_ = {};
  int used_ = 0;
};

}  // namespace

Watch::Watch(std::shared_ptr<async::RuntimeCore> runtime,
             std::string_view what,
             std::string_view request_id,
             std::string_view kind)
    : runtime_(std::move(runtime)),
      name_(what),
      what_(what),
      kind_(kind),
      request_id_(request_id),
      started_(runtime_->loop()->now()) {
  schedule();
}

Watch::~Watch() {
  runtime_->loop()->cancel(timer_);
}

void Watch::set_state(std::string_view state, std::string_view reason) {
  state_ = state;
  reason_ = reason;
}

void Watch::set_subject(std::string_view what, std::string_view request_id, std::string_view kind) {
  what_ = what;
  request_id_ = request_id;
  kind_ = kind;
}

void Watch::attempt_failed(const api::FailedAttempt& attempt) {
  attempts_left_ = attempt.attempts_left;
  if (attempt.deadline) deadline_ = attempt.deadline;
  if (attempt.was_answered) start_limit_.reset();
  if (attempt.is_slow_down) return set_state("told to slow down", attempt.failure->what);
  set_state("failing");
  failure_ = attempt.failure;
  if (++failures_ == 2) warn_of_failures();
}

void Watch::operation_failed(const Error& error, std::optional<async::TimePoint> deadline) {
  const auto now = runtime_->loop()->now();
  if (failure_ && failure_->at == now) return;
  attempt_failed({.failure = std::make_shared<const async::Failure>(
                      async::Failure{.what = error.to_string(), .at = now}),
                  .was_answered = true,
                  .deadline = deadline});
}

void Watch::recovered() noexcept {
  if (failures_ > 0) set_state("waiting");
  failures_ = 0;
  failure_.reset();
}

void Watch::schedule() {
  timer_ = runtime_->loop()->schedule_after(kInterval, [this] { report(); });
}

std::string Watch::outlook() const {
  const auto now = runtime_->loop()->now();
  const auto& limit = start_limit_ ? start_limit_ : limit_;
  if (deadline_ && (!limit || *deadline_ <= limit->until)) {
    return base::concat("; ends with its deadline, in ", base::seconds_text(*deadline_ - now));
  }
  const auto advice = start_limit_ ? "; check base_url, or set start_timeout"
                                   : "; with({.deadline = ...}) bounds it";
  if (limit && limit->until > now) {
    const auto left = base::seconds_text(limit->until - now);
    return base::concat("; goes on for up to ", left, " (", limit->name, ")", advice);
  }
  if (attempts_left_ > 0) {
    return base::concat("; goes on for up to ", attempts_left_, " more attempts", advice);
  }
  if (limit) return "; gives up after this attempt";
  return base::concat("; goes on without a limit", advice);
}

std::string Watch::last_failure() const {
  if (!failure_) return {};
  const auto age = runtime_->loop()->now() - failure_->at;
  return base::concat(
      "; attempt ", failures_, " failed ", base::seconds_text(age), " ago: ", failure_->what);
}

void Watch::warn_of_failures() {
  const auto elapsed = runtime_->loop()->now() - started_;
  write(base::concat(what_,
                     kind_,
                     ": ",
                     failures_,
                     " attempts failed in ",
                     base::seconds_text(elapsed),
                     ", the last: ",
                     failure_->what,
                     outlook()));
}

void Watch::write(std::string_view line) {
  const auto budget =
      runtime_->shared<WarningBudget>([] { return std::make_shared<WarningBudget>(); });
  const LogLevel level = budget->next_level(runtime_->loop()->now());
  if (runtime_->logger().enabled(level)) runtime_->logger().write(level, line);
}

void Watch::report() {
  schedule();
  const auto elapsed = runtime_->loop()->now() - started_;
  const auto id = request_id_.empty() ? std::string() : base::concat(" of request ", request_id_);
  const auto why = reason_.empty() ? std::string() : base::concat(" (", reason_, ")");
  const auto what = base::concat(what_, kind_);
  const auto line = base::concat(what,
                                 id,
                                 " takes long: ",
                                 base::seconds_text(elapsed),
                                 " so far, ",
                                 state_,
                                 why,
                                 last_failure(),
                                 outlook());
  write(line);
  if (!runtime_->events().is_observed()) return;
  const std::string& reason = reason_.empty() && failure_ ? failure_->what : reason_;
  const std::array<EventField, 3> fields = {EventField{.name = "what", .value = what},
                                            EventField{.name = "state", .value = state_},
                                            EventField{.name = "reason", .value = reason}};
  runtime_->events().publish({.name = "wait.long",
                              .level = LogLevel::warn,
                              .message = line,
                              .request_id = request_id_,
                              .elapsed = elapsed,
                              .fields = fields});
}

}  // namespace tinker::session
