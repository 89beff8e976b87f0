#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "telemetry/reporter.h"
#include "tinker/testing/matchers.h"
#include "tinker/version.h"
#include "unit/telemetry/reporter_fixture.h"

// What is sent.

namespace tinker::telemetry::reporter_events_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;
using namespace std::chrono_literals;

constexpr const char* kUuid4 =
    "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";

std::int64_t index_of(const TelemetryEvent& event) {
  return std::visit([](const auto& e) { return e.event_session_index; }, event);
}
std::string id_of(const TelemetryEvent& event) {
  return std::visit([](const auto& e) { return e.event_id; }, event);
}

TEST(UserError, IsToldByCategoryOrStatus) {  // R14.11
  EXPECT_TRUE(is_user_error({.code = ErrorCode::bad_request, .http_status = 400}));
  EXPECT_TRUE(is_user_error({.code = ErrorCode::unexpected_status, .http_status = 499}));
  EXPECT_FALSE(is_user_error({.code = ErrorCode::unexpected_status, .http_status = 408}));
  EXPECT_FALSE(is_user_error({.code = ErrorCode::server_error, .http_status = 500}));
  EXPECT_FALSE(is_user_error({.code = ErrorCode::connection_failed}));
  EXPECT_TRUE(
      is_user_error({.code = ErrorCode::request_failed, .category = RequestErrorCategory::user}));
  EXPECT_FALSE(
      is_user_error({.code = ErrorCode::request_failed, .category = RequestErrorCategory::server}));
}

TEST_F(ReporterTest, BeginsWithSessionStart) {  // R14.6
  const auto reporter = started();
  time.advance(10s);

  const auto sent = requests();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].session_id, "session-1");
  EXPECT_EQ(sent[0].sdk_version, protocol_version());
  ASSERT_THAT(sent[0].events, SizeIs(1));
  const auto& start = std::get<SessionStartEvent>(sent[0].events[0]);
  EXPECT_EQ(start.event_session_index, 0);
  EXPECT_EQ(start.severity, Severity::info);
  EXPECT_EQ(start.timestamp.to_string(), "2026-01-01T00:00:00Z");
}

TEST_F(ReporterTest, HasAnIdOfItsOwnWithoutASession) {  // R14.6
  const auto reporter = started({});
  reporter->fatal({.message = "broken"}, "list_sessions");
  time.run_ready();

  const auto sent = requests();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_THAT(sent[0].session_id, MatchesRegex(std::string("sessionless-") + kUuid4));
  EXPECT_THAT(names(sent[0].events), ElementsAre("UNHANDLED_EXCEPTION"));
}

TEST_F(ReporterTest, NumbersItsEventsAndGivesThemIds) {  // R14.4
  const auto reporter = started();
  for (int i = 0; i < 120; ++i) reporter->generic("event", Severity::info, {});
  time.advance(10s);

  const auto all = events();
  ASSERT_THAT(all, SizeIs(121));
  std::set<std::string> ids;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(index_of(all[i]), static_cast<std::int64_t>(i));
    EXPECT_THAT(id_of(all[i]), MatchesRegex(kUuid4));
    ids.insert(id_of(all[i]));
  }
  EXPECT_THAT(ids, SizeIs(121));
}

TEST_F(ReporterTest, NumbersEachReporterFromZero) {  // R14.4
  const auto first = started({.session_id = "a"});
  const auto second = started({.session_id = "b"});
  time.advance(10s);

  const auto sent = requests();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(index_of(sent[0].events[0]), 0);
  EXPECT_EQ(index_of(sent[1].events[0]), 0);
}

TEST_F(ReporterTest, SharesTheProcessIdWithTheOthersOfItsRuntime) {  // R14.5
  const auto first = started({.session_id = "a"});
  const auto second = started({.session_id = "b"});
  time.advance(10s);

  const auto sent = requests();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_THAT(sent[0].process_uuid, MatchesRegex(kUuid4));
  EXPECT_EQ(sent[0].process_uuid, sent[1].process_uuid);
}

