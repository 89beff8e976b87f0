#include "tinker/sampling_client.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "support/hub_files.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::sampling_client_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using namespace std::chrono_literals;

const ModelInput kPrompt = ModelInput::from_tokens({1, 2, 3});

struct Sampling : ClientFixture {
  explicit Sampling(const std::string& config = "{}") : ClientFixture(config) {}

  void answer(const SampleResponse& response) {
    results["Sample"] = protobuf(wire::encode_proto(response).value());
  }
  [[nodiscard]] std::vector<std::int64_t> seq_ids() const {
    std::vector<std::int64_t> out;
    for (const auto& body : bodies("/asample")) {
      out.push_back(wire::decode_json<SampleRequest>(body).value().seq_id.value());
    }
    return out;
  }

  ServiceClient service = connect();
  SamplingClient sampler = service.create_sampling_client({.base_model = "llama"}).get().value();
};

TEST(SamplingClient, SamplesAndNamesTheSequences) {  // R10.7, R10.13
  Sampling f;

  const auto answer = f.sampler.sample(kPrompt, {.max_tokens = 4, .temperature = 0.5}).get();

  ASSERT_THAT(answer, IsOk());
  ASSERT_THAT(answer->sequences, SizeIs(1));
  EXPECT_THAT(answer->sequences[0].tokens, ElementsAre(7));
  EXPECT_EQ(answer->sequences[0].sequence_id, "q-1");
  EXPECT_THAT(
      f.bodies("/asample"),
      ElementsAre(
          R"({"num_samples":1,"prompt":{"chunks":[{"tokens":[1,2,3],"type":"encoded_text"}]},"sampling_params":{"max_tokens":4,"temperature":0.5,"top_k":-1,"top_p":1.0},"sampling_session_id":"s-1:sample:0","seq_id":0,"prompt_logprobs":false,"topk_prompt_logprobs":0,"topk_sample_logprobs":0,"prompt_alt_tokens_k":0,"record_stability_info":false,"type":"sample"})"));
  const auto sent = f.server->sent("/asample")[0].request;
  EXPECT_EQ(sent.headers.find("x-tinker-sampling-backpressure"), "1");
}

TEST(SamplingClient, AsksForEveryReadOut) {  // R10.7, R10.14
  Sampling f;
  const auto sampler =
      f.service.create_sampling_client({.base_model = "llama"}, {.record_stability_info = true})
          .get()
          .value();
  SampleResponse response = {.sequences = {{.tokens = {7}}},
                             .prompt_logprobs = {std::nanf(""), std::nanf(""), -1.0F}};
  response.prompt_alt_tokens =
      PromptAltTokens{TensorData(std::vector<std::int64_t>(4), TensorData::Shape{2, 2}),
                      TensorData(std::vector<float>(4), TensorData::Shape{2, 2})};
  f.answer(response);

  const auto answer = sampler
                          .sample(kPrompt,
                                  {},
                                  {.num_samples = 1,
                                   .include_prompt_logprobs = true,
                                   .topk_prompt_logprobs = 2,
                                   .topk_sample_logprobs = 3,
                                   .target_prompt_logprobs = TensorData(
                                       std::vector<std::int64_t>{5, -1}, TensorData::Shape{2, 1}),
                                   .prompt_alt_tokens_k = 2,
                                   .prompt_logprobs_last_n = 1})
                          .get();

  ASSERT_THAT(answer, IsOk());
  EXPECT_THAT(
      f.bodies("/asample")[0],
      AllOf(
          HasSubstr(R"("prompt_logprobs":true,"topk_prompt_logprobs":2,"topk_sample_logprobs":3)"),
          HasSubstr(R"("target_prompt_logprobs":{"data":[5,-1],"dtype":"int64","shape":[2,1]})"),
          HasSubstr(R"("prompt_alt_tokens_k":2,"prompt_logprobs_last_n":1)"),
          HasSubstr(R"("record_stability_info":true)")));
}

TEST(SamplingClient, RefusesWhatMakesNoSense) {  // R10.11
  Sampling f;
  const auto with = [&](SampleOptions options) {
    return f.sampler.sample(kPrompt, {}, std::move(options)).get();
  };

  EXPECT_THAT(with({.target_prompt_logprobs = TensorData(std::vector<float>{1.0F})}),
              IsError(ErrorCode::invalid_argument, HasSubstr("expected int64")));
  EXPECT_THAT(with({.target_prompt_logprobs = TensorData(std::vector<std::int64_t>{1})}),
              IsError(ErrorCode::invalid_argument, HasSubstr("2-D")));
  EXPECT_THAT(with({.prompt_alt_tokens_k = -1}),
              IsError(ErrorCode::invalid_argument, HasSubstr("-1")));
  EXPECT_THAT(with({.include_prompt_logprobs = true, .prompt_logprobs_last_n = 0}),
              IsError(ErrorCode::invalid_argument, HasSubstr("found 0")));
  EXPECT_THAT(with({.prompt_logprobs_last_n = 1}),
              IsError(ErrorCode::invalid_argument, HasSubstr("include_prompt_logprobs")));
  EXPECT_THAT(f.server->sent("/asample"), IsEmpty());
}

