#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "support/manual_executor.h"
#include "tinker/future.h"
#include "tinker/testing/matchers.h"

namespace tinker::when_all_test {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::tinker::support::ManualExecutor;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;

template <typename T>
std::vector<Future<T>> futures_of(std::vector<Promise<T>>& promises) {
  std::vector<Future<T>> out;
  out.reserve(promises.size());
  for (auto& promise : promises) out.push_back(promise.future());
  return out;
}

TEST(WhenAll, GivesTheValuesInOrderWhoeverComesFirst) {
  std::vector<Promise<int>> promises(3);
  auto all = when_all(futures_of(promises));

  promises[2].set(30);
  promises[0].set(10);
  EXPECT_FALSE(all.is_ready());
  promises[1].set(20);

  EXPECT_THAT(all.get(), IsOkAndHolds(ElementsAre(10, 20, 30)));
}

TEST(WhenAll, SaysThatAFutureIsEmpty) {
  std::vector<Promise<int>> promises(2);
  auto futures = futures_of(promises);
  auto owner = std::move(futures[1]);

  EXPECT_THAT(when_all(std::move(futures)).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("moved from")));
  EXPECT_FALSE(owner.is_ready());
}

TEST(WhenAll, EndsWithTheFirstErrorToArrive) {
  std::vector<Promise<int>> promises(3);
  auto all = when_all(futures_of(promises));

  promises[2].set(Error{.code = ErrorCode::not_found, .message = "third"});
  EXPECT_TRUE(all.is_ready());
  promises[0].set(Error{.code = ErrorCode::conflict, .message = "first"});
  promises[1].set(1);

  EXPECT_THAT(all.get(), IsError(ErrorCode::not_found, HasSubstr("third")));
}

TEST(WhenAll, OfNothingIsReady) {
  EXPECT_THAT(when_all(std::vector<Future<int>>()).get(), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(when_all(std::vector<Future<void>>()).get(), IsOk());
}

TEST(WhenAll, OfFuturesWithoutValuesHasNone) {
  std::vector<Promise<void>> promises(2);
  auto all = when_all(futures_of(promises));
  static_assert(std::is_same_v<decltype(all), Future<void>>);

  promises[1].set(Result<void>());
  EXPECT_FALSE(all.is_ready());
  promises[0].set(Result<void>());

  EXPECT_THAT(all.get(), IsOk());
}

TEST(WhenAll, CarriesWhatCanOnlyBeMovedIntoPlace) {
  struct Fixed {
    explicit Fixed(int v) : value(std::make_unique<int>(v)) {}
    Fixed(Fixed&&) noexcept = default;
    Fixed& operator=(Fixed&&) = delete;
    ~Fixed() = default;
    std::unique_ptr<int> value;
  };
  std::vector<Promise<Fixed>> promises(1);
  auto all = when_all(futures_of(promises));

  promises[0].set(Fixed(7));

  const auto result = all.get();
  ASSERT_THAT(result.ok(), true);
  EXPECT_EQ(*result->front().value, 7);
}

TEST(WhenAll, CancelsAllWhenItIsCancelled) {
  std::vector<Promise<int>> promises(3);
  int cancelled = 0;
  for (auto& promise : promises) promise.on_cancel([&] { ++cancelled; });
  auto all = when_all(futures_of(promises));

  all.cancel();

  EXPECT_EQ(cancelled, 3);
}

TEST(WhenAll, IsGivenUpWhenOneOfItsPromisesDies) {
  std::vector<Promise<int>> promises(2);
  auto all = when_all(futures_of(promises));

  promises.pop_back();

  EXPECT_THAT(all.get(), IsError(ErrorCode::cancelled, _));
}

TEST(WhenAll, RunsContinuationsOnTheFirstExecutorThereIs) {
  const auto executor = std::make_shared<ManualExecutor>();
  Promise<int> promise(executor);
  std::vector<Future<int>> futures;
  futures.push_back(Future<int>::ready(1));
  futures.push_back(promise.future());
  bool has_run = false;
  auto all = when_all(std::move(futures)).then([&](const auto&) { has_run = true; });

  promise.set(2);

  EXPECT_FALSE(has_run);
  executor->run();
  EXPECT_TRUE(has_run);
  EXPECT_THAT(all.get(), IsOk());
}

TEST(WhenAll, EndsWhenItsExecutorStops) {
  const auto executor = std::make_shared<ManualExecutor>();
  std::vector<Promise<int>> promises;
  promises.emplace_back(executor);
  promises.emplace_back(executor);
  auto all = when_all(futures_of(promises));

  promises[0].set(1);
  promises[1].set(2);
  executor->stop();

  EXPECT_THAT(all.get(), IsError(ErrorCode::cancelled, _));
}

TEST(WhenAll, TakesResultsFromManyThreads) {
  constexpr int kThreads = 8;
  std::vector<Promise<int>> promises(kThreads);
  auto all = when_all(futures_of(promises));

  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([promise = std::move(promises[static_cast<std::size_t>(i)]), i]() mutable {
      promise.set(i);
    });
  }

  EXPECT_THAT(all.get(), IsOkAndHolds(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)));
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace tinker::when_all_test
