#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "support/manual_executor.h"
#include "tinker/future.h"
#include "tinker/runtime.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::then_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::tinker::support::ManualExecutor;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using ::tinker::testing::VirtualRuntime;

const Error kFailure = {.code = ErrorCode::not_found, .message = "no such thing"};

TEST(FutureThen, GivesWhatTheFunctionReturns) {
  auto doubled = Future<int>::ready(21).then([](Result<int> r) { return *r * 2; });

  EXPECT_THAT(doubled.get(), IsOkAndHolds(42));
}

TEST(FutureThen, GivesTheResultTheFunctionReturns) {
  auto ok = Future<int>::ready(21).then([](Result<int> r) -> Result<int> { return *r * 2; });
  auto error =
      Future<int>::ready(21).then([](const Result<int>&) -> Result<int> { return kFailure; });

  EXPECT_THAT(ok.get(), IsOkAndHolds(42));
  EXPECT_THAT(error.get(), IsError(ErrorCode::not_found, _));
}

TEST(FutureThen, WaitsForTheFutureTheFunctionReturns) {
  Promise<std::string> inner;
  auto outer = Future<int>::ready(1).then([&](const Result<int>&) { return inner.future(); });
  static_assert(std::is_same_v<decltype(outer), Future<std::string>>);
  EXPECT_FALSE(outer.is_ready());

  inner.set(std::string("late"));

  EXPECT_THAT(outer.get(), IsOkAndHolds("late"));
}

TEST(FutureThen, MakesSuccessOfAFunctionThatReturnsNothing) {
  int seen = 0;

  auto done = Future<int>::ready(7).then([&](Result<int> r) { seen = *r; });

  static_assert(std::is_same_v<decltype(done), Future<void>>);
  EXPECT_THAT(done.get(), IsOk());
  EXPECT_EQ(seen, 7);
}

TEST(FutureThen, HandsErrorsToTheFunctionToo) {
  auto code = Future<int>::ready(kFailure).then([](Result<int> r) { return r.error().code; });

  EXPECT_THAT(code.get(), IsOkAndHolds(ErrorCode::not_found));
}

TEST(FutureThen, TurnsAnExceptionIntoAnInternalError) {
  auto known = Future<int>::ready(7).then(
      [](const Result<int>&) -> int { throw std::runtime_error("it broke"); });
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass): users may throw anything.
  auto unknown = Future<int>::ready(7).then([](const Result<int>&) -> int { throw 5; });

  EXPECT_THAT(known.get(), IsError(ErrorCode::internal, HasSubstr("it broke")));
  EXPECT_THAT(unknown.get(), IsError(ErrorCode::internal, HasSubstr("unknown")));
}

TEST(FutureThen, KeepsTheErrorOfAValueThatWasNotThere) {
  auto future = Future<int>::ready(kFailure).then([](Result<int> r) { return r.value() + 1; });

  EXPECT_THAT(future.get(), IsError(ErrorCode::not_found, HasSubstr("no such thing")));
}

TEST(FutureThen, TurnsAnExceptionInPlaceOfAFutureIntoAnError) {
  auto future = Future<int>::ready(7).then(
      [](const Result<int>&) -> Future<int> { throw std::runtime_error("it broke"); });

  EXPECT_THAT(future.get(), IsError(ErrorCode::internal, HasSubstr("it broke")));
}

TEST(FutureThen, CarriesWhatCannotBeCopied) {
  auto future = Future<std::unique_ptr<int>>::ready(std::make_unique<int>(7))
                    .then([owned = std::make_unique<int>(1)](Result<std::unique_ptr<int>> r) {
                      **r += *owned;
                      return *std::move(r);
                    });

  EXPECT_THAT(future.get(), IsOkAndHolds(::testing::Pointee(8)));
}

TEST(FutureThen, RunsOnTheExecutorAndNeverInsideTheCall) {
  const auto executor = std::make_shared<ManualExecutor>();
  bool before_ran = false;
  bool after_ran = false;
  Promise<int> before(executor);
  Promise<int> after(executor);

  after.set(1);
  auto late = after.future().then([&](const Result<int>&) { after_ran = true; });
  auto early = before.future().then([&](const Result<int>&) { before_ran = true; });
  before.set(1);

  EXPECT_FALSE(before_ran);
  EXPECT_FALSE(after_ran);
  executor->run();
  EXPECT_TRUE(before_ran);
  EXPECT_TRUE(after_ran);
  EXPECT_THAT(late.get(), IsOk());
  EXPECT_THAT(early.get(), IsOk());
}

TEST(FutureThen, HandsItsExecutorOnAlongTheChain) {
  const auto executor = std::make_shared<ManualExecutor>();
  Promise<int> promise(executor);

  auto future = promise.future().then([](Result<int> r) { return *r + 1; }).then([](Result<int> r) {
    return *r + 1;
  });
  promise.set(5);
  executor->run();

  EXPECT_EQ(executor->posts(), 2);
  EXPECT_THAT(future.get(), IsOkAndHolds(7));
}

TEST(FutureThen, PassesACancellationUpTheChain) {
  Promise<int> promise;
  bool is_cancelled = false;
  promise.on_cancel([&] { is_cancelled = true; });
  auto future =
      promise.future().then([](Result<int> r) { return r; }).then([](Result<int> r) { return r; });

  future.cancel();

  EXPECT_TRUE(is_cancelled);
}

