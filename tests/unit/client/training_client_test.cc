#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "support/hub_files.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::training_client_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using namespace std::chrono_literals;

class TrainingClientTest : public ::testing::Test {
 protected:
  TrainingClientTest() = default;

  ClientFixture f;
  ServiceClient service = f.connect();
  TrainingClient trainer = service.create_lora_training_client("llama").get().value();
};

TEST_F(TrainingClientTest, KnowsItsModel) {
  EXPECT_EQ(trainer.model_id(), "s-1:train:0");
  EXPECT_THAT(trainer.get_console_url(), HasSubstr("/training_runs/s-1:train:0"));
}

TEST_F(TrainingClientTest, SendsABatchAndBringsItsResult) {
  const auto output = trainer.forward_backward(make_data(3), LossFn::cross_entropy).get();

  ASSERT_THAT(output, IsOk());
  EXPECT_THAT(output->metrics, ElementsAre(Pair("loss:sum", 3)));
  EXPECT_THAT(output->loss_fn_outputs, SizeIs(3));
  ASSERT_THAT(f.batches, SizeIs(1));
  EXPECT_EQ(f.batches[0].model_id, "s-1:train:0");
  EXPECT_EQ(f.batches[0].seq_id, 1);
  EXPECT_EQ(f.batches[0].loss_fn, LossFn::cross_entropy);
  EXPECT_FALSE(f.batches[0].forward_only);
  const auto sent = f.server->sent("/forward_backward")[0].request;
  EXPECT_EQ(sent.headers.find("content-type"), "application/x-protobuf");
  EXPECT_EQ(sent.headers.find("accept"), "application/json");
  const auto poll = f.server->sent("/retrieve_future").back().request;
  EXPECT_EQ(poll.headers.find("x-tinker-request-type"), "ForwardBackward");
  EXPECT_TRUE(poll.headers.contains("X-Tinker-Create-Promise-Roundtrip-Time"));
}

TEST_F(TrainingClientTest, AForwardPassSaysSo) {
  LossFnConfig config = {{"beta", 0.5}, {"kind", std::string("x")}};
  EXPECT_THAT(trainer.forward(make_data(1), LossFn::dro, config).get(), IsOk());

  EXPECT_TRUE(f.batches[0].forward_only);
  EXPECT_EQ(f.batches[0].loss_fn_config, config);
  EXPECT_EQ(f.server->sent("/retrieve_future").back().request.headers.find("x-tinker-request-type"),
            "Forward");
}

TEST_F(TrainingClientTest, NumbersRequestsInTheOrderOfTheCalls) {  // R7.1
  auto gradients = trainer.forward_backward(make_data(1), LossFn::cross_entropy);
  auto step = trainer.optim_step({.learning_rate = 1e-3});
  auto save = trainer.save_state("a");

  EXPECT_THAT(save.get(),
              IsOkAndHolds(Field(&SaveWeightsResponse::path, "tinker://s-1:train:0/weights/a")));

  EXPECT_THAT(f.paths(),
              ElementsAre("create_model", "forward_backward", "optim_step", "save_weights"));
  EXPECT_EQ(f.batches[0].seq_id, 1);
  EXPECT_THAT(
      f.bodies("/optim_step"),
      ElementsAre(
          R"({"model_id":"s-1:train:0","seq_id":2,"type":"optim_step","adam_params":{"learning_rate":0.001,"beta1":0.9,"beta2":0.95,"eps":1e-12,"weight_decay":0.0,"grad_clip_norm":0.0}})"));
  EXPECT_THAT(
      f.bodies("/save_weights"),
      ElementsAre(
          R"({"model_id":"s-1:train:0","path":"a","seq_id":3,"overwrite":false,"type":"save_weights"})"));
}

