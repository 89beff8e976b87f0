#include "async/timer_queue.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace tinker::async {

namespace {
// Fewer than these are not worth a compaction.
constexpr std::size_t kMinDead = 64;
}  // namespace

TimerId TimerQueue::add(TimePoint when, UniqueFunction<void()> work) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const TimerId id = {.when = when, .sequence = ++sequence_, .slot = free_.back()};
  free_.pop_back();
  slots_[id.slot].sequence = id.sequence;
  slots_[id.slot].work = std::move(work);
  heap_.push_back(id);
  std::ranges::push_heap(heap_, std::greater());
  return id;
}

UniqueFunction<void()> TimerQueue::release(const TimerId& id) {
  slots_[id.slot].sequence = 0;
  free_.push_back(id.slot);
  return std::exchange(slots_[id.slot].work, nullptr);
}

void TimerQueue::cancel(TimerId id) {
  if (id.sequence == 0 || id.slot >= slots_.size() || !is_live(id)) return;
  // What the work owned may cancel other timers as it dies, so nothing may be half done by then.
  const auto gone = release(id);
  const std::size_t live = slots_.size() - free_.size();
  if (heap_.size() > live + std::max(live, kMinDead)) compact();
}

void TimerQueue::compact() {
  std::erase_if(heap_, [this](const TimerId& id) { return !is_live(id); });
  std::ranges::make_heap(heap_, std::greater());
}

void TimerQueue::drop_dead() {
  while (!heap_.empty() && !is_live(heap_.front())) {
    std::ranges::pop_heap(heap_, std::greater());
    heap_.pop_back();
  }
}

std::optional<TimePoint> TimerQueue::next() {
  drop_dead();
  if (heap_.empty()) return std::nullopt;
  return heap_.front().when;
}

UniqueFunction<void()> TimerQueue::take_due(TimePoint now) {
  const auto first = next();
  if (!first || *first > now) return nullptr;
  const TimerId id = heap_.front();
  std::ranges::pop_heap(heap_, std::greater());
  heap_.pop_back();
  return release(id);
}

void TimerQueue::clear() {
  while (!heap_.empty()) {
    const auto heap = std::exchange(heap_, {});
    for (const TimerId& id : heap) cancel(id);
  }
}

}  // namespace tinker::async
