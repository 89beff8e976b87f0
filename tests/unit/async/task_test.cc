#include "async/task.h"

#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "async/runtime_core.h"
#include "tinker/testing/fake_clock.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::async::task_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using ::tinker::testing::VirtualRuntime;

class TaskTest : public ::testing::Test {
 protected:
  template <typename T>
  Future<T> spawn(Task<T> task) {
    return core_->spawn(core_->scope(), std::move(task));
  }
  template <typename T>
  Future<T> spawn(Task<T> task, SpawnOptions options) {
    return core_->spawn(core_->scope(), std::move(task), std::move(options));
  }

  VirtualRuntime time_;
  std::shared_ptr<RuntimeCore> core_ = time_.runtime().core();
};

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

TEST_F(TaskTest, AwaitsOthersOneAfterTheOther) {
  auto sum = spawn(sum_of_two());

  EXPECT_THAT(sum.get(), IsOkAndHolds(42));
  EXPECT_EQ(time_.elapsed(), 3s);
}

Task<> append(std::vector<int>* out, int value) {
  out->push_back(value);
  co_return Result<void>();
}

TEST_F(TaskTest, StartsLaterInTheOrderOfTheCalls) {
  std::vector<int> order;

  auto first = spawn(append(&order, 1));
  auto second = spawn(append(&order, 2));
  EXPECT_TRUE(order.empty());
  time_.run_ready();

  EXPECT_THAT(order, ElementsAre(1, 2));
  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(second.get(), IsOk());
}

Task<int> nested(int depth) {
  if (depth == 0) {
    auto pause = sleep_for(1s);
    TINKER_CO_TRY(co_await pause);
    co_return 0;
  }
  auto inner = nested(depth - 1);
  TINKER_CO_TRY(const int below, co_await std::move(inner));
  co_return below + 1;
}

TEST_F(TaskTest, PassesValuesAndErrorsUpThroughMany) {
  EXPECT_THAT(spawn(nested(100)).get(), IsOkAndHolds(100));
  EXPECT_THAT(spawn(nested(100), {.deadline = 500ms}).get(),
              IsError(ErrorCode::deadline_exceeded, _));
}

Task<int> immediate() {
  co_return 1;
}

Task<int> count_to(int limit) {
  int total = 0;
  while (total < limit) {
    auto one = immediate();
    TINKER_CO_TRY(const int value, co_await std::move(one));
    total += value;
  }
  co_return total;
}

