#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/losses.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::custom_loss_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

loss::Formula last_token() {  // R9.2
  return loss::Formula::define("last_token",
                               {{"logprobs", 1}},
                               [](const loss::Inputs& in) {
                                 return loss::Output(-in["logprobs"][-1],
                                                     {{"custom/x:mean", in["logprobs"][0]}});
                               })
      .value();
}

/// A server whose forward pass says logprobs -1, -2, -3 of each datum.
struct Training : ClientFixture {
  explicit Training(const char* config = "{}") : ClientFixture(config) {
    server->handle("/retrieve_future", [this](const http::Request& request) {
      const auto type = request.headers.find("X-Tinker-Request-Type");
      if (type != "Forward" && type != "ForwardBackward") return result(request);
      const auto asked = wire::decode_json<FutureRetrieveRequest>(*request.body);
      ForwardBackwardOutput output = {.metrics = server_metrics};
      output.loss_fn_outputs.resize(data_of[asked->request_id],
                                    {{"logprobs", std::vector<float>{-1.0F, -2.0F, -3.0F}}});
      return protobuf(wire::encode_proto(output).value());
    });
  }

  [[nodiscard]] std::vector<float> weights(std::size_t batch, std::size_t datum) const {
    return batches[batch].data[datum].loss_fn_inputs.find("weights")->second.floats().to_vector();
  }

  std::map<std::string, double, std::less<>> server_metrics = {{"loss:sum", 7.0}, {"tok:sum", 3}};
  ServiceClient service = connect();
  TrainingClient trainer = service.create_lora_training_client("llama").get().value();
};

TEST(CustomLoss, TakesItsSlopesToTheServer) {  // R9.2
  Training f;
  auto data = make_data(2, 3);
  data[1].loss_fn_inputs.erase("weights");
  data[0].loss_fn_inputs.emplace("mine", std::vector<float>{1.0F});

  const auto output = f.trainer.forward_backward_custom(data, last_token()).get();

  ASSERT_THAT(output, IsOk());
  ASSERT_THAT(f.batches, SizeIs(2));
  EXPECT_TRUE(f.batches[0].forward_only);
  EXPECT_EQ(f.batches[0].loss_fn, LossFn::cross_entropy);
  EXPECT_THAT(f.batches[0].data[0].loss_fn_inputs,
              UnorderedElementsAre(Pair("target_tokens", _), Pair("weights", _)));
  EXPECT_THAT(f.weights(0, 0), ElementsAre(1, 1, 1)) << "the caller's";
  EXPECT_THAT(f.weights(0, 1), ElementsAre(0, 0, 0));
  EXPECT_FALSE(f.batches[1].forward_only);
  EXPECT_EQ(f.batches[1].seq_id, 2);
  EXPECT_THAT(f.weights(1, 0), ElementsAre(0, 0, 1));
  EXPECT_THAT(f.weights(1, 1), ElementsAre(0, 0, 1));
}

TEST(CustomLoss, ReportsItsOwnLossBesideTheServers) {  // step 8, D10, R9.7
  Training f;

  const auto output = f.trainer.forward_backward_custom(make_data(2, 3), last_token()).get();

  EXPECT_THAT(output->metrics,
              UnorderedElementsAre(Pair("loss:sum", 6.0),
                                   Pair("surrogate_loss:sum", 7.0),
                                   Pair("tok:sum", 3.0),
                                   Pair("custom/x:mean", -1.0)));
}

TEST(CustomLoss, DoesWithoutTheServersLoss) {  // D11
  Training f;
  f.server_metrics = {};

  const auto output = f.trainer.forward_backward_custom(make_data(1, 3), last_token()).get();

  ASSERT_THAT(output, IsOk());
  EXPECT_THAT(output->metrics, Not(::testing::Contains(Pair("surrogate_loss:sum", _))));
}

