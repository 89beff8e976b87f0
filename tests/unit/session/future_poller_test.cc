#include "session/future_poller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"
#include "tinker/types/optimizer.h"
#include "unit/session/poll_support.h"

// What a poll looks like (6.1) and what follows answers that say no (6.2).

namespace tinker::session::future_poller_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

// ---- 6.1: shape of a poll

TEST_F(FuturePollerTest, SendsThePollOfTheProtocol) {  // R6.3, PROTOCOL 9.19 and 3
  script({{.status = 408}, {.status = 408}, done()});
  auto request = optim_step();
  request.roundtrip_s = 2.38e-06;

  EXPECT_THAT(poll_json(request), IsOk());

  const auto polls = fixture.server->sent(kRetrieveFuture);
  ASSERT_THAT(polls, SizeIs(3));
  EXPECT_EQ(polls[0].path, "/api/v1/retrieve_future");
  EXPECT_EQ(polls[0].request.method, http::Method::post);
  EXPECT_EQ(polls[0].request.timeouts.read, 45s);
  const auto values = [this](std::string_view name) {
    return headers(fixture, kRetrieveFuture, name);
  };
  EXPECT_THAT(bodies(fixture, kRetrieveFuture),
              Each(R"({"request_id":"r-1","allow_metadata_only":true})"));
  EXPECT_THAT(values("X-Tinker-Request-Iteration"), ElementsAre("0", "1", "2"));
  EXPECT_THAT(values("X-Tinker-Request-Type"), Each("OptimStep"));
  EXPECT_THAT(values("X-Stainless-Raw-Response"), Each("raw"));
  EXPECT_THAT(values("Accept"), Each("application/json"));
  EXPECT_THAT(values("X-Tinker-Create-Promise-Roundtrip-Time"), ElementsAre("2.38e-06", "-", "-"));
  EXPECT_THAT(values("x-stainless-read-timeout"), Each("45"));
  EXPECT_THAT(values("x-stainless-retry-count"), Each("0"));
}

TEST_F(FuturePollerTest, UsesAPoolOfItsOwn) {  // R6.3
  script({done()});
  const auto channel =
      fixture.session->api->pool(api::PoolKind::retrieve_promise).lease().channel();

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_EQ(fixture.server->sent(kRetrieveFuture).at(0).request.channel, channel);
}

TEST_F(FuturePollerTest, AsksForProtobufWhereTheResultIsProtobuf) {  // PROTOCOL 3
  script({protobuf(sample_bytes())});

  EXPECT_THAT(poll_sample(), IsOk());

  EXPECT_THAT(headers(fixture, kRetrieveFuture, "Accept"), ElementsAre("application/x-protobuf"));
}

// ---- 6.2: transport errors

TEST_F(FuturePollerTest, PollsAgainAtOnceAfterA408) {  // 6.2, R6.4
  script({{.status = 408, .delay = 30s}, {.status = 408, .delay = 30s}, done()});

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0ms, 30s, 60s));
}

TEST_F(FuturePollerTest, TellsTheObserverWhatA408Says) {  // 6.2
  script({{.status = 408,
           .body = R"({"type":"try_again","request_id":"r-1","queue_state":"paused_capacity",)"
                   R"("queue_state_reason":"waiting for GPUs"})"},
          done()});
  auto request = optim_step();
  request.observer =
      std::make_shared<QueueStateObserver>(fixture.session, QueuedWork::training, "m1");

  EXPECT_THAT(poll_json(request), IsOk());

  EXPECT_THAT(fixture.log.lines("waiting for GPUs"), SizeIs(1));
}

TEST_F(FuturePollerTest, TakesAnyBodyWithA408) {  // 6.2, PROTOCOL 9.19
  const EventCapture events(fixture.session->runtime->events(), "queue_state");
  std::vector<FakeReply> replies;
  for (const char* body : {"",
                           "gateway",
                           "null",
                           "[]",
                           "{}",
                           R"({"queue_state":null})",
                           R"({"queue_state":""})",
                           R"({"queue_state":"active"})",
                           R"({"queue_state":7})",
                           R"({"queue_state":"on_holiday"})"}) {
    replies.push_back({.status = 408, .body = body});
  }
  replies.push_back(done());
  script(replies);
  auto request = optim_step();
  request.observer =
      std::make_shared<QueueStateObserver>(fixture.session, QueuedWork::training, "m1");

  EXPECT_THAT(poll_json(request), IsOk());

  std::vector<std::string> states;
  for (const auto& event : events.seen()) states.push_back(event.texts.at(0));
  EXPECT_THAT(states, ElementsAre("unknown", "on_holiday"));
}

