#include "tinker/events.h"

#include <algorithm>
#include <atomic>

#include "tinker/detail/mutex.h"

namespace tinker {

namespace {

// How many sinks this thread is inside of.
int& sinks_entered() noexcept {
  thread_local int depth = 0;
  return depth;
}

struct Entry {
  explicit Entry(EventSink s) : sink(std::move(s)) {}

  // Counts the call before it looks whether it may be made, as `end` forbids calls before it counts
  // them: one of the two sees the other.
  void call(const Event& event) noexcept {
    ++calls;
    if (!is_ended) {
      ++sinks_entered();
      try {
        sink(event);
      } catch (...) {  // NOLINT(bugprone-empty-catch): a sink must not break what it watches.
      }
      --sinks_entered();
    }
    if (--calls == 0 && is_ended) calls.notify_all();
  }
  void end() noexcept {
    is_ended = true;
    if (sinks_entered() > 0) return;
    for (int left = calls; left > 0; left = calls) calls.wait(left);
  }

  EventSink sink;
  std::atomic<int> calls = 0;
  std::atomic<bool> is_ended = false;
};

using Entries = std::vector<std::shared_ptr<Entry>>;

}  // namespace

struct EventBus::State {
  detail::Mutex mutex;
  // Replaced, never changed, so that sinks are called without the lock and may come and go
  // meanwhile.
  std::shared_ptr<const Entries> entries TINKER_GUARDED_BY(mutex) = std::make_shared<Entries>();
  std::atomic<std::size_t> count = 0;

  std::shared_ptr<const Entries> snapshot() {
    const detail::MutexLock lock(mutex);
    return entries;
  }
  template <typename Change>
  void change(Change change_entries) {
    std::shared_ptr<const Entries> replaced;  // dies without the lock, with a sink perhaps
    const detail::MutexLock lock(mutex);
    auto changed = std::make_shared<Entries>(*entries);
    change_entries(*changed);
    count = changed->size();
    replaced = std::exchange(entries, std::move(changed));
  }
};

EventBus::EventBus() : state_(std::make_shared<State>()) {}

Subscription EventBus::subscribe(EventSink sink) const {
  auto entry = std::make_shared<Entry>(std::move(sink));
  state_->change([&](Entries& entries) { entries.push_back(entry); });
  return Subscription([state = state_, entry = std::move(entry)] {
    state->change([&](Entries& entries) { std::erase(entries, entry); });
    entry->end();
  });
}

void EventBus::publish(const Event& event) const noexcept {
  if (!is_observed()) return;
  const auto entries = state_->snapshot();
  for (const auto& entry : *entries) entry->call(event);
}

bool EventBus::is_observed() const noexcept {
  return state_->count.load(std::memory_order_relaxed) > 0;
}

}  // namespace tinker
