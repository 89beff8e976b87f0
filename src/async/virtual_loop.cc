#include "async/virtual_loop.h"

namespace tinker::async {

void VirtualLoop::post(UniqueFunction<void()> work) {
  const detail::MutexLock lock(mutex_);
  if (!is_stopped_) posted_.push_back(std::move(work));
}

TimerId VirtualLoop::schedule(TimePoint when, UniqueFunction<void()> work) {
  return timers_.add(when, std::move(work));
}

UniqueFunction<void()> VirtualLoop::take_posted() {
  const detail::MutexLock lock(mutex_);
  if (posted_.empty()) return nullptr;
  auto work = std::move(posted_.front());
  posted_.pop_front();
  return work;
}

void VirtualLoop::run_ready() {
  while (true) {
    auto work = take_posted();
    if (!work) work = timers_.take_due(now());
    if (!work) return;
    work();
  }
}

bool VirtualLoop::jump(TimePoint limit) {
  const auto next = timers_.next();
  if (!next || *next > limit) return false;
  if (*next > now()) clock_.advance(*next - now());
  return true;
}

void VirtualLoop::advance(std::chrono::nanoseconds by) {
  const TimePoint end = now() + by;
  run_ready();
  while (jump(end)) run_ready();
  if (end > now()) clock_.advance(end - now());
}

std::optional<Error> VirtualLoop::run_until_ready(const detail::FutureCore& core,
                                                  std::optional<std::chrono::nanoseconds> timeout) {
  const TimePoint end = timeout ? now() + *timeout : TimePoint::max();
  while (true) {
    run_ready();
    if (core.is_ready()) return std::nullopt;
    if (jump(end)) continue;
    if (!timeout) {
      return Error{.code = ErrorCode::stuck,
                   .message = "nothing is left to run that could end this future"};
    }
    if (end > now()) clock_.advance(end - now());
    return Error{.code = ErrorCode::deadline_exceeded,
                 .message = "no result within the virtual time given; the work goes on"};
  }
}

void VirtualLoop::stop() {
  std::deque<UniqueFunction<void()>> left;
  {
    const detail::MutexLock lock(mutex_);
    is_stopped_ = true;
    left.swap(posted_);
  }
  left.clear();
  timers_.clear();
}

}  // namespace tinker::async
