#include "session/batch_poller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"
#include "unit/session/batch_support.h"

// Waiting, fetching (R6.13 to R6.18) and failing (R6.19, R6.20).

namespace tinker::session::batch_poller_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;

// ---- R6.13–R6.18: waiting and fetching

TEST_F(BatchPollerTest, SendsThePollOfTheProtocol) {  // R6.15, PROTOCOL 9.38
  script({completed({"r-1"}, 3), completed({"r-2"}, 5)});

  EXPECT_THAT(wait("r-1").get(), IsOkAndHolds(finished(0)));
  EXPECT_THAT(wait("r-2").get(), IsOkAndHolds(finished(0)));

  const std::string target =
      R"({"target":{"type":"sampling_session","sampling_session_id":"f3c1:sample:1",)"
      R"("cloned_sampler_id":5},)";
  EXPECT_THAT(bodies(fixture, kRetrieveFutures),
              ElementsAre(target + R"("prev_cursor":0,"retrieved_request_ids":[]})",
                          target + R"("prev_cursor":3,"retrieved_request_ids":[]})"));
  EXPECT_THAT(headers(fixture, kRetrieveFutures, "Accept"), Each("application/json"));
  EXPECT_THAT(headers(fixture, kRetrieveFutures, "x-stainless-read-timeout"), Each("45.0"));
  const auto channel =
      fixture.session->api->pool(api::PoolKind::retrieve_futures).lease().channel();
  for (const auto& sent : fixture.server->sent(kRetrieveFutures)) {
    EXPECT_EQ(sent.request.timeouts.read, 45s);
    EXPECT_EQ(sent.request.channel, channel);
    for (const auto& header : sent.request.headers) {
      EXPECT_THAT(header.name, Not(HasSubstr("X-Tinker-")));
    }
  }
}

TEST_F(BatchPollerTest, IdlesWhileNobodyWaits) {  // R6.16
  script({nothing()});

  fixture.time.advance(1h);

  EXPECT_THAT(poll_times(), IsEmpty());
}

TEST_F(BatchPollerTest, HasOnePollInFlightForAll) {  // R6.16, R6.17
  script({after(10s, completed({"r-1"}, 1)), after(10s, completed({"r-2", "r-3"}, 3))});

  auto first = wait("r-1");
  auto second = wait("r-2");
  auto third = wait("r-3");

  EXPECT_THAT(third.get(), IsOkAndHolds(finished(0)));
  EXPECT_TRUE(first.is_ready());
  EXPECT_TRUE(second.is_ready());
  fixture.time.advance(1h);
  EXPECT_THAT(poll_times(), ElementsAre(0s, 10s));
}

TEST_F(BatchPollerTest, TellsHowEachRequestEnded) {  // R6.17, PROTOCOL 9.38
  script({json(
      R"({"completions":[)"
      R"({"state":"finished","request_id":"r-1","response_payload_uncompressed_size":7340,"new":1},)"
      R"({"state":"failed","request_id":"r-2"},)"
      R"({"state":"finished","request_id":"r-3","response_payload_uncompressed_size":null}],)"
      R"("cursor":3})")});

  auto first = wait("r-1");
  auto second = wait("r-2");
  auto third = wait("r-3");

  EXPECT_THAT(first.get(), IsOkAndHolds(finished(7340)));
  EXPECT_THAT(second.get(), IsOkAndHolds(kFailed));
  EXPECT_THAT(third.get(), IsOkAndHolds(finished(0)));
}

TEST_F(BatchPollerTest, HandsOutAStoredCompletionOnce) {  // R6.17
  script({completed({"r-1", "r-early"}, 2), {.never = true}});
  EXPECT_THAT(wait("r-1").get(), IsOk());
  EXPECT_EQ(poller->stored(), 1U);

  EXPECT_THAT(wait("r-early").get(), IsOkAndHolds(finished(0)));
  auto again = wait("r-early");
  fixture.time.advance(30s);

  EXPECT_FALSE(again.is_ready());
  EXPECT_EQ(poller->stored(), 0U);
}

TEST_F(BatchPollerTest, PausesWhenEmptyAnswersComeWithoutDelay) {  // R6.16, D20
  script({nothing()});
  auto waiting = wait("r-1");

  fixture.time.advance(4s);

  EXPECT_THAT(poll_times(),
              ElementsAre(0ms, 0ms, 50ms, 150ms, 350ms, 750ms, 1550ms, 2550ms, 3550ms));
}

TEST_F(BatchPollerTest, DoesNotPauseAfterALongPoll) {  // R6.16
  script({after(30s, nothing()), after(30s, nothing()), completed({"r-1"}, 1)});

  EXPECT_THAT(wait("r-1").get(), IsOk());

  EXPECT_THAT(poll_times(), ElementsAre(0s, 30s, 60s));
}

