#include "session/queue_observer.h"

#include <array>
#include <utility>

#include "base/logging.h"

namespace tinker::session {

namespace {

constexpr std::chrono::seconds kLogInterval{60};

std::string_view name_of(QueuedWork work) noexcept {
  switch (work) {
    case QueuedWork::training: return "training";
    case QueuedWork::model_creation: return "model creation";
    case QueuedWork::sampling: return "sampling";
  }
  return "work";
}

/// What a state means when the server does not say (R13.3).
std::string_view default_reason(const OpenEnum<QueueState>& state, QueuedWork work) noexcept {
  if (state == QueueState::paused_capacity) return "the backend is short on capacity";
  if (state != QueueState::paused_rate_limit) return "unknown";
  return work == QueuedWork::sampling ? "the limit on concurrent sampler weights was hit"
                                      : "the limit on concurrent training clients was hit";
}

}  // namespace

QueueStateObserver::QueueStateObserver(std::shared_ptr<SessionCore> session,
                                       QueuedWork work,
                                       std::string id)
    : session_(std::move(session)), work_(work), id_(std::move(id)) {}

void QueueStateObserver::notify(const OpenEnum<QueueState>& state,
                                std::optional<std::string> reason) {
  if (state == QueueState::active) return publish(state, "");
  const std::string text = reason && !reason->empty() ? session_->api->redact(*reason)
                                                      : std::string(default_reason(state, work_));
  publish(state, text);
  log(text);
}

void QueueStateObserver::publish(const OpenEnum<QueueState>& state, const std::string& reason) {
  if (state == published_state_ && reason == published_reason_) return;
  published_state_ = state;
  published_reason_ = reason;
  const auto& events = session_->runtime->events();
  if (!events.is_observed()) return;
  const std::array<EventField, 3> fields = {
      EventField{.name = "state", .value = std::string(state.text())},
      EventField{.name = "work", .value = std::string(name_of(work_))},
      EventField{.name = "id", .value = id_}};
  events.publish({.name = "queue_state",
                  .level = state == QueueState::active ? LogLevel::info : LogLevel::warn,
                  .message = reason,
                  .session_id = session_->session_id,
                  .fields = fields});
}

void QueueStateObserver::log(const std::string& reason) {
  const auto now = session_->runtime->clock().wall_time();
  // A clock that was set back must not silence the line for as long.
  if (last_logged_ && now >= *last_logged_ && now - *last_logged_ < kLogInterval) return;
  last_logged_ = now;
  TINKER_LOG(session_->logger(), warn, name_of(work_), " for ", id_, " is paused: ", reason);
}

}  // namespace tinker::session