TEST(SamplingClient, RefusesAnswersThatLackWhatWasAskedFor) {  // R10.12
  Sampling f;
  f.answer({.sequences = {{.tokens = {7}}}, .prompt_logprobs = {std::nanf(""), -2.0F, -1.0F}});

  EXPECT_THAT(f.sampler.sample(kPrompt, {}, {.prompt_alt_tokens_k = 2}).get(),
              IsError(ErrorCode::invalid_response, HasSubstr("alternative")));
  EXPECT_THAT(
      f.sampler.sample(kPrompt, {}, {.include_prompt_logprobs = true, .prompt_logprobs_last_n = 1})
          .get(),
      IsError(ErrorCode::invalid_response, HasSubstr("position 1 of 3")));
  EXPECT_THAT(f.bodies("/asample"), SizeIs(2)) << "not repeated";
}

TEST(SamplingClient, NeedsAnIdForEachSequenceIfThereAreAny) {  // R10.13, D21
  Sampling f;
  f.answer({.sequences = {{.tokens = {7}}, {.tokens = {8}}}});
  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(),
              IsError(ErrorCode::invalid_response, HasSubstr("1 ids, found 2")));

  f.server->reply("/asample", {{.body = R"({"request_id":"r-9"})"}});
  const auto answer = f.sampler.sample(kPrompt, {}).get();
  ASSERT_THAT(answer, IsOk()) << "a server without ids is good enough";
  EXPECT_EQ(answer->sequences[1].sequence_id, "");
}

TEST(SamplingClient, AnAttemptThatIsRepeatedHasAnIdOfItsOwn) {  // R10.2
  Sampling f;
  f.server->reply(
      "/asample",
      {{.status = 429}, {.body = R"({"request_id":"r-8","sample_sequence_ids":["q-8"]})"}});
  int polls = 0;
  f.server->handle("/retrieve_future", [&](const http::Request& request) {
    return ++polls == 1 ? FakeReply{.status = 410} : f.result(request);
  });

  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(), IsOk());

  EXPECT_THAT(f.seq_ids(), ElementsAre(0, 0, 1)) << "429 repeats it, an expired promise does not";
}

TEST(SamplingClient, DoesNotRepeatWhereTheServerWantsThat) {
  Sampling f(R"({"sample_no_retries":true})");
  f.server->reply("/retrieve_future", {{.status = 410}});

  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(), IsError(ErrorCode::expired, _));
  EXPECT_THAT(f.bodies("/asample"), SizeIs(1));
}

TEST(SamplingClient, ComputesLogprobs) {  // R10.8
  Sampling f;
  f.answer({.sequences = {{.tokens = {7}}}, .prompt_logprobs = {std::nanf(""), -2.0F, -1.0F}});

  EXPECT_THAT(f.sampler.compute_logprobs(kPrompt).get(),
              IsOkAndHolds(ElementsAre(std::nullopt, std::optional(-2.0F), std::optional(-1.0F))));

  EXPECT_THAT(f.bodies("/asample")[0],
              AllOf(HasSubstr(R"("max_tokens":1)"), HasSubstr(R"("prompt_logprobs":true)")));
}

TEST(SamplingClient, PollsInBatchesWhereTheServerWantsThat) {
  Sampling f(R"({"sample_use_retrieve_futures":true})");
  f.server->reply(
      "/retrieve_futures",
      {{.body = R"({"completions":[{"state":"finished","request_id":"r-1"}],"cursor":1})"},
       {.never = true}});

  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(), IsOk());

  EXPECT_THAT(f.bodies("/retrieve_futures")[0],
              AllOf(HasSubstr("s-1:sample:0"), HasSubstr(R"("cloned_sampler_id":0)")));
}

TEST(SamplingClient, CancelsOnTheServerWhatNobodyWaitsFor) {  // R6.25
  Sampling f;
  f.server->reply("/client/dynamic_config", {{.body = R"({"sample_cancel_enabled":true})"}});
  f.server->reply("/cancel_future", {{.body = "{}"}});
  f.server->reply("/retrieve_future", {{.never = true}});
  f.time.advance(301s);  // the configuration is read again
  auto sample = f.sampler.sample(kPrompt, {});
  f.time.run_ready();

  sample.cancel();

  EXPECT_THAT(sample.get(), IsError(ErrorCode::cancelled, _));
  f.time.run_ready();
  EXPECT_THAT(f.bodies("/cancel_future"), ElementsAre(R"({"request_id":"r-1"})"));
}