TEST(CustomLoss, WhatIsCalledNextComesAfterBothPasses) {
  Training f(R"({"fwdbwd_max_chunk_len":1})");
  auto gradients = f.trainer.forward_backward_custom(make_data(2, 3), last_token());
  auto step = f.trainer.optim_step(AdamParams());

  EXPECT_THAT(step.get(), IsOk());

  EXPECT_THAT(f.batches, SizeIs(4));
  EXPECT_THAT(f.bodies("/optim_step"), ElementsAre(HasSubstr(R"("seq_id":5,)")));
  EXPECT_EQ(f.paths().back(), "optim_step");
}

TEST(CustomLoss, CanBeAFunctionOfTheWholeBatch) {
  Training f;
  const loss::BatchFunction function =
      [](std::span<const Datum> data, loss::BatchLogprobs logprobs) -> Result<loss::BatchResult> {
    EXPECT_EQ(data.size(), 2U);
    return loss::BatchResult{.loss = logprobs[0][1] + logprobs[1][2],
                             .metrics = {{"free name", 1.0}},
                             .gradients = {{0, 1, 0}, {0, 0, 1}}};
  };

  const auto output = f.trainer.forward_backward_custom(make_data(2, 3), function).get();

  EXPECT_EQ(output->metrics.at("loss:sum"), -5.0);
  EXPECT_EQ(output->metrics.at("free name"), 1.0);
  EXPECT_THAT(f.weights(1, 0), ElementsAre(0, -1, 0));
}

TEST(CustomLoss, AFunctionThatFailsEndsWhatWaits) {
  Training f;
  const loss::BatchFunction throws = [](auto, auto) -> Result<loss::BatchResult> {
    throw std::runtime_error("mine");
  };
  auto gradients = f.trainer.forward_backward_custom(make_data(1, 3), throws);
  auto step = f.trainer.optim_step(AdamParams());

  EXPECT_THAT(gradients.get(), IsError(ErrorCode::internal, HasSubstr("mine")));
  EXPECT_THAT(step.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("mine")));
  EXPECT_THAT(f.trainer.optim_step(AdamParams()).get(), IsOk());
}

TEST(CustomLoss, AForwardPassThatFailsEndsWhatWaits) {
  Training f;
  f.server->reply("/forward_backward", {{.status = 422, .body = "bad"}});
  auto gradients = f.trainer.forward_backward_custom(make_data(1, 3), last_token());
  auto step = f.trainer.optim_step(AdamParams());

  EXPECT_THAT(gradients.get(), IsError(ErrorCode::unprocessable, HasSubstr("bad")));
  EXPECT_THAT(step.get(), IsError(ErrorCode::predecessor_failed, HasSubstr("bad")));
  EXPECT_THAT(f.trainer.optim_step(AdamParams()).get(), IsOk());
}

TEST(CustomLoss, ChecksTheGradientsItGets) {
  Training f;
  const auto with = [&](std::vector<std::vector<float>> gradients) {
    return f.trainer
        .forward_backward_custom(make_data(1, 3),
                                 [gradients](auto, auto) -> Result<loss::BatchResult> {
                                   return loss::BatchResult{.gradients = gradients};
                                 })
        .get();
  };

  EXPECT_THAT(with({}), IsError(ErrorCode::invalid_argument, HasSubstr("0 of 1 data")));
  EXPECT_THAT(with({{1.0F}}),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("1 gradients for data[0]"), HasSubstr("3 logprobs"))));
}

