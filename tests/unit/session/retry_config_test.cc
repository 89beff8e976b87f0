#include <limits>

#include <gmock/gmock.h>

#include "session/retry_handler.h"
#include "tinker/testing/matchers.h"

namespace tinker::session::retry_config_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

TEST(RetryConfig, HasTheOfficialDefaults) {
  const RetryConfig config;

  EXPECT_EQ(config.max_connections, 1000);
  EXPECT_EQ(config.progress_timeout, 7200s);
  EXPECT_EQ(config.retry_delay_base, 500ms);
  EXPECT_EQ(config.retry_delay_max, 10s);
  EXPECT_EQ(config.jitter_factor, 0.25);
  EXPECT_TRUE(config.enable_retry_logic);
  EXPECT_TRUE(config.enable_stuck_detection);
  EXPECT_THAT(validate(config), IsOk());
}

TEST(RetryConfig, NeedsAPositiveLimitOrNone) {
  EXPECT_THAT(validate({.max_connections = 0}),
              IsError(ErrorCode::invalid_argument, HasSubstr("got 0")));
  EXPECT_THAT(validate({.max_connections = -3}),
              IsError(ErrorCode::invalid_argument, HasSubstr("got -3")));
  EXPECT_THAT(validate({.max_connections = 1}), IsOk());
  EXPECT_THAT(validate({.max_connections = {}}), IsOk());
}

// Section 2: sample_max_concurrent_requests, sample_use_retrieve_futures,
// sample_enable_stuck_detection
TEST(EffectiveConfig, TakesTheLimitOfTheServerInAnyCase) {
  EXPECT_EQ(effective_config({}, {}).max_connections, 2000);
  EXPECT_EQ(effective_config({.max_connections = 5}, {.sample_max_concurrent_requests = 7})
                .max_connections,
            7);
  EXPECT_EQ(effective_config({.max_connections = {}}, {}).max_connections, 2000);
}

TEST(EffectiveConfig, HasNoLimitWhenResultsArePolledInBatches) {
  EXPECT_EQ(effective_config({.max_connections = 5}, {.sample_use_retrieve_futures = true})
                .max_connections,
            std::nullopt);
}

TEST(EffectiveConfig, LetsTheServerSwitchStuckDetectionOffButNotOn) {
  EXPECT_TRUE(effective_config({}, {}).enable_stuck_detection);
  EXPECT_FALSE(
      effective_config({}, {.sample_enable_stuck_detection = false}).enable_stuck_detection);
  EXPECT_FALSE(effective_config({.enable_stuck_detection = false}, {}).enable_stuck_detection);
}

// R12.4
TEST(RetryDelay, DoublesUpToItsMaximum) {
  std::vector<std::chrono::nanoseconds> delays(7);
  for (int failure = 0; auto& delay : delays) delay = retry_delay({}, failure++, 0.5);

  EXPECT_THAT(delays, ElementsAre(500ms, 1s, 2s, 4s, 8s, 10s, 10s));
}

TEST(RetryDelay, VariesBothWaysButNotBeyondTheMaximum) {
  EXPECT_EQ(retry_delay({}, 0, 0.0), 375ms);
  EXPECT_EQ(retry_delay({}, 0, 1.0), 625ms);
  EXPECT_EQ(retry_delay({}, 4, 1.0), 10s);
  EXPECT_EQ(retry_delay({}, 9, 0.0), 7500ms);
  EXPECT_EQ(retry_delay({.jitter_factor = 3.0}, 0, 0.0), 0s);
  EXPECT_EQ(retry_delay({.jitter_factor = 0.0}, 1, 0.9), 1s);
}

TEST(RetryDelay, StaysInRangeForAnyConfiguration) {
  constexpr auto kForever = std::chrono::nanoseconds::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();

  EXPECT_EQ(retry_delay({}, std::numeric_limits<int>::max(), 0.5), 10s);
  EXPECT_EQ(retry_delay({.retry_delay_max = kForever}, 5000, 0.5), kForever);
  EXPECT_EQ(retry_delay({.retry_delay_base = -1s}, 3, 0.5), 0s);
  EXPECT_EQ(retry_delay({.retry_delay_max = -1s}, 3, 0.5), 0s);
  EXPECT_EQ(retry_delay({.jitter_factor = kInfinity}, 3, 0.0), 0s);
  EXPECT_EQ(retry_delay({.jitter_factor = kInfinity}, 3, 0.5), 0s);
}

Error status(int http_status, bool is_retryable) {
  return {.code = error_code_for_status(http_status),
          .http_status = http_status,
          .retry = {.retryable = is_retryable}};
}

// R12.3
TEST(IsRepeatable, ForTheListedErrorsAndStatuses) {
  const RetryConfig config;
  for (const auto code : {ErrorCode::connection_failed, ErrorCode::timed_out}) {
    EXPECT_TRUE(is_repeatable(config, {.code = code})) << to_string(code);
  }
  for (const int code : {408, 409, 429, 500, 502, 599}) {
    EXPECT_TRUE(is_repeatable(config, status(code, true))) << code;
  }
}

TEST(IsRepeatable, ForNothingElse) {
  const RetryConfig config;
  for (const auto code : {ErrorCode::request_failed,
                          ErrorCode::invalid_response,
                          ErrorCode::invalid_argument,
                          ErrorCode::cancelled,
                          ErrorCode::deadline_exceeded,
                          ErrorCode::closed,
                          ErrorCode::stuck,
                          ErrorCode::internal}) {
    EXPECT_FALSE(is_repeatable(config, {.code = code})) << to_string(code);
  }
  for (const int code : {400, 401, 402, 403, 404, 422}) {
    EXPECT_FALSE(is_repeatable(config, status(code, false))) << code;
  }
}

// R6 (410): an expired promise is sampled again, a finished session is not.
TEST(IsRepeatable, ForAnExpiredPromiseOnly) {
  EXPECT_TRUE(is_repeatable({}, status(410, true)));
  EXPECT_FALSE(is_repeatable({}, status(410, false)));
}

// R6.2 "any other status": a status that ended the polling is a ValueError there, which is final.
TEST(IsRepeatable, NotForAStatusThatWhoeverPolledCalledFinal) {
  EXPECT_FALSE(is_repeatable({}, status(409, false)));
}

TEST(IsRepeatable, ForWhatTheUserAddsButNeverForACancellation) {
  const RetryConfig config = {.retryable_errors = {ErrorCode::unprocessable, ErrorCode::cancelled}};

  EXPECT_TRUE(is_repeatable(config, status(422, false)));
  EXPECT_FALSE(is_repeatable(config, {.code = ErrorCode::connection_failed}));
  EXPECT_FALSE(is_repeatable(config, {.code = ErrorCode::cancelled}));
}

}  // namespace
}  // namespace tinker::session::retry_config_test
