#include "session/canceller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/retrieval.h"
#include "tinker/testing/matchers.h"
#include "unit/session/poll_support.h"

namespace tinker::session::canceller_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

class CancellerTest : public ::testing::Test {
 public:
  CancellerTest() {
    fixture.session->dynamic_config.sample_cancel_enabled = true;
    script({{.status = 200}});
  }

  void script(std::vector<FakeReply> replies) {
    fixture.server->reply(std::string(kCancelFuture), std::move(replies));
  }
  void abandon(std::vector<std::string> ids) {
    fixture.session->runtime->loop()->post([this, ids = std::move(ids)] {
      for (const auto& id : ids) canceller->abandon(id);
    });
    fixture.time.run_ready();
  }
  Future<UntypedApiFuture> submit() {
    return fixture.spawn(submit_cancellable(
        fixture.session,
        canceller,
        {.path = std::string(kAsample), .pool = api::PoolKind::sample, .max_retries = 0}));
  }
  Future<SampleResponse> await(const std::string& request_id) {
    return fixture.spawn(await_sample<SampleResponse>(
        fixture.session, SampleRoute{.canceller = canceller}, sample(request_id)));
  }
  std::vector<std::chrono::milliseconds> cancel_times() const {
    return times(fixture, kCancelFuture);
  }

  SessionFixture fixture;
  std::shared_ptr<Canceller> canceller = std::make_shared<Canceller>(fixture.session);
};

TEST_F(CancellerTest, SendsTheCancellationOfTheProtocol) {  // R6.27, PROTOCOL 9.39
  abandon({"r-106"});

  const auto sent = fixture.server->sent(kCancelFuture);
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].path, "/api/v1/cancel_future");
  EXPECT_EQ(sent[0].request.method, http::Method::post);
  EXPECT_EQ(sent[0].request.timeouts.read, 30s);
  EXPECT_EQ(sent[0].request.channel,
            fixture.session->api->pool(api::PoolKind::retrieve_promise).lease().channel());
  EXPECT_THAT(bodies(fixture, kCancelFuture), ElementsAre(R"({"request_id":"r-106"})"));
  EXPECT_THAT(headers(fixture, kCancelFuture, "x-stainless-read-timeout"), ElementsAre("30"));
}

TEST_F(CancellerTest, SendsNothingWhenSwitchedOff) {  // R6.25
  fixture.session->dynamic_config.sample_cancel_enabled = false;

  abandon({"r-1"});
  fixture.session->dynamic_config.sample_cancel_enabled = true;  // the flag of that moment counts
  fixture.time.advance(1min);

  EXPECT_THAT(cancel_times(), IsEmpty());
}

TEST_F(CancellerTest, SendsABatchInParallelAndThenTheNext) {  // R6.26
  fixture.session->dynamic_config.sample_cancel_max_batch_size = 2;
  script({{.delay = 1s}, {.delay = 3s}, {.delay = 1s}});

  abandon({"r-1", "r-2", "r-3", "r-4", "r-5"});
  fixture.time.advance(1min);

  EXPECT_THAT(cancel_times(), ElementsAre(0s, 0s, 3s, 3s, 4s));
  EXPECT_THAT(bodies(fixture, kCancelFuture),
              ElementsAre(HasSubstr("r-1"),
                          HasSubstr("r-2"),
                          HasSubstr("r-3"),
                          HasSubstr("r-4"),
                          HasSubstr("r-5")));
}

TEST_F(CancellerTest, TakesABatchSizeOfNothingForOne) {  // R6.26
  fixture.session->dynamic_config.sample_cancel_max_batch_size = 0;
  script({{.delay = 1s}});

  abandon({"r-1", "r-2"});
  fixture.time.advance(1min);

  EXPECT_THAT(cancel_times(), ElementsAre(0s, 1s));
}

TEST_F(CancellerTest, WorksAgainAfterItWasIdle) {  // R6.26
  abandon({"r-1"});
  fixture.time.advance(1min);
  abandon({"r-2"});

  EXPECT_THAT(cancel_times(), ElementsAre(0s, 60s));
}

TEST_F(CancellerTest, RetriesWhatMayRecover) {  // R6.27
  script({{.status = 503}, no_connection(), {.status = 429}, {.status = 200}});

  abandon({"r-1"});
  fixture.time.advance(1min);

  EXPECT_THAT(cancel_times(), ElementsAre(0s, 1s, 3s, 7s));
  EXPECT_THAT(fixture.log.lines("could not cancel"), IsEmpty());
}

TEST_F(CancellerTest, LogsWhatCannotBeCancelledAndGoesOn) {  // R6.27
  fixture.session->dynamic_config.sample_cancel_max_batch_size = 1;
  script({{.status = 404, .body = "unknown"}, {.status = 200}});

  abandon({"r-1", "r-2"});
  fixture.time.advance(1min);

  const auto lines = fixture.log.lines("could not cancel");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].level, LogLevel::error);
  EXPECT_THAT(lines[0].text, AllOf(HasSubstr("r-1"), HasSubstr("404")));
  EXPECT_THAT(cancel_times(), SizeIs(2));
}

TEST_F(CancellerTest, DropsWhatIsQueuedWhenTheSessionEnds) {  // R6.28
  fixture.session->dynamic_config.sample_cancel_max_batch_size = 1;
  script({{.never = true}});
  abandon({"r-1", "r-2"});

  fixture.session->scope->cancel({.code = ErrorCode::closed, .message = "closed"});
  fixture.time.advance(1min);
  abandon({"r-3"});
  fixture.time.advance(1min);

  EXPECT_THAT(cancel_times(), SizeIs(1));
  EXPECT_THAT(fixture.log.lines("could not cancel"), IsEmpty());
}

