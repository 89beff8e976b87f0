// Samplers that a server slows down, or that refuse to repeat.

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::backpressure_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using namespace std::chrono_literals;

const ModelInput kPrompt = ModelInput::from_tokens({1, 2, 3});

struct Sampling : ClientFixture {
  explicit Sampling(const char* config = "{}", SamplingClientOptions options = {})
      : ClientFixture(config),
        sampler(service.create_sampling_client({.base_model = "llama"}, std::move(options))
                    .get()
                    .value()) {}

  [[nodiscard]] std::vector<Future<SampleResponse>> start(int count) const {
    std::vector<Future<SampleResponse>> out;
    for (int i = 0; i < count; ++i) out.push_back(sampler.sample(kPrompt, {}));
    return out;
  }
  [[nodiscard]] std::multiset<std::int64_t> seq_ids() const {
    std::multiset<std::int64_t> out;
    for (const auto& body : bodies("/asample")) {
      out.insert(wire::decode_json<SampleRequest>(body).value().seq_id.value());
    }
    return out;
  }
  /// When samples reached the server, less the first `skip`.
  [[nodiscard]] std::vector<std::chrono::nanoseconds> times(std::size_t skip = 0) const {
    std::vector<std::chrono::nanoseconds> out;
    for (const auto& sent : server->sent("/asample")) {
      if (skip > 0) {
        --skip;
      } else {
        out.push_back(sent.at);
      }
    }
    return out;
  }

  ServiceClient service = connect();
  SamplingClient sampler;
};

TEST(Backpressure, NothingIsSentUntilTheBackoffEnds) {  // R10.6
  Sampling f;
  int asked = 0;
  f.server->handle("/asample", [&](const http::Request&) {
    return ++asked == 1 ? FakeReply{.status = 429} : f.accept_sample();
  });
  auto first = f.sampler.sample(kPrompt, {});
  f.time.run_ready();
  ASSERT_EQ(asked, 1);

  f.time.advance(300ms);
  auto others = f.start(20);

  EXPECT_THAT(when_all(std::move(others)).get(), IsOkAndHolds(SizeIs(20)));
  EXPECT_THAT(first.get(), IsOk()) << "repeated by itself";
  EXPECT_THAT(f.times(1), AllOf(SizeIs(21), Each(Ge(1s))));
}

TEST(Backpressure, EachSampleHasAnIdOfItsOwn) {  // R10.2
  Sampling f;
  int asked = 0;
  f.server->handle("/asample", [&](const http::Request&) {
    return ++asked == 1 ? FakeReply{.status = 429} : f.accept_sample();
  });

  EXPECT_THAT(when_all(f.start(21)).get(), IsOk());

  std::multiset<std::int64_t> expected = {0};  // the refused one, which keeps its id
  for (std::int64_t i = 0; i <= 20; ++i) expected.insert(i);
  EXPECT_EQ(f.seq_ids(), expected);
}

TEST(Backpressure, IsForgottenTenSecondsAfterItsEnd) {  // R10.4, R10.5
  Sampling f;
  int asked = 0;
  f.server->handle("/asample", [&](const http::Request&) {
    auto reply = ++asked == 1 ? FakeReply{.status = 429} : f.accept_sample();
    reply.delay = asked == 1 ? 0s : 1s;
    return reply;
  });
  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(), IsOk());
  const auto throttled = f.times().size();

  EXPECT_THAT(when_all(f.start(20)).get(), IsOk());
  const auto slow = f.times(throttled);
  EXPECT_EQ(std::ranges::count(slow, slow.front()), 10) << "ten at a time";

  f.time.advance(11s);
  const auto before = f.times().size();
  EXPECT_THAT(when_all(f.start(20)).get(), IsOk());
  const auto quick = f.times(before);
  EXPECT_EQ(std::ranges::count(quick, quick.front()), 20) << "all at once";
}

// ---- retries switched off

struct WithoutRetries : Sampling {
  WithoutRetries() : Sampling("{}", {.retry = {.enable_retry_logic = false}}) {}
};

