#include "tinker/future.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::future_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointee;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using ::tinker::testing::VirtualRuntime;

const Error kFailure = {.code = ErrorCode::not_found, .message = "no such thing"};

TEST(Future, GivesTheValueThatWasSet) {
  Promise<std::string> promise;
  auto future = promise.future();
  EXPECT_FALSE(future.is_ready());

  promise.set(std::string("done"));

  EXPECT_TRUE(future.is_ready());
  EXPECT_THAT(future.get(), IsOkAndHolds("done"));
}

TEST(Future, GivesTheErrorThatWasSet) {
  Promise<int> promise;
  auto future = promise.future();

  promise.set(kFailure);

  EXPECT_THAT(future.get(), IsError(ErrorCode::not_found, HasSubstr("no such thing")));
}

TEST(Future, CarriesSuccessWithoutAValue) {
  Promise<void> promise;
  auto future = promise.future();

  promise.set(Result<void>());

  EXPECT_THAT(future.get(), IsOk());
}

TEST(Future, CarriesWhatCannotBeCopied) {
  Promise<std::unique_ptr<int>> promise;
  auto future = promise.future();

  promise.set(std::make_unique<int>(7));

  EXPECT_THAT(future.get(), IsOkAndHolds(Pointee(7)));
}

TEST(Future, CanBeReadyFromTheStart) {
  auto value = Future<int>::ready(7);
  auto error = Future<int>::ready(kFailure);

  EXPECT_TRUE(value.is_ready());
  EXPECT_THAT(value.get(), IsOkAndHolds(7));
  EXPECT_THAT(error.get(), IsError(ErrorCode::not_found, _));
}

TEST(Future, HandsItsResultOutOnce) {
  auto future = Future<int>::ready(7);
  EXPECT_THAT(future.get(), IsOkAndHolds(7));

  EXPECT_THAT(future.get(), IsError(ErrorCode::invalid_argument, HasSubstr("taken already")));
}

TEST(Future, HandsItsResultOutOnceToThreadsThatRace) {
  // One consumer is the rule; who breaks it gets an error, not a torn value.
  for (int round = 0; round < 100; ++round) {
    Promise<std::string> promise;
    auto future = promise.future();
    promise.set(std::string(100, 'x'));
    std::vector<Result<std::string>> results(2, Result<std::string>(kFailure));

    std::thread other([&] { results[0] = future.get(); });
    results[1] = future.get();
    other.join();

    EXPECT_NE(results[0].ok(), results[1].ok());
  }
}

TEST(Future, SaysThatItWasMovedFrom) {
  auto future = Future<int>::ready(7);
  auto owner = std::move(future);
  const auto says_so = IsError(ErrorCode::invalid_argument, HasSubstr("moved from"));

  // NOLINTBEGIN(bugprone-use-after-move): the mistake under test
  EXPECT_THAT(future.get(), says_so);
  EXPECT_THAT(future.get(1ms), says_so);
  EXPECT_THAT(std::move(future).then([](Result<int> r) { return r; }).get(), says_so);
  EXPECT_TRUE(future.is_ready());
  future.cancel();
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_THAT(owner.get(), IsOkAndHolds(7));
}

TEST(Future, DoesNotWaitForAResultThatGoesToAnother) {
  Promise<int> promise;
  auto future = promise.future();
  std::vector<Future<int>> futures;
  futures.push_back(promise.future());  // against the contract: one promise, two futures
  auto all = when_all(std::move(futures));

  EXPECT_THAT(future.get(), IsError(ErrorCode::invalid_argument, HasSubstr("taken already")));
  promise.set(7);
  EXPECT_THAT(all.get(), IsOkAndHolds(ElementsAre(7)));
}

TEST(Future, WaitsForAnotherThread) {
  Promise<int> promise;
  auto future = promise.future();

  std::thread other([promise = std::move(promise)]() mutable { promise.set(7); });

  EXPECT_THAT(future.get(), IsOkAndHolds(7));
  other.join();
}

TEST(Future, WaitsWithATimeoutForAnotherThread) {
  Promise<int> promise;
  auto future = promise.future();

  std::thread other([promise = std::move(promise)]() mutable { promise.set(7); });

  EXPECT_THAT(future.get(std::chrono::nanoseconds::max()), IsOkAndHolds(7));
  other.join();
}

TEST(Future, CanBeWaitedForAgainAfterATimeout) {  // R6.10
  Promise<int> promise;
  auto future = promise.future();

  EXPECT_THAT(future.get(1ms), IsError(ErrorCode::deadline_exceeded, HasSubstr("within 1 ms")));
  EXPECT_THAT(future.get(0ms), IsError(ErrorCode::deadline_exceeded, _));
  EXPECT_THAT(future.get(-1ms), IsError(ErrorCode::deadline_exceeded, _));
  EXPECT_FALSE(future.is_ready());

  promise.set(7);
  EXPECT_THAT(future.get(0ms), IsOkAndHolds(7));
}

