#include "tinker/testing/virtual_runtime.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "async/runtime_core.h"
#include "async/semaphore.h"
#include "tinker/testing/matchers.h"

namespace tinker::async::virtual_runtime_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using ::tinker::testing::VirtualRuntime;

Task<int> answer_after(std::chrono::nanoseconds delay, int value) {
  auto pause = sleep_for(delay);
  TINKER_CO_TRY(co_await pause);
  co_return value;
}

Future<int> spawn(const Runtime& runtime, Task<int> task) {
  return runtime.core()->spawn(runtime.core()->scope(), std::move(task));
}

// Repeats for ever, as a heartbeat does.
Task<int> repeat_every(std::chrono::nanoseconds period, int* count) {
  while (true) {
    auto pause = sleep_for(period);
    TINKER_CO_TRY(co_await pause);
    ++*count;
  }
}

TEST(VirtualRuntime, LetsTimePassOnlyAsFarAsNeeded) {
  const VirtualRuntime time;
  const auto wall = time.clock().wall_time();
  auto late = spawn(time.runtime(), answer_after(1000h, 2));

  EXPECT_THAT(spawn(time.runtime(), answer_after(90min, 1)).get(), IsOkAndHolds(1));

  EXPECT_EQ(time.elapsed(), 90min);
  EXPECT_EQ(time.clock().wall_time() - wall, 90min);
  EXPECT_FALSE(late.is_ready());
  EXPECT_THAT(late.get(), IsOkAndHolds(2));
  EXPECT_EQ(time.elapsed(), 1000h);
}

TEST(VirtualRuntime, RunsNothingByItself) {
  VirtualRuntime time;
  auto future = spawn(time.runtime(), answer_after(0s, 1));
  EXPECT_FALSE(future.is_ready());

  time.run_ready();

  EXPECT_TRUE(future.is_ready());
  EXPECT_EQ(time.elapsed(), 0s);
}

TEST(VirtualRuntime, AdvancesThroughTimersInOrderAtTheirTimes) {
  VirtualRuntime time;
  const auto& loop = time.runtime().core()->loop();
  std::vector<std::chrono::nanoseconds> fired;
  const auto note = [&] { fired.push_back(time.elapsed()); };
  loop->schedule_after(3s, note);
  loop->schedule_after(1s, [&] {
    note();
    loop->schedule_after(1s, note);  // falls due on the way, too
    loop->schedule_after(2s + 1ns, note);
  });

  time.advance(3s);

  EXPECT_THAT(fired, ElementsAre(1s, 2s, 3s));
  EXPECT_EQ(time.elapsed(), 3s);
}

TEST(VirtualRuntime, AdvancesThoughNothingIsDue) {
  VirtualRuntime time;

  time.advance(5s);
  time.advance(0s);

  EXPECT_EQ(time.elapsed(), 5s);
}

TEST(VirtualRuntime, RunsPostedWorkBeforeTimersThatAreDue) {
  VirtualRuntime time;
  const auto& loop = time.runtime().core()->loop();
  std::string order;
  loop->schedule_after(0s, [&] { order += "timer "; });
  loop->post([&] {
    order += "first ";
    loop->post([&] { order += "second "; });
  });

  time.run_ready();

  EXPECT_EQ(order, "first second timer ");
}

// A little of everything, with random delays.
std::vector<std::string> story(std::uint64_t seed) {
  const VirtualRuntime time(Logger(), seed);
  const auto& core = time.runtime().core();
  const auto semaphore = Semaphore::counting(2);
  std::vector<std::string> log;
  std::vector<Future<void>> all;
  for (int i = 0; i < 20; ++i) {
    auto task = [](std::shared_ptr<RuntimeCore> c, Semaphore s) -> Task<std::int64_t> {
      auto acquire = s.acquire();
      TINKER_CO_TRY(const auto permit, co_await acquire);
      const auto delay = std::chrono::microseconds(c->rng().next() % 1000);
      auto pause = sleep_for(delay);
      TINKER_CO_TRY(co_await pause);
      co_return c->clock().now().time_since_epoch().count();
    }(core, semaphore);
    all.push_back(core->spawn(core->scope(), std::move(task)).then([&, i](Result<std::int64_t> r) {
      log.push_back(std::to_string(i) + " at " + std::to_string(*r) + core->uuid4());
    }));
  }
  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());
  return log;
}

