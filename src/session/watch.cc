#include "session/watch.h"

#include <array>
#include <utility>

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

void Watch::schedule() {
  timer_ = runtime_->loop()->schedule_after(kInterval, [this] { report(); });
}

void Watch::report() {
  schedule();
  const auto now = runtime_->loop()->now();
  const auto elapsed = now - started_;
  const auto budget =
      runtime_->shared<WarningBudget>([] { return std::make_shared<WarningBudget>(); });
  const LogLevel level = budget->next_level(now);
  const auto id = request_id_.empty() ? std::string() : base::concat(" of request ", request_id_);
  const auto why = reason_.empty() ? std::string() : base::concat(" (", reason_, ")");
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(elapsed).count();
  const auto what = base::concat(what_, kind_);
  const auto line = base::concat(what, id, " takes long: ", seconds, " s so far, ", state_, why);
  if (runtime_->logger().enabled(level)) runtime_->logger().write(level, line);
  if (!runtime_->events().is_observed()) return;
  const std::array<EventField, 3> fields = {EventField{.name = "what", .value = what},
                                            EventField{.name = "state", .value = state_},
                                            EventField{.name = "reason", .value = reason_}};
  runtime_->events().publish({.name = "wait.long",
                              .level = LogLevel::warn,
                              .message = line,
                              .request_id = request_id_,
                              .elapsed = elapsed,
                              .fields = fields});
}

}  // namespace tinker::session
