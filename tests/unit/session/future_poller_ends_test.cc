#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/future_poller.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/optimizer.h"
#include "unit/session/poll_support.h"

// What polling reports, and how it ends.

namespace tinker::session::future_poller_ends_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

// ---- 14.4: telemetry of failed polls

TEST_F(FuturePollerTest, ReportsEachFailedPoll) {  // R6.6, 14.4
  script({{.status = 408}, no_connection(), {.status = 429}, {.status = 500}, done()});

  EXPECT_THAT(poll_json(), IsOk());

  const auto statuses = reported(fixture, "APIFuture.result_async.api_status_error");
  ASSERT_THAT(statuses, SizeIs(3));
  const auto& data = statuses[1].event_data;
  EXPECT_EQ(statuses[1].severity, Severity::warning);
  EXPECT_THAT(names_of(data),
              ElementsAre("request_id",
                          "request_type",
                          "status_code",
                          "detail",
                          "kind",
                          "should_retry",
                          "is_user_error",
                          "exception",
                          "exception_type",
                          "iteration",
                          "elapsed_time",
                          "bad_request_retries",
                          "connection_error_retries"));
  EXPECT_EQ(member(data, "status_code"), Json(429));
  EXPECT_EQ(member(data, "kind"), Json("retry_with_backoff"));
  EXPECT_EQ(member(data, "should_retry"), Json(true));
  EXPECT_EQ(member(data, "is_user_error"), Json(true));
  EXPECT_EQ(member(data, "iteration"), Json(2));
  EXPECT_EQ(member(data, "connection_error_retries"), Json(1));
  EXPECT_EQ(member(data, "elapsed_time"), Json(1.0));
  EXPECT_EQ(member(statuses[0].event_data, "kind"), Json("retry"));
  EXPECT_EQ(member(statuses[0].event_data, "is_user_error"), Json(false));  // 408
  EXPECT_EQ(member(statuses[2].event_data, "kind"), Json("retry"));
  const auto connections = reported(fixture, "APIFuture.result_async.connection_error");
  ASSERT_THAT(connections, SizeIs(1));
  EXPECT_EQ(connections[0].severity, Severity::warning);
  EXPECT_EQ(member(connections[0].event_data, "status_code"), Json(0));
  EXPECT_EQ(member(connections[0].event_data, "kind"), Json("retry_with_backoff"));
  EXPECT_EQ(member(connections[0].event_data, "connection_error_retries"), Json(0));
}

TEST_F(FuturePollerTest, ReportsAnExpiredPromise) {  // 14.4
  script({{.status = 410}});

  EXPECT_THAT(poll_json(), IsError(ErrorCode::expired, _));

  const auto events = reported(fixture, "APIFuture.result_async.api_status_error");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].severity, Severity::warning);
  EXPECT_EQ(member(events[0].event_data, "kind"), Json("retryable_exception"));
  EXPECT_EQ(member(events[0].event_data, "exception_type"), Json("APIStatusError"));
  EXPECT_EQ(member(events[0].event_data, "should_retry"), Json(true));
}

TEST_F(FuturePollerTest, ReportsBadRequestsWithWhatWasAskedAndAnswered) {  // 14.4
  script({{.status = 400, .body = "odd", .headers = {{.name = "Via", .value = "proxy"}}}});

  EXPECT_THAT(poll_json(), IsError(ErrorCode::bad_request, _));

  const auto events = reported(fixture, "APIFuture.result_async.api_status_error");
  ASSERT_THAT(events, SizeIs(4));
  for (int i = 0; i < 4; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    EXPECT_EQ(event.severity, Severity::error);
    EXPECT_EQ(member(event.event_data, "kind"), Json("retry_if_budget"));
    EXPECT_EQ(member(event.event_data, "bad_request_retries"), Json(i));
    EXPECT_EQ(member(event.event_data, "response_body"), Json("odd"));
    EXPECT_EQ(*member(event.event_data, "response_headers").find("via"), Json("proxy"));
    EXPECT_EQ(*member(event.event_data, "request_headers").find("x-tinker-request-iteration"),
              Json(std::to_string(i)));
  }
}

TEST_F(FuturePollerTest, ReportsNoSecret) {  // R14.13, D6
  script({{.status = 403,
           .body = R"({"detail":"tml-secret-key may not"})",
           .headers = {{.name = "Set-Cookie", .value = "session=abcdefgh"},
                       {.name = "Server", .value = "tml-secret-key"}}}});

  const auto result = poll_json();

  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().to_string(), Not(HasSubstr("tml-secret-key")));
  const auto events = reported(fixture, "APIFuture.result_async.api_status_error");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(member(events[0].event_data, "kind"), Json("fatal"));
  EXPECT_EQ(member(events[0].event_data, "should_retry"), Json(false));
  EXPECT_EQ(*member(events[0].event_data, "response_body").find("detail"),
            Json("[redacted] may not"));
  for (const auto& body : bodies(fixture, "/api/v1/telemetry")) {
    EXPECT_THAT(body, Not(HasSubstr("tml-secret-key")));
    EXPECT_THAT(body, Not(HasSubstr("abcdefgh")));
  }
  EXPECT_THAT(fixture.log.text(), Not(HasSubstr("tml-secret-key")));
}

TEST_F(FuturePollerTest, ReportsNoPartOfASecretThatItsLimitCuts) {  // R14.13, D6
  script({{.status = 403, .body = std::string(4090, 'x') + "tml-secret-key"}});

  ASSERT_FALSE(poll_json().ok());

  ASSERT_THAT(reported(fixture, "APIFuture.result_async.api_status_error"), SizeIs(1));
  for (const auto& body : bodies(fixture, "/api/v1/telemetry")) {
    EXPECT_THAT(body, Not(HasSubstr("tml-se")));
  }
}