TEST_F(TrainingClientTest, SubmitsTheNextBeforeTheResultOfTheLastIsThere) {
  f.results["OptimStep"] = {.body = R"({"metrics":null})", .delay = 10s};
  auto first = trainer.optim_step(AdamParams());
  auto second = trainer.optim_step(AdamParams());
  f.time.run_ready();

  EXPECT_THAT(f.bodies("/optim_step"), SizeIs(2));
  EXPECT_THAT(second.get(), IsOk());
  EXPECT_EQ(f.time.elapsed(), 10s);
}

TEST_F(TrainingClientTest, SendsOtherOptimizersByTheirName) {  // R7.16
  const OptimParams params = DimuonParams{.learning_rate = 1.0};
  EXPECT_THAT(trainer.optim_step(params).get(), IsOk());

  EXPECT_THAT(
      f.bodies("/optim_step")[0],
      AllOf(HasSubstr(R"("optimizer_params":{"type":"dimuon")"), Not(HasSubstr("adam_params"))));
}

TEST_F(TrainingClientTest, RefusesWhatCannotBeSentWithoutSpendingAnId) {
  auto bad_shape = make_data(2);
  bad_shape[1].loss_fn_inputs["weights"] =
      TensorData(std::vector<float>{1.0F}, TensorData::Shape{4});
  auto pointer = make_data(1);
  pointer[0].model_input.chunks = {ImageAssetPointerChunk{.location = "x", .expected_tokens = 1}};

  EXPECT_THAT(trainer.forward_backward({}, LossFn::cross_entropy).get(),  // R7.6
              IsError(ErrorCode::invalid_argument, HasSubstr("at least one datum")));
  EXPECT_THAT(trainer.forward_backward(bad_shape, LossFn::cross_entropy).get(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("data[1]"), HasSubstr("weights"), HasSubstr("[4]"))));
  EXPECT_THAT(trainer.forward_backward(pointer, LossFn::cross_entropy).get(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("data[0]"), HasSubstr("image_asset_pointer"))));
  EXPECT_THAT(trainer.optim_step({.learning_rate = std::nan("")}).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("learning_rate")));

  EXPECT_THAT(trainer.optim_step(AdamParams()).get(), IsOk());
  EXPECT_THAT(f.bodies("/optim_step")[0], HasSubstr(R"("seq_id":1,)"));
}

TEST_F(TrainingClientTest, RefusesDataThatNoServerCouldUse) {
  const auto data_with = [](const std::string& name, TensorData tensor) {
    auto data = make_data(2);
    data[1].loss_fn_inputs[name] = std::move(tensor);
    return data;
  };
  const auto refusal = [&](const std::vector<Datum>& data) {
    return trainer.forward_backward(data, LossFn::cross_entropy).get();
  };
  auto misspelt = data_with("weigths", std::vector<float>{1, 1});
  misspelt[1].loss_fn_inputs.erase("weights");

  EXPECT_THAT(refusal(data_with("weights", std::vector<float>{1})),
              IsError(ErrorCode::invalid_argument,
                      "data[1]: loss_fn_inputs.weights has 1 rows; expected 2, one per token"));
  EXPECT_THAT(refusal(data_with("target_tokens", std::vector<std::int64_t>{6, -6})),
              IsError(ErrorCode::invalid_argument, HasSubstr("target_tokens has -6")));
  EXPECT_THAT(refusal(data_with("weights", std::vector<float>{1, std::nanf("")})),
              IsError(ErrorCode::invalid_argument, HasSubstr("weights[1] is nan")));
  EXPECT_THAT(refusal(misspelt),
              IsError(ErrorCode::invalid_argument, HasSubstr("did you mean 'weights'?")));
  EXPECT_THAT(f.bodies("/forward_backward"), IsEmpty());
}

TEST_F(TrainingClientTest, LetsThroughWhatOtherServersMayTake) {
  f.results["ForwardBackward"] =
      ClientFixture::protobuf(wire::encode_proto(ForwardBackwardOutput()).value());
  auto data = make_data(1);
  data[0].loss_fn_inputs["mask"] = std::vector<float>{1, 1};

  EXPECT_THAT(trainer.forward_backward(data, LossFn::cispo).get(), IsOk());
  data[0].loss_fn_inputs["weights"] = std::vector<float>{1};
  EXPECT_THAT(trainer.forward_backward(data, OpenEnum<LossFn>::parse("later")).get(), IsOk());
}

