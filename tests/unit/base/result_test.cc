#include "tinker/result.h"

#include <coroutine>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::result_test {
namespace {

using ::testing::ElementsAre;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::Pointee;
using ::testing::StrEq;

/// An error in which no member has its default.
Error full_error() {
  return {.code = ErrorCode::request_failed,
          .message = "out of memory",
          .http_status = 200,
          .request_id = "r-7",
          .category = RequestErrorCategory::server,
          .retry = {.retryable = true, .after = std::chrono::milliseconds(250)},
          .context = {"step 3"}};
}

Result<int> half(int number) {
  if (number % 2 != 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "expected an even number, found " + std::to_string(number)};
  }
  return number / 2;
}

Result<void> expect_even(int number) {
  TINKER_TRY(half(number));
  return {};
}

// ---- the value -------------------------------------------------------------------------------

TEST(Result, HoldsAValue) {
  const Result<int> result = 42;

  EXPECT_THAT(result, IsOkAndHolds(42));
}

TEST(Result, HoldsAnError) {
  const Result<int> result = full_error();

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error(), full_error());
}

TEST(Result, IsTrueWhenItHoldsAValue) {
  EXPECT_TRUE(static_cast<bool>(Result<int>(0)));
  EXPECT_FALSE(static_cast<bool>(Result<int>(full_error())));
}

TEST(Result, GivesAccessToMembersOfItsValue) {
  Result<std::string> result = std::string("text");

  result->push_back('!');

  EXPECT_EQ(*result, "text!");
}

TEST(Result, HoldsTypesThatCanOnlyMove) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);

  const std::unique_ptr<int> taken = *std::move(result);

  EXPECT_THAT(taken, Pointee(7));
}

TEST(Result, HoldsTypesWithoutADefault) {
  struct NoDefault {
    explicit NoDefault(int number) : value(number) {}
    int value;
  };

  const Result<NoDefault> result = NoDefault(3);

  EXPECT_EQ(result->value, 3);
}

TEST(Result, HoldsABoolThatIsNotItsOwnState) {
  const Result<bool> result = false;

  EXPECT_TRUE(result.ok());
  EXPECT_FALSE(*result);
}

TEST(Result, CopiesItsValue) {
  const Result<std::string> result = std::string("text");

  const Result<std::string> copy = result;  // NOLINT(performance-unnecessary-copy-initialization)

  EXPECT_THAT(copy, IsOkAndHolds(*result));
}

TEST(Result, GivesItsErrorAwayWhenItIsTemporary) {
  Result<int> result = full_error();

  const Error error = std::move(result).error();

  EXPECT_EQ(error, full_error());
}

// STYLE 4: no default constructor, moves are noexcept. (That a dropped Result does not compile is
// shown in compile_fail.)
TEST(Result, HasNoDefaultUnlessItHoldsNothing) {
  EXPECT_FALSE(std::is_default_constructible_v<Result<int>>);
  EXPECT_TRUE(std::is_default_constructible_v<Result<void>>);
}

TEST(Result, MovesWithoutThrowing) {
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<Result<std::string>>);
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<Result<void>>);
}

TEST(Result, IsNotABoolByAccident) {
  EXPECT_FALSE((std::is_convertible_v<Result<int>, bool>));
  EXPECT_FALSE((std::is_convertible_v<Result<void>, bool>));
}

TEST(ResultDeathTest, AbortsWhenAMissingValueIsRead) {
  const Result<int> result = full_error();

  EXPECT_DEATH((void)*result, "tinker check failed: self.ok()");
}

TEST(ResultDeathTest, AbortsWhenAMissingErrorIsRead) {
  const Result<int> result = 42;

  EXPECT_DEATH((void)result.error(), "tinker check failed: !ok()");
}

// ---- Result<void> ----------------------------------------------------------------------------

TEST(ResultOfVoid, IsSuccessByDefault) {
  const Result<void> result = {};

  EXPECT_THAT(result, IsOk());
}

TEST(ResultOfVoid, HoldsAnError) {
  const Result<void> result = full_error();

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error(), full_error());
}

TEST(ResultOfVoid, GivesItsErrorAwayWhenItIsTemporary) {
  Result<void> result = Error{.message = std::string(100, 'x')};
  const char* const text = result.error().message.data();

  const Error error = std::move(result).error();

  EXPECT_EQ(error.message.data(), text);
}

TEST(ResultOfVoid, ValueThrowsOnlyForAnError) {
  EXPECT_NO_THROW(Result<void>().value());
  EXPECT_THROW(Result<void>(full_error()).value(), ResultError);
}

// ---- value() ---------------------------------------------------------------------------------

TEST(ResultValue, ReturnsTheValue) {
  Result<std::string> result = std::string("text");

  result.value() += '!';

  EXPECT_EQ(std::as_const(result).value(), "text!");
}

TEST(ResultValue, MovesOutOfATemporary) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);

  const std::unique_ptr<int> taken = std::move(result).value();

  EXPECT_THAT(taken, Pointee(7));
}

TEST(ResultValue, MayHaveASubstitute) {
  const Result<std::string> text = std::string("text");
  const Result<std::string> error = full_error();

  EXPECT_EQ(text.value_or("none"), "text");
  EXPECT_EQ(error.value_or("none"), "none");
  EXPECT_THAT(Result<std::unique_ptr<int>>(std::make_unique<int>(7)).value_or(nullptr), Pointee(7));
}

TEST(ResultValue, ThrowsTheSameError) {
  const Result<int> result = full_error();

  std::optional<Error> thrown;
  try {
    (void)result.value();
  } catch (const ResultError& error) {
    thrown = error.error();
  }

  EXPECT_EQ(thrown, full_error());
}

