#include "async/semaphore.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "async/runtime_core.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::async::semaphore_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::VirtualRuntime;

// Holds `amount` for a second, and writes down when it began.
Task<> hold(Semaphore semaphore, std::int64_t amount, std::vector<std::int64_t>* order) {
  auto acquire = semaphore.acquire(amount);
  TINKER_CO_TRY(const auto permit, co_await acquire);
  order->push_back(amount);
  auto pause = sleep_for(1s);
  TINKER_CO_TRY(co_await pause);
  co_return Result<void>();
}

// Fails while it holds one.
Task<> fail_holding(Semaphore semaphore) {
  auto acquire = semaphore.acquire();
  TINKER_CO_TRY(const auto permit, co_await acquire);
  co_return Error{.code = ErrorCode::conflict, .message = "taken"};
}

Task<> throw_holding(Semaphore semaphore) {
  auto acquire = semaphore.acquire();
  TINKER_CO_TRY(const auto permit, co_await acquire);
  throw std::runtime_error("it broke");
}

class SemaphoreTest : public ::testing::Test {
 protected:
  Future<void> spawn(Task<> task) { return core_->spawn(core_->scope(), std::move(task)); }
  std::vector<Future<void>> spawn_holders(const Semaphore& semaphore,
                                          const std::vector<std::int64_t>& amounts) {
    std::vector<Future<void>> out;
    out.reserve(amounts.size());
    for (const auto amount : amounts) out.push_back(spawn(hold(semaphore, amount, &order_)));
    time_.run_ready();
    return out;
  }

  VirtualRuntime time_;
  std::shared_ptr<RuntimeCore> core_ = time_.runtime().core();
  std::vector<std::int64_t> order_;
};

TEST_F(SemaphoreTest, GivesWithoutWaitingWhatIsFree) {
  const auto semaphore = Semaphore::counting(2);
  auto first = semaphore.try_acquire();
  const auto second = semaphore.try_acquire();

  EXPECT_TRUE(first && second);
  EXPECT_FALSE(semaphore.try_acquire());
  first.reset();
  EXPECT_TRUE(semaphore.try_acquire());
}

TEST_F(SemaphoreTest, GivesNothingPastThoseWhoWait) {
  const auto semaphore = Semaphore::bytes(0);
  auto oversized = semaphore.try_acquire(10);
  const auto waiting = spawn_holders(semaphore, {1});
  oversized.reset();  // which lets the one who waits in, but not past it

  EXPECT_EQ(semaphore.available(), -1);
  EXPECT_FALSE(semaphore.try_acquire(1));
  time_.run_ready();
}

TEST_F(SemaphoreTest, AdmitsAtMostItsLimitAtATime) {
  const auto semaphore = Semaphore::counting(2);

  auto all = spawn_holders(semaphore, {1, 1, 1, 1, 1});

  EXPECT_EQ(order_.size(), 2U);
  EXPECT_EQ(semaphore.waiting(), 3U);
  EXPECT_EQ(semaphore.available(), 0);
  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());
  EXPECT_EQ(time_.elapsed(), 3s);
  EXPECT_EQ(semaphore.available(), 2);
}

TEST_F(SemaphoreTest, AdmitsBytesWhileTheBalanceIsNotNegative) {  // R6.8
  const auto semaphore = Semaphore::bytes(10);

  auto all = spawn_holders(semaphore, {10, 1000, 1, 2});

  EXPECT_THAT(order_, ElementsAre(10, 1000));
  EXPECT_EQ(semaphore.available(), -1000);
  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());
  EXPECT_THAT(order_, ElementsAre(10, 1000, 1, 2));
  EXPECT_EQ(semaphore.available(), 10);
  EXPECT_EQ(time_.elapsed(), 2s);
}

TEST_F(SemaphoreTest, AdmitsAnOversizedPieceAlone) {  // R6.8: never a dead lock
  const auto semaphore = Semaphore::bytes(10);

  auto all = spawn_holders(semaphore, {11, 500, 500});

  EXPECT_THAT(order_, ElementsAre(11));
  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());
  EXPECT_EQ(time_.elapsed(), 3s);
}