TEST_F(TrainingClientTest, RefusesAStepThatMakesNoSenseWithItsBatch) {
  auto step = trainer.train_step(make_data(1), LossFn::cross_entropy, {.learning_rate = -1});

  EXPECT_THAT(step.optim_step.get(),
              IsError(ErrorCode::invalid_argument,
                      "learning_rate is -1; expected a finite number of at least 0"));
  EXPECT_THAT(step.forward_backward.get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("learning_rate is -1")));
  EXPECT_THAT(f.bodies("/forward_backward"), IsEmpty());
}

TEST_F(TrainingClientTest, AFailedSubmissionEndsWhatWaitsBehindIt) {  // D2
  f.server->reply("/forward_backward", {{.status = 422, .body = "bad", .delay = 1s}});
  auto gradients = trainer.forward_backward(make_data(1), LossFn::cross_entropy);
  auto step = trainer.optim_step(AdamParams());

  EXPECT_THAT(gradients.get(), IsError(ErrorCode::unprocessable, HasSubstr("bad")));
  EXPECT_EQ(step.get().error().to_string(),
            "not sent, because an earlier forward_backward (seq_id 1) failed: forward_backward: "
            "error code: 422 - bad (status 422)");
  EXPECT_THAT(trainer.optim_step(AdamParams()).get(), IsOk());

  EXPECT_THAT(f.bodies("/optim_step"), ElementsAre(HasSubstr(R"("seq_id":3,)")));
}

TEST_F(TrainingClientTest, AFailedResultEndsWhatWaitsBehindIt) {
  f.server->reply("/optim_step", {{.body = R"({"request_id":"r-50"})", .delay = 5s}});
  f.results["ForwardBackward"] = {.body = R"({"error":"no such loss","category":"user"})"};
  auto gradients = trainer.forward_backward(make_data(1), LossFn::cross_entropy);
  auto step = trainer.optim_step(AdamParams());  // under way when the failure comes
  auto save = trainer.save_state("a");

  EXPECT_THAT(gradients.get(), IsError(ErrorCode::request_failed, HasSubstr("no such loss")));
  EXPECT_THAT(save.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("no such loss")));
  EXPECT_THAT(step.get(), IsOk());
}

TEST_F(TrainingClientTest, ACancelledCallThatWaitsIsSkipped) {  // D3
  f.server->reply("/optim_step", {{.body = R"({"request_id":"r-50"})", .delay = 5s}});
  auto first = trainer.optim_step(AdamParams());
  auto second = trainer.optim_step(AdamParams());
  auto save = trainer.save_state("a");
  f.time.run_ready();

  second.cancel();

  EXPECT_THAT(save.get(), IsOk());
  EXPECT_THAT(second.get(), IsError(ErrorCode::cancelled, HasSubstr("cancelled")));
  EXPECT_THAT(f.bodies("/optim_step"), SizeIs(1));
}

TEST_F(TrainingClientTest, ADeadlineEndsACallAndWhatWaitsBehindIt) {
  f.server->reply("/optim_step", {{.body = R"({"request_id":"r-50"})", .delay = 5s}});
  auto first = trainer.optim_step(AdamParams());
  auto hasty = trainer.with({.deadline = 1s}).forward_backward(make_data(1), LossFn::cross_entropy);
  auto step = trainer.optim_step(AdamParams());

  EXPECT_THAT(hasty.get(), IsError(ErrorCode::deadline_exceeded, HasSubstr("1")));
  EXPECT_EQ(f.time.elapsed(), 1s);
  EXPECT_THAT(step.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("forward_backward")));
  EXPECT_THAT(first.get(), IsOk());
}