TEST_F(BatchPollerTest, FetchesAResultOfKnownSizeInOneRoundTrip) {  // R6.18
  script({json(R"({"completions":[{"state":"finished","request_id":"r-1",)"
               R"("response_payload_uncompressed_size":1000}],"cursor":1})"),
          {.never = true}});
  std::int64_t available = 0;
  fixture.server->handle(std::string(kRetrieveFuture), [&](const http::Request&) {
    available = fixture.session->inflight_response_bytes.available();
    return protobuf(sample_bytes());
  });

  EXPECT_THAT(await("r-1").get(), IsOk());

  const auto limit = fixture.session->config.inflight_response_bytes_semaphore_size;
  EXPECT_EQ(available, limit - 1000);
  EXPECT_EQ(fixture.session->inflight_response_bytes.available(), limit);
  EXPECT_THAT(bodies(fixture, kRetrieveFuture),
              ElementsAre(R"({"request_id":"r-1","allow_metadata_only":false})"));
  EXPECT_THAT(headers(fixture, kRetrieveFuture, "X-Tinker-Request-Iteration"), ElementsAre("0"));
}

TEST_F(BatchPollerTest, PollsAsUsualForAResultOfUnknownSize) {  // R6.18
  script({completed({"r-1"}, 1), {.never = true}});
  fixture.server->reply(std::string(kRetrieveFuture),
                        {json(R"({"status":"complete_metadata","response_payload_size":10})"),
                         protobuf(sample_bytes())});

  EXPECT_THAT(await("r-1").get(), IsOk());

  EXPECT_THAT(bodies(fixture, kRetrieveFuture),
              ElementsAre(R"({"request_id":"r-1","allow_metadata_only":true})",
                          R"({"request_id":"r-1","allow_metadata_only":false})"));
}

TEST_F(BatchPollerTest, FetchesTheErrorOfAFailedRequest) {  // R6.18
  script({json(R"({"completions":[{"state":"failed","request_id":"r-1"}],"cursor":1})"),
          {.never = true}});
  fixture.server->reply(std::string(kRetrieveFuture), {json(R"({"error":"too long"})")});

  EXPECT_THAT(await("r-1").get(), IsError(ErrorCode::request_failed, HasSubstr("too long")));

  EXPECT_THAT(bodies(fixture, kRetrieveFuture),
              ElementsAre(R"({"request_id":"r-1","allow_metadata_only":true})"));
}

TEST_F(BatchPollerTest, IsUsedOnlyWhereTheServerWantsIt) {  // R6.13
  fixture.session->config.sample_use_retrieve_futures = false;
  fixture.server->reply(std::string(kRetrieveFuture), {protobuf(sample_bytes())});

  EXPECT_THAT(await("r-1").get(), IsOk());
  fixture.time.advance(1h);

  EXPECT_THAT(poll_times(), IsEmpty());
}

TEST_F(BatchPollerTest, TellsPeopleAboutALongWait) {  // R6.22: without a queue state
  script({after(40s, completed({"r-1"}, 1)), {.never = true}});
  fixture.server->reply(std::string(kRetrieveFuture), {protobuf(sample_bytes())});

  EXPECT_THAT(await("r-1").get(), IsOk());

  const auto lines = fixture.log.lines("takes long");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0].text, AllOf(HasSubstr("r-1"), HasSubstr("batched poll"), HasSubstr("30 s")));
}

// ---- R6.19, R6.20: errors

TEST_F(BatchPollerTest, WaitsOutABillingProblem) {  // R6.19
  script({{.status = 402}, {.status = 402}, completed({"r-1"}, 1)});

  EXPECT_THAT(wait("r-1").get(), IsOkAndHolds(finished(0)));

  EXPECT_THAT(poll_times(), ElementsAre(0s, 5s, 10s));
}

TEST_F(BatchPollerTest, RepeatsAfterASecondWhatMayRecover) {  // R6.19
  script({no_connection(),
          {.error = Error{.code = ErrorCode::timed_out, .message = "no answer"}},
          {.status = 408},
          {.status = 409},
          {.status = 429},
          {.status = 500},
          {.status = 503},
          {.status = 400},  // empty: R5.3.1
          completed({"r-1"}, 1)});

  EXPECT_THAT(wait("r-1").get(), IsOkAndHolds(finished(0)));

  EXPECT_THAT(poll_times(), ElementsAre(0s, 1s, 2s, 3s, 4s, 5s, 6s, 7s, 8s));
  EXPECT_THAT(reported(fixture, "APIFuture.result_async.api_status_error"), IsEmpty());
}

TEST_F(BatchPollerTest, RepeatsForEver) {  // R6.19: unlimited
  std::vector<FakeReply> replies(1000, FakeReply{.status = 503});
  replies.push_back(completed({"r-1"}, 1));
  script(replies);

  EXPECT_THAT(wait("r-1").get(), IsOkAndHolds(finished(0)));
}

TEST_F(BatchPollerTest, RepeatsA400ThreeTimes) {  // R6.19
  const FakeReply bad = {.status = 400, .body = "bad"};
  script({bad, bad, bad, after(1s, nothing()), bad, bad, bad, bad});

  EXPECT_THAT(wait("r-1").get(), IsOkAndHolds(kUnknown));

  EXPECT_THAT(poll_times(), ElementsAre(0s, 1s, 2s, 3s, 4s, 5s, 6s, 7s));
}