TEST(FutureThen, PassesACancellationToTheFutureItReturned) {
  Promise<int> inner;
  bool is_cancelled = false;
  inner.on_cancel([&] { is_cancelled = true; });
  auto future = Future<int>::ready(1).then([&](const Result<int>&) { return inner.future(); });

  future.cancel();

  EXPECT_TRUE(is_cancelled);
}

TEST(FutureThen, PassesAnEarlierCancellationToTheFutureItReturns) {
  Promise<int> outer;
  Promise<int> inner;
  bool is_cancelled = false;
  inner.on_cancel([&] { is_cancelled = true; });
  auto future = outer.future().then([&](const Result<int>&) { return inner.future(); });

  future.cancel();
  EXPECT_FALSE(is_cancelled);
  outer.set(1);

  EXPECT_TRUE(is_cancelled);
}

TEST(FutureThen, RunsWhenNobodyKeepsItsFuture) {
  Promise<int> promise;
  int seen = 0;
  (void)promise.future().then([&](Result<int> r) { seen = *r; });

  promise.set(7);

  EXPECT_EQ(seen, 7);
}

TEST(FutureThen, IsGivenUpByAnExecutorThatStops) {
  const auto executor = std::make_shared<ManualExecutor>();
  Promise<int> before(executor);
  Promise<int> after(executor);
  auto queued = before.future().then([](Result<int> r) { return *r; });
  auto late = after.future().then([](Result<int> r) { return *r; });

  before.set(1);
  executor->stop();
  after.set(1);

  EXPECT_THAT(queued.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(late.get(), IsError(ErrorCode::cancelled, _));
}

TEST(FutureThen, IsGivenUpByAnExecutorThatThrows) {
  class Throwing final : public Executor {
    void post(UniqueFunction<void()>) override { throw std::runtime_error("no room"); }
  };
  Promise<int> promise(std::make_shared<Throwing>());
  auto future = promise.future().then([](Result<int> r) { return *r; });

  promise.set(1);

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
}

TEST(FutureThen, LetsGoOfWhatTheFunctionOwned) {
  const auto owned = std::make_shared<int>(1);
  Promise<int> promise;
  auto future = promise.future().then([owned](Result<int> r) { return *r + *owned; });
  EXPECT_EQ(owned.use_count(), 2);

  promise.set(6);

  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_THAT(future.get(), IsOkAndHolds(7));
}

TEST(FutureThen, LeavesTheFutureEmpty) {
  Promise<int> promise;
  auto future = promise.future();
  auto first = std::move(future).then([](Result<int> r) { return r; });
  // NOLINTBEGIN(bugprone-use-after-move): the mistake under test
  auto second = std::move(future).then([](Result<int> r) { return r; });
  const auto got = future.get();
  // NOLINTEND(bugprone-use-after-move)

  promise.set(7);

  const auto says_so = IsError(ErrorCode::invalid_argument, HasSubstr("given away by then()"));
  EXPECT_THAT(first.get(), IsOkAndHolds(7));
  EXPECT_THAT(second.get(), says_so);
  EXPECT_THAT(got, says_so);
}

TEST(FutureThen, TellsTheSecondConsumerOnItsExecutor) {
  const auto executor = std::make_shared<ManualExecutor>();
  Promise<int> promise(executor);
  auto future = promise.future();
  promise.set(7);
  EXPECT_THAT(future.get(), IsOkAndHolds(7));

  auto late = std::move(future).then([](Result<int> r) { return r; });

  EXPECT_FALSE(late.is_ready());
  executor->run();
  EXPECT_THAT(late.get(), IsError(ErrorCode::invalid_argument, HasSubstr("taken already")));
}

TEST(FutureGet, InsideACallbackOfAThreadGivesAnErrorInsteadOfHanging) {
  const auto runtime = Runtime::start();
  Promise<int> never;
  auto unfinished = never.future();
  Promise<int> promise(runtime.callbacks());

  auto inside = promise.future().then([&](const Result<int>&) { return unfinished.get(); });
  promise.set(1);

  EXPECT_THAT(
      inside.get(),
      IsError(ErrorCode::invalid_argument, AllOf(HasSubstr("callback"), HasSubstr("then()"))));
}

TEST(FutureGet, InsideACallbackInVirtualTimeGivesTheSameError) {
  const VirtualRuntime time;
  Promise<int> never;
  auto unfinished = never.future();
  Promise<int> promise(time.runtime().callbacks());

  auto inside = promise.future().then([&](const Result<int>&) { return unfinished.get(); });
  promise.set(1);

  EXPECT_THAT(inside.get(), IsError(ErrorCode::invalid_argument, HasSubstr("callback")));
}

TEST(FutureGet, InsideACallbackGivesWhatIsReady) {
  const auto runtime = Runtime::start();
  Promise<int> promise(runtime.callbacks());

  auto inside =
      promise.future().then([](Result<int> r) { return Future<int>::ready(*r + 1).get(); });
  promise.set(6);

  EXPECT_THAT(inside.get(), IsOkAndHolds(7));
}

}  // namespace
}  // namespace tinker::then_test
