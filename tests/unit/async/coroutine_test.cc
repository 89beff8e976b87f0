// Functions that return a Future and are coroutines, as users write them (STYLE 14).
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

namespace tinker::coroutine_test {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using ::tinker::support::ManualExecutor;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;

// Counts how many frames are alive, as a parameter or a local variable of a coroutine.
class Guard {
 public:
  explicit Guard(int& alive) : alive_(&alive) { ++*alive_; }
  Guard(Guard&& other) noexcept : alive_(std::exchange(other.alive_, nullptr)) {}
  Guard& operator=(Guard&&) = delete;
  ~Guard() {
    if (alive_ != nullptr) --*alive_;
  }

 private:
  int* alive_;
};

Future<int> sum(Future<int> left, Future<int> right) {
  TINKER_CO_TRY(const int a, co_await left);
  TINKER_CO_TRY(const int b, co_await right);
  co_return a + b;
}

Future<int> guarded_increment(Future<int> value, Guard) {
  TINKER_CO_TRY(const int v, co_await value);
  co_return v + 1;
}

TEST(FutureCoroutine, AwaitsFuturesOneAfterTheOther) {
  Promise<int> left;
  Promise<int> right;
  auto total = sum(left.future(), right.future());

  right.set(2);
  EXPECT_FALSE(total.is_ready());
  left.set(40);

  EXPECT_THAT(total.get(), IsOkAndHolds(42));
}

TEST(FutureCoroutine, RunsInTheCallerWhileNothingHasToBeWaitedFor) {
  auto total = sum(Future<int>::ready(40), Future<int>::ready(2));

  EXPECT_TRUE(total.is_ready());
  EXPECT_THAT(total.get(), IsOkAndHolds(42));
}

TEST(FutureCoroutine, EndsWithTheFirstErrorAndItsFrameWithIt) {
  int alive = 0;
  Promise<int> promise;
  auto future = guarded_increment(promise.future(), Guard(alive));
  EXPECT_EQ(alive, 1);

  promise.set(Error{.code = ErrorCode::not_found, .message = "no such thing"});

  EXPECT_EQ(alive, 0);
  EXPECT_THAT(future.get(), IsError(ErrorCode::not_found, HasSubstr("no such thing")));
}

TEST(FutureCoroutine, IsToldThatAFutureIsEmpty) {
  auto future = Future<int>::ready(1);
  auto owner = std::move(future);

  // NOLINTNEXTLINE(bugprone-use-after-move): the mistake under test
  auto total = sum(std::move(owner), std::move(future));

  EXPECT_THAT(total.get(), IsError(ErrorCode::invalid_argument, HasSubstr("moved from")));
}

Future<int> await_twice(Future<int> value) {
  TINKER_CO_TRY(const int first, co_await value);
  TINKER_CO_TRY(const int second, co_await value);
  co_return first + second;
}

TEST(FutureCoroutine, IsToldThatAResultWasTaken) {
  EXPECT_THAT(await_twice(Future<int>::ready(1)).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("taken already")));
}

// As a client's options, which g++ 12 would destroy twice inside a `co_await` expression.
struct Options {
  std::string name = {};
  std::vector<std::string> tags = {};
};

Future<std::string> describe(Options options) {
  return Future<std::string>::ready(options.name + options.tags.at(0));
}

Future<std::string> describe_all(std::string name) {
  std::string out;
  for (int i = 0; i < 3; ++i) {
    auto describing = describe({.name = name, .tags = {std::string(100, 'x')}});
    TINKER_CO_TRY(const auto text, co_await describing);
    out += text;
  }
  co_return out;
}

TEST(FutureCoroutine, MakesCallsWithOptionsThatOwnMemory) {
  const std::string name(100, 'n');

  EXPECT_EQ(describe_all(name).get().value().size(), 600U);
}

Future<void> check_all(std::vector<Future<void>> checks) {
  for (auto& check : checks) TINKER_CO_TRY(co_await check);
  co_return Result<void>();
}

TEST(FutureCoroutine, MayHaveNoValue) {
  std::vector<Future<void>> checks;
  checks.push_back(Future<void>::ready({}));
  checks.push_back(Future<void>::ready({}));

  EXPECT_THAT(check_all(std::move(checks)).get(), IsOk());
}

Future<int> throws_after(Future<int> value) {
  const auto result = co_await value;
  if (result.ok()) throw std::runtime_error("it broke");
  co_return result.value();
}

TEST(FutureCoroutine, TurnsAnExceptionIntoAnInternalError) {
  EXPECT_THAT(throws_after(Future<int>::ready(1)).get(),
              IsError(ErrorCode::internal, HasSubstr("it broke")));
}

TEST(FutureCoroutine, KeepsTheErrorOfAValueThatWasNotThere) {
  const Error failure = {.code = ErrorCode::conflict, .message = "taken"};

  EXPECT_THAT(throws_after(Future<int>::ready(failure)).get(),
              IsError(ErrorCode::conflict, HasSubstr("taken")));
}

TEST(FutureCoroutine, GoesOnAtTheExecutorOfWhatItAwaits) {
  const auto executor = std::make_shared<ManualExecutor>();
  Promise<int> promise(executor);
  auto future = sum(promise.future(), Future<int>::ready(1));

  promise.set(6);

  EXPECT_FALSE(future.is_ready());
  executor->run();
  EXPECT_THAT(future.get(), IsOkAndHolds(7));
}

TEST(FutureCoroutine, RunsItsContinuationsWhereItRanItself) {
  const auto executor = std::make_shared<ManualExecutor>();
  Promise<int> promise(executor);
  bool has_run = false;
  auto future = sum(promise.future(), Future<int>::ready(1)).then([&](const Result<int>&) {
    has_run = true;
  });

  promise.set(6);
  executor->run();

  EXPECT_TRUE(has_run);
  EXPECT_EQ(executor->posts(), 2);
  EXPECT_THAT(future.get(), IsOk());
}

