#include "tinker/error.h"

#include <array>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>

namespace tinker::error_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::array<std::string_view, 24> kNames = {
    "invalid_argument",
    "cancelled",
    "deadline_exceeded",
    "predecessor_failed",
    "closed",
    "stuck",
    "circuit_open",
    "io_error",
    "internal",
    "connection_failed",
    "timed_out",
    "invalid_response",
    "bad_request",
    "unauthenticated",
    "billing",
    "permission_denied",
    "not_found",
    "conflict",
    "expired",
    "unprocessable",
    "rate_limited",
    "server_error",
    "unexpected_status",
    "request_failed",
};

TEST(ErrorCode, IsSpelledAsItsEnumerator) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::string_view name = to_string(static_cast<ErrorCode>(i));

    EXPECT_EQ(name, kNames[i]);
  }
}

TEST(ErrorCode, EndsWithRequestFailed) {
  const auto last = static_cast<std::size_t>(ErrorCode::request_failed);

  EXPECT_EQ(last + 1, kNames.size());
}

struct StatusCase {
  int status;
  ErrorCode code;
};

// BEHAVIOUR 15 and the first two columns of PROTOCOL 6.2.
class ErrorCodeForStatus : public ::testing::TestWithParam<StatusCase> {};

TEST_P(ErrorCodeForStatus, FollowsTheProtocolsTable) {
  const auto [status, expected] = GetParam();

  const ErrorCode code = error_code_for_status(status);

  EXPECT_EQ(to_string(code), to_string(expected));
}

INSTANTIATE_TEST_SUITE_P(R15,
                         ErrorCodeForStatus,
                         ::testing::Values(StatusCase{302, ErrorCode::unexpected_status},
                                           StatusCase{400, ErrorCode::bad_request},
                                           StatusCase{401, ErrorCode::unauthenticated},
                                           StatusCase{402, ErrorCode::billing},
                                           StatusCase{403, ErrorCode::permission_denied},
                                           StatusCase{404, ErrorCode::not_found},
                                           StatusCase{408, ErrorCode::unexpected_status},
                                           StatusCase{409, ErrorCode::conflict},
                                           StatusCase{410, ErrorCode::expired},
                                           StatusCase{422, ErrorCode::unprocessable},
                                           StatusCase{429, ErrorCode::rate_limited},
                                           StatusCase{500, ErrorCode::server_error},
                                           StatusCase{503, ErrorCode::server_error},
                                           StatusCase{599, ErrorCode::server_error}),
                         [](const auto& tested) { return std::to_string(tested.param.status); });

TEST(ErrorCodeForStatus, TakesEveryOther4xxAsUnexpected) {
  const std::set<int> named = {400, 401, 402, 403, 404, 409, 410, 422, 429};

  for (int status = 400; status < 500; ++status) {
    if (named.contains(status)) continue;
    EXPECT_EQ(error_code_for_status(status), ErrorCode::unexpected_status) << status;
  }
}

TEST(Error, IsInternalAndNotRetryableUnlessSaidOtherwise) {
  const Error error;

  EXPECT_EQ(error, (Error{.code = ErrorCode::internal, .retry = {.retryable = false}}));
}

TEST(Error, PrintsItsMessageAlone) {
  const Error error = {.code = ErrorCode::not_found, .message = "no such run"};

  EXPECT_EQ(error.to_string(), "no such run");
}

TEST(Error, IsWrittenToStreamsAsItsText) {
  const Error error = {.message = "no such run", .http_status = 404};
  std::ostringstream out;

  out << error.with_context("get_info");

  EXPECT_EQ(out.str(), "get_info: no such run (status 404)");
}

TEST(Error, PrintsTheStatusInBrackets) {
  const Error error = {.message = "no such run", .http_status = 404};

  EXPECT_EQ(error.to_string(), "no such run (status 404)");
}

TEST(Error, PrintsTheRequestIdInBrackets) {
  const Error error = {.message = "gone", .request_id = "r-7"};

  EXPECT_EQ(error.to_string(), "gone (request r-7)");
}

TEST(Error, PrintsStatusAndRequestIdTogether) {
  const Error error = {.message = "gone", .http_status = 410, .request_id = "r-7"};

  EXPECT_EQ(error.to_string(), "gone (status 410, request r-7)");
}

TEST(Error, PrintsTheOutermostContextFirst) {
  const Error error = Error{.message = "no such file", .http_status = 404}
                          .with_context("read config")
                          .with_context("connect");

  EXPECT_EQ(error.to_string(), "connect: read config: no such file (status 404)");
}

TEST(Error, ListsItsContextInnermostFirst) {
  const Error error = Error{}.with_context("inner").with_context("middle").with_context("outer");

  EXPECT_THAT(error.context, ElementsAre("inner", "middle", "outer"));
}

TEST(Error, GivesContextToACopyAndStaysAsItWas) {
  const Error error = {.message = "no such file"};

  const Error wrapped = error.with_context("read config");

  EXPECT_THAT(error.context, IsEmpty());
  EXPECT_THAT(wrapped.context, ElementsAre("read config"));
}

TEST(Error, KeepsEverythingElseWhenContextIsAdded) {
  const Error error = {.code = ErrorCode::request_failed,
                       .message = "out of memory",
                       .http_status = 200,
                       .request_id = "r-7",
                       .category = RequestErrorCategory::server,
                       .retry = {.retryable = true, .after = std::chrono::milliseconds(250)}};

  Error wrapped = error.with_context("step 3");

  wrapped.context.clear();
  EXPECT_EQ(wrapped, error);
}

TEST(Error, DiffersByEachOfItsMembers) {
  const Error error = {.code = ErrorCode::billing, .message = "m"};
  const std::vector<Error> others = {
      {.code = ErrorCode::expired, .message = "m"},
      {.code = ErrorCode::billing, .message = "n"},
      {.code = ErrorCode::billing, .message = "m", .http_status = 402},
      {.code = ErrorCode::billing, .message = "m", .request_id = "r"},
      {.code = ErrorCode::billing, .message = "m", .category = RequestErrorCategory::unknown},
      {.code = ErrorCode::billing, .message = "m", .retry = {.retryable = true}},
      {.code = ErrorCode::billing, .message = "m", .context = {"c"}},
  };

  for (const Error& other : others) {
    EXPECT_NE(error, other) << other.to_string();
  }
}

// STYLE 4: moves are noexcept.
TEST(Error, MovesWithoutThrowing) {
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<Error>);
  EXPECT_TRUE(std::is_nothrow_move_assignable_v<Error>);
}

}  // namespace
}  // namespace tinker::error_test