TEST_F(FuturePollerTest, PollsAgainAtOnceAfterA5xx) {  // 6.2
  script({{.status = 500, .delay = 1s}, {.status = 503, .delay = 1s}, {.status = 599}, done()});

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0ms, 1s, 2s, 2s));
}

TEST(FuturePoller, SlowsDownWhenAnswersComeWithoutDelay) {  // R6.7, deviation
  for (const int status : {500, 408}) {
    SessionFixture fresh;
    fresh.server->reply(std::string(kRetrieveFuture), {{.status = status}});
    auto future = fresh.spawn(poll<OptimStepResponse>(fresh.session, optim_step()));

    fresh.time.advance(4s);

    EXPECT_THAT(times(fresh, kRetrieveFuture),
                ElementsAre(0ms, 0ms, 50ms, 150ms, 350ms, 750ms, 1550ms, 2550ms, 3550ms));
  }
}

TEST_F(FuturePollerTest, SlowsDownWhenTryAgainComesWithoutDelay) {  // R6.7, deviation
  script({json(R"({"type":"try_again"})")});
  auto future = fixture.spawn(poll<OptimStepResponse>(fixture.session, optim_step()));

  fixture.time.advance(1min);

  EXPECT_LT(poll_times().size(), 70U);
}

TEST_F(FuturePollerTest, ForgetsThePaceAfterALongPoll) {  // R6.7, deviation
  script({{.status = 408},
          {.status = 408},
          {.status = 408},
          {.status = 408, .delay = 1s},
          {.status = 408},
          done()});

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0ms, 0ms, 50ms, 150ms, 1150ms, 1150ms));
}

TEST_F(FuturePollerTest, EndsWithARetryHintWhenThePromiseIsGone) {  // 6.2: 410
  script({{.status = 410, .body = R"({"detail":"promise expired"})"}});

  const auto result = poll_json();

  ASSERT_THAT(result, IsError(ErrorCode::expired, AllOf(HasSubstr("r-1"), HasSubstr("expired"))));
  EXPECT_TRUE(result.error().retry.retryable);
  EXPECT_EQ(result.error().request_id, "r-1");
  EXPECT_EQ(result.error().http_status, 410);
  EXPECT_THAT(poll_times(), SizeIs(1));
}

TEST_F(FuturePollerTest, BacksOffFromA429) {  // 6.2
  script({{.status = 429}, {.status = 429}, {.status = 429}, done()});

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0ms, 1s, 3s, 7s));
}

TEST_F(FuturePollerTest, BacksOffFromConnectionErrors) {  // 6.2
  std::vector<FakeReply> replies(8, no_connection());
  replies[2] = {.error = Error{.code = ErrorCode::timed_out, .message = "no answer"}};
  replies.push_back(done());
  script(replies);

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0s, 1s, 3s, 7s, 15s, 31s, 61s, 91s, 121s));
}

TEST_F(FuturePollerTest, NeverGivesUpOnARecoveringServer) {  // R6.4
  std::vector<FakeReply> replies(500, no_connection());
  replies.push_back(done());
  script(replies);

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), SizeIs(501));
}

TEST_F(FuturePollerTest, StartsTheBackoffAnewAfterAnAnswer) {  // R6.5
  script({no_connection(),
          no_connection(),
          {.status = 500},
          no_connection(),
          no_connection(),
          json(R"({"type":"try_again"})"),
          no_connection(),
          done()});

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0s, 1s, 3s, 3s, 4s, 6s, 6s, 7s));
}

TEST_F(FuturePollerTest, KeepsTheBackoffOverABillingPause) {  // R6.5, 6.2: 402 is not counted
  script({no_connection(), {.status = 402}, no_connection(), done()});

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0s, 1s, 6s, 8s));
}

TEST_F(FuturePollerTest, RetriesA400ThreeTimes) {  // 6.2
  script({{.status = 400, .body = R"({"detail":"odd"})"}});

  const auto result = poll_json();

  EXPECT_THAT(result,
              IsError(ErrorCode::bad_request, AllOf(HasSubstr("r-1"), HasSubstr("3 retries"))));
  EXPECT_THAT(poll_times(), ElementsAre(0ms, 0ms, 0ms, 0ms));
}

