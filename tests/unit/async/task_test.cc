#include "async/task.h"

#include <gmock/gmock.h>

#include "async/runtime_core.h"
#include "async/semaphore.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::async {
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

Task<int> sum_of_two() {
  auto first = answer_after(1s, 40);
  TINKER_CO_TRY(const int a, co_await std::move(first));
  auto second = answer_after(2s, 2);
  TINKER_CO_TRY(const int b, co_await std::move(second));
  co_return a + b;
}

TEST(Task, AwaitsOthersOneAfterTheOther) {
  VirtualRuntime time;
  const auto& core = time.runtime().core();

  auto sum = core->spawn(core->scope(), sum_of_two());

  EXPECT_THAT(sum.get(), IsOkAndHolds(42));
  EXPECT_EQ(time.elapsed(), 3s);
}

TEST(Task, EndsWithItsDeadline) {
  VirtualRuntime time;
  const auto& core = time.runtime().core();

  auto slow = core->spawn(core->scope(), answer_after(1h, 1), SpawnOptions{.deadline = 1500ms});

  EXPECT_THAT(slow.get(), IsError(ErrorCode::deadline_exceeded, HasSubstr("1500 ms")));
  EXPECT_EQ(time.elapsed(), 1500ms);
}

TEST(Task, EndsWhenItsFutureIsCancelled) {
  VirtualRuntime time;
  const auto& core = time.runtime().core();
  auto slow = core->spawn(core->scope(), answer_after(1h, 1));
  time.advance(1s);

  slow.cancel();

  EXPECT_THAT(slow.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_EQ(time.elapsed(), 1s);
}

TEST(Task, EndsWithTheRuntime) {
  VirtualRuntime time;
  auto core = time.runtime().core();
  auto slow = core->spawn(core->scope(), answer_after(1h, 1));
  time.run_ready();

  time.drop();

  EXPECT_THAT(slow.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
}

Task<> hold(Semaphore semaphore, std::int64_t amount, std::vector<std::int64_t>* order) {
  auto acquire = semaphore.acquire(amount);
  TINKER_CO_TRY(const auto permit, co_await acquire);
  order->push_back(amount);
  auto pause = sleep_for(1s);
  TINKER_CO_TRY(co_await pause);
  co_return Result<void>();
}

TEST(Semaphore, AdmitsBytesWhileTheBalanceIsNotNegative) {  // R6.8
  VirtualRuntime time;
  const auto& core = time.runtime().core();
  auto semaphore = Semaphore::bytes(10);
  std::vector<std::int64_t> order;

  std::vector<Future<void>> all;
  for (const std::int64_t size : {10, 1000, 1, 2}) {
    all.push_back(core->spawn(core->scope(), hold(semaphore, size, &order)));
  }
  time.run_ready();

  EXPECT_THAT(order, ElementsAre(10, 1000));
  EXPECT_EQ(semaphore.available(), -1000);
  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());
  EXPECT_THAT(order, ElementsAre(10, 1000, 1, 2));
  EXPECT_EQ(semaphore.available(), 10);
  EXPECT_EQ(time.elapsed(), 2s);
}

TEST(Runtime, RunsOnRealThreads) {
  auto runtime = Runtime::start();
  const auto core = runtime.core();

  auto value = core->spawn(core->scope(), answer_after(1ms, 7)).then([](Result<int> r) {
    return r ? *r * 2 : -1;
  });

  EXPECT_THAT(value.get(), IsOkAndHolds(14));
}

TEST(Runtime, EndsWhatIsInFlightWhenTheLastHandleGoes) {
  std::optional<Runtime> runtime = Runtime::start();
  auto slow = runtime->core()->spawn(runtime->core()->scope(), answer_after(1h, 7));

  runtime.reset();

  EXPECT_THAT(slow.get(), IsError(ErrorCode::cancelled, _));
}

}  // namespace
}  // namespace tinker::async
