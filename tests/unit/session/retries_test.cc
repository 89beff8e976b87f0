#include "session/retries.h"

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"
#include "unit/session/sample_support.h"

namespace tinker::session::retries_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

constexpr std::string_view kEvent = "InternalClientHolder.execute_with_retries.exception";

class ExecuteWithRetriesTest : public ::testing::Test {
 protected:
  Future<UntypedApiFuture> start() {
    return f_.spawn(execute_with_retries<UntypedApiFuture>(
        f_.session, "submit", [session = f_.session](const std::shared_ptr<Watch>& watch) {
          return asample(session, watch);
        }));
  }
  Result<UntypedApiFuture> run(std::vector<FakeReply> replies) {
    f_.server->reply(std::string(kAsample), std::move(replies));
    return start().get();
  }

  SessionFixture f_;
};

// R5.4.2
TEST_F(ExecuteWithRetriesTest, WaitsOneTwoFourUpToThirtyAndTriesLastAfterThreeHundredSeconds) {
  const auto result = run({refused(503)});

  EXPECT_THAT(result, IsError(ErrorCode::server_error, HasSubstr("503")));
  EXPECT_THAT(
      times(f_),
      ElementsAre(0s, 1s, 3s, 7s, 15s, 31s, 61s, 91s, 121s, 151s, 181s, 211s, 241s, 271s, 300s));
}

// R5.4.2: a retry is allowed only while fewer than 300 s have passed.
TEST_F(ExecuteWithRetriesTest, StartsNoRoundAfterThreeHundredSeconds) {
  FakeReply slow = refused(500);
  slow.delay = 200s;

  EXPECT_THAT(run({slow}), IsError(ErrorCode::server_error, _));

  EXPECT_THAT(times(f_), ElementsAre(0s, 201s));
}

TEST_F(ExecuteWithRetriesTest, WarnsOnceAfterTheSecondFailedAttempt) {
  EXPECT_THAT(run({refused(503), refused(503), refused(503), accepted()}), IsOk());

  const auto lines = f_.log.lines("attempts failed");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].level, LogLevel::warn);
  EXPECT_EQ(lines[0].text,
            "submit: 2 attempts failed in 1 s, the last: POST http://server.test/api/v1/asample: "
            "error code: 503 - {\"detail\":\"no\"}; goes on for up to 299 s (retry time of 300 s); "
            "with({.deadline = ...}) bounds it");
}

TEST_F(ExecuteWithRetriesTest, DoesNotWarnOfOneFailedAttempt) {
  EXPECT_THAT(run({refused(503), accepted()}), IsOk());

  EXPECT_THAT(f_.log.lines("failed in"), IsEmpty());
}

TEST_F(ExecuteWithRetriesTest, SaysEveryThirtySecondsHowItFailsAndForHowLong) {
  EXPECT_THAT(run({refused(503)}), IsError(ErrorCode::server_error, _));

  const auto lines = f_.log.lines("submit takes long");
  ASSERT_THAT(lines, SizeIs(10));
  EXPECT_EQ(lines[0].text,
            "submit takes long: 30 s so far, failing; attempt 5 failed 15 s ago: POST "
            "http://server.test/api/v1/asample: error code: 503 - {\"detail\":\"no\"}; goes on for "
            "up to 270 s (retry time of 300 s); with({.deadline = ...}) bounds it");
  EXPECT_THAT(lines[8].text, HasSubstr("270 s so far"));
}

TEST_F(ExecuteWithRetriesTest, SaysThatTheServerAsksToSlowDownButNotAtOnce) {
  EXPECT_THAT(run({refused(429)}), IsError(ErrorCode::rate_limited, _));

  EXPECT_THAT(f_.log.lines("attempts failed in"), IsEmpty());
  EXPECT_THAT(f_.log.lines("submit takes long: 30 s so far, told to slow down (POST "), SizeIs(1));
}