TEST(CustomLoss, RefusesDataWithoutWhatItReads) {  // R9.9
  Training f;
  auto no_targets = make_data(2, 3);
  no_targets[1].loss_fn_inputs.erase("target_tokens");
  const auto needs_q =
      loss::Formula::define("needs_q", {{"logprobs", 1}, {"q", 1}}, [](const loss::Inputs& in) {
        return sum(in["logprobs"] - in["q"]);
      }).value();
  auto matrix = make_data(1, 3);
  matrix[0].loss_fn_inputs.insert_or_assign(
      "q", TensorData(std::vector<float>(3), TensorData::Shape{3, 1}));

  EXPECT_THAT(f.trainer.forward_backward_custom(no_targets, loss::batch(last_token())).get(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("data[1]"), HasSubstr("target_tokens"))));
  EXPECT_THAT(
      f.trainer.forward_backward_custom(make_data(1, 3), needs_q).get(),
      IsError(ErrorCode::invalid_argument, AllOf(HasSubstr("data[0]"), HasSubstr("q: missing"))));
  EXPECT_THAT(f.trainer.forward_backward_custom(matrix, needs_q).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("expected rank 1, found rank 2")));
  EXPECT_THAT(f.batches, IsEmpty());
}

TEST(CustomLoss, AHandleIsEvaluatedHereWhereTheServerRunsNoLosses) {  // R9.7
  Training f;
  const auto handle = f.service.create_custom_loss(last_token()).get().value();

  EXPECT_EQ(handle.loss_id(), std::nullopt);
  EXPECT_EQ(handle.session_id(), "s-1");
  EXPECT_THAT(f.trainer.forward_backward_custom(make_data(1, 3), handle).get(), IsOk());

  EXPECT_THAT(f.server->sent("/create_custom_loss"), IsEmpty());
  EXPECT_THAT(f.batches, SizeIs(2));
}

TEST(CustomLoss, AHandleIsUploadedWhereTheServerRunsLosses) {  // R9.8, R9.10
  Training f(R"({"custom_loss_server_side":true})");
  f.server->handle("/create_custom_loss", [&](const http::Request&) { return f.accept(); });
  f.results["CreateCustomLoss"] = {.body = R"({"loss_id":"loss-1"})"};

  const auto handle = f.service.create_custom_loss(last_token()).get().value();
  EXPECT_THAT(f.trainer.forward_backward_custom(make_data(2, 3), handle).get(), IsOk());

  EXPECT_EQ(handle.loss_id(), "loss-1");
  EXPECT_THAT(
      f.bodies("/create_custom_loss"),
      ElementsAre(AllOf(
          HasSubstr(
              R"({"session_id":"s-1","custom_loss_seq_id":0,"name":"last_token","inputs":[{"name":"logprobs","rank":1}],"graph":{"format":1,"nodes":[)"),
          HasSubstr("operator.getitem"))));
  ASSERT_THAT(f.batches, SizeIs(1)) << "one pass";
  EXPECT_EQ(f.batches[0].loss_fn, LossFn::custom);
  EXPECT_EQ(f.batches[0].loss_fn_config, (LossFnConfig{{"loss_id", std::string("loss-1")}}));
}

TEST(CustomLoss, AFailedUploadCanBeRepeated) {  // R9.6, D12
  Training f(R"({"custom_loss_server_side":true})");
  f.server->reply("/create_custom_loss", {{.status = 422}, {.body = R"({"request_id":"r-9"})"}});
  f.results["CreateCustomLoss"] = {.body = R"({"loss_id":"loss-1"})"};

  EXPECT_THAT(f.service.create_custom_loss(last_token()).get(),
              IsError(ErrorCode::unprocessable, _));
  EXPECT_THAT(f.service.create_custom_loss(last_token()).get(), IsOk());
  EXPECT_THAT(f.service.create_custom_loss(last_token()).get(), IsOk());

  EXPECT_THAT(f.bodies("/create_custom_loss"), SizeIs(2)) << "the server knows it now";
}

TEST(CustomLoss, AHandleBelongsToItsSession) {  // R9.9
  Training f;
  const LossHandle foreign(last_token(), "another", std::nullopt);

  EXPECT_THAT(f.trainer.forward_backward_custom(make_data(1, 3), foreign).get(),
              IsError(ErrorCode::invalid_argument, AllOf(HasSubstr("another"), HasSubstr("s-1"))));
}

}  // namespace
}  // namespace tinker::client::custom_loss_test
