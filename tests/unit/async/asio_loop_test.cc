#include "async/asio_loop.h"

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

namespace tinker::async::asio_loop_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

// Runs `arrange` on a loop of this thread, until something stops it.
template <typename F>
void run_loop(const std::shared_ptr<AsioLoop>& loop, F arrange) {
  loop->post(std::move(arrange));
  loop->run();
}

TEST(AsioLoop, RunsWhatIsPostedInOrderAndNotInsideTheCall) {
  const auto loop = AsioLoop::create();
  std::vector<int> order;

  run_loop(loop, [&] {
    loop->post([&] { order.push_back(2); });
    loop->post([&] {
      order.push_back(3);
      loop->stop();
    });
    order.push_back(1);
  });

  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(AsioLoop, FiresTimersInTheOrderOfTime) {
  const auto loop = AsioLoop::create();
  std::vector<int> order;

  run_loop(loop, [&] {
    loop->schedule_after(3ms, [&] {
      order.push_back(3);
      loop->stop();
    });
    loop->schedule_after(1h, [&] { order.push_back(100); });
    loop->schedule_after(1ms, [&] { order.push_back(1); });
    loop->schedule_after(2ms, [&] { order.push_back(2); });
    loop->schedule_after(-1h, [&] { order.push_back(0); });
  });

  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
}

TEST(AsioLoop, FiresNoTimerBeforeItsTime) {
  const auto loop = AsioLoop::create();
  const TimePoint when = loop->now() + 5ms;
  TimePoint fired;

  run_loop(loop, [&] {
    loop->schedule(when, [&] {
      fired = loop->now();
      loop->stop();
    });
  });

  EXPECT_GE(fired, when);
}

TEST(AsioLoop, DoesNotFireWhatWasCancelled) {
  const auto loop = AsioLoop::create();
  std::vector<int> order;

  run_loop(loop, [&] {
    const TimerId first = loop->schedule_after(1ms, [&] { order.push_back(1); });
    const TimerId second = loop->schedule_after(2ms, [&] { order.push_back(2); });
    loop->schedule_after(1ms, [&, second] { loop->cancel(second); });
    loop->schedule_after(3ms, [&] { loop->stop(); });
    loop->cancel(first);
  });

  EXPECT_TRUE(order.empty());
}

TEST(AsioLoop, LetsPostedWorkInBetweenTimersThatReturnAtOnce) {
  const auto loop = AsioLoop::create();
  int turns = 0;
  std::function<void()> again = [&] {
    ++turns;
    loop->schedule_after(0s, [&] { again(); });
  };

  run_loop(loop, [&] {
    again();
    loop->post([&] { loop->stop(); });
  });

  EXPECT_GE(turns, 1);
}

TEST(AsioLoop, DestroysWhatIsLeftWhenItStops) {
  const auto loop = AsioLoop::create();
  const auto owned = std::make_shared<int>();

  run_loop(loop, [&] {
    loop->schedule_after(1h, [owned] {});
    loop->stop();
    loop->post([owned] {});
  });
  loop->post([owned] {});

  EXPECT_EQ(owned.use_count(), 1);
}

TEST(AsioLoop, RunsWhatOtherThreadsPostWhileItRuns) {
  const auto loop = AsioLoop::create();
  constexpr int kThreads = 8;
  constexpr int kEach = 500;
  int ran = 0;
  std::vector<std::jthread> posters;
  posters.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    posters.emplace_back([&] {
      for (int k = 0; k < kEach; ++k) {
        loop->post([&] {
          if (++ran == kThreads * kEach) loop->stop();
        });
      }
    });
  }

  loop->run();

  EXPECT_EQ(ran, kThreads * kEach);
}

TEST(AsioLoop, DropsNothingSilentlyWhenAPostRacesWithTheStop) {
  for (int round = 0; round < 200; ++round) {
    const auto loop = AsioLoop::create();
    const auto owned = std::make_shared<int>();
    std::jthread poster([&loop, copy = owned]() mutable {
      for (int k = 0; k < 10; ++k) loop->post([copy] {});
      copy.reset();
    });

    run_loop(loop, [&] { loop->stop(); });
    poster.join();

    EXPECT_EQ(owned.use_count(), 1);  // run or destroyed, never kept
  }
}

}  // namespace
}  // namespace tinker::async::asio_loop_test