TEST_F(ReporterTest, StampsEventsWhenTheyHappen) {
  const auto reporter = started();
  time.advance(2s + 123us);
  reporter->generic("event", Severity::warning, {{"n", 1}});
  time.advance(10s);

  const auto all = events();
  ASSERT_THAT(all, SizeIs(2));
  const auto& event = std::get<GenericEvent>(all[1]);
  EXPECT_EQ(event.timestamp.to_string(), "2026-01-01T00:00:02.000123Z");
  EXPECT_EQ(event.severity, Severity::warning);
  EXPECT_EQ(event.event_data, (JsonObject{{"n", 1}}));
}

TEST_F(ReporterTest, FatalSendsTheErrorAndTheEndAtOnce) {  // R14.9
  const auto reporter = started();
  time.advance(3s + 500ms);

  reporter->fatal(Error{.code = ErrorCode::connection_failed, .message = "no route"}.with_context(
                      "POST /api/v1/asample"),
                  "sample");
  EXPECT_THAT(times(), IsEmpty());  // the caller has its error before anything is sent
  time.run_ready();

  EXPECT_THAT(times(), ElementsAre(3s + 500ms));
  const auto all = events();
  EXPECT_THAT(names(all), ElementsAre("SESSION_START", "UNHANDLED_EXCEPTION", "SESSION_END"));
  EXPECT_EQ(std::get<SessionEndEvent>(all[2]).duration, "0:00:03.500000");
  const auto& exception = std::get<UnhandledExceptionEvent>(all[1]);  // R14.12
  EXPECT_EQ(exception.error_type, "APIConnectionError");
  EXPECT_EQ(exception.error_message, "POST /api/v1/asample: no route");
  EXPECT_EQ(exception.severity, Severity::error);
  EXPECT_EQ(exception.traceback,
            "in sample\nin POST /api/v1/asample\nAPIConnectionError: no route");
}

TEST_F(ReporterTest, GoesOnAfterAFatalError) {  // R14.9: several SESSION_END are normal
  const auto reporter = started();

  reporter->fatal({.message = "one"}, "sample");
  time.run_ready();
  reporter->fatal({.message = "two"}, "sample");
  time.run_ready();

  EXPECT_THAT(names(events()),
              ElementsAre("SESSION_START",
                          "UNHANDLED_EXCEPTION",
                          "SESSION_END",
                          "UNHANDLED_EXCEPTION",
                          "SESSION_END"));
}

TEST_F(ReporterTest, FatalDuringTheStartIsSentAtOnce) {  // D24
  const auto reporter = make({.session_id = "session-1"});
  reporter->start(scope);
  reporter->fatal({.message = "broken"}, "sample");
  time.run_ready();

  EXPECT_THAT(times(), ElementsAre(0s));
}

TEST_F(ReporterTest, ExceptionIsTheSameWithoutTheEnd) {
  const auto reporter = started();

  reporter->exception({.message = "broken"}, "close");
  time.run_ready();

  EXPECT_THAT(names(events()), ElementsAre("SESSION_START", "UNHANDLED_EXCEPTION"));
}

TEST_F(ReporterTest, ReportsUserErrorsAsSuch) {  // R14.11
  const auto reporter = started({});

  reporter->fatal({.code = ErrorCode::unprocessable,
                   .message = R"(error code: 422 - {"detail":"too long"})",
                   .http_status = 422},
                  "sample");
  time.run_ready();

  const auto all = events();
  ASSERT_THAT(all, SizeIs(1));
  const auto& event = std::get<GenericEvent>(all[0]);
  EXPECT_EQ(event.event_name, "user_error");
  EXPECT_EQ(event.severity, Severity::warning);
  EXPECT_EQ(event.event_data,
            (JsonObject{{"error_type", "UnprocessableEntityError"},
                        {"message", R"(error code: 422 - {"detail":"too long"} (status 422))"},
                        {"status_code", 422},
                        {"body", JsonObject{{"detail", "too long"}}}}));
}

TEST_F(ReporterTest, LeavesOutWhatAUserErrorLacks) {  // R14.11
  const auto reporter = started({});

  reporter->fatal({.code = ErrorCode::request_failed, .category = RequestErrorCategory::user},
                  "sample");
  time.run_ready();

  const auto all = events();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(std::get<GenericEvent>(all[0]).event_data,
            (JsonObject{{"error_type", "RequestFailedError"}}));
}