TEST_F(TaskTest, DoesNotUseUpTheStackInALoop) {
  EXPECT_THAT(spawn(count_to(200'000)).get(), IsOkAndHolds(200'000));
}

Task<int> throws() {
  auto pause = sleep_for(1s);
  TINKER_CO_TRY(co_await pause);
  throw std::runtime_error("it broke");
}

Task<int> throws_a_result_error() {
  throw ResultError({.code = ErrorCode::conflict, .message = "taken"});
  co_return 1;
}

Task<int> awaits_what_throws() {
  auto inner = throws();
  co_return co_await std::move(inner);
}

TEST_F(TaskTest, TurnsAnExceptionIntoAnInternalError) {
  EXPECT_THAT(spawn(throws()).get(), IsError(ErrorCode::internal, HasSubstr("it broke")));
  EXPECT_THAT(spawn(awaits_what_throws()).get(),
              IsError(ErrorCode::internal, HasSubstr("it broke")));
  EXPECT_THAT(spawn(throws_a_result_error()).get(),
              IsError(ErrorCode::conflict, HasSubstr("taken")));
}

Task<int> holding(std::shared_ptr<int> value) {
  auto pause = sleep_for(1s);
  TINKER_CO_TRY(co_await pause);
  co_return *value;
}

TEST_F(TaskTest, LetsGoOfAllItHeldBeforeItsResultIsSeen) {
  const auto held = std::make_shared<int>(7);
  auto future = spawn(holding(held));
  long seen = 0;
  auto observed = std::move(future).then([&](Result<int> r) {
    seen = held.use_count();
    return r;
  });

  EXPECT_THAT(observed.get(), IsOkAndHolds(7));
  EXPECT_EQ(seen, 1);
}

TEST_F(TaskTest, IsDestroyedWithoutHavingRun) {
  const auto held = std::make_shared<int>(7);

  {
    const auto never_started = holding(held);
  }

  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(TaskTest, GoesOnWhenItsFutureIsDropped) {
  std::vector<int> order;

  {
    auto dropped = spawn(append(&order, 1));
  }
  time_.run_ready();

  EXPECT_THAT(order, ElementsAre(1));
}

TEST_F(TaskTest, EndsWhenItsFutureIsCancelled) {
  auto slow = spawn(answer_after(1h, 1));
  time_.advance(1s);

  slow.cancel();

  EXPECT_THAT(slow.get(), IsError(ErrorCode::cancelled, HasSubstr("by the caller")));
  EXPECT_EQ(time_.elapsed(), 1s);
}

TEST_F(TaskTest, NeverRunsWhenItIsCancelledBeforeItStarts) {
  std::vector<int> order;
  auto future = core_->spawn(std::make_shared<Scope>(), append(&order, 1));
  auto scope = std::make_shared<Scope>();
  scope->cancel({.code = ErrorCode::closed, .message = "shut"});
  auto below = core_->spawn(scope, append(&order, 2));

  EXPECT_THAT(future.get(), IsOk());
  EXPECT_THAT(below.get(), IsError(ErrorCode::closed, HasSubstr("shut")));
  EXPECT_THAT(order, ElementsAre(1));
}

TEST_F(TaskTest, IgnoresACancellationAfterItsEnd) {
  auto done = spawn(answer_after(1s, 7));
  time_.advance(1s);
  EXPECT_TRUE(done.is_ready());

  done.cancel();
  time_.run_ready();

  EXPECT_THAT(done.get(), IsOkAndHolds(7));
}

TEST_F(TaskTest, HasLeftTheTreeOfScopesAtItsEndWhoeverStillHoldsIt) {
  // A thread that cancels may be the last to let go, and must not touch the tree then.
  std::vector<int> order;
  long links = 0;
  auto future = spawn(append(&order, 1));
  core_->loop()->post([&] { links = core_->scope().use_count(); });
  future.cancel();  // holds the operation until the loop gets to it

  EXPECT_THAT(future.get(), IsOk());
  EXPECT_EQ(links, 1);
}

TEST_F(TaskTest, EndsWithTheRuntime) {
  auto slow = spawn(answer_after(1h, 1));
  time_.run_ready();

  time_.drop();

  EXPECT_THAT(slow.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
}

TEST_F(TaskTest, EndsWithItsDeadline) {
  auto slow = spawn(answer_after(1h, 1), {.deadline = 1500ms});

  EXPECT_THAT(slow.get(), IsError(ErrorCode::deadline_exceeded, HasSubstr("1500 ms")));
  EXPECT_EQ(time_.elapsed(), 1500ms);
}

TEST_F(TaskTest, LeavesNoTimerBehindWhenItIsFasterThanItsDeadline) {
  EXPECT_THAT(spawn(answer_after(1s, 7), {.deadline = 1h}).get(), IsOkAndHolds(7));

  Promise<int> never;
  EXPECT_THAT(never.future().get(), IsError(ErrorCode::stuck, _));
  EXPECT_EQ(time_.elapsed(), 1s);
}

// A loop whose clock moves while work waits to be run, as on a busy machine.
class BusyLoop final : public EventLoop {
 public:
  void post(UniqueFunction<void()> work) override { posted_.push_back(std::move(work)); }
  TimerId schedule(TimePoint when, UniqueFunction<void()> work) override {
    return timers_.add(when, std::move(work));
  }
  void cancel(TimerId id) override { timers_.cancel(id); }
  [[nodiscard]] const Clock& clock() const noexcept override { return clock_; }

  void run_after(std::chrono::nanoseconds delay) {
    clock_.advance(delay);
    for (auto& work : std::exchange(posted_, {})) work();
  }

 private:
  tinker::testing::FakeClock clock_;
  TimerQueue timers_;
  std::vector<UniqueFunction<void()>> posted_;
};

TEST(TaskDeadline, CountsFromTheCallAndNotFromTheStart) {
  const auto loop = std::make_shared<BusyLoop>();
  const auto core = std::make_shared<RuntimeCore>(RuntimeCore::Parts{
      .loop = loop, .workers = loop, .callbacks = loop, .logger = Logger(), .rng = Rng(1)});
  std::vector<int> order;
  auto late = core->spawn(core->scope(), append(&order, 1), SpawnOptions{.deadline = 30s});
  auto in_time = core->spawn(core->scope(), append(&order, 2), SpawnOptions{.deadline = 2min});

  loop->run_after(1min);

  EXPECT_THAT(late.get(), IsError(ErrorCode::deadline_exceeded, HasSubstr("30000 ms")));
  EXPECT_THAT(in_time.get(), IsOk());
  EXPECT_THAT(order, ElementsAre(2));
}

TEST_F(TaskTest, NeverRunsWithADeadlineOfNothing) {
  std::vector<int> order;

  EXPECT_THAT(spawn(append(&order, 1), {.deadline = 0s}).get(),
              IsError(ErrorCode::deadline_exceeded, _));
  EXPECT_TRUE(order.empty());
}

TEST_F(TaskTest, TakesADeadlineBeyondAllTime) {
  EXPECT_THAT(spawn(answer_after(1s, 7), {.deadline = std::chrono::nanoseconds::max()}).get(),
              IsOkAndHolds(7));
  EXPECT_EQ(time_.elapsed(), 1s);
}

TEST_F(TaskTest, EndsWhenAStopIsRequested) {
  const std::stop_source source;
  auto slow = spawn(answer_after(1h, 1), {.stop_token = source.get_token()});
  time_.advance(1s);

  source.request_stop();

  EXPECT_THAT(slow.get(), IsError(ErrorCode::cancelled, HasSubstr("stop was requested")));
  EXPECT_EQ(time_.elapsed(), 1s);
}

TEST_F(TaskTest, NeverRunsWhenTheStopCameFirst) {
  std::vector<int> order;
  const std::stop_source source;
  source.request_stop();

  EXPECT_THAT(spawn(append(&order, 1), {.stop_token = source.get_token()}).get(),
              IsError(ErrorCode::cancelled, HasSubstr("stop was requested")));
  EXPECT_TRUE(order.empty());
}

TEST_F(TaskTest, IgnoresAStopAfterItsEnd) {
  const std::stop_source source;
  auto done = spawn(answer_after(1s, 7), {.stop_token = source.get_token()});
  time_.advance(1s);

  source.request_stop();

  EXPECT_THAT(done.get(), IsOkAndHolds(7));
}

Task<int> answer_of(Future<int> future) {
  auto wait = until(std::move(future));
  TINKER_CO_TRY(const int value, co_await wait);
  co_return value + 1;
}

TEST_F(TaskTest, IsToldThatAFutureWasTaken) {
  auto future = Future<int>::ready(1);
  EXPECT_THAT(future.get(), IsOkAndHolds(1));

  EXPECT_THAT(spawn(answer_of(std::move(future))).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("taken already")));
}

TEST_F(TaskTest, AwaitsFutures) {
  Promise<int> promise;
  auto later = spawn(answer_of(promise.future()));
  auto now = spawn(answer_of(Future<int>::ready(1)));
  time_.run_ready();
  EXPECT_FALSE(later.is_ready());

  promise.set(6);

  EXPECT_THAT(later.get(), IsOkAndHolds(7));
  EXPECT_THAT(now.get(), IsOkAndHolds(2));
}

TEST_F(TaskTest, PassesTheErrorOfAFutureOn) {
  Promise<int> promise;
  auto task = spawn(answer_of(promise.future()));

  promise.set(Error{.code = ErrorCode::conflict, .message = "taken"});

  EXPECT_THAT(task.get(), IsError(ErrorCode::conflict, HasSubstr("taken")));
}

TEST_F(TaskTest, DoesNotWaitForAFutureToNoticeACancellation) {
  Promise<int> promise;
  bool is_cancelled = false;
  promise.on_cancel([&] { is_cancelled = true; });
  auto task = spawn(answer_of(promise.future()));
  time_.run_ready();

  task.cancel();

  EXPECT_THAT(task.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_TRUE(is_cancelled);
  promise.set(1);  // too late, and harmless
  time_.run_ready();
}

TEST_F(TaskTest, EndsWithTheReasonWhenItsFutureEndsInsideTheCancellation) {
  Promise<int> promise;
  promise.on_cancel([&] { promise.set(1); });
  auto task = spawn(answer_of(promise.future()));
  time_.run_ready();

  task.cancel();

  EXPECT_THAT(task.get(), IsError(ErrorCode::cancelled, _));
}

Task<> sleep_though_cancelled(std::vector<std::string>* log) {
  auto first = sleep_for(1h);
  const auto cancelled = co_await first;
  log->push_back(cancelled.ok() ? "slept" : cancelled.error().message);
  auto second = sleep_for(1h);
  const auto again = co_await second;
  log->push_back(again.ok() ? "slept" : again.error().message);
  Promise<int> promise;
  bool is_told = false;
  promise.on_cancel([&] { is_told = true; });
  auto wait = until(promise.future());
  const auto value = co_await wait;
  log->push_back(is_told ? value.error().message : "not told");
  co_return Result<void>();
}

TEST_F(TaskTest, CannotWaitAnyMoreOnceCancelled) {
  std::vector<std::string> log;
  const auto scope = std::make_shared<Scope>();
  auto task = core_->spawn(scope, sleep_though_cancelled(&log));
  time_.run_ready();

  scope->cancel({.code = ErrorCode::closed, .message = "shut"});

  EXPECT_THAT(task.get(), IsOk());  // it chose to go on, and to end well
  EXPECT_THAT(log, ElementsAre("shut", "shut", "shut"));
  EXPECT_EQ(time_.elapsed(), 0s);
}

Task<bool> runs_in(EventLoop* loop) {
  auto inner = this_context();
  const auto context = co_await inner;
  co_return context.loop == loop&& context.scope != nullptr;
}

TEST_F(TaskTest, KnowsWhereItRuns) {
  EXPECT_THAT(spawn(runs_in(core_->loop().get())).get(), IsOkAndHolds(true));
}

TEST_F(TaskTest, WakesSleepersInTheOrderOfTime) {
  std::vector<int> order;
  std::vector<Future<void>> all;
  for (const int seconds : {3, 1, 2, 1}) {
    all.push_back(
        spawn(answer_after(std::chrono::seconds(seconds), seconds)).then([&](Result<int> r) {
          order.push_back(*r);
        }));
  }

  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());
  EXPECT_THAT(order, ElementsAre(1, 1, 2, 3));
}

TEST_F(TaskTest, SleepsForNoTimeOrLess) {
  EXPECT_THAT(spawn(answer_after(0s, 1)).get(), IsOkAndHolds(1));
  EXPECT_THAT(spawn(answer_after(-1h, 2)).get(), IsOkAndHolds(2));
  EXPECT_EQ(time_.elapsed(), 0s);
}

TEST_F(TaskTest, SleepsForEver) {
  auto task = spawn(answer_after(std::chrono::nanoseconds::max(), 1));

  EXPECT_THAT(task.get(), IsError(ErrorCode::stuck, _));
  task.cancel();
  EXPECT_THAT(task.get(), IsError(ErrorCode::cancelled, _));
}

}  // namespace
}  // namespace tinker::async::task_test