TEST_F(ExecuteWithRetriesTest, SaysThatTheServerIsSilent) {
  f_.server->reply(std::string(kAsample), {{.never = true}});
  auto future = start();

  f_.time.advance(60s);

  EXPECT_THAT(f_.log.lines("submit takes long: 60 s so far, waiting; goes on for up to 240 s"),
              SizeIs(1));
  future.cancel();
}

TEST_F(ExecuteWithRetriesTest, NamesTheLastFailureWhenTheDeadlinePasses) {
  const Error broken = {.code = ErrorCode::connection_failed, .message = "connection refused"};
  f_.server->reply(std::string(kAsample), {{.error = broken}});
  auto task = execute_with_retries<UntypedApiFuture>(
      f_.session, "submit", [session = f_.session](const std::shared_ptr<Watch>& watch) {
        return asample(session, watch);
      });
  auto future = f_.session->runtime->spawn(
      f_.session->scope, std::move(task), async::SpawnOptions{.deadline = 20s});

  EXPECT_THAT(future.get(),
              IsError(ErrorCode::deadline_exceeded,
                      "not finished within its deadline of 20000 ms; last attempt 5 s ago: POST "
                      "http://server.test/api/v1/asample: connection refused"));
  EXPECT_THAT(f_.log.lines("attempts failed in 1 s"), SizeIs(1));
  EXPECT_THAT(f_.log.lines("ends with its deadline, in 19 s"), SizeIs(1));
}

TEST_F(ExecuteWithRetriesTest, NamesTheLastFailureWhenItIsCancelled) {
  f_.server->reply(std::string(kAsample), {refused(503)});
  auto future = start();

  f_.time.advance(4s);
  future.cancel();

  EXPECT_THAT(future.get(),
              IsError(ErrorCode::cancelled,
                      HasSubstr("cancelled by the caller; last attempt 1 s ago: POST ")));
}

class RetriedStatusTest : public ExecuteWithRetriesTest,
                          public ::testing::WithParamInterface<int> {};

// R5.4.1
TEST_P(RetriedStatusTest, IsRepeated) {
  EXPECT_THAT(run({refused(GetParam()), accepted()}), IsOk());

  EXPECT_THAT(times(f_), ElementsAre(0s, 1s));
}

INSTANTIATE_TEST_SUITE_P(Statuses,
                         RetriedStatusTest,
                         ::testing::Values(408, 409, 429, 500, 502, 503, 504, 599),
                         ::testing::PrintToStringParamName());

class FinalStatusTest : public ExecuteWithRetriesTest, public ::testing::WithParamInterface<int> {};

// R5.4.1
TEST_P(FinalStatusTest, GoesToTheCallerAtOnce) {
  const auto result = run({refused(GetParam()), accepted()});

  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().http_status, GetParam());
  EXPECT_THAT(times(f_), ElementsAre(0s));
}

INSTANTIATE_TEST_SUITE_P(Statuses,
                         FinalStatusTest,
                         ::testing::Values(400, 401, 403, 404, 410, 413, 422),
                         ::testing::PrintToStringParamName());

// R5.4.1: timeouts, connection errors, and the empty 400 that becomes one (R5.3.1).
TEST_F(ExecuteWithRetriesTest, RepeatsWithoutAnAnswer) {
  const Error broken = {.code = ErrorCode::connection_failed, .message = "reset"};
  const Error late = {.code = ErrorCode::timed_out, .message = "late"};

  const auto result = run({{.error = broken}, {.error = late}, {.status = 400}, accepted()});

  EXPECT_THAT(result, IsOk());
  EXPECT_THAT(times(f_), ElementsAre(0s, 1s, 3s, 7s));
}

Error rejected(std::chrono::milliseconds after) {
  return {.code = ErrorCode::circuit_open, .retry = {.retryable = true, .after = after}};
}