TEST(Future, TimesOutInVirtualTime) {  // R6.10
  const VirtualRuntime time;
  Promise<int> promise;
  auto future = promise.future();

  EXPECT_THAT(future.get(90min), IsError(ErrorCode::deadline_exceeded, _));

  EXPECT_EQ(time.elapsed(), 90min);
}

TEST(Future, IsGivenUpWhenItsPromiseDies) {
  auto promise = std::make_unique<Promise<int>>();
  auto future = promise->future();

  promise.reset();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
}

TEST(Future, KeepsTheFirstResult) {
  Promise<int> promise;
  auto future = promise.future();

  promise.set(1);
  promise.set(2);
  promise.set(kFailure);

  EXPECT_THAT(future.get(), IsOkAndHolds(1));
}

TEST(Promise, MovesItsObligation) {
  Promise<int> first;
  auto future = first.future();

  Promise<int> second = std::move(first);
  second.set(7);

  EXPECT_THAT(future.get(), IsOkAndHolds(7));
}

TEST(Promise, GivesUpItsFutureWhenAnotherIsAssigned) {
  Promise<int> first;
  Promise<int> second;
  auto abandoned = first.future();
  auto kept = second.future();

  first = std::move(second);

  EXPECT_THAT(abandoned.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_FALSE(kept.is_ready());
  first.set(7);
  EXPECT_THAT(kept.get(), IsOkAndHolds(7));
}

TEST(Future, LetsTheWorkGoOnWhenItIsDropped) {
  Promise<std::shared_ptr<int>> promise;
  bool is_cancelled = false;
  promise.on_cancel([&] { is_cancelled = true; });
  const auto value = std::make_shared<int>(7);

  {
    const auto dropped = promise.future();
  }
  promise.set(value);

  EXPECT_FALSE(is_cancelled);
}

TEST(FutureCancel, TellsWhoeverMakesTheValue) {
  Promise<int> promise;
  auto future = promise.future();
  int calls = 0;
  promise.on_cancel([&] {
    ++calls;
    promise.set(Error{.code = ErrorCode::cancelled, .message = "as asked"});
  });

  future.cancel();
  future.cancel();

  EXPECT_EQ(calls, 1);
  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, HasSubstr("as asked")));
}

TEST(FutureCancel, IsToldToThoseWhoAskLater) {
  Promise<int> promise;
  auto future = promise.future();
  future.cancel();
  bool is_cancelled = false;

  promise.on_cancel([&] { is_cancelled = true; });

  EXPECT_TRUE(is_cancelled);
}

TEST(FutureCancel, TellsOnlyTheLastWhoAsked) {
  Promise<int> promise;
  auto future = promise.future();
  std::vector<int> told;
  promise.on_cancel([&] { told.push_back(1); });
  promise.on_cancel([&] { told.push_back(2); });

  future.cancel();

  EXPECT_THAT(told, ::testing::ElementsAre(2));
}

TEST(FutureCancel, IsIgnoredOnceTheResultIsThere) {
  Promise<int> promise;
  auto future = promise.future();
  bool is_cancelled = false;
  promise.on_cancel([&] { is_cancelled = true; });
  promise.set(7);

  future.cancel();
  promise.on_cancel([&] { is_cancelled = true; });

  EXPECT_FALSE(is_cancelled);
  EXPECT_THAT(future.get(), IsOkAndHolds(7));
}

TEST(FutureCancel, LosesAgainstAFasterResult) {
  Promise<int> promise;
  auto future = promise.future();

  future.cancel();
  promise.set(7);

  EXPECT_THAT(future.get(), IsOkAndHolds(7));
}

TEST(FutureCancel, LetsGoOfWhatItWouldHaveCalled) {
  Promise<int> promise;
  auto future = promise.future();
  const auto owned = std::make_shared<int>();
  promise.on_cancel([owned] {});
  EXPECT_EQ(owned.use_count(), 2);

  promise.set(7);

  EXPECT_EQ(owned.use_count(), 1);
}

TEST(FutureCancel, RacesWithTheResult) {
  for (int round = 0; round < 500; ++round) {
    Promise<int> promise;
    auto future = promise.future();
    const auto shared = std::make_shared<Promise<int>>(std::move(promise));
    shared->on_cancel([weak = std::weak_ptr(shared)] {
      if (const auto alive = weak.lock()) {
        alive->set(Error{.code = ErrorCode::cancelled, .message = "as asked"});
      }
    });

    std::thread other([shared] { shared->set(7); });
    future.cancel();
    const auto result = future.get();
    other.join();

    EXPECT_TRUE(result.ok() || result.error().code == ErrorCode::cancelled);
  }
}

}  // namespace
}  // namespace tinker::future_test