TEST_F(SemaphoreTest, AdmitsBytesAtABalanceOfExactlyNothing) {  // R6.8: waits while available < 0
  const auto semaphore = Semaphore::bytes(0);

  auto all = spawn_holders(semaphore, {0, 5, 1});

  EXPECT_THAT(order_, ElementsAre(0, 5));
  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());
}

TEST_F(SemaphoreTest, AdmitsInTheOrderOfTheCalls) {
  const auto semaphore = Semaphore::bytes(0);

  auto all = spawn_holders(semaphore, {9, 3, 1, 2});
  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());

  EXPECT_THAT(order_, ElementsAre(9, 3, 1, 2));
}

TEST_F(SemaphoreTest, LetsNobodyPassTheQueue) {
  const auto semaphore = Semaphore::counting(1);
  auto all = spawn_holders(semaphore, {1, 1});
  time_.advance(1s);  // the second has been admitted, the first let go

  all.push_back(spawn(hold(semaphore, 1, &order_)));
  all.push_back(spawn(hold(semaphore, 1, &order_)));
  time_.advance(1s);

  EXPECT_EQ(order_.size(), 3U);
  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());
  EXPECT_EQ(time_.elapsed(), 4s);
}

TEST_F(SemaphoreTest, GetsThePermitBackFromWhatFails) {
  const auto semaphore = Semaphore::counting(1);

  EXPECT_THAT(spawn(fail_holding(semaphore)).get(), IsError(ErrorCode::conflict, _));
  EXPECT_EQ(semaphore.available(), 1);
  EXPECT_THAT(spawn(throw_holding(semaphore)).get(), IsError(ErrorCode::internal, _));
  EXPECT_EQ(semaphore.available(), 1);
}

TEST_F(SemaphoreTest, GetsThePermitBackFromWhatIsCancelled) {
  const auto semaphore = Semaphore::counting(1);
  auto all = spawn_holders(semaphore, {1, 1});

  all[0].cancel();
  time_.run_ready();

  EXPECT_EQ(order_.size(), 2U);
  EXPECT_EQ(time_.elapsed(), 0s);
  EXPECT_THAT(when_all(std::move(all)).get(), IsError(ErrorCode::cancelled, _));
}

