// What the server is told of errors that reach the caller (R14.9).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/rest_client.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::reports_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

class ReportsTest : public ::testing::Test {
 protected:
  /// All events so far.
  std::string events() {
    f.time.run_ready();
    std::string out;
    for (const auto& body : f.bodies("/telemetry")) out += body;
    return out;
  }

  const FakeReply refusal = {.status = 422, .body = R"({"detail":"no"})"};
  ClientFixture f;
  ServiceClient service = f.connect();
};

auto says(const std::string& type, const std::string& operation_ends) {
  return AllOf(HasSubstr("user_error"), HasSubstr(type), HasSubstr(operation_ends));
}

TEST_F(ReportsTest, ABatchThatIsRefused) {
  const auto trainer = service.create_lora_training_client("llama").get().value();
  f.server->reply("/forward_backward", {refusal});

  EXPECT_THAT(trainer.forward_backward(make_data(1), LossFn::cross_entropy).get(),
              IsError(ErrorCode::unprocessable, HasSubstr("no")));

  EXPECT_THAT(events(), says("UnprocessableEntityError", "SESSION_END"));
}

TEST_F(ReportsTest, AStepThatFails) {
  const auto trainer = service.create_lora_training_client("llama").get().value();
  f.results["OptimStep"] = {.body = R"({"error":"out of memory","category":"server"})"};

  EXPECT_FALSE(trainer.optim_step(AdamParams()).get().ok());

  EXPECT_THAT(events(),
              AllOf(HasSubstr("UNHANDLED_EXCEPTION"),
                    HasSubstr("RequestFailedError"),
                    HasSubstr("SESSION_END")));
}

TEST_F(ReportsTest, AModelThatIsRefused) {
  f.server->reply("/create_model", {refusal});

  EXPECT_FALSE(service.create_lora_training_client("llama").get().ok());

  EXPECT_THAT(events(), says("UnprocessableEntityError", "SESSION_END"));
}

TEST_F(ReportsTest, ASamplerThatIsRefused) {
  f.server->reply("/create_sampling_session", {refusal});

  EXPECT_FALSE(service.create_sampling_client({.base_model = "llama"}).get().ok());

  EXPECT_THAT(events(), says("UnprocessableEntityError", "SESSION_END"));
}

TEST_F(ReportsTest, ASampleThatIsRefused) {
  const auto sampler = service.create_sampling_client({.base_model = "llama"}).get().value();
  f.server->reply("/asample", {refusal});

  EXPECT_FALSE(sampler.sample(ModelInput::from_tokens({1}), {.max_tokens = 1}).get().ok());

  EXPECT_THAT(events(), says("UnprocessableEntityError", "SESSION_END"));
}

TEST_F(ReportsTest, ACustomLossThatIsRefusedWithoutTheEndOfTheSession) {  // R9.13
  f.server->reply("/client/config", {{.body = R"({"custom_loss_server_side":true})"}});
  f.server->reply("/create_custom_loss", {refusal});
  const auto formula =
      loss::Formula::define("f", {{.name = "logprobs", .rank = 1}}, [](const loss::Inputs& in) {
        return loss::Output(sum(in["logprobs"]));
      }).value();

  EXPECT_FALSE(service.create_custom_loss(formula).get().ok());

  EXPECT_THAT(events(), AllOf(HasSubstr("user_error"), Not(HasSubstr("SESSION_END"))));
}

TEST_F(ReportsTest, ARestCallOutsideAnySession) {
  f.server->reply("/sessions", {refusal});

  EXPECT_FALSE(service.create_rest_client().list_sessions().get().ok());

  EXPECT_THAT(events(), AllOf(HasSubstr("user_error"), Not(HasSubstr("SESSION_END"))));
}

TEST_F(ReportsTest, ASecondErrorOfTheServiceAsPartOfItsSession) {
  EXPECT_THAT(service.create_sampling_client({.base_model = "llama"}).get(), IsOk());
  f.server->reply("/get_server_capabilities", {refusal});

  EXPECT_FALSE(service.get_server_capabilities().get().ok());

  EXPECT_THAT(events(), says("UnprocessableEntityError", "SESSION_END"));
}

TEST_F(ReportsTest, NothingThatTheCallerGaveUp) {
  const auto trainer = service.create_lora_training_client("llama").get().value();
  f.server->reply("/optim_step", {{.delay = std::chrono::hours(1)}});
  const auto hasty = trainer.with({.deadline = std::chrono::seconds(1)});
  auto step = trainer.optim_step(AdamParams());

  EXPECT_THAT(hasty.optim_step(AdamParams()).get(),
              IsError(ErrorCode::deadline_exceeded, ::testing::_));
  step.cancel();
  EXPECT_THAT(step.get(), IsError(ErrorCode::cancelled, ::testing::_));

  EXPECT_THAT(events(), Not(HasSubstr("SESSION_END")));
}

TEST_F(ReportsTest, NothingThatFollowsFromAnEarlierError) {
  const auto trainer = service.create_lora_training_client("llama").get().value();
  f.server->reply("/forward_backward", {refusal});
  auto gradients = trainer.forward_backward(make_data(1), LossFn::cross_entropy);
  auto step = trainer.optim_step(AdamParams());

  EXPECT_FALSE(gradients.get().ok());
  EXPECT_THAT(step.get(), IsError(ErrorCode::predecessor_failed, ::testing::_));

  EXPECT_THAT(events(), Not(HasSubstr("PredecessorFailedError")));
}

TEST_F(ReportsTest, NothingThatWasRefusedBeforeItWasSent) {
  const auto sampler = service.create_sampling_client({.base_model = "llama"}).get().value();

  EXPECT_THAT(service.create_sampling_client({.model_path = "/tmp/x"}).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("/tmp/x")));
  EXPECT_THAT(service.create_rest_client().get_training_run_by_tinker_path("/tmp/x").get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("/tmp/x")));

  EXPECT_THAT(events(), Not(HasSubstr("ValueError")));
}

}  // namespace
}  // namespace tinker::client::reports_test