TEST(SamplingWithoutRetries, ARefusalComesOutAfterOneRequest) {  // R12.5
  const WithoutRetries f;
  f.server->reply("/asample", {{.status = 400, .body = R"({"detail":"bad prompt"})"}});

  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(),
              IsError(ErrorCode::bad_request, HasSubstr("bad prompt")));

  EXPECT_THAT(f.times(), ElementsAre(0s));
}

TEST(SamplingWithoutRetries, AFailedSampleIsNotDrawnAgain) {  // R12.5
  WithoutRetries f;
  f.results["Sample"] = {.status = 410, .body = "promise expired"};

  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(),
              IsError(ErrorCode::expired, HasSubstr("expired")));

  EXPECT_THAT(f.times(), SizeIs(1)) << "with retries it would be drawn again";
}

TEST(SamplingWithoutRetries, AFailureSlowsNobodyDown) {
  WithoutRetries f;
  int asked = 0;
  f.server->handle("/asample", [&](const http::Request&) {
    return ++asked == 1 ? FakeReply{.status = 400, .body = "bad"} : f.accept_sample();
  });
  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(), IsError(ErrorCode::bad_request, _));

  EXPECT_THAT(when_all(f.start(20)).get(), IsOk());

  EXPECT_THAT(f.times(), AllOf(SizeIs(21), Each(0s))) << "no back-off";
}

/// Submitting is repeated all the same: only whole samples are not.
TEST(SamplingWithoutRetries, AServerThatIsDownIsAskedForFiveMinutes) {  // R5.4.2
  const WithoutRetries f;
  f.server->reply("/asample", {{.status = 500, .body = "down"}});

  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(),
              IsError(ErrorCode::server_error, HasSubstr("down")));

  EXPECT_EQ(*f.seq_ids().begin(), *f.seq_ids().rbegin()) << "one sample";
  EXPECT_GE(f.time.elapsed(), 300s);
  EXPECT_LT(f.time.elapsed(), 331s);
}

// ---- limits

TEST(Backpressure, OneAtATimeWhereTheServerWantsThat) {  // R12.2
  Sampling f(R"({"sample_max_concurrent_requests":1})");
  f.results["Sample"] = ClientFixture::protobuf(
      wire::encode_proto(SampleResponse{.sequences = {{.tokens = {7}}}}).value());
  f.results["Sample"].delay = 5s;

  EXPECT_THAT(when_all(f.start(3)).get(), IsOk());

  EXPECT_THAT(f.times(), ElementsAre(0s, 5s, 10s)) << "each after the result of the one before";
}

TEST(Backpressure, BoundsWhatIsUnderWayHoweverMuchIsAskedFor) {
  Sampling f(R"({"sample_max_concurrent_requests":50})");
  f.results["Sample"] = {.never = true};
  std::size_t polls = 0;
  f.server->handle("/retrieve_future", [&](const http::Request&) {
    ++polls;
    return FakeReply{.never = true};
  });

  auto samples = f.start(5000);
  f.time.advance(1s);

  EXPECT_EQ(polls, 50U);
  EXPECT_EQ(f.times().size(), 50U);
  EXPECT_LE(f.server->in_flight(), 51U) << "beside a heartbeat or a report, nothing";
  for (auto& sample : samples) sample.cancel();
  f.time.run_ready();
  EXPECT_EQ(f.server->in_flight(), 0U);
}

TEST(Backpressure, BoundsTheBytesOfLongPrompts) {  // R10.4
  Sampling f(R"({"sample_dispatch_bytes_semaphore_size":100000})");
  f.server->handle("/asample", [&](const http::Request&) {
    auto reply = f.accept_sample();
    reply.delay = 1s;
    return reply;
  });
  const auto prompt = ModelInput::from_tokens(std::vector<std::int32_t>(6000, 1));
  std::vector<Future<SampleResponse>> samples;
  for (int i = 0; i < 6; ++i) samples.push_back(f.sampler.sample(prompt, {}));

  EXPECT_THAT(when_all(std::move(samples)).get(), IsOk());

  EXPECT_THAT(f.times(), ElementsAre(0s, 0s, 1s, 1s, 2s, 2s)) << "two of 60,000 bytes at a time";
}

}  // namespace
}  // namespace tinker::client::backpressure_test
