#include "tinker/testing/matchers.h"

#include <string>

#include <gmock/gmock.h>

namespace tinker::matchers_test {
namespace {

using ::testing::_;
using ::testing::Gt;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::Not;

const Error kNotFound = {.code = ErrorCode::not_found, .message = "no such run"};

/// What a failed expectation would show.
template <typename Value, typename Matcher>
std::string explain(const Value& value, const Matcher& matcher) {
  ::testing::StringMatchResultListener listener;
  (void)::testing::ExplainMatchResult(matcher, value, &listener);
  return listener.str();
}

TEST(Matchers, IsOkAcceptsSuccessOnly) {
  EXPECT_THAT(Result<int>(1), IsOk());
  EXPECT_THAT(Result<void>(), IsOk());
  EXPECT_THAT(Result<int>(kNotFound), Not(IsOk()));
  EXPECT_THAT(Result<void>(kNotFound), Not(IsOk()));
}

TEST(Matchers, IsOkAndHoldsLooksAtTheValue) {
  EXPECT_THAT(Result<int>(1), IsOkAndHolds(1));
  EXPECT_THAT(Result<int>(1), IsOkAndHolds(Gt(0)));
  EXPECT_THAT(Result<int>(1), Not(IsOkAndHolds(2)));
  EXPECT_THAT(Result<int>(kNotFound), Not(IsOkAndHolds(_)));
}

TEST(Matchers, IsErrorLooksAtTheCode) {
  EXPECT_THAT(Result<int>(kNotFound), IsError(ErrorCode::not_found, _));
  EXPECT_THAT(Result<void>(kNotFound), IsError(ErrorCode::not_found, _));
  EXPECT_THAT(Result<int>(kNotFound), Not(IsError(ErrorCode::conflict, _)));
  EXPECT_THAT(Result<int>(1), Not(IsError(ErrorCode::not_found, _)));
}

TEST(Matchers, IsErrorLooksAtTheMessageWithItsContext) {
  const Result<int> result = kNotFound.with_context("open");

  EXPECT_THAT(result, IsError(ErrorCode::not_found, "open: no such run"));
  EXPECT_THAT(result, Not(IsError(ErrorCode::not_found, HasSubstr("another"))));
}

TEST(Matchers, ExplainTheErrorTheyFound) {
  EXPECT_EQ(explain(Result<int>(kNotFound), IsOk()), "error: no such run");
  EXPECT_EQ(explain(Result<int>(kNotFound), IsOkAndHolds(1)), "error: no such run");
  EXPECT_THAT(explain(Result<int>(kNotFound), IsError(ErrorCode::conflict, _)),
              HasSubstr("error: no such run (not_found)"));
  EXPECT_EQ(explain(Result<int>(1), IsError(ErrorCode::conflict, _)), "it is ok");
}

}  // namespace
}  // namespace tinker::matchers_test