TEST(SamplingClient, NamesItsBaseModel) {  // R10.9
  Sampling f;
  f.server->reply("/samplers/s-1:sample:0",
                  {{.body = R"({"sampler_id":"s-1:sample:0","base_model":"llama"})"}});

  EXPECT_THAT(f.sampler.get_base_model().get(), IsOkAndHolds("llama"));
}

TEST(SamplingClient, LoadsTheTokenizerOfItsBaseModel) {  // R16.1, R16.3
  Sampling f;
  const testing::TemporaryFolder cache;
  testing::put_into_cache(cache, "models--org--model");
  const auto hub = Hub::open({.cache = cache.path(),
                              .is_offline = true,
                              .transport = f.server,
                              .runtime = f.time.runtime()})
                       .value();
  f.server->reply("/samplers/s-1:sample:0",
                  {{.body = R"({"sampler_id":"s-1:sample:0","base_model":"org/model/variant"})"}});

  const auto tokenizer = f.sampler.get_tokenizer(hub).get();
  ASSERT_THAT(tokenizer, IsOk());
  EXPECT_THAT(tokenizer->encode("abb"), ElementsAre(2, 1));
  EXPECT_THAT(f.sampler.get_tokenizer().get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("virtual time has no network")));
}

TEST(SamplingClient, CanBeHandedToAnotherProcess) {  // R17.1, R17.2, R10.15
  Sampling f;
  const auto handle = f.sampler.get_sampler_handle().get().value();
  EXPECT_THAT(handle, Not(HasSubstr("tml-secret-key")));
  const auto before = f.server->sent().size();

  const auto copy =
      restore_sampler(
          handle,
          {.api_key = Secret("tml-mine"), .transport = f.server, .runtime = f.time.runtime()},
          f.variables())
          .get();

  ASSERT_THAT(copy, IsOk());
  EXPECT_EQ(copy->sampling_session_id(), "s-1:sample:0");
  EXPECT_EQ(f.server->sent().size(), before) << "nothing is sent until first use";
  EXPECT_THAT(copy->sample(kPrompt, {}).get(), IsOk());
  EXPECT_GE(f.seq_ids()[0], 1'000'000'000);
  EXPECT_EQ(f.seq_ids()[0] % 1'000'000'000, 0);
  EXPECT_EQ(f.server->sent("/asample")[0].request.headers.find("x-api-key"), "tml-mine");
}

TEST(SamplingClient, ACopyAsksForItsNumberWhereTheServerCounts) {  // R10.15
  Sampling f(R"({"sample_join_sampling_session":true})");
  f.server->reply("/join_sampling_session", {{.status = 422}, {.body = R"({"client_counter":5})"}});
  const auto handle = f.sampler.get_sampler_handle().get().value();
  const auto copy =
      restore_sampler(
          handle,
          {.api_key = Secret("tml-mine"), .transport = f.server, .runtime = f.time.runtime()},
          f.variables())
          .get()
          .value();

  EXPECT_THAT(copy.sample(kPrompt, {}).get(), IsError(ErrorCode::unprocessable, _));
  auto first = copy.sample(kPrompt, {});
  auto second = copy.sample(kPrompt, {});
  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(second.get(), IsOk());

  EXPECT_THAT(f.bodies("/join_sampling_session"), SizeIs(2)) << "again after a failure, then never";
  EXPECT_THAT(f.seq_ids(), ElementsAre(5'000'000'000, 5'000'000'001));
  EXPECT_THAT(f.sampler.sample(kPrompt, {}).get(), IsOk());
  EXPECT_EQ(f.seq_ids().back(), 0) << "the original counts from 0";
}

TEST(SamplingClient, RefusesAHandleThatIsNone) {
  EXPECT_THAT(SamplingClient::from_sampler_handle("!").get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("base64")));
}

TEST(SamplingClient, ThousandsCanBeUnderWay) {  // R10.4
  Sampling f;
  f.results["Sample"] = ClientFixture::protobuf(
      wire::encode_proto(SampleResponse{.sequences = {{.tokens = {7}}}}).value());
  f.results["Sample"].delay = 10s;
  std::vector<Future<SampleResponse>> samples;
  for (int i = 0; i < 1500; ++i) samples.push_back(f.sampler.sample(kPrompt, {}));

  const auto all = when_all(std::move(samples)).get();

  ASSERT_THAT(all, IsOk());
  EXPECT_THAT(*all, SizeIs(1500));
  EXPECT_EQ(f.time.elapsed(), 10s) << "slots are given back when a sample is accepted";
}

}  // namespace
}  // namespace tinker::client::sampling_client_test
