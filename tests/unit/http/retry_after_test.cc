#include "http/retry_after.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tinker::http::retry_after_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using ::testing::Optional;

// Half a second past 1994-11-06 08:49:37 UTC.
constexpr std::chrono::system_clock::time_point kNow{784111777s + 500ms};

std::optional<nanoseconds> from_seconds(std::string value) {
  return retry_after({{.name = "Retry-After", .value = std::move(value)}}, kNow);
}

std::optional<nanoseconds> from_ms(std::string value) {
  return retry_after({{.name = "Retry-After-Ms", .value = std::move(value)}}, kNow);
}

std::optional<nanoseconds> from_both(std::string milliseconds, std::string value) {
  return retry_after({{.name = "retry-after", .value = std::move(value)},
                      {.name = "retry-after-ms", .value = std::move(milliseconds)}},
                     kNow);
}

TEST(RetryAfter, IsNothingWithoutAHeader) {
  EXPECT_EQ(retry_after({}, kNow), std::nullopt);
}

TEST(RetryAfter, ReadsSecondsWithFractions) {
  // R5.2.3
  EXPECT_THAT(from_seconds("5"), Optional(nanoseconds(5s)));
  EXPECT_THAT(from_seconds("0.25"), Optional(nanoseconds(250ms)));
  EXPECT_THAT(from_seconds(".5"), Optional(nanoseconds(500ms)));
  EXPECT_THAT(from_seconds("5."), Optional(nanoseconds(5s)));
  EXPECT_THAT(from_seconds("+2"), Optional(nanoseconds(2s)));
  EXPECT_THAT(from_seconds("1e1"), Optional(nanoseconds(10s)));
  EXPECT_THAT(from_seconds(" 3 "), Optional(nanoseconds(3s)));
}

TEST(RetryAfter, ReadsMilliseconds) {
  // R5.2.3
  EXPECT_THAT(from_ms("1500"), Optional(nanoseconds(1500ms)));
  EXPECT_THAT(from_ms("0.5"), Optional(nanoseconds(500us)));
}

TEST(RetryAfter, PrefersMilliseconds) {
  // R5.2.3
  EXPECT_THAT(from_both("100", "5"), Optional(nanoseconds(100ms)));
}

TEST(RetryAfter, FallsThroughWhenMillisecondsDoNotParse) {
  // R5.2.3
  EXPECT_THAT(from_both("soon", "5"), Optional(nanoseconds(5s)));
  EXPECT_THAT(from_both("", "5"), Optional(nanoseconds(5s)));
  EXPECT_THAT(from_both("100ms", "5"), Optional(nanoseconds(5s)));
  EXPECT_THAT(from_both("+-1", "5"), Optional(nanoseconds(5s)));
  EXPECT_THAT(from_both("x", "Sun, 06 Nov 1994 08:49:40 GMT"), Optional(nanoseconds(2500ms)));
}

TEST(RetryAfter, StopsAtMillisecondsThatParseButCannotBeUsed) {
  // R5.2.3: which header decides does not depend on whether its value is usable.
  EXPECT_EQ(from_both("0", "5"), std::nullopt);
  EXPECT_EQ(from_both("-1", "5"), std::nullopt);
  EXPECT_EQ(from_both("60001", "5"), std::nullopt);
  EXPECT_EQ(from_both("nan", "5"), std::nullopt);
  EXPECT_EQ(from_both("inf", "5"), std::nullopt);
  EXPECT_EQ(from_both("1e999", "5"), std::nullopt);
  EXPECT_EQ(from_both("1e-999", "5"), std::nullopt);
}

TEST(RetryAfter, CountsOnlyWithinAMinute) {
  // R5.2.3
  EXPECT_THAT(from_seconds("60"), Optional(nanoseconds(60s)));
  EXPECT_EQ(from_seconds("60.001"), std::nullopt);
  EXPECT_EQ(from_seconds("0"), std::nullopt);
  EXPECT_EQ(from_seconds("-0"), std::nullopt);
  EXPECT_EQ(from_seconds("-5"), std::nullopt);
  EXPECT_EQ(from_seconds("nan"), std::nullopt);
  EXPECT_EQ(from_seconds("inf"), std::nullopt);
  EXPECT_EQ(from_seconds("1e300"), std::nullopt);
  EXPECT_THAT(from_ms("60000"), Optional(nanoseconds(60s)));
  EXPECT_EQ(from_ms("60000.1"), std::nullopt);
}

TEST(RetryAfter, NeverRoundsAWaitAway) {
  EXPECT_THAT(from_seconds("1e-12"), Optional(1ns));
  EXPECT_THAT(from_seconds("1e-300"), Optional(1ns));
}

TEST(RetryAfter, ReadsDatesInAllForms) {
  // R5.2.3
  EXPECT_THAT(from_seconds("Sun, 06 Nov 1994 08:49:47 GMT"), Optional(nanoseconds(9500ms)));
  EXPECT_THAT(from_seconds("Sunday, 06-Nov-94 08:49:47 GMT"), Optional(nanoseconds(9500ms)));
  EXPECT_THAT(from_seconds("Sun Nov  6 08:49:47 1994"), Optional(nanoseconds(9500ms)));
  EXPECT_THAT(from_seconds("Sun, 06 Nov 1994 09:49:47 +0100"), Optional(nanoseconds(9500ms)));
}

