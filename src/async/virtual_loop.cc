#include "async/virtual_loop.h"

namespace tinker::async {

namespace {

/// While it lives this thread counts as the library's own, as it is on a real loop: a callback that
/// blocks is told so here, too.
class Inside {
 public:
  Inside() : before_(std::exchange(this_thread().is_library, true)) {}
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { this_thread().is_library = before_; }

 private:
  bool before_;
};

// Sessions have timers that never end, a heartbeat for one. What has not happened after this long,
// and this many timers, never will.
constexpr std::chrono::hours kPatience{7 * 24};
constexpr std::size_t kPatienceTimers = 10'000;

}  // namespace

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
  const Inside inside;
  while (true) {
    auto work = take_posted();
    if (!work) work = timers_.take_due(now());
    if (!work) return;
    work();
  }
}

bool VirtualLoop::jump(TimePoint limit) {
  const auto next = timers_.next();
  if (!next || *next > limit || *next == TimePoint::max()) return false;
  if (*next > now()) clock_.advance(*next - now());
  return true;
}

void VirtualLoop::advance(std::chrono::nanoseconds by) {
  const TimePoint end = time_after(now(), by);
  run_ready();
  while (jump(end)) run_ready();
  if (end > now()) clock_.advance(end - now());
}

std::optional<Error> VirtualLoop::run_until_ready(const detail::FutureCore& core,
                                                  std::optional<std::chrono::nanoseconds> timeout) {
  const TimePoint start = now();
  const TimePoint end = timeout ? time_after(start, *timeout) : TimePoint::max();
  for (std::size_t timers = 0;; ++timers) {
    run_ready();
    if (core.is_ready()) return std::nullopt;
    const bool is_endless = end == TimePoint::max();
    const bool is_hopeless = is_endless && timers > kPatienceTimers && now() - start > kPatience;
    if (!is_hopeless && jump(end)) continue;
    if (is_endless) {
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