TEST(VirtualRuntime, DoesTheSameThingsEachTime) {
  EXPECT_EQ(story(1), story(1));
  EXPECT_NE(story(1), story(2));
}

TEST(VirtualRuntime, SaysWhenNothingCanEndAFutureAnyMore) {
  const VirtualRuntime time;
  Promise<int> never;
  auto future = never.future();

  EXPECT_THAT(future.get(), IsError(ErrorCode::stuck, HasSubstr("nothing is left")));

  never.set(7);
  EXPECT_THAT(future.get(), IsOkAndHolds(7));
}

TEST(VirtualRuntime, SaysSoThoughTimersRepeatForEver) {
  const VirtualRuntime time;
  int beats = 0;
  auto heartbeat = spawn(time.runtime(), repeat_every(10s, &beats));
  Promise<int> never;

  EXPECT_THAT(never.future().get(), IsError(ErrorCode::stuck, _));

  EXPECT_GT(beats, 10'000);
  EXPECT_FALSE(heartbeat.is_ready());
}

TEST(VirtualRuntime, TimesOutAtTheTimeGiven) {
  const VirtualRuntime time;
  auto slow = spawn(time.runtime(), answer_after(10s, 7));

  EXPECT_THAT(slow.get(4s), IsError(ErrorCode::deadline_exceeded, _));
  EXPECT_EQ(time.elapsed(), 4s);
  EXPECT_THAT(slow.get(6s), IsOkAndHolds(7));
  EXPECT_EQ(time.elapsed(), 10s);
}

TEST(VirtualRuntime, WaitsAsLongAsThereIsSomethingToWaitForWithAnEndlessTimeout) {
  const VirtualRuntime time;
  Promise<int> never;

  EXPECT_THAT(spawn(time.runtime(), answer_after(10s, 7)).get(std::chrono::nanoseconds::max()),
              IsOkAndHolds(7));
  EXPECT_THAT(never.future().get(std::chrono::nanoseconds::max()), IsError(ErrorCode::stuck, _));
  EXPECT_EQ(time.elapsed(), 10s);
}

TEST(VirtualRuntime, EndsWhatIsInFlightWhenItsHandleIsDropped) {
  VirtualRuntime time;
  auto slow = spawn(time.runtime(), answer_after(1h, 1));
  const std::weak_ptr<RuntimeCore> core = time.runtime().core();
  time.run_ready();

  time.drop();
  time.run_ready();

  EXPECT_THAT(slow.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
  EXPECT_TRUE(core.expired());
  EXPECT_EQ(time.elapsed(), 0s);
}

TEST(VirtualRuntime, EndsWhatIsInFlightThoughOthersHoldTheRuntime) {
  auto time = std::make_unique<VirtualRuntime>();
  const Runtime copy = time->runtime();
  const auto shared = copy.core()->shared<int>([] { return std::make_shared<int>(1); });
  auto slow = spawn(copy, answer_after(1h, 1));
  time->run_ready();

  time.reset();

  EXPECT_THAT(slow.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(VirtualRuntime, RunsOffloadedWorkOnTheSameThread) {
  const VirtualRuntime time;

  EXPECT_THAT(time.runtime().core()->offload([] { return std::this_thread::get_id(); }).get(),
              IsOkAndHolds(std::this_thread::get_id()));
}

TEST(VirtualRuntime, TakesWorkFromOtherThreads) {
  const VirtualRuntime time;
  std::optional<Future<int>> future;

  std::thread([&] { future = spawn(time.runtime(), answer_after(1s, 7)); }).join();

  EXPECT_THAT(future->get(), IsOkAndHolds(7));
}

TEST(VirtualRuntimeDeathTest, IsAloneOnItsThread) {
  const VirtualRuntime time;

  EXPECT_DEATH(VirtualRuntime(), "pump");
}

}  // namespace
}  // namespace tinker::async::virtual_runtime_test
