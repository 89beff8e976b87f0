#include "tinker/events.h"

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace tinker {

struct EventBus::State {
  // Shared while publishing, exclusive while a sink comes or goes: after that no call is under way.
  std::shared_mutex mutex;
  std::map<std::uint64_t, EventSink> sinks;
  std::uint64_t last_id = 0;
  std::atomic<std::size_t> count = 0;
};

EventBus::EventBus() : state_(std::make_shared<State>()) {}

Subscription EventBus::subscribe(EventSink sink) const {
  const std::unique_lock lock(state_->mutex);
  const std::uint64_t id = ++state_->last_id;
  state_->sinks.emplace(id, std::move(sink));
  state_->count = state_->sinks.size();
  return Subscription([state = state_, id] {
    const std::unique_lock end_lock(state->mutex);
    state->sinks.erase(id);
    state->count = state->sinks.size();
  });
}

void EventBus::publish(const Event& event) const noexcept {
  if (!is_observed()) return;
  try {
    const std::shared_lock lock(state_->mutex);
    for (const auto& [id, sink] : state_->sinks) {
      try {
        sink(event);
      } catch (...) {  // NOLINT(bugprone-empty-catch): a sink must not break what it watches.
      }
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): likewise, if even the lock fails.
  }
}

bool EventBus::is_observed() const noexcept {
  return state_->count.load(std::memory_order_relaxed) > 0;
}

}  // namespace tinker