TEST_F(FuturePollerTest, RestoresTheBudgetFor400AfterA408WithJson) {  // 6.2
  const FakeReply bad = {.status = 400, .body = "bad"};
  script({bad, bad, bad, {.status = 408, .body = "{}"}, bad, bad, bad, done()});

  EXPECT_THAT(poll_json(), IsOk());
}

TEST_F(FuturePollerTest, DoesNotRestoreTheBudgetAfterA408WithoutJson) {  // 6.2
  const FakeReply bad = {.status = 400, .body = "bad"};
  script({bad, bad, bad, {.status = 408, .body = "gateway"}, bad, done()});

  EXPECT_THAT(poll_json(), IsError(ErrorCode::bad_request, HasSubstr("r-1")));
}

TEST_F(FuturePollerTest, TreatsAnEmpty400AsAConnectionError) {  // 6.2, R5.3.1
  script({{.status = 400}, {.status = 400, .no_length = true}, done()});

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0s, 1s, 3s));
  const auto events = reported(fixture, "APIFuture.result_async.connection_error");
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(member(events[0].event_data, "status_code"), Json(0));
  EXPECT_EQ(member(events[0].event_data, "is_user_error"), Json(false));
}

TEST_F(FuturePollerTest, WaitsOutABillingProblem) {  // 6.2, R5.5.3
  script({{.status = 402}, {.status = 402}, done()});

  EXPECT_THAT(poll_json(), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0s, 5s, 10s));
  EXPECT_THAT(reported(fixture, "APIFuture.result_async.api_status_error"), IsEmpty());  // R6.6
}

TEST_F(FuturePollerTest, EndsWhenABillingProblemLasts) {  // 6.2, R5.5.2
  fixture.session->config.billing_exception_max_pause_duration_sec = 60;
  script({{.status = 402, .body = R"({"detail":"pay"})"}});

  const auto result = poll_json();

  ASSERT_THAT(result, IsError(ErrorCode::billing, AllOf(HasSubstr("r-1"), HasSubstr("pay"))));
  EXPECT_EQ(result.error().http_status, 402);
  EXPECT_EQ(poll_times().back(), 65s);
  const auto events = reported(fixture, "APIFuture.result_async.api_status_error");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(member(events[0].event_data, "kind"), Json("fatal"));
}

TEST(FuturePoller, EndsWithAnyOtherStatus) {  // 6.2
  const std::vector<std::pair<int, ErrorCode>> cases = {{401, ErrorCode::unauthenticated},
                                                        {403, ErrorCode::permission_denied},
                                                        {404, ErrorCode::not_found},
                                                        {409, ErrorCode::conflict},
                                                        {422, ErrorCode::unprocessable},
                                                        {418, ErrorCode::unexpected_status},
                                                        {302, ErrorCode::unexpected_status},
                                                        {600, ErrorCode::server_error}};
  for (const auto& [status, code] : cases) {
    SessionFixture fresh;
    fresh.server->reply(std::string(kRetrieveFuture), {{.status = status, .body = "no way"}});

    const auto result = fresh.spawn(poll<OptimStepResponse>(fresh.session, optim_step())).get();

    ASSERT_THAT(result, IsError(code, AllOf(HasSubstr("r-1"), HasSubstr("no way")))) << status;
    EXPECT_EQ(result.error().http_status, status);
    EXPECT_FALSE(result.error().retry.retryable) << status;  // R12.3: final for its request
    EXPECT_THAT(fresh.server->sent(kRetrieveFuture), SizeIs(1));
  }
}

TEST_F(FuturePollerTest, NamesThePollAndTheTimeInErrors) {
  script({{.status = 408, .delay = 2500ms}, {.status = 404}});

  EXPECT_THAT(poll_json(),
              IsError(ErrorCode::not_found,
                      StartsWith("polling OptimStep request r-1, poll 1 after 2.5 s: ")));
}

class NoToken final : public api::TokenProvider {
 public:
  async::Task<Secret> token() override {
    co_return Error{.code = ErrorCode::unauthenticated, .message = "the credential command failed"};
  }
};

TEST_F(FuturePollerTest, PassesOnTheErrorOfTheCredential) {  // PROTOCOL 5
  fixture.session->tokens = std::make_shared<NoToken>();

  EXPECT_THAT(poll_json(),
              IsError(ErrorCode::unauthenticated, HasSubstr("the credential command failed")));
  EXPECT_THAT(poll_times(), IsEmpty());
}

}  // namespace
}  // namespace tinker::session::future_poller_test