TEST_F(TrainingClientTest, ATrainStepSubmitsBothAtOnce) {
  f.results["ForwardBackward"] =
      ClientFixture::protobuf(wire::encode_proto(ForwardBackwardOutput()).value());
  f.results["ForwardBackward"].delay = 10s;

  auto step = trainer.train_step(make_data(1), LossFn::cross_entropy, {.learning_rate = 1e-3});
  f.time.run_ready();

  EXPECT_THAT(f.paths(), ElementsAre("create_model", "forward_backward", "optim_step"));
  EXPECT_THAT(step.optim_step.get(), IsOk());
  EXPECT_THAT(step.forward_backward.get(), IsOk());
}

TEST_F(TrainingClientTest, ATrainStepWithoutItsBatchIsNoStep) {
  auto step = trainer.train_step({}, LossFn::cross_entropy, AdamParams());

  EXPECT_THAT(step.forward_backward.get(), IsError(ErrorCode::invalid_argument, _));
  EXPECT_THAT(step.optim_step.get(), IsError(ErrorCode::predecessor_failed, _));
  EXPECT_THAT(f.bodies("/optim_step"), IsEmpty());
}

TEST_F(TrainingClientTest, SavesAndLoads) {
  EXPECT_THAT(
      trainer
          .save_state(
              "a", {.ttl_seconds = 3600, .overwrite = true, .user_metadata = StringMap{{"k", "v"}}})
          .get(),
      IsOk());
  EXPECT_THAT(
      trainer.save_weights_for_sampler("b", {.ttl_seconds = 60}).get(),
      IsOkAndHolds(Field(&SaveWeightsForSamplerResponse::path, HasSubstr("sampler_weights"))));
  EXPECT_THAT(
      trainer.save_weights_external("c", {.age_encryption_recipients = {{"age1x"}}}).get(),
      IsOkAndHolds(Field(&SaveWeightsExternalResponse::path, HasSubstr("external_weights"))));
  EXPECT_THAT(trainer.load_state("tinker://r/weights/a").get(), IsOk());
  EXPECT_THAT(trainer
                  .load_state_with_optimizer("tinker://r/weights/a",
                                             {.weights_access_token = Secret("tml-other-key")})
                  .get(),
              IsOk());

  EXPECT_THAT(
      f.bodies("/save_weights")[0],
      R"({"model_id":"s-1:train:0","path":"a","seq_id":1,"ttl_seconds":3600,"overwrite":true,"user_metadata":{"k":"v"},"type":"save_weights"})");
  EXPECT_THAT(
      f.bodies("/save_weights_for_sampler")[0],
      R"({"model_id":"s-1:train:0","path":"b","seq_id":2,"ttl_seconds":60,"type":"save_weights_for_sampler"})");
  EXPECT_THAT(
      f.bodies("/save_weights_external")[0],
      AllOf(HasSubstr(R"("path":"c")"), HasSubstr(R"("age_encryption_recipients":["age1x"])")));
  EXPECT_THAT(f.bodies("/load_weights"),
              ElementsAre(HasSubstr(R"("optimizer":false)"),
                          AllOf(HasSubstr(R"("optimizer":true)"), HasSubstr("tml-other-key"))));
  EXPECT_THAT(f.log.text(), Not(HasSubstr("tml-other-key")));  // D9
}

TEST_F(TrainingClientTest, ASaveWithoutAPathIsAnError) {  // R7.17
  f.results["SaveWeightsExternal"] = {.body = "{}"};

  EXPECT_THAT(trainer.save_weights_external("c").get(),
              IsError(ErrorCode::invalid_response, HasSubstr("no path")));
}

TEST_F(TrainingClientTest, ReadsItsInfoOutsideTheOrder) {
  f.server->reply("/get_info",
                  {{.body = R"({"model_data":{"model_name":"llama"},"model_id":"s-1:train:0"})"}});
  f.server->reply("/optim_step", {{.never = true}});
  auto step = trainer.optim_step(AdamParams());

  EXPECT_THAT(trainer.get_info().get(),
              IsOkAndHolds(Field(&GetInfoResponse::model_id, "s-1:train:0")));
}