TEST(BatchPoller, FallsBackToSinglePollsAfterAFinalAnswer) {  // R6.19, R6.20 deviation, D4
  const std::vector<FakeReply> finals = {{.status = 401},
                                         {.status = 403},
                                         {.status = 404},
                                         {.status = 410},
                                         {.status = 422},
                                         json("[]"),
                                         json(""),
                                         json(R"({"completions":[]})")};
  for (const auto& reply : finals) {
    SessionFixture fresh;
    fresh.session->config.sample_use_retrieve_futures = true;
    fresh.server->reply(std::string(kRetrieveFutures), {reply});
    fresh.server->reply(std::string(kRetrieveFuture), {protobuf(sample_bytes())});
    const auto batch = std::make_shared<BatchPoller>(fresh.session, "f3c1:sample:1", 0);
    const SampleRoute route = {.batch = batch};

    auto first = fresh.spawn(await_sample<SampleResponse>(fresh.session, route, sample("r-1")));
    auto second = fresh.spawn(await_sample<SampleResponse>(fresh.session, route, sample("r-2")));

    EXPECT_THAT(first.get(), IsOk());
    EXPECT_THAT(second.get(), IsOk());
    const auto lines = fresh.log.lines("retrieve_futures polling failed");
    ASSERT_THAT(lines, SizeIs(1)) << reply.status;
    EXPECT_EQ(lines[0].level, LogLevel::error);
    EXPECT_THAT(lines[0].text, HasSubstr("f3c1:sample:1 (clone 0)"));
  }
}

TEST_F(BatchPollerTest, FallsBackWhenABillingProblemLasts) {  // R6.19
  fixture.session->config.billing_exception_max_pause_duration_sec = 60;
  script({{.status = 402}});

  EXPECT_THAT(wait("r-1").get(), IsOkAndHolds(kUnknown));

  EXPECT_EQ(poll_times().back(), 65s);
}

TEST_F(BatchPollerTest, AsksDirectlyForARequestInAnUnknownState) {  // R6.19 deviation, D4
  script({json(R"({"completions":[{"state":"paused","request_id":"r-1"},)"
               R"({"state":"finished","request_id":"r-2"},{"state":"odd"}],"cursor":1})")});

  auto first = wait("r-1");
  auto second = wait("r-2");

  EXPECT_THAT(first.get(), IsOkAndHolds(kUnknown));
  EXPECT_THAT(second.get(), IsOkAndHolds(finished(0)));
  EXPECT_THAT(fixture.log.lines("polling failed"), IsEmpty());
}

TEST_F(BatchPollerTest, BatchesAgainAfterAWhile) {  // D4
  script({{.status = 404}, completed({"r-3"}, 1)});
  EXPECT_THAT(wait("r-1").get(), IsOkAndHolds(kUnknown));
  fixture.time.advance(29s);
  EXPECT_THAT(wait("r-2").get(), IsOkAndHolds(kUnknown));
  fixture.time.advance(1s);

  EXPECT_THAT(wait("r-3").get(), IsOkAndHolds(finished(0)));

  EXPECT_THAT(poll_times(), ElementsAre(0s, 30s));
}

TEST_F(BatchPollerTest, GivesUpBatchingAfterThreeFailuresInARow) {  // D4
  const EventCapture events(fixture.session->runtime->events(), "batch_poll.failed");
  script({{.status = 404}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(wait("r-1").get(), IsOkAndHolds(kUnknown));
    fixture.time.advance(30s);
  }

  EXPECT_THAT(wait("r-1").get(), IsOkAndHolds(kUnknown));
  on_loop([this] { poller->retrieved("r-1"); });
  fixture.time.advance(1h);

  EXPECT_THAT(poll_times(), ElementsAre(0s, 30s, 60s));
  EXPECT_THAT(fixture.log.lines("polling failed"), SizeIs(3));
  EXPECT_THAT(fixture.log.lines("from now on"), SizeIs(1));
  ASSERT_THAT(events.seen(), SizeIs(3));
  EXPECT_EQ(events.seen()[2].http_status, 404);
}

TEST_F(BatchPollerTest, CountsFailuresInARowOnly) {  // D4
  for (int i = 0; i < 5; ++i) {
    script({{.status = 404}, completed({"r-2"}, 1)});
    EXPECT_THAT(wait("r-1").get(), IsOkAndHolds(kUnknown));
    fixture.time.advance(30s);
    EXPECT_THAT(wait("r-2").get(), IsOkAndHolds(finished(0)));
  }
}

TEST_F(BatchPollerTest, AStoredCompletionBeatsAFailure) {  // R6.20
  script({completed({"r-1", "r-early"}, 2), {.status = 404}});
  EXPECT_THAT(wait("r-1").get(), IsOk());
  EXPECT_THAT(wait("r-2").get(), IsOkAndHolds(kUnknown));

  EXPECT_THAT(wait("r-early").get(), IsOkAndHolds(finished(0)));
}

}  // namespace
}  // namespace tinker::session::batch_poller_test
