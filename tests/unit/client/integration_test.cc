// Whole stories, from the session to the last result.

#include <cmath>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::integration_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using namespace std::chrono_literals;

/// 1025 data, one more than a request takes: a batch of two parts, a step and a save, none of them
/// awaited before the next call.
struct Loop : ClientFixture {
  explicit Loop(const char* config = "{}") : ClientFixture(config) {
    server->handle("/retrieve_future",
                   [this](const http::Request& request) { return result_of_part(request); });
  }
  /// The first part has three outputs, the second one.
  FakeReply result_of_part(const http::Request& request) {
    if (request.headers.find("X-Tinker-Request-Type") != "ForwardBackward") return result(request);
    const auto asked = wire::decode_json<FutureRetrieveRequest>(*request.body);
    const bool is_first = data_of[asked->request_id] == 1024;
    ForwardBackwardOutput output = {.loss_fn_output_type = "scalar"};
    output.loss_fn_outputs.resize(is_first ? 3 : 1,
                                  {{"logprobs", std::vector<float>{is_first ? -1.0F : -2.0F}}});
    output.metrics = {{"loss:mean", is_first ? 2.0 : 4.0}, {"grad:sum", is_first ? 10.0 : 20.0}};
    return protobuf(wire::encode_proto(output).value());
  }
  /// Each submission as it came, with its seq_id.
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> arrived() const {
    std::vector<std::pair<std::string, std::int64_t>> out;
    for (const auto& sent : server->sent()) {
      const auto path = sent.path.substr(sent.path.rfind('/') + 1);
      const auto& body = *sent.request.body;
      if (path == "forward_backward") {
        out.emplace_back(path, wire::decode_proto<ForwardBackwardRequest>(body).value().seq_id);
      } else if (path == "optim_step") {
        out.emplace_back(path, wire::decode_json<OptimStepRequest>(body).value().seq_id.value());
      } else if (path == "save_weights_for_sampler") {
        out.emplace_back(
            path, wire::decode_json<SaveWeightsForSamplerRequest>(body).value().seq_id.value());
      }
    }
    return out;
  }
  Result<ForwardBackwardOutput> run() {
    const auto service = connect();
    const auto trainer = service.create_lora_training_client("llama").get().value();
    auto gradients = trainer.forward_backward(make_data(1025), LossFn::cross_entropy);
    auto step = trainer.optim_step(AdamParams());
    auto save = trainer.save_weights_for_sampler("a");
    EXPECT_THAT(
        save.get(),
        IsOkAndHolds(Field(&SaveWeightsForSamplerResponse::path, HasSubstr("sampler_weights/a"))));
    EXPECT_THAT(step.get(), IsOk());
    return gradients.get();
  }
};

TEST(TrainingLoop, NumbersAndOrdersRequestsThatNobodyAwaits) {  // R7.1, R7.2, R7.7
  Loop f(R"({"parallel_fwdbwd_chunks":false})");

  EXPECT_THAT(f.run(), IsOk());

  EXPECT_THAT(f.arrived(),
              ElementsAre(Pair("forward_backward", 1),
                          Pair("forward_backward", 2),
                          Pair("optim_step", 3),
                          Pair("save_weights_for_sampler", 4)));
  EXPECT_THAT(f.batches[0].data, SizeIs(1024));
  EXPECT_THAT(f.batches[1].data, SizeIs(1));
}

TEST(TrainingLoop, SendsTheFirstPartLastWhereTheyTravelTogether) {  // R7.7
  Loop f;

  EXPECT_THAT(f.run(), IsOk());

  EXPECT_THAT(f.arrived(),
              ElementsAre(Pair("forward_backward", 2),
                          Pair("forward_backward", 1),
                          Pair("optim_step", 3),
                          Pair("save_weights_for_sampler", 4)));
}