TEST(FutureCoroutine, PassesACancellationToWhatItAwaits) {
  Promise<int> left;
  Promise<int> right;
  std::string cancelled;
  left.on_cancel([&] { cancelled += "left "; });
  right.on_cancel([&] { cancelled += "right "; });
  auto total = sum(left.future(), right.future());

  total.cancel();
  EXPECT_EQ(cancelled, "left ");
  left.set(1);  // was faster; what comes next is cancelled at once

  EXPECT_EQ(cancelled, "left right ");
}

TEST(FutureCoroutine, PassesACancellationThroughNestedCoroutines) {
  Promise<int> promise;
  promise.on_cancel(
      [&] { promise.set(Error{.code = ErrorCode::cancelled, .message = "as asked"}); });
  int alive = 0;
  auto inner = guarded_increment(promise.future(), Guard(alive));
  auto outer = guarded_increment(std::move(inner), Guard(alive));
  EXPECT_EQ(alive, 2);

  outer.cancel();

  EXPECT_EQ(alive, 0);
  EXPECT_THAT(outer.get(), IsError(ErrorCode::cancelled, HasSubstr("as asked")));
}

TEST(FutureCoroutine, GoesOnWhenItsFutureIsDropped) {
  Promise<int> promise;
  int alive = 0;
  {
    auto dropped = guarded_increment(promise.future(), Guard(alive));
  }
  EXPECT_EQ(alive, 1);

  promise.set(1);

  EXPECT_EQ(alive, 0);
}

TEST(FutureCoroutine, DiesWithAnExecutorThatStopsBeforeItResumes) {
  const auto executor = std::make_shared<ManualExecutor>();
  Promise<int> promise(executor);
  int alive = 0;
  auto future = guarded_increment(promise.future(), Guard(alive));
  promise.set(1);
  EXPECT_EQ(alive, 1);

  executor->stop();

  EXPECT_EQ(alive, 0);
  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, HasSubstr("abandoned")));
}

TEST(FutureCoroutine, DiesWithAllWhoAwaitItWhenTheExecutorHasStopped) {
  const auto executor = std::make_shared<ManualExecutor>();
  Promise<int> promise(executor);
  int alive = 0;
  auto inner = guarded_increment(promise.future(), Guard(alive));
  auto outer = guarded_increment(std::move(inner), Guard(alive));
  executor->stop();

  promise.set(1);

  EXPECT_EQ(alive, 0);
  EXPECT_THAT(outer.get(), IsError(ErrorCode::cancelled, _));
}

// A future that becomes ready between the look at it and the wait for it.
class ReadyLate {
 public:
  explicit ReadyLate(std::shared_ptr<detail::FutureState<int>> state) : inner_(std::move(state)) {}
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) { inner_.await_suspend(handle); }
  Result<int> await_resume() { return inner_.await_resume(); }

 private:
  detail::FutureAwaiter<int> inner_;
};

struct Plain {
  struct promise_type {
    static Plain get_return_object() noexcept { return {}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    [[noreturn]] static void unhandled_exception() noexcept { std::terminate(); }
  };
};

Plain await_late(Future<int> future, Guard, int* out) {
  auto late = ReadyLate(FutureAccess::consume(future));
  const auto result = co_await late;
  *out = result.ok() ? *result : -1;
}

TEST(FutureCoroutine, ResumesInPlaceWhenTheResultCameMeanwhile) {
  int alive = 0;
  int out = 0;

  await_late(Future<int>::ready(7), Guard(alive), &out);

  EXPECT_EQ(out, 7);
  EXPECT_EQ(alive, 0);
}

TEST(FutureCoroutine, MayDieWhileItSuspends) {
  const auto executor = std::make_shared<ManualExecutor>();
  executor->stop();
  Promise<int> promise(executor);
  promise.set(7);
  int alive = 0;
  int out = 0;

  await_late(promise.future(), Guard(alive), &out);

  EXPECT_EQ(out, 0);
  EXPECT_EQ(alive, 0);
}

Future<int> add_up(std::vector<Future<int>> parts) {
  int total = 0;
  for (auto& part : parts) {
    TINKER_CO_TRY(const int value, co_await part);
    total += value;
  }
  co_return total;
}

TEST(FutureCoroutine, ResumesOnTheCallbackThreadOfARuntime) {
  constexpr int kParts = 200;
  const auto runtime = Runtime::start();
  std::vector<Promise<int>> promises;
  std::vector<Future<int>> parts;
  for (int i = 0; i < kParts; ++i) {
    promises.emplace_back(runtime.callbacks());
    parts.push_back(promises.back().future());
  }
  auto total = add_up(std::move(parts));

  std::thread other([promises = std::move(promises)]() mutable {
    for (auto& promise : promises) promise.set(1);
  });

  EXPECT_THAT(total.get(), IsOkAndHolds(kParts));
  other.join();
}

Future<int> holds_its_client(Runtime runtime, Future<int> value) {
  TINKER_CO_TRY(const int v, co_await value);
  co_return v + (runtime.callbacks() ? 1 : 0);
}

TEST(FutureCoroutine, MayHoldTheLastHandleOfTheRuntimeItRunsOn) {
  std::optional<Runtime> runtime = Runtime::start();
  Promise<int> promise(runtime->callbacks());
  auto future = holds_its_client(*runtime, promise.future());
  runtime.reset();

  promise.set(6);

  EXPECT_THAT(future.get(), IsOkAndHolds(7));
}

}  // namespace
}  // namespace tinker::coroutine_test
