#include "async/timer_queue.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <gmock/gmock.h>

namespace tinker::async::timer_queue_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr TimePoint at(std::chrono::nanoseconds time) {
  return TimePoint(time);
}

class TimerQueueTest : public ::testing::Test {
 protected:
  TimerId add(std::chrono::nanoseconds when, int name) {
    return timers_.add(at(when), [this, name] { ran_.push_back(name); });
  }
  void run_due(std::chrono::nanoseconds now) {
    while (auto work = timers_.take_due(at(now))) work();
  }

  TimerQueue timers_;
  std::vector<int> ran_;
};

TEST_F(TimerQueueTest, RunsInTheOrderOfTime) {
  add(3s, 3);
  add(1s, 1);
  add(2s, 2);

  run_due(3s);

  EXPECT_THAT(ran_, ElementsAre(1, 2, 3));
}

TEST_F(TimerQueueTest, RunsEqualTimesInTheOrderTheyWereAdded) {
  for (int i = 0; i < 5; ++i) add(1s, i);

  run_due(1s);

  EXPECT_THAT(ran_, ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(TimerQueueTest, KeepsWhatIsNotDue) {
  add(1s, 1);
  add(2s, 2);

  run_due(2s - 1ns);

  EXPECT_THAT(ran_, ElementsAre(1));
  EXPECT_THAT(timers_.next(), Optional(at(2s)));
}

TEST_F(TimerQueueTest, ForgetsWhatIsCancelled) {
  add(1s, 1);
  const TimerId second = add(1s, 2);
  add(1s, 3);

  timers_.cancel(second);

  run_due(1s);
  EXPECT_THAT(ran_, ElementsAre(1, 3));
}

TEST_F(TimerQueueTest, KeepsOrderAmongThousandsThatAreCancelled) {
  std::vector<TimerId> cancelled;
  for (int i = 0; i < 3000; ++i) {
    const TimerId id = add(std::chrono::seconds(1 + (i * 7919) % 3000), i);
    if (i % 100 != 0) cancelled.push_back(id);
  }

  for (const TimerId& id : cancelled) timers_.cancel(id);

  run_due(3000s);
  EXPECT_EQ(ran_.size(), 30);
  EXPECT_TRUE(std::ranges::is_sorted(
      ran_, {}, [](int name) { return (std::int64_t{name} * 7919) % 3000; }));
}

TEST_F(TimerQueueTest, DoesNotTakeANewTimerForAnOldOneInItsPlace) {
  const TimerId old = add(1s, 1);
  timers_.cancel(old);
  add(1s, 2);

  timers_.cancel(old);

  run_due(1s);
  EXPECT_THAT(ran_, ElementsAre(2));
}

TEST_F(TimerQueueTest, IgnoresTheCancellationOfWhatRanOrNeverWas) {
  const TimerId ran = add(1s, 1);
  run_due(1s);
  add(1s, 2);

  timers_.cancel(ran);
  timers_.cancel(TimerId());

  run_due(1s);
  EXPECT_THAT(ran_, ElementsAre(1, 2));
}

TEST_F(TimerQueueTest, HasNoNextWhenEmpty) {
  EXPECT_EQ(timers_.next(), std::nullopt);
  timers_.cancel(add(1s, 1));
  EXPECT_EQ(timers_.next(), std::nullopt);
}

TEST_F(TimerQueueTest, LetsWorkAddAndCancelTimers) {
  const TimerId victim = add(2s, 2);
  timers_.add(at(1s), [this, victim] {
    timers_.cancel(victim);
    add(1s, 10);
  });

  run_due(3s);

  EXPECT_THAT(ran_, ElementsAre(10));
}

// Cancels a timer as it dies, as a connection does with its time-outs.
struct CancelsAtItsEnd {
  CancelsAtItsEnd(TimerQueue& t, TimerId o) : timers(t), other(o) {}
  CancelsAtItsEnd(const CancelsAtItsEnd&) = delete;
  CancelsAtItsEnd& operator=(const CancelsAtItsEnd&) = delete;
  ~CancelsAtItsEnd() { timers.cancel(other); }
  TimerQueue& timers;
  TimerId other;
};

TEST_F(TimerQueueTest, LetsWorkThatDiesCancelOtherTimers) {
  const TimerId second = add(2s, 2);
  const TimerId first =
      timers_.add(at(1s), [owned = std::make_unique<CancelsAtItsEnd>(timers_, second)] {});

  timers_.cancel(first);

  EXPECT_EQ(timers_.next(), std::nullopt);
}

TEST_F(TimerQueueTest, ClearsWhatIsAddedWhileItClears) {
  struct AddsAtItsEnd {
    explicit AddsAtItsEnd(TimerQueue& t) : timers(t) {}
    AddsAtItsEnd(const AddsAtItsEnd&) = delete;
    AddsAtItsEnd& operator=(const AddsAtItsEnd&) = delete;
    ~AddsAtItsEnd() {
      timers.add(at(5s), [] {});
    }
    TimerQueue& timers;
  };
  const TimerId other = add(2s, 2);
  timers_.add(at(1s), [owned = std::make_unique<AddsAtItsEnd>(timers_)] {});
  timers_.add(at(3s), [owned = std::make_unique<CancelsAtItsEnd>(timers_, other)] {});

  timers_.clear();

  EXPECT_EQ(timers_.next(), std::nullopt);
  EXPECT_THAT(ran_, IsEmpty());
}

TEST(TimeAfter, AddsUntilTheEndOfTime) {
  EXPECT_EQ(time_after(at(1s), 2s), at(3s));
  EXPECT_EQ(time_after(at(1s), -1s), at(0s));
  EXPECT_EQ(time_after(at(1s), std::chrono::nanoseconds::max()), TimePoint::max());
  EXPECT_EQ(time_after(at(0s), std::chrono::nanoseconds::max()), TimePoint::max());
}

}  // namespace
}  // namespace tinker::async::timer_queue_test