TEST_F(SemaphoreTest, ForgetsAWaiterThatIsCancelled) {
  const auto semaphore = Semaphore::counting(1);
  auto all = spawn_holders(semaphore, {1, 2, 3});

  all[1].cancel();
  time_.run_ready();

  EXPECT_EQ(semaphore.waiting(), 1U);
  EXPECT_THAT(all[1].get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(all[2].get(), IsOk());
  EXPECT_THAT(order_, ElementsAre(1, 3));
  EXPECT_EQ(time_.elapsed(), 2s);
  EXPECT_EQ(semaphore.available(), 1);
}

TEST_F(SemaphoreTest, LetsAWaiterKeepThePermitItWasGivenBeforeTheCancellation) {
  const auto semaphore = Semaphore::counting(1);
  const auto scope = std::make_shared<Scope>();
  std::optional<Semaphore::Permit> held;
  auto first = spawn([](Semaphore s, std::optional<Semaphore::Permit>* out) -> Task<> {
    auto acquire = s.acquire();
    TINKER_CO_TRY(auto permit, co_await acquire);
    out->emplace(std::move(permit));
    co_return Result<void>();
  }(semaphore, &held));
  auto second = core_->spawn(scope, hold(semaphore, 1, &order_));
  auto third = spawn(hold(semaphore, 1, &order_));
  time_.run_ready();

  held.reset();  // admits the second, which has not run yet
  scope->cancel({.code = ErrorCode::cancelled, .message = "stop"});
  time_.run_ready();

  EXPECT_THAT(order_, ElementsAre(1, 1));  // it got it, gave it back, and the third has it now
  EXPECT_THAT(second.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(third.get(), IsOk());
  EXPECT_EQ(semaphore.available(), 1);
  EXPECT_THAT(first.get(), IsOk());
}

TEST_F(SemaphoreTest, AdmitsNobodyWhoIsCancelledAlready) {
  const auto semaphore = Semaphore::counting(1);
  const auto scope = std::make_shared<Scope>();
  auto task = core_->spawn(scope, [](Semaphore s, std::shared_ptr<Scope> own) -> Task<> {
    own->cancel({.code = ErrorCode::closed, .message = "shut"});
    auto acquire = s.acquire();
    TINKER_CO_TRY(const auto permit, co_await acquire);
    co_return Result<void>();
  }(semaphore, scope));

  EXPECT_THAT(task.get(), IsError(ErrorCode::closed, _));
  EXPECT_EQ(semaphore.available(), 1);
}

TEST_F(SemaphoreTest, OutlivesItsOwnHandle) {
  std::vector<Future<void>> all;
  {
    const auto semaphore = Semaphore::counting(1);
    all = spawn_holders(semaphore, {1, 1});
  }

  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());
}

TEST_F(SemaphoreTest, EndsItsWaitersWithTheRuntime) {
  const auto semaphore = Semaphore::counting(0);
  auto all = spawn_holders(semaphore, {1, 1});

  time_.drop();

  EXPECT_THAT(all[0].get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(all[1].get(), IsError(ErrorCode::cancelled, _));
  EXPECT_EQ(semaphore.waiting(), 0U);
}

// Waits until it was woken `times` times.
Task<> listen(std::shared_ptr<Signal> signal, std::string name, std::vector<std::string>* log) {
  for (int i = 0; i < 2; ++i) {
    auto wait = signal->wait();
    TINKER_CO_TRY(co_await wait);
    log->push_back(name);
  }
  co_return Result<void>();
}

using SignalTest = SemaphoreTest;

TEST_F(SignalTest, WakesAllWhoWaitEachTime) {
  const auto signal = std::make_shared<Signal>();
  std::vector<std::string> log;
  auto a = spawn(listen(signal, "a", &log));
  auto b = spawn(listen(signal, "b", &log));
  time_.run_ready();
  EXPECT_THAT(log, IsEmpty());

  signal->notify_all();
  time_.run_ready();
  EXPECT_THAT(log, ElementsAre("a", "b"));
  signal->notify_all();

  EXPECT_THAT(a.get(), IsOk());
  EXPECT_THAT(b.get(), IsOk());
  EXPECT_THAT(log, ElementsAre("a", "b", "a", "b"));
}

TEST_F(SignalTest, DoesNotWakeThoseWhoWaitLater) {
  const auto signal = std::make_shared<Signal>();
  std::vector<std::string> log;
  signal->notify_all();

  auto late = spawn(listen(signal, "late", &log));
  time_.run_ready();

  EXPECT_THAT(log, IsEmpty());
  late.cancel();
  EXPECT_THAT(late.get(), IsError(ErrorCode::cancelled, _));
}

TEST_F(SignalTest, ForgetsAWaiterThatIsCancelled) {
  const auto signal = std::make_shared<Signal>();
  std::vector<std::string> log;
  auto a = spawn(listen(signal, "a", &log));
  auto b = spawn(listen(signal, "b", &log));
  time_.run_ready();

  a.cancel();
  EXPECT_THAT(a.get(), IsError(ErrorCode::cancelled, _));
  signal->notify_all();
  signal->notify_all();  // at once: those who are awake but have not run yet miss it
  time_.run_ready();

  EXPECT_THAT(log, ElementsAre("b"));
}

TEST_F(SignalTest, WakesWithSuccessWhenTheCancellationComesSecond) {
  const auto signal = std::make_shared<Signal>();
  const auto scope = std::make_shared<Scope>();
  std::vector<std::string> log;
  auto task = core_->spawn(scope, listen(signal, "a", &log));
  time_.run_ready();

  signal->notify_all();
  scope->cancel({.code = ErrorCode::closed, .message = "shut"});

  EXPECT_THAT(task.get(), IsError(ErrorCode::closed, _));
  EXPECT_THAT(log, ElementsAre("a"));
}

}  // namespace
}  // namespace tinker::async::semaphore_test