TEST(ResultValue, ThrowsTheSameErrorFromATemporary) {
  std::optional<Error> thrown;
  try {
    (void)Result<int>(full_error()).value();
  } catch (const ResultError& error) {
    thrown = error.error();
  }

  EXPECT_EQ(thrown, full_error());
}

TEST(ResultError, SaysWhatTheErrorSays) {
  const ResultError thrown(full_error());

  const std::exception& as_exception = thrown;

  EXPECT_THAT(as_exception.what(), StrEq("step 3: out of memory (status 200, request r-7)"));
}

// ---- TINKER_TRY ------------------------------------------------------------------------------

TEST(Try, UnwrapsAValue) {
  const auto quarter = [](int number) -> Result<int> {
    TINKER_TRY(const int once, half(number));
    TINKER_TRY(const int twice, half(once));
    return twice;
  };

  EXPECT_THAT(quarter(12), IsOkAndHolds(3));
}

TEST(Try, ReturnsTheErrorUnchanged) {
  const auto fail = []() -> Result<int> { return full_error(); };
  const auto pass_on = [&]() -> Result<std::string> {
    TINKER_TRY(const int number, fail());
    return std::to_string(number);
  };

  const auto result = pass_on();

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error(), full_error());
}

TEST(Try, SkipsWhatFollowsAnError) {
  bool reached = false;
  const auto fail_first = [&]() -> Result<void> {
    TINKER_TRY(expect_even(3));
    reached = true;
    return {};
  };

  const auto result = fail_first();

  EXPECT_THAT(result, IsError(ErrorCode::invalid_argument, "expected an even number, found 3"));
  EXPECT_FALSE(reached);
}

TEST(Try, GoesOnAfterSuccessWithoutAValue) {
  const auto check_both = [](int a, int b) -> Result<int> {
    TINKER_TRY(expect_even(a));
    TINKER_TRY(expect_even(b));
    return a + b;
  };

  EXPECT_THAT(check_both(2, 4), IsOkAndHolds(6));
}

TEST(Try, MovesWhatCanOnlyMove) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  const auto pass_on = [&]() -> Result<std::unique_ptr<int>> {
    TINKER_TRY(auto pointer, make());
    ++*pointer;
    return pointer;
  };

  EXPECT_THAT(pass_on(), IsOkAndHolds(Pointee(8)));
}

TEST(Try, AssignsToAVariableThatExists) {
  const auto halve_twice = [](int number) -> Result<int> {
    TINKER_TRY(number, half(number));
    TINKER_TRY(number, half(number));
    return number;
  };

  EXPECT_THAT(halve_twice(20), IsOkAndHolds(5));
}

TEST(Try, TakesAnExpressionWithCommas) {
  const auto sum = [](int a, int b) -> Result<int> { return a + b; };
  const auto call = [&]() -> Result<int> {
    TINKER_TRY(const int total, sum(1, 2));
    return total;
  };

  EXPECT_THAT(call(), IsOkAndHolds(3));
}

TEST(Try, EvaluatesItsExpressionOnce) {
  int evaluations = 0;
  const auto count = [&]() -> Result<int> { return ++evaluations; };
  const auto call = [&]() -> Result<int> {
    TINKER_TRY(const int number, count());
    return number;
  };

  EXPECT_THAT(call(), IsOkAndHolds(1));
  EXPECT_EQ(evaluations, 1);
}

TEST(Try, LetsEachCallerAddItsContext) {
  const auto load = [](int number) -> Result<int> {
    auto result = half(number);
    if (!result) return result.error().with_context("load");
    return result;
  };
  const auto open = [&](int number) -> Result<int> {
    auto result = load(number);
    if (!result) return std::move(result).error().with_context("open");
    return result;
  };

  const auto result = open(3);

  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().context, ElementsAre("load", "open"));
  EXPECT_EQ(result.error().to_string(), "open: load: expected an even number, found 3");
}

// ---- TINKER_CO_TRY ---------------------------------------------------------------------------

/// The smallest coroutine that ends in a Result: it runs at once, to its end.
struct Task {
  struct promise_type {
    std::shared_ptr<std::optional<Result<int>>> outcome =
        std::make_shared<std::optional<Result<int>>>();

    Task get_return_object() { return {outcome}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    void return_value(Result<int> result) { outcome->emplace(std::move(result)); }
    static void unhandled_exception() { std::terminate(); }
  };

  std::shared_ptr<std::optional<Result<int>>> outcome;
};

Task quarter_later(int number) {
  TINKER_CO_TRY(const int once, half(number));
  TINKER_CO_TRY(expect_even(once));
  co_return once / 2;
}

TEST(CoTry, UnwrapsAValue) {
  const Task task = quarter_later(12);

  ASSERT_TRUE(task.outcome->has_value());
  EXPECT_THAT(**task.outcome, IsOkAndHolds(3));
}

TEST(CoTry, EndsTheCoroutineWithTheErrorOfAValue) {
  const Task task = quarter_later(7);

  ASSERT_TRUE(task.outcome->has_value());
  EXPECT_THAT(**task.outcome,
              IsError(ErrorCode::invalid_argument, "expected an even number, found 7"));
}

TEST(CoTry, EndsTheCoroutineWithTheErrorOfACheck) {
  const Task task = quarter_later(6);

  ASSERT_TRUE(task.outcome->has_value());
  EXPECT_THAT(**task.outcome,
              IsError(ErrorCode::invalid_argument, "expected an even number, found 3"));
}

}  // namespace
}  // namespace tinker::result_test