TEST(RetryAfter, CountsDatesOnlyWithinAMinute) {
  // R5.2.3
  EXPECT_EQ(from_seconds("Sun, 06 Nov 1994 08:49:37 GMT"), std::nullopt);
  EXPECT_THAT(from_seconds("Sun, 06 Nov 1994 08:49:38 GMT"), Optional(nanoseconds(500ms)));
  EXPECT_THAT(from_seconds("Sun, 06 Nov 1994 08:50:37 GMT"), Optional(nanoseconds(59500ms)));
  EXPECT_EQ(from_seconds("Sun, 06 Nov 1994 08:50:38 GMT"), std::nullopt);
  EXPECT_EQ(from_seconds("Fri, 31 Dec 9999 23:59:59 GMT"), std::nullopt);
  EXPECT_EQ(from_seconds("Mon, 01 Jan 0001 00:00:00 GMT"), std::nullopt);
}

TEST(RetryAfter, TakesADateExactlyAMinuteAway) {
  const Headers headers = {{.name = "retry-after", .value = "Sun, 06 Nov 1994 08:50:37 GMT"}};

  EXPECT_THAT(retry_after(headers, kNow - 500ms), Optional(nanoseconds(60s)));
  EXPECT_EQ(retry_after(headers, kNow - 501ms), std::nullopt);
  EXPECT_EQ(retry_after(headers, kNow + 59500ms), std::nullopt);
}

TEST(RetryAfter, IgnoresWhatIsNeitherNumberNorDate) {
  for (const auto* text : {"", "soon", "5s", "0x5", "5 5", "--5", "1994-11-06T08:49:47Z"}) {
    EXPECT_EQ(from_seconds(text), std::nullopt) << text;
  }
}

bool retries(int status, Headers headers) {
  return should_retry({.status = status, .headers = std::move(headers), .body = {}});
}

TEST(ShouldRetry, GoesByStatus) {
  // R5.2.2
  for (const int status : {408, 409, 429, 500, 502, 503, 504, 529, 599, 600}) {
    EXPECT_TRUE(retries(status, {})) << status;
  }
  for (const int status : {200, 204, 301, 304, 400, 401, 402, 403, 404, 410, 422, 499}) {
    EXPECT_FALSE(retries(status, {})) << status;
  }
}

TEST(ShouldRetry, ObeysTheServer) {
  // R5.2.2
  EXPECT_TRUE(retries(400, {{.name = "X-Should-Retry", .value = "true"}}));
  EXPECT_TRUE(retries(200, {{.name = "x-should-retry", .value = "true"}}));
  EXPECT_FALSE(retries(503, {{.name = "x-should-retry", .value = "false"}}));
}

TEST(ShouldRetry, GoesByStatusForAnyOtherWord) {
  // R5.2.2
  for (const auto* word : {"", "True", "FALSE", "1", "yes"}) {
    EXPECT_TRUE(retries(503, {{.name = "x-should-retry", .value = word}})) << word;
    EXPECT_FALSE(retries(400, {{.name = "x-should-retry", .value = word}})) << word;
  }
}

TEST(IsRetryable, GoesByStatusOrItsLack) {
  // R5.4.1, R12.3
  for (const int status : {408, 409, 429, 500, 503, 599}) {
    EXPECT_TRUE(is_retryable({.code = ErrorCode::unexpected_status, .http_status = status}))
        << status;
  }
  for (const int status : {0, 400, 401, 404, 410, 422, 499, 600}) {
    EXPECT_FALSE(is_retryable({.code = ErrorCode::unexpected_status, .http_status = status}))
        << status;
  }
  for (const auto code : {ErrorCode::connection_failed, ErrorCode::timed_out}) {
    EXPECT_TRUE(is_transport_error({.code = code}));
    EXPECT_TRUE(is_retryable({.code = code}));
  }
  EXPECT_FALSE(is_transport_error({.code = ErrorCode::deadline_exceeded}));
}

TEST(BackoffDelay, DoublesUpToTenSeconds) {
  // R5.2.3
  const std::vector<nanoseconds> expected = {500ms, 1s, 2s, 4s, 8s, 10s, 10s, 10s};
  for (int n = 0; std::cmp_less(n, expected.size()); ++n) {
    EXPECT_EQ(backoff_delay(n, 0), expected[static_cast<std::size_t>(n)]) << n;
  }
  EXPECT_EQ(backoff_delay(std::numeric_limits<int>::max(), 0), 10s);
}

TEST(BackoffDelay, IsShortenedByUpToAQuarter) {
  // R5.2.3
  EXPECT_EQ(backoff_delay(0, 0.5), nanoseconds(437'500'000));
  EXPECT_EQ(backoff_delay(1, 1), 750ms);
  EXPECT_EQ(backoff_delay(9, 1), 7500ms);
}

}  // namespace
}  // namespace tinker::http::retry_after_test