TEST_F(TrainingClientTest, LoadsTheTokenizerThatTheServerNames) {  // R16.1
  const testing::TemporaryFolder cache;
  testing::put_into_cache(cache, "models--org--tokenizer");
  const auto hub = Hub::open({.cache = cache.path(),
                              .is_offline = true,
                              .transport = f.server,
                              .runtime = f.time.runtime()})
                       .value();
  f.server->reply(
      "/get_info",
      {{.body =
            R"({"model_data":{"model_name":"llama","tokenizer_id":"org/tokenizer:x"},"model_id":"m"})"},
       {.body = R"({"model_data":{"model_name":"org/other"},"model_id":"m"})"},
       {.body = R"({"model_data":{},"model_id":"m"})"}});

  const auto tokenizer = trainer.get_tokenizer(hub).get();
  ASSERT_THAT(tokenizer, IsOk());
  EXPECT_THAT(tokenizer->encode("abb"), ElementsAre(2, 1));
  EXPECT_THAT(trainer.get_tokenizer(hub).get(),
              IsError(ErrorCode::not_found, HasSubstr("org/other")));
  EXPECT_THAT(trainer.get_tokenizer(hub).get(),
              IsError(ErrorCode::invalid_response, HasSubstr("expected model_name")));
}

TEST_F(TrainingClientTest, SamplesFromTheWeightsOfTheMoment) {
  auto sampler = trainer.save_weights_and_get_sampling_client().get();

  ASSERT_THAT(sampler, IsOk());
  EXPECT_EQ(sampler->sampling_session_id(), "s-1:sample:7");
  EXPECT_THAT(
      f.bodies("/save_weights_for_sampler"),
      ElementsAre(
          R"({"model_id":"s-1:train:0","sampling_session_seq_id":0,"seq_id":1,"type":"save_weights_for_sampler"})"));
}

TEST_F(TrainingClientTest, SamplesFromSavedWeights) {
  const auto sampler = trainer.create_sampling_client("tinker://s-1:train:0/weights/a").get();

  ASSERT_THAT(sampler, IsOk());
  EXPECT_THAT(f.bodies("/create_sampling_session"),
              ElementsAre(HasSubstr(R"("model_path":"tinker://s-1:train:0/weights/a")")));
}

TEST_F(TrainingClientTest, RefusesASamplerOfAPathThatIsNone) {  // R4.5
  EXPECT_THAT(trainer.create_sampling_client("weights/a").get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("weights/a")));
  EXPECT_THAT(f.server->sent("/create_sampling_session"), IsEmpty());
}

TEST_F(TrainingClientTest, TakesOneNumberForASamplerHoweverOftenItAsks) {  // R7.9
  f.server->reply("/save_weights_for_sampler",
                  {{.status = 503}, {.status = 503}, {.body = R"({"request_id":"r-9"})"}});

  EXPECT_THAT(trainer.save_weights_and_get_sampling_client().get(), IsOk());

  EXPECT_THAT(f.bodies("/save_weights_for_sampler"),
              ElementsAre(HasSubstr(R"("sampling_session_seq_id":0)"),
                          HasSubstr(R"("sampling_session_seq_id":0)"),
                          HasSubstr(R"("sampling_session_seq_id":0)")));
}

TEST_F(TrainingClientTest, EndsWithItsLastHandle) {
  f.server->reply("/optim_step", {{.never = true}});
  auto step = trainer.optim_step(AdamParams());
  f.time.run_ready();

  {
    const TrainingClient gone = std::move(trainer);
    const ServiceClient also_gone = std::move(service);
  }

  EXPECT_THAT(step.get(), IsError(ErrorCode::cancelled, HasSubstr("went away")));
}

}  // namespace
}  // namespace tinker::client::training_client_test