TEST_F(FuturePollerTest, WorksWithoutTelemetry) {
  fixture.session->telemetry.reset();
  script({{.status = 400, .body = "odd"}, json(R"({"error":"e"})")});

  EXPECT_THAT(poll_json(), IsError(ErrorCode::request_failed, _));
}

TEST_F(FuturePollerTest, PublishesFailedPollsAndTheEnd) {
  const EventCapture errors(fixture.session->runtime->events(), "poll.error");
  const EventCapture ends(fixture.session->runtime->events(), "poll.done");
  script({{.status = 500}, {.status = 404}});

  EXPECT_THAT(poll_json(), IsError(ErrorCode::not_found, _));

  ASSERT_THAT(errors.seen(), SizeIs(2));
  EXPECT_EQ(errors.seen()[0].http_status, 500);
  EXPECT_EQ(errors.seen()[1].attempt, 1);
  ASSERT_THAT(ends.seen(), SizeIs(1));
  EXPECT_EQ(ends.seen()[0].error, ErrorCode::not_found);
  EXPECT_EQ(ends.seen()[0].request_id, "r-1");
  EXPECT_THAT(ends.seen()[0].texts, ElementsAre("OptimStep"));
}

// ---- Waiting and ending

TEST_F(FuturePollerTest, TellsWhatItWaitsFor) {
  script({{.status = 408,
           .body = R"({"queue_state":"paused_capacity","queue_state_reason":"waiting for GPUs"})",
           .delay = 20s},
          {.status = 408, .delay = 20s},
          done()});

  EXPECT_THAT(poll_json(), IsOk());

  const auto lines = fixture.log.lines("takes long");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0].text,
              AllOf(HasSubstr("OptimStep"),
                    HasSubstr("r-1"),
                    HasSubstr("30 s"),
                    HasSubstr("paused_capacity"),
                    HasSubstr("waiting for GPUs")));
}

TEST_F(FuturePollerTest, GoesOnWhenAWaitTimesOut) {  // R6.10
  script({{.status = 408, .delay = 30s}, done()});
  auto future = fixture.spawn(poll<OptimStepResponse>(fixture.session, optim_step()));

  EXPECT_THAT(future.get(10s), IsError(ErrorCode::deadline_exceeded, _));
  EXPECT_THAT(future.get(10s), IsError(ErrorCode::deadline_exceeded, _));

  EXPECT_THAT(future.get(), IsOk());
  EXPECT_EQ(fixture.time.elapsed(), 30s);
}

TEST(FuturePoller, EndsAtOnceWhenCancelled) {  // R6.11
  for (const auto& first : {FakeReply{.never = true}, no_connection(), FakeReply{.status = 402}}) {
    SessionFixture fresh;
    fresh.server->reply(std::string(kRetrieveFuture), {first, {.never = true}});
    auto future = fresh.spawn(poll<OptimStepResponse>(fresh.session, optim_step()));
    fresh.time.advance(500ms);

    future.cancel();

    EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
    EXPECT_EQ(fresh.time.elapsed(), 500ms);
    EXPECT_EQ(fresh.server->in_flight(), 0U);
    EXPECT_THAT(fresh.server->sent(kRetrieveFuture), SizeIs(1));
  }
}

TEST_F(FuturePollerTest, EndsWithItsDeadline) {  // R6.11
  script({{.status = 408, .delay = 30s}});

  auto future =
      fixture.session->runtime->spawn(fixture.session->scope,
                                      poll<OptimStepResponse>(fixture.session, optim_step()),
                                      {.deadline = 100s});

  EXPECT_THAT(future.get(), IsError(ErrorCode::deadline_exceeded, _));
  EXPECT_EQ(fixture.time.elapsed(), 100s);
}

TEST_F(FuturePollerTest, EndsWithTheSession) {
  script({{.never = true}});
  auto future = fixture.spawn(poll<OptimStepResponse>(fixture.session, optim_step()));
  fixture.time.advance(1s);

  fixture.session->scope->cancel({.code = ErrorCode::closed, .message = "closed"});

  EXPECT_THAT(future.get(), IsError(ErrorCode::closed, _));
}

TEST_F(FuturePollerTest, GivesItsBytesBackWhenCancelled) {
  script({json(R"({"status":"complete_metadata","response_payload_size":1000})"), {.never = true}});
  auto future = fixture.spawn(poll<SampleResponse>(fixture.session, sample()));
  fixture.time.advance(1s);
  const auto before = fixture.session->inflight_response_bytes.available();

  future.cancel();
  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));

  EXPECT_EQ(fixture.session->inflight_response_bytes.available(), before + 1000);
}

TEST_F(FuturePollerTest, ManyPollsAtOnceAllEnd) {
  int asked = 0;
  fixture.server->handle(std::string(kRetrieveFuture), [&asked](const http::Request&) {
    ++asked;
    if (asked % 3 == 0) return FakeReply{.status = 408, .delay = 20s};
    if (asked % 7 == 0) return no_connection();
    if (asked % 5 == 0) return FakeReply{.status = 503, .delay = 1s};
    auto reply = done();
    reply.delay = 5s;
    return reply;
  });
  std::vector<Future<OptimStepResponse>> all;
  all.reserve(10'000);
  for (int i = 0; i < 10'000; ++i) {
    all.push_back(fixture.spawn(poll<OptimStepResponse>(
        fixture.session,
        PollRequest{.request_id = "r-" + std::to_string(i), .request_type = "OptimStep"})));
  }

  EXPECT_THAT(when_all(std::move(all)).get(), IsOk());

  EXPECT_EQ(fixture.server->in_flight(), 0U);
}

}  // namespace
}  // namespace tinker::session::future_poller_ends_test
