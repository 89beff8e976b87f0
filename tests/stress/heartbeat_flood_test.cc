// Heartbeats in real time while ten thousand samples are under way. Takes most of a minute.

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/dispatch.h"
#include "session/future_poller.h"
#include "session/holder.h"
#include "session/json_call.h"
#include "stress/process_usage.h"
#include "stress/stress_client.h"

namespace tinker::stress::heartbeat_flood_test {
namespace {

using session::Holder;
using session::SessionCore;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kSamples = 10'000;
constexpr seconds kFlood{42};

async::Task<UntypedApiFuture> submit(std::shared_ptr<SessionCore> session) {
  return session::call_json<UntypedApiFuture>(
      std::move(session),
      api::Call{.path = "/api/v1/asample",
                .body = std::make_shared<const std::string>(R"({"num_samples":1})"),
                .pool = api::PoolKind::sample,
                .max_retries = 0});
}

/// Samples, one after the other, until the session closes.
async::Task<> sample_on(std::shared_ptr<SessionCore> session) {
  while (true) {
    auto submission =
        session::submit_sample(session, 1000, [session](const auto&) { return submit(session); });
    TINKER_CO_TRY(const auto promise, co_await std::move(submission));
    session::PollRequest request;
    request.request_id = promise.request_id;
    request.request_type = "Sample";
    request.is_protobuf = true;
    auto poll = session::poll_future(session, std::move(request));
    TINKER_CO_TRY(co_await std::move(poll));
  }
}

/// When heartbeats reached the server, in milliseconds after the first.
std::vector<int> heartbeats(const StressClient& client) {
  const auto answer = client.start({.method = http::Method::get, .path = "/stats"}).get();
  EXPECT_TRUE(answer.ok());
  const std::string body = answer.ok() ? answer->body : "[]";
  std::istringstream list(body.substr(body.find('[') + 1));
  std::vector<int> out;
  int at = 0;
  for (char comma = 0; list >> at; list >> comma) out.push_back(at);
  return out;
}

// R4.2, R4.3
TEST(HeartbeatFlood, HeartbeatsKeepComingWhileTenThousandSamplesAreUnderWay) {
  raise_descriptor_limit();
  const ServerProcess server({"--poll-ms", "0-4000"});
  const StressClient client(server, Wire::h2);
  const auto& core = client.runtime.core();
  auto opening = core->spawn(core->scope(),
                             Holder::open(core,
                                          {.base_url = server.tls_url(),
                                           .api_key = Secret("tml-stress-key"),
                                           .transport = client.transport},
                                          Holder::Kind::with_session));
  const auto holder = opening.get();
  ASSERT_TRUE(holder.ok()) << holder.error().to_string();

  std::vector<Future<void>> samples;
  for (int i = 0; i < kSamples; ++i) {
    samples.push_back(core->spawn((*holder)->core()->scope, sample_on((*holder)->core())));
  }
  std::this_thread::sleep_for(kFlood);
  const auto beats = heartbeats(client);
  const auto finished = std::count_if(
      samples.begin(), samples.end(), [](const auto& sample) { return sample.is_ready(); });
  core->loop()->post([holder = *holder] {
    holder->end({.code = ErrorCode::cancelled, .message = "the test is over"});
  });
  for (auto& sample : samples) EXPECT_EQ(sample.get().error().code, ErrorCode::cancelled);

  std::printf("heartbeats after");
  for (const int at : beats) std::printf(" %.1f", at / 1000.0);
  std::printf(" s\n");
  EXPECT_EQ(finished, 0) << "samples failed";
  EXPECT_GE(beats.size(), 3U);
  for (std::size_t i = 1; i < beats.size(); ++i) EXPECT_LE(beats[i] - beats[i - 1], 15'000);
}

}  // namespace
}  // namespace tinker::stress::heartbeat_flood_test