TEST(TrainingLoop, MakesOneResultOfAllParts) {  // R7.10, R8.1, R8.5
  Loop f;

  const auto output = f.run();

  ASSERT_THAT(output, IsOk());
  ASSERT_THAT(output->loss_fn_outputs, SizeIs(4));
  EXPECT_THAT(output->loss_fn_outputs[0].at("logprobs").floats().to_vector(), ElementsAre(-1.0F));
  EXPECT_THAT(output->loss_fn_outputs[3].at("logprobs").floats().to_vector(), ElementsAre(-2.0F));
  EXPECT_THAT(output->metrics,
              UnorderedElementsAre(Pair("loss:mean", 2.5), Pair("grad:sum", 30.0)));
}

TEST(TrainingLoop, BeginsWithSessionAndModel) {
  Loop f;

  EXPECT_THAT(f.run(), IsOk());

  std::vector<std::string> first;
  for (const auto& sent : f.server->sent()) {
    if (first.size() < 4) first.push_back(sent.path);
  }
  EXPECT_THAT(first,
              ElementsAre("/api/v1/client/config",
                          "/api/v1/client/dynamic_config",
                          "/api/v1/create_session",
                          "/api/v1/create_model"));
}

TEST(SamplingLoop, SendsWhatWasAskedAndReadsAllThatComesBack) {  // R10.7, R10.13
  ClientFixture f;
  f.server->reply("/asample",
                  {{.body = R"({"request_id":"r-9","sample_sequence_ids":["q-a","q-b"]})"}});
  const TopkLogprobs topk = {
      .token_ids = {1, 2, 3, 4}, .logprobs = {-0.1F, -0.2F, -0.3F, -0.4F}, .k = 2, .length = 2};
  SampleResponse answer = {
      .sequences = {{.stop_reason = StopReason::stop, .tokens = {7}, .logprobs = {-0.5F}},
                    {.stop_reason = StopReason::length, .tokens = {8}, .logprobs = {-0.6F}}},
      .prompt_logprobs = {std::nanf(""), -1.5F},
      .topk_prompt_logprobs = topk};
  answer.sequences[0].topk_logprobs =
      TopkLogprobs{.token_ids = {7, 9}, .logprobs = {-0.5F, -0.9F}, .k = 2, .length = 1};
  f.results["Sample"] = ClientFixture::protobuf(wire::encode_proto(answer).value());
  const auto service = f.connect();
  const auto sampler = service.create_sampling_client({.base_model = "llama"}).get().value();

  const auto drawn = sampler
                         .sample(ModelInput::from_tokens({1, 2}),
                                 {.max_tokens = 1},
                                 {.num_samples = 2,
                                  .include_prompt_logprobs = true,
                                  .topk_prompt_logprobs = 2,
                                  .topk_sample_logprobs = 2})
                         .get();

  ASSERT_THAT(drawn, IsOk());
  ASSERT_THAT(drawn->sequences, SizeIs(2));
  EXPECT_EQ(drawn->sequences[0].sequence_id, "q-a");
  EXPECT_EQ(drawn->sequences[1].stop_reason, StopReason::length);
  EXPECT_THAT(drawn->sequences[1].logprobs, ElementsAre(-0.6F));
  EXPECT_EQ(drawn->prompt_logprob(0), std::nullopt);
  EXPECT_EQ(drawn->prompt_logprob(1), -1.5F);
  EXPECT_EQ(drawn->topk_prompt_logprobs, topk);
  EXPECT_EQ(drawn->sequences[0].topk_logprobs, answer.sequences[0].topk_logprobs);
  EXPECT_THAT(f.bodies("/asample"),
              ElementsAre(AllOf(HasSubstr(R"("num_samples":2,)"),
                                HasSubstr(R"("sampling_session_id":"s-1:sample:0","seq_id":0,)"))));
}

// ---- what goes wrong on the way

