// The end of a session with work under way, and starts that do not come about.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::shutdown_test {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

const ModelInput kPrompt = ModelInput::from_tokens({1, 2, 3});

/// Work in every state it can be in: submitted, in the queue of its model, waiting for its result,
/// waiting for a slot, in a back-off.
class ShutdownTest : public ::testing::Test {
 protected:
  void start_work() {
    f.server->reply("/forward_backward", {{.never = true}});
    f.server->reply("/retrieve_future", {{.never = true}});
    f.server->handle("/asample", [this](const http::Request&) {
      return ++asked == 1 ? f.accept_sample() : FakeReply{.status = 429};
    });
    gradients.push_back(trainer.forward_backward(make_data(4), LossFn::cross_entropy));
    for (int i = 0; i < 10; ++i) steps.push_back(trainer.optim_step(AdamParams()));
    for (int i = 0; i < 100; ++i) samples.push_back(sampler.sample(kPrompt, {}));
    f.time.advance(100ms);
    ASSERT_GT(f.server->in_flight(), 0U);
  }
  template <typename T>
  static void expect_all(std::vector<Future<T>>& futures, ErrorCode code) {
    for (auto& future : futures) EXPECT_THAT(future.get(), IsError(code, _));
  }
  void expect_ends(ErrorCode code) {
    expect_all(gradients, code);
    expect_all(steps, code);
    expect_all(samples, code);
  }

  int asked = 0;
  ClientFixture f;
  std::optional<ServiceClient> service = f.connect();
  TrainingClient trainer = service->create_lora_training_client("llama").get().value();
  SamplingClient sampler = service->create_sampling_client({.base_model = "llama"}).get().value();
  std::vector<Future<ForwardBackwardOutput>> gradients;
  std::vector<Future<OptimStepResponse>> steps;
  std::vector<Future<SampleResponse>> samples;
};

TEST_F(ShutdownTest, CloseEndsAllThatIsUnderWay) {  // R1.15, D1
  start_work();
  const auto before = f.time.elapsed();

  EXPECT_THAT(service->close(SessionFinishReason::interrupted).get(), IsOk());

  expect_ends(ErrorCode::closed);
  EXPECT_EQ(f.time.elapsed(), before) << "nothing is waited for";
  EXPECT_EQ(f.server->in_flight(), 0U);
}

TEST_F(ShutdownTest, CloseSendsNothingMoreThanItsGoodbye) {  // R1.8
  start_work();
  const auto before = f.server->sent().size();

  EXPECT_THAT(service->close(SessionFinishReason::interrupted).get(), IsOk());
  f.time.advance(1h);

  std::vector<std::string> after;
  for (const auto& sent : f.server->sent()) after.push_back(sent.path);
  after.erase(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(before));
  EXPECT_THAT(after, ElementsAre("/api/v1/sessions/s-1/finish", "/api/v1/telemetry"));
}

TEST_F(ShutdownTest, CloseDrainsTheReportsOfWhatFailed) {  // R14.14
  f.server->reply("/optim_step", {{.status = 422, .body = "bad step"}});
  EXPECT_THAT(trainer.optim_step(AdamParams()).get(), IsError(ErrorCode::unprocessable, _));

  EXPECT_THAT(service->close(SessionFinishReason::errored).get(), IsOk());

  std::string reports;
  for (const auto& body : f.bodies("/telemetry")) reports += body;
  EXPECT_THAT(reports, HasSubstr("bad step"));
}

TEST_F(ShutdownTest, TheLastHandleEndsAllThatIsUnderWay) {  // R1.16
  start_work();
  const auto before = f.server->sent().size();

  service.reset();
  {
    const TrainingClient gone = std::move(trainer);
    const SamplingClient also_gone = std::move(sampler);
  }

  expect_ends(ErrorCode::cancelled);
  f.time.advance(1h);
  EXPECT_EQ(f.server->sent().size(), before) << "without a word";
  EXPECT_EQ(f.server->in_flight(), 0U);
}