TEST_F(ExecuteWithRetriesTest, WaitsForACircuitBreakerWithoutCountingTheRound) {
  const auto result =
      run({{.error = rejected(20s)}, refused(503), {.error = rejected(7500ms)}, accepted()});

  EXPECT_THAT(result, IsOk());
  EXPECT_THAT(times(f_), ElementsAre(0s, 20s, 21s, 28500ms)) << "the 503 was the first to count";
  EXPECT_THAT(reported(f_, kEvent), SizeIs(1));
}

TEST_F(ExecuteWithRetriesTest, GivesUpWhereACircuitBreakerOutlastsItsTime) {
  EXPECT_THAT(run({{.error = rejected(299s)}, {.error = rejected(1s)}}),
              IsError(ErrorCode::circuit_open, _));

  EXPECT_THAT(times(f_), ElementsAre(0s, 299s)) << "300 s are over with the next one";
  EXPECT_THAT(reported(f_, kEvent), SizeIs(1));
}

TEST_F(ExecuteWithRetriesTest, TriesOnceWhereNothingIsToBeRepeated) {
  f_.session->is_single_attempt = true;

  EXPECT_THAT(run({refused(503), accepted()}), IsError(ErrorCode::server_error, _));
  EXPECT_THAT(run({refused(402), accepted()}), IsError(ErrorCode::billing, _));

  EXPECT_THAT(times(f_), ElementsAre(0s, 0s));
}

TEST_F(ExecuteWithRetriesTest, DoesNotRepeatAnAnswerThatCannotBeRead) {
  EXPECT_THAT(run({{.body = "{}"}, accepted()}), IsError(ErrorCode::invalid_response, _));

  EXPECT_THAT(times(f_), SizeIs(1));
}

async::Task<UntypedApiFuture> with_http_retries(std::shared_ptr<SessionCore> session) {
  return call_json<UntypedApiFuture>(std::move(session),
                                     api::Call{.path = std::string(kAsample), .max_retries = 2});
}

// R5.4.5, R5.1.1, R5.1.2
TEST_F(ExecuteWithRetriesTest, RepeatsTheWholeHttpLayerInEachRound) {
  FakeReply failure = refused(503);
  failure.headers.set("retry-after-ms", "100");
  f_.server->reply(std::string(kAsample), {failure, failure, failure, failure, accepted()});
  auto future = f_.spawn(execute_with_retries<UntypedApiFuture>(
      f_.session, "submit", [session = f_.session](const auto&) {
        return with_http_retries(session);
      }));

  EXPECT_THAT(future.get(), IsOk());

  EXPECT_THAT(times(f_), ElementsAre(0ms, 100ms, 200ms, 1200ms, 1300ms));
  std::vector<std::string> counts;
  std::vector<std::string> keys;
  for (const auto& sent : f_.server->sent(kAsample)) {
    counts.emplace_back(sent.request.headers.find("x-stainless-retry-count").value_or("none"));
    keys.emplace_back(sent.request.headers.find("x-idempotency-key").value_or("none"));
  }
  EXPECT_THAT(counts, ElementsAre("0", "1", "2", "0", "1"));
  EXPECT_EQ(keys[0], keys[2]);
  EXPECT_EQ(keys[3], keys[4]);
  EXPECT_NE(keys[0], keys[3]);
}