// ---- R6.25: what counts as abandoning

TEST_F(CancellerTest, HearsOfACancelledSample) {  // R6.25
  fixture.server->reply(std::string(kRetrieveFuture), {{.never = true}});
  auto future = await("r-1");
  fixture.time.advance(1s);

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  fixture.time.advance(1s);
  EXPECT_THAT(bodies(fixture, kCancelFuture), ElementsAre(R"({"request_id":"r-1"})"));
}

TEST_F(CancellerTest, HearsOfASampleWhoseDeadlinePassed) {  // R6.25
  fixture.server->reply(std::string(kRetrieveFuture), {{.never = true}});
  auto future = fixture.session->runtime->spawn(
      fixture.session->scope,
      await_sample<SampleResponse>(
          fixture.session, SampleRoute{.canceller = canceller}, sample("r-1")),
      {.deadline = 10s});

  EXPECT_THAT(future.get(), IsError(ErrorCode::deadline_exceeded, _));

  fixture.time.advance(1s);
  EXPECT_THAT(cancel_times(), ElementsAre(10s));
}

TEST_F(CancellerTest, HearsOfASampleThatWaitedInABatch) {  // R6.25, R6.13
  fixture.session->config.sample_use_retrieve_futures = true;
  fixture.server->reply(std::string(kRetrieveFutures), {{.never = true}});
  const auto batch = std::make_shared<BatchPoller>(fixture.session, "s", 0);
  auto future = fixture.spawn(await_sample<SampleResponse>(
      fixture.session, SampleRoute{.batch = batch, .canceller = canceller}, sample("r-1")));
  fixture.time.advance(1s);

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  fixture.time.advance(1s);
  EXPECT_THAT(bodies(fixture, kCancelFuture), ElementsAre(R"({"request_id":"r-1"})"));
}

TEST_F(CancellerTest, DoesNotHearOfAWaitThatTimedOut) {  // R6.10, R6.25
  fixture.server->reply(std::string(kRetrieveFuture), {{.status = 408, .delay = 30s}});
  auto future = await("r-1");

  EXPECT_THAT(future.get(10s), IsError(ErrorCode::deadline_exceeded, _));
  fixture.time.advance(1min);

  EXPECT_THAT(cancel_times(), IsEmpty());
}

TEST_F(CancellerTest, DoesNotHearOfSamplesThatEnded) {  // R6.25
  fixture.server->reply(std::string(kRetrieveFuture),
                        {protobuf(sample_bytes()), json(R"({"error":"e"})"), {.status = 404}});

  EXPECT_THAT(await("r-1").get(), IsOk());
  EXPECT_THAT(await("r-2").get(), IsError(ErrorCode::request_failed, _));
  EXPECT_THAT(await("r-3").get(), IsError(ErrorCode::not_found, _));
  fixture.time.advance(1min);

  EXPECT_THAT(cancel_times(), IsEmpty());
}

// ---- D17: cancelled while it is being submitted

TEST_F(CancellerTest, SubmitsLikeAnyCall) {
  fixture.server->reply(std::string(kAsample), {accepted(), {.status = 422, .body = "no"}});

  const auto handle = submit().get();

  ASSERT_THAT(handle, IsOk());
  EXPECT_EQ(handle->request_id, "r1");
  EXPECT_THAT(submit().get(), IsError(ErrorCode::unprocessable, HasSubstr("no")));
  fixture.time.advance(1min);
  EXPECT_THAT(cancel_times(), IsEmpty());
}

TEST_F(CancellerTest, CancelsASampleThatIsAcceptedTooLate) {  // R6.28, D17
  auto late = accepted();
  late.delay = 10s;
  fixture.server->reply(std::string(kAsample), {late});
  auto future = submit();
  fixture.time.advance(1s);

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_EQ(fixture.time.elapsed(), 1s);
  fixture.time.advance(1min);
  EXPECT_THAT(cancel_times(), ElementsAre(10s));
  EXPECT_THAT(bodies(fixture, kCancelFuture), ElementsAre(R"({"request_id":"r1"})"));
}

TEST_F(CancellerTest, CancelsNothingWhenTheLateSampleIsRefused) {  // D17
  fixture.server->reply(std::string(kAsample), {{.status = 429, .delay = 10s}});
  auto future = submit();
  fixture.time.advance(1s);

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  fixture.time.advance(1min);
  EXPECT_THAT(cancel_times(), IsEmpty());
  EXPECT_THAT(fixture.server->sent(kAsample), SizeIs(1));
}

TEST_F(CancellerTest, CancelsTheSubmissionItselfWhenSwitchedOff) {  // D17, R6.25
  fixture.session->dynamic_config.sample_cancel_enabled = false;
  fixture.server->reply(std::string(kAsample), {{.never = true}});
  auto future = submit();
  fixture.time.advance(1s);

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  fixture.time.run_ready();
  EXPECT_EQ(fixture.server->in_flight(), 0U);
}

TEST_F(CancellerTest, EndsTheSubmissionWithTheSession) {  // D17
  fixture.server->reply(std::string(kAsample), {{.never = true}});
  auto future = submit();
  fixture.time.advance(1s);

  fixture.session->scope->cancel({.code = ErrorCode::closed, .message = "closed"});

  EXPECT_THAT(future.get(), IsError(ErrorCode::closed, _));
  EXPECT_EQ(fixture.server->in_flight(), 0U);
}

}  // namespace
}  // namespace tinker::session::canceller_test