TEST_F(ReporterTest, DoesNotReportThatTheCallerGaveUp) {
  const auto reporter = started({});

  reporter->fatal({.code = ErrorCode::cancelled, .message = "cancelled"}, "sample");
  reporter->exception({.code = ErrorCode::cancelled, .message = "cancelled"}, "sample");

  EXPECT_EQ(reporter->queued(), 0U);
}

TEST_F(ReporterTest, SendsNoSecret) {  // R14.13, D6
  const auto reporter = started();
  time.advance(10s);  // from now on the credential is known
  const std::string text = "key " + std::string(kApiKey) + " refused";

  reporter->generic("event",
                    Severity::error,
                    {{"exception", text},
                     {"request_headers", JsonObject{{"x-api-key", kApiKey}, {"X-Other", "o"}}}});
  reporter->fatal(Error{.message = text}.with_context(text), text);
  reporter->fatal({.message = "error code: 403 - " + text, .http_status = 403}, "sample");
  time.run_ready();

  const auto sent = server->sent();
  ASSERT_THAT(sent, SizeIs(2));
  const std::string body(http::view(sent[1].request.body));
  EXPECT_THAT(body, Not(HasSubstr(kApiKey)));
  EXPECT_THAT(body, Not(HasSubstr("X-Other")));
  EXPECT_THAT(body, HasSubstr("key [redacted] refused"));
}

TEST_F(ReporterTest, SendsTextsThatAreNotUtf8) {
  const auto reporter = started({});

  reporter->generic("ev\xFFnt", Severity::info, {{"n\xFF\xFF", "gzip\x1F\x8B"}});
  reporter->exception({.message = "m\xFF"}, "o\xFF");
  time.run_ready();

  EXPECT_THAT(events(), SizeIs(2));
}

// The official package (0.36.0) read this text, with its ids, by TelemetrySendRequest's
// model_validate_json, and model_dump_json(exclude_unset=True) gave the same bytes again.
TEST_F(ReporterTest, WritesWhatTheOfficialServerReads) {  // PROTOCOL 9.6
  const auto reporter = started();
  time.advance(1s + 500ms);
  reporter->generic("RetryHandler.execute.exception",
                    Severity::warning,
                    {{"func", "sample"}, {"status_code", nullptr}, {"elapsed_time", 0.25}});
  reporter->fatal(
      {.code = ErrorCode::server_error, .message = "error code: 500 - oops", .http_status = 500},
      "sample");
  time.run_ready();

  const auto sent = server->sent();
  ASSERT_THAT(sent, SizeIs(1));
  const std::string body(http::view(sent[0].request.body));
  EXPECT_EQ(
      std::regex_replace(body, std::regex(kUuid4), "UUID"),
      R"j({"events":[{"event":"SESSION_START","event_id":"UUID","event_session_index":0,)j"
      R"j("severity":"INFO","timestamp":"2026-01-01T00:00:00Z"},)j"
      R"j({"event":"GENERIC_EVENT","event_id":"UUID",)j"
      R"j("event_name":"RetryHandler.execute.exception","event_session_index":1,)j"
      R"j("severity":"WARNING","timestamp":"2026-01-01T00:00:01.500000Z",)j"
      R"j("event_data":{"func":"sample","status_code":null,"elapsed_time":0.25}},)j"
      R"j({"error_message":"error code: 500 - oops (status 500)",)j"
      R"j("error_type":"InternalServerError","event":"UNHANDLED_EXCEPTION","event_id":"UUID",)j"
      R"j("event_session_index":2,"severity":"ERROR",)j"
      R"j("timestamp":"2026-01-01T00:00:01.500000Z",)j"
      R"j("traceback":"in sample\nInternalServerError: error code: 500 - oops"},)j"
      R"j({"duration":"0:00:01.500000","event":"SESSION_END","event_id":"UUID",)j"
      R"j("event_session_index":3,"severity":"INFO",)j"
      R"j("timestamp":"2026-01-01T00:00:01.500000Z"}],)j"
      R"j("platform":"Linux","sdk_version":"0.36.0","session_id":"session-1",)j"
      R"j("process_uuid":"UUID"})j");
}

}  // namespace
}  // namespace tinker::telemetry::reporter_events_test