TEST(RuntimeShutdown, EndsAllThatIsUnderWay) {
  std::optional<Runtime> runtime = Runtime::start();
  std::vector<Future<OptimStepResponse>> steps;
  {
    ScriptedServer f(*runtime);
    f.server->reply("/optim_step", {{.never = true}});
    const auto service = f.connect();
    const auto trainer = service.create_lora_training_client("llama").get().value();
    for (int i = 0; i < 10; ++i) steps.push_back(trainer.optim_step(AdamParams()));
  }
  runtime.reset();

  for (auto& step : steps) EXPECT_THAT(step.get(), IsError(ErrorCode::cancelled, _));
}

TEST_F(ShutdownTest, ACancelledCallEndsAloneAndLeavesNothing) {
  f.server->reply("/retrieve_future", {{.never = true}});
  auto kept = sampler.sample(kPrompt, {});
  auto dropped = sampler.sample(kPrompt, {});
  f.time.run_ready();
  ASSERT_EQ(f.server->in_flight(), 2U);

  dropped.cancel();

  EXPECT_THAT(dropped.get(), IsError(ErrorCode::cancelled, _));
  f.time.run_ready();
  EXPECT_EQ(f.server->in_flight(), 1U);
  EXPECT_FALSE(kept.is_ready());
}

// ---- starts

class StartTest : public ::testing::Test {
 protected:
  ClientFixture f;
  ServiceClient service = f.connect();
};

TEST_F(StartTest, ADeadlineHoldsForTheSessionToo) {
  f.server->reply("/create_session", {{.never = true}});

  EXPECT_THAT(service.with({.deadline = 3s}).create_lora_training_client("llama").get(),
              IsError(ErrorCode::deadline_exceeded, HasSubstr("3")));

  EXPECT_EQ(f.time.elapsed(), 3s);
}

TEST_F(StartTest, WhoWaitsLongerIsNotHurtByTheHaste) {
  f.server->reply("/create_session",
                  {{.never = true}, {.body = R"({"session_id":"s-1"})", .delay = 1s}});
  auto hasty = service.with({.deadline = 3s}).create_lora_training_client("llama");
  auto patient = service.create_lora_training_client("llama");

  EXPECT_THAT(hasty.get(), IsError(ErrorCode::deadline_exceeded, _));
  EXPECT_THAT(patient.get(), IsOk());

  EXPECT_EQ(f.time.elapsed(), 4s);
  EXPECT_THAT(f.server->sent("/create_session"), SizeIs(2));
}

TEST_F(StartTest, AFailedLoadLeavesNoClientButASessionThatWorks) {
  f.server->reply("/weights_info",
                  {{.body = R"({"base_model":"llama","is_lora":true,"lora_rank":16})"}});
  f.results["LoadWeights"] = {.body = R"({"error":"no such checkpoint","category":"user"})"};

  EXPECT_THAT(service.create_training_client_from_state("tinker://r:train:0/weights/a").get(),
              IsError(ErrorCode::request_failed, HasSubstr("no such checkpoint")));

  EXPECT_THAT(service.create_lora_training_client("llama").get(), IsOk());
  EXPECT_THAT(f.bodies("/create_model"), SizeIs(2));
}

TEST_F(StartTest, HeartbeatsThatAreRefusedEndNoSession) {  // R4.2
  f.server->reply(
      "/session_heartbeat",
      {{.status = 401, .body = "no"}, {.status = 500}, {.status = 401}, {.body = "{}"}});
  const auto trainer = service.create_lora_training_client("llama").get().value();

  f.time.advance(95s);

  EXPECT_THAT(f.server->sent("/session_heartbeat"), SizeIs(9)) << "one each, all the same";
  EXPECT_THAT(f.log.text(), Not(HasSubstr("no heartbeat")));
  EXPECT_THAT(trainer.optim_step(AdamParams()).get(), IsOk());
}

}  // namespace
}  // namespace tinker::client::shutdown_test
