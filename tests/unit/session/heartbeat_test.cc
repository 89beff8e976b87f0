#include "session/heartbeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/backoff.h"
#include "session/dispatch.h"
#include "session/future_poller.h"
#include "unit/session/sample_support.h"

namespace tinker::session::heartbeat_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

/// A sample from its submission to its result.
async::Task<PollResult> sample(std::shared_ptr<SessionCore> session) {
  auto submission =
      submit_sample(session, 1000, [session](const auto&) { return asample(session); });
  TINKER_CO_TRY(const auto promise, co_await std::move(submission));
  auto poll = poll_future(
      session, {.request_id = promise.request_id, .request_type = "Sample", .is_protobuf = true});
  co_return co_await std::move(poll);
}

// R4.2: heartbeats have connections of their own and wait for nothing that samples wait for.
TEST(Heartbeat, IsOnTimeDuringAFloodOfTenThousandSamples) {
  SessionFixture fixture;
  fixture.session->backoff =
      shared_backoff(*fixture.session->runtime, "http://server.test", Secret("tml-secret-key"));
  fixture.server->reply("/api/v1/session_heartbeat", {{.body = R"({"type":"session_heartbeat"})"}});
  fixture.server->reply("/api/v1/asample",
                        {{.body = R"({"request_id":"r-1"})", .delay = milliseconds(20)}});
  fixture.server->reply("/api/v1/retrieve_future", {{.status = 408, .delay = seconds(25)}});
  auto beats = fixture.spawn(heartbeat(fixture.session));
  std::vector<Future<PollResult>> samples;
  for (int i = 0; i < 10'000; ++i) samples.push_back(fixture.spawn(sample(fixture.session)));

  fixture.time.advance(seconds(60));

  EXPECT_THAT(
      times(fixture, "/api/v1/session_heartbeat"),
      ElementsAre(seconds(10), seconds(20), seconds(30), seconds(40), seconds(50), seconds(60)));
  EXPECT_EQ(fixture.server->sent("/api/v1/asample").size(), 10'000U);
  EXPECT_EQ(fixture.server->in_flight(), 10'000U);  // all still wait for their results
  EXPECT_FALSE(beats.is_ready());
}

}  // namespace
}  // namespace tinker::session::heartbeat_test
