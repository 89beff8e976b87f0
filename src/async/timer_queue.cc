#include "async/timer_queue.h"

#include <utility>

namespace tinker::async {

TimerId TimerQueue::add(TimePoint when, UniqueFunction<void()> work) {
  const TimerId id = {.when = when, .sequence = ++sequence_};
  timers_.emplace(id, std::move(work));
  return id;
}

void TimerQueue::cancel(TimerId id) {
  // What the work owned may cancel other timers as it dies, so the map must be done with it by
  // then.
  const auto gone = timers_.extract(id);
}

std::optional<TimePoint> TimerQueue::next() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first.when;
}

UniqueFunction<void()> TimerQueue::take_due(TimePoint now) {
  if (timers_.empty() || timers_.begin()->first.when > now) return nullptr;
  auto node = timers_.extract(timers_.begin());
  return std::move(node.mapped());
}

void TimerQueue::clear() {
  while (!timers_.empty()) {
    const auto gone = std::exchange(timers_, {});
  }
}

}  // namespace tinker::async
