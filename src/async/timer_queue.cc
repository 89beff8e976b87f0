#include "async/timer_queue.h"

namespace tinker::async {

TimerId TimerQueue::add(TimePoint when, UniqueFunction<void()> work) {
  const TimerId id = {.when = when, .sequence = ++sequence_};
  timers_.emplace(id, std::move(work));
  return id;
}

void TimerQueue::cancel(TimerId id) { timers_.erase(id); }

std::optional<TimePoint> TimerQueue::next() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first.when;
}

UniqueFunction<void()> TimerQueue::take_due(TimePoint now) {
  if (timers_.empty() || timers_.begin()->first.when > now) return nullptr;
  auto node = timers_.extract(timers_.begin());
  return std::move(node.mapped());
}

}  // namespace tinker::async