TEST(TrainingLoop, GetsItsResultThroughAnyMixOfFailedPolls) {  // 6.2, 6.3
  ClientFixture f;
  const auto service = f.connect();
  const auto trainer = service.create_lora_training_client("llama").get().value();
  f.server->reply(
      "/retrieve_future",
      {{.status = 408, .delay = 10s},
       {.status = 500, .delay = 10s},
       {.status = 408, .delay = 10s},
       {.status = 503, .delay = 10s},
       {.body = R"({"type":"try_again","request_id":"r-2","queue_state":"paused_capacity"})"},
       {.error = Error{.code = ErrorCode::connection_failed, .message = "connection reset"}},
       {.status = 429},
       {.body = R"({"status":"complete_metadata","response_payload_size":30})"},
       {.body = R"({"metrics":{"grad_norm":0.5}})"}});
  const auto before = f.server->sent("/retrieve_future").size();

  const auto step = trainer.optim_step(AdamParams()).get();

  ASSERT_THAT(step, IsOk());
  EXPECT_EQ(step->metrics->at("grad_norm"), 0.5);
  const auto polls = f.bodies("/retrieve_future");
  ASSERT_THAT(polls, SizeIs(before + 9)) << "one request for each poll";
  EXPECT_THAT(polls[before], HasSubstr(R"("allow_metadata_only":true)"));
  EXPECT_THAT(polls.back(), HasSubstr(R"("allow_metadata_only":false)"));
  EXPECT_THAT(f.bodies("/optim_step"), SizeIs(1)) << "submitted once, whatever the polls say";
}

/// Throws where another transport would fail.
class Throwing final : public http::Transport {
 public:
  Throwing(std::shared_ptr<http::Transport> next, std::string path)
      : next_(std::move(next)), path_(std::move(path)) {}
  Future<http::Response> send(http::Request request) override {
    if (request.url.ends_with(path_)) throw std::runtime_error("the transport broke");
    return next_->send(std::move(request));
  }
  void close_channel(std::uint64_t channel) override { next_->close_channel(channel); }

 private:
  std::shared_ptr<http::Transport> next_;
  std::string path_;
};

class CrashTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CrashTest, IsAnErrorOfTheCallAndOfWhatWaits) {
  ClientFixture f;
  auto options = f.options();
  options.transport = std::make_shared<Throwing>(f.server, GetParam());
  f.server->reply("/optim_step", {{.body = R"({"request_id":"r-90"})", .delay = 1s}});
  f.results["CreateModel"] = {.body = R"({"model_id":"s-1:train:0"})"};
  const auto service = f.connect(options);
  const auto trainer = service.create_lora_training_client("llama").get();
  if (std::string_view(GetParam()) == "/retrieve_future") {
    EXPECT_THAT(trainer, IsError(ErrorCode::internal, HasSubstr("the transport broke")));
    return;
  }
  auto gradients = trainer->forward_backward(make_data(1), LossFn::cross_entropy);
  auto save = trainer->save_state("a");

  EXPECT_THAT(gradients.get(), IsError(ErrorCode::internal, HasSubstr("the transport broke")));
  EXPECT_THAT(save.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("the transport broke")));
  EXPECT_THAT(trainer->optim_step(AdamParams()).get(), IsOk()) << "the client goes on";
}

INSTANTIATE_TEST_SUITE_P(Places,
                         CrashTest,
                         ::testing::Values("/forward_backward", "/retrieve_future"),
                         [](const auto& place) { return std::string(place.param).substr(1); });

TEST(SamplingLoop, AResultThatFailsNamesRequestAndCategory) {  // section 15
  ClientFixture f;
  f.results["Sample"] = {.body = R"({"error":"prompt too long","category":"user"})"};
  const auto service = f.connect();
  const auto sampler = service.create_sampling_client({.base_model = "llama"}).get().value();

  const auto drawn = sampler.sample(ModelInput::from_tokens({1}), {}).get();

  ASSERT_THAT(drawn, IsError(ErrorCode::request_failed, HasSubstr("prompt too long")));
  EXPECT_EQ(drawn.error().request_id, "r-1");
  EXPECT_EQ(drawn.error().category, RequestErrorCategory::user);
  EXPECT_THAT(f.bodies("/asample"), SizeIs(1)) << "the server has spoken";
}

}  // namespace
}  // namespace tinker::client::integration_test