// R5.4.4, 14.4
TEST_F(ExecuteWithRetriesTest, ReportsEveryFailedRound) {
  EXPECT_THAT(run({refused(503), refused(503), refused(422)}),
              IsError(ErrorCode::unprocessable, _));

  const auto events = reported(f_, kEvent);

  ASSERT_THAT(events, SizeIs(3));
  const auto& data = events[1].event_data;
  EXPECT_THAT(names_of(data),
              ElementsAre("func",
                          "exception",
                          "exception_type",
                          "exception_stack",
                          "status_code",
                          "is_retryable",
                          "is_user_error",
                          "attempt_count",
                          "start_time",
                          "current_time",
                          "elapsed_time"));
  EXPECT_EQ(member(data, "func"), Json("submit"));
  EXPECT_EQ(member(data, "exception_type"), Json("InternalServerError"));
  EXPECT_EQ(member(data, "status_code"), Json(503));
  EXPECT_EQ(member(data, "is_retryable"), Json(true));
  EXPECT_EQ(member(data, "is_user_error"), Json(false));
  EXPECT_EQ(member(data, "elapsed_time"), Json(1.0));
  EXPECT_EQ(events[1].severity, Severity::warning);
  // Earlier rounds are counted, 0 first.
  EXPECT_EQ(member(events[0].event_data, "attempt_count"), Json(0));
  EXPECT_EQ(member(events[1].event_data, "attempt_count"), Json(1));
  EXPECT_EQ(member(events[2].event_data, "attempt_count"), Json(2));
  EXPECT_EQ(member(events[2].event_data, "is_retryable"), Json(false));
  EXPECT_EQ(member(events[2].event_data, "is_user_error"), Json(true));
  EXPECT_EQ(events[2].severity, Severity::warning);
}

// 14.4: ERROR when it is neither repeated nor the user's doing; no status is null.
TEST_F(ExecuteWithRetriesTest, ReportsAnAnswerThatCannotBeReadAsAnError) {
  EXPECT_THAT(run({{.body = "{}"}}), IsError(ErrorCode::invalid_response, _));

  const auto events = reported(f_, kEvent);

  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].severity, Severity::error);
  EXPECT_EQ(member(events[0].event_data, "status_code"), Json());
}

// R5.4.3, R5.5.3
TEST_F(ExecuteWithRetriesTest, PausesFiveSecondsOnA402WithoutCountingOrReportingIt) {
  const auto result = run({refused(402), refused(402), refused(503), refused(402), accepted()});

  EXPECT_THAT(result, IsOk());
  EXPECT_THAT(times(f_), ElementsAre(0s, 5s, 10s, 11s, 16s));
  const auto events = reported(f_, kEvent);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(member(events[0].event_data, "attempt_count"), Json(0));
}

// R5.5.2: the window is the holder's, and longer than the 300 s of other failures.
TEST_F(ExecuteWithRetriesTest, RaisesThe402WhenItsWindowHasPassed) {
  f_.session->config.billing_exception_max_pause_duration_sec = 600;

  EXPECT_THAT(run({refused(402)}), IsError(ErrorCode::billing, HasSubstr("402")));

  EXPECT_THAT(times(f_), SizeIs(122));  // 0, 5 … 600, 605
  EXPECT_EQ(times(f_).back(), 605s);
  const auto events = reported(f_, kEvent);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(member(events[0].event_data, "is_retryable"), Json(false));
  EXPECT_EQ(member(events[0].event_data, "is_user_error"), Json(true));
}

TEST_F(ExecuteWithRetriesTest, EndsAtOnceWhenCancelledBetweenRounds) {
  f_.server->reply(std::string(kAsample), {refused(503)});
  auto future = start();
  f_.time.advance(40s);

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_EQ(f_.time.elapsed(), 40s);
  f_.time.advance(60s);
  EXPECT_THAT(times(f_), SizeIs(6));
}

TEST_F(ExecuteWithRetriesTest, ReportsNoCancellation) {
  f_.server->reply(std::string(kAsample), {{.never = true}});
  auto future = start();
  f_.time.advance(1s);

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(reported(f_, kEvent), IsEmpty());
}

TEST_F(ExecuteWithRetriesTest, TellsTheLocalBusOfFailedRoundsAndPauses) {
  std::vector<std::string> names;
  const auto subscription = f_.session->runtime->events().subscribe([&](const Event& event) {
    if (!event.name.starts_with("http.")) {
      names.push_back(std::string(event.name) + " " + std::to_string(event.http_status));
    }
  });

  EXPECT_THAT(run({refused(402), refused(503), accepted()}), IsOk());

  EXPECT_THAT(names, ElementsAre("billing.pause 402", "call.round_failed 503"));
}

}  // namespace
}  // namespace tinker::session::retries_test
