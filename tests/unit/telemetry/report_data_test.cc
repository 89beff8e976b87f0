#include "telemetry/report_data.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tinker::telemetry::report_data_test {
namespace {

using std::chrono::microseconds;
using ::testing::EndsWith;

DataCleaner cleaner() {
  return DataCleaner([](std::string text) {
    if (const auto at = text.find("tml-secret"); at != std::string::npos) {
      text.replace(at, 10, "[redacted]");
    }
    return text;
  });
}

TEST(ReportData, NamesErrorsAsTheOfficialClientDoes) {  // R14.12, R15
  EXPECT_EQ(error_type(ErrorCode::bad_request), "BadRequestError");
  EXPECT_EQ(error_type(ErrorCode::circuit_open), "CircuitOpenError");
  EXPECT_EQ(error_type(ErrorCode::unauthenticated), "AuthenticationError");
  EXPECT_EQ(error_type(ErrorCode::billing), "BillingError");
  EXPECT_EQ(error_type(ErrorCode::permission_denied), "PermissionDeniedError");
  EXPECT_EQ(error_type(ErrorCode::not_found), "NotFoundError");
  EXPECT_EQ(error_type(ErrorCode::conflict), "ConflictError");
  EXPECT_EQ(error_type(ErrorCode::expired), "RetryableException");
  EXPECT_EQ(error_type(ErrorCode::unprocessable), "UnprocessableEntityError");
  EXPECT_EQ(error_type(ErrorCode::rate_limited), "RateLimitError");
  EXPECT_EQ(error_type(ErrorCode::server_error), "InternalServerError");
  EXPECT_EQ(error_type(ErrorCode::unexpected_status), "APIStatusError");
  EXPECT_EQ(error_type(ErrorCode::connection_failed), "APIConnectionError");
  EXPECT_EQ(error_type(ErrorCode::timed_out), "APITimeoutError");
  EXPECT_EQ(error_type(ErrorCode::invalid_response), "APIResponseValidationError");
  EXPECT_EQ(error_type(ErrorCode::stuck), "APIConnectionError");
  EXPECT_EQ(error_type(ErrorCode::request_failed), "RequestFailedError");
  EXPECT_EQ(error_type(ErrorCode::invalid_argument), "ValueError");
  EXPECT_EQ(error_type(ErrorCode::closed), "RuntimeError");
  EXPECT_EQ(error_type(ErrorCode::deadline_exceeded), "TimeoutError");
}

TEST(ReportData, TellsAnExpiredPromiseFromAnyOther410) {  // 14.4, seen in the official client
  Error gone = {.code = ErrorCode::expired, .http_status = 410};
  EXPECT_EQ(error_type(gone), "APIStatusError");
  EXPECT_EQ(status_of(gone), Json(410));

  gone.retry.retryable = true;
  EXPECT_EQ(error_type(gone), "RetryableException");
  EXPECT_TRUE(status_of(gone).is_null());

  EXPECT_EQ(error_type(Error{.code = ErrorCode::not_found}), "NotFoundError");
  EXPECT_TRUE(status_of(Error{.code = ErrorCode::connection_failed}).is_null());
}

TEST(ReportData, PrintsDurationsAsPythonDoes) {  // PROTOCOL 9.6; values from str(timedelta(...))
  EXPECT_EQ(python_duration(microseconds(0)), "0:00:00");
  EXPECT_EQ(python_duration(microseconds(12'500'000)), "0:00:12.500000");
  EXPECT_EQ(python_duration(microseconds(1)), "0:00:00.000001");
  EXPECT_EQ(python_duration(std::chrono::hours(13) + std::chrono::minutes(7)), "13:07:00");
  EXPECT_EQ(python_duration(std::chrono::seconds(93'784)), "1 day, 2:03:04");
  EXPECT_EQ(python_duration(std::chrono::hours(48) + microseconds(20)), "2 days, 0:00:00.000020");
  EXPECT_EQ(python_duration(std::chrono::seconds(-1)), "-1 day, 23:59:59");
  EXPECT_EQ(python_duration(microseconds(-172'800'000'001)), "-3 days, 23:59:59.999999");
}

TEST(ReportData, FindsTheBodyInAStatusError) {
  EXPECT_EQ(body_of({.message = R"(error code: 422 - {"detail":"no"})", .http_status = 422}),
            Json(JsonObject{{"detail", "no"}}));
  EXPECT_EQ(body_of({.message = "error code: 400 - bad gateway", .http_status = 400}),
            Json("bad gateway"));
}

TEST(ReportData, FindsNoBodyWhereThereWasNone) {
  EXPECT_TRUE(body_of({.message = "error code: 400", .http_status = 400}).is_null());
  EXPECT_TRUE(body_of({.message = "error code: 0 - x", .http_status = 0}).is_null());
  EXPECT_TRUE(body_of({.message = "connection refused", .http_status = 502}).is_null());
}

TEST(ReportData, ReportsHeadersFromAnAllowList) {  // R14.13, D6
  const http::Headers headers = {{"Content-Type", "application/json"},
                                 {"X-API-Key", "tml-secret"},
                                 {"cf-access-client-secret", "other"},
                                 {"Cookie", "c"},
                                 {"Authorization", "Bearer b"},
                                 {"X-Request-Id", "r1"},
                                 {"X-Custom", "anything"}};

  EXPECT_EQ(reportable_headers(headers),
            (JsonObject{{"content-type", "application/json"}, {"x-request-id", "r1"}}));
}

TEST(DataCleaner, TakesSecretsOutOfEveryText) {  // R14.13
  const auto clean = cleaner().object(
      {{"a", "x tml-secret y"},
       {"b", Json::Array{"tml-secret", 1, JsonObject{{"tml-secret", "tml-secret"}}}}});

  EXPECT_EQ(
      clean,
      (JsonObject{{"a", "x [redacted] y"},
                  {"b", Json::Array{"[redacted]", 1, JsonObject{{"[redacted]", "[redacted]"}}}}}));
}

TEST(DataCleaner, LeavesOnlyReportableHeaders) {  // R14.13, D6
  const auto clean = cleaner().object(
      {{"request_headers", JsonObject{{"X-API-Key", "k"}, {"Accept", "application/json"}}},
       {"response_headers", JsonObject{{"Set-Cookie", "s"}, {"retry-after", "3"}}}});

  EXPECT_EQ(clean,
            (JsonObject{{"request_headers", JsonObject{{"Accept", "application/json"}}},
                        {"response_headers", JsonObject{{"retry-after", "3"}}}}));
}

TEST(DataCleaner, CutsLongTexts) {
  const std::string longest(DataCleaner::kMaxText, 'x');

  EXPECT_EQ(cleaner().text(longest), longest);
  EXPECT_EQ(cleaner().text(longest + "yz"), longest + " [cut, 16386 bytes]");
}

TEST(DataCleaner, DoesNotCutACharacterInTwo) {
  const std::string before(DataCleaner::kMaxText - 1, 'x');

  EXPECT_EQ(cleaner().text(before + "\xC3\xA4"), before + " [cut, 16385 bytes]");
}

TEST(DataCleaner, RedactsBeforeItCuts) {
  const std::string text = std::string(DataCleaner::kMaxText - 4, 'x') + "tml-secret";

  EXPECT_THAT(cleaner().text(text), EndsWith("xxxx[red [cut, 16390 bytes]"));
}

TEST(DataCleaner, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(cleaner().text("a\xFF\xC3\xA4\xE2\x82"),
            "a\xEF\xBF\xBD\xC3\xA4\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(DataCleaner, TurnsNumbersThatJsonLacksIntoNull) {
  const auto clean = cleaner().object({{"nan", std::numeric_limits<double>::quiet_NaN()},
                                       {"inf", std::numeric_limits<double>::infinity()},
                                       {"fine", 0.5}});

  EXPECT_EQ(clean, (JsonObject{{"nan", nullptr}, {"inf", nullptr}, {"fine", 0.5}}));
}

}  // namespace
}  // namespace tinker::telemetry::report_data_test
