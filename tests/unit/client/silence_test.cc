// Nothing waits in silence: who waits, why, since when, until when, and what to set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::silence_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

const ModelInput kPrompt = ModelInput::from_tokens({1, 2, 3});

testing::FakeReply refused() {
  return {.error = Error{.code = ErrorCode::connection_failed, .message = "connection refused"}};
}

std::vector<std::string> warnings(const LogCapture& log) {
  std::vector<std::string> out;
  for (const auto& line : log.lines()) {
    if (line.level == LogLevel::warn) out.push_back(line.text);
  }
  return out;
}

TEST(Silence, FirstContactFailsFast) {
  ClientFixture f;
  f.server->reply("/client/config", {refused()});

  const auto trainer = f.connect().create_lora_training_client("llama").get();

  EXPECT_THAT(trainer,
              IsError(ErrorCode::connection_failed,
                      AllOf(HasSubstr("no answer from http://server.test within 15 s"),
                            HasSubstr("connection refused"))));
  EXPECT_EQ(f.time.elapsed(), 15s);
  EXPECT_THAT(warnings(f.log), SizeIs(1));
}

TEST(Silence, TheStartTimeoutIsAnOption) {
  ClientFixture f;
  f.server->reply("/client/config", {{.never = true}});
  auto options = f.options();
  options.start_timeout = 3s;

  EXPECT_THAT(f.connect(options).get_server_capabilities().get(),
              IsError(ErrorCode::timed_out, HasSubstr("within 3 s (start_timeout)")));
}

TEST(Silence, ATrainingRequestThatIsRefusedSaysSo) {
  ClientFixture f;
  const auto trainer = f.connect().create_lora_training_client("llama").get().value();
  f.server->reply("/forward_backward", {{.status = 500, .body = "boom"}});

  const auto output = trainer.forward_backward(make_data(1), LossFn::cross_entropy).get();

  EXPECT_THAT(output, IsError(ErrorCode::server_error, HasSubstr("boom")));
  const auto first = f.log.lines("forward_backward: 2 attempts failed");
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_THAT(first[0].text,
              AllOf(HasSubstr("POST http://server.test/api/v1/forward_backward: error code: 500 - "
                              "boom; goes on for up to 29"),
                    HasSubstr("(retry time of 300 s)")));
  EXPECT_THAT(f.log.lines("forward_backward takes long: 60 s so far, failing; attempt "),
              SizeIs(1));
  EXPECT_THAT(f.log.lines("forward_backward takes long: 270 s so far"), SizeIs(1));
}

TEST(Silence, SoDoesTheCreationOfAModel) {
  ClientFixture f;
  f.server->reply("/create_model", {{.status = 503}});

  ASSERT_FALSE(f.connect().create_lora_training_client("llama").get().ok());

  const auto lines = f.log.lines("create_model: 2 attempts failed");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0].text, HasSubstr("; goes on for up to 9 more attempts; with({.deadline"));
}

struct SilentSampling : ClientFixture {
  explicit SilentSampling(const std::string& config = "{}") : ClientFixture(config) {}

  ServiceClient service = connect();
  SamplingClient sampler = service.create_sampling_client({.base_model = "llama"}).get().value();
};

TEST(Silence, ASampleThatIsRefusedIsNotCalledSent) {
  SilentSampling f;
  f.server->reply("/asample", {{.status = 500, .body = "boom"}});
  auto sample = f.sampler.sample(kPrompt, {});

  f.time.advance(65s);

  EXPECT_THAT(f.log.lines("sample: 2 attempts failed in 1 s, the last: POST "), SizeIs(1));
  const auto lines = f.log.lines("sample takes long");
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[1].text,
              AllOf(HasSubstr("60 s so far, failing; attempt 6 failed"),
                    HasSubstr("boom"),
                    HasSubstr("(RetryConfig::progress_timeout)")));
  sample.cancel();
}

TEST(Silence, TheClockOfASampleGoesOnWhenItIsSentAgain) {
  SilentSampling f;
  f.results["Sample"] = {.status = 410, .body = "expired", .delay = 20s};
  auto sample = f.sampler.sample(kPrompt, {});

  f.time.advance(125s);

  EXPECT_GE(f.server->sent("/asample").size(), 4U);
  EXPECT_THAT(f.log.lines("takes long: 30 s so far"), SizeIs(1));
  EXPECT_THAT(f.log.lines("takes long: 60 s so far"), SizeIs(1));
  EXPECT_THAT(f.log.lines("takes long: 120 s so far"), SizeIs(1));
  EXPECT_THAT(f.log.lines("sample: 2 attempts failed in "), SizeIs(1));
  sample.cancel();
}

TEST(Silence, BackPressureIsNoFault) {
  SilentSampling f;
  f.server->reply("/asample",
                  {{.status = 429}, {.status = 429}, {.status = 429}, f.accept_sample()});

  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(), IsOk());

  EXPECT_THAT(warnings(f.log), IsEmpty());
}

TEST(Silence, ADeadlineNamesTheCauseForEverySample) {
  SilentSampling f;
  f.server->reply("/retrieve_future", {refused()});
  const auto sampler = f.sampler.with({.deadline = 20s});
  std::vector<Future<SampleResponse>> samples;
  for (int i = 0; i < 100; ++i) samples.push_back(sampler.sample(kPrompt, {}));

  for (auto& sample : samples) {
    EXPECT_THAT(sample.get(),
                IsError(ErrorCode::deadline_exceeded,
                        AllOf(HasSubstr("; last attempt 5 s ago: POST "),
                              HasSubstr("retrieve_future: connection refused"))));
  }
}

TEST(Silence, SoItDoesWhereResultsArePolledInBatches) {
  SilentSampling f(R"({"sample_use_retrieve_futures":true})");
  f.server->reply("/retrieve_futures", {refused()});
  const auto sampler = f.sampler.with({.deadline = 20500ms});

  const auto sample = sampler.sample(kPrompt, {}).get();

  EXPECT_THAT(sample,
              IsError(ErrorCode::deadline_exceeded,
                      AllOf(HasSubstr("; last attempt 0.5 s ago: POST "),
                            HasSubstr("retrieve_futures: connection refused"))));
  EXPECT_THAT(f.log.lines("the batched poll of results: 2 attempts failed in "), SizeIs(1));
}

TEST(Silence, WhoWaitsInLineLearnsWhatHoldsTheLineUp) {
  ClientFixture f;
  const auto trainer =
      f.connect().create_lora_training_client("llama").get().value().with({.deadline = 20s});
  f.server->reply("/forward_backward", {refused()});
  auto output = trainer.forward_backward(make_data(1), LossFn::cross_entropy);

  const auto step = trainer.optim_step(AdamParams()).get();

  EXPECT_THAT(step.error().message, HasSubstr("connection refused"));
  EXPECT_THAT(output.get(), IsError(ErrorCode::deadline_exceeded, HasSubstr("connection refused")));
}

}  // namespace
}  // namespace tinker::client::silence_test
