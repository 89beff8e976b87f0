// Our own client against the embedded server, both real, over loopback.
#include "tinker/local_server.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/gguf_file.h"
#include "support/raw_http.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"

namespace tinker::local_server_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::SizeIs;

constexpr const char* kModel = "random:2x64,vocab=512";

LocalServerOptions small_server(EnginePrecision precision = EnginePrecision::f32) {
  return {.models = {{.name = "tiny", .source = kModel}}, .threads = 2, .precision = precision};
}

ServiceClient connect(const LocalServer& server, const std::string& key = "tml-local-test") {
  return ServiceClient::connect({.base_url = server.base_url(), .api_key = Secret(key)}).value();
}

/// Eight tokens to learn by heart.
std::vector<Datum> batch() {
  return {Datum::next_token({5, 9, 12, 200, 31, 7, 77, 140, 3})};
}

double train(const TrainingClient& trainer, int steps) {
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    auto [gradients, update] =
        trainer.train_step(batch(), LossFn::cross_entropy, {.learning_rate = 1e-2});
    loss = gradients.get().value().loss().value();
    update.get().value();
  }
  return loss;
}

double loss_of(const TrainingClient& trainer) {
  return trainer.forward(batch(), LossFn::cross_entropy).get().value().loss().value();
}

TEST(LocalServer, LowersTheLossOfATrainingRun) {
  const auto server = LocalServer::start(small_server()).value();
  const auto service = connect(server);
  const auto trainer = service.create_lora_training_client("tiny", {.rank = 8}).get().value();

  const double before = loss_of(trainer);
  train(trainer, 20);

  EXPECT_LT(loss_of(trainer), 0.5 * before);
}

TEST(LocalServer, TakesTheStateUpWhereItWasBitForBit) {
  const auto server = LocalServer::start(small_server()).value();
  const auto service = connect(server);
  const auto trainer = service.create_lora_training_client("tiny", {.rank = 8}).get().value();
  train(trainer, 3);
  const auto saved = trainer.save_state("three").get().value();

  const auto resumed =
      service.create_training_client_from_state_with_optimizer(saved.path).get().value();

  EXPECT_EQ(train(resumed, 3), train(trainer, 3));
  EXPECT_EQ(loss_of(resumed), loss_of(trainer));
}

class SamplerAndTrainer : public ::testing::TestWithParam<EnginePrecision> {};

TEST_P(SamplerAndTrainer, AgreeInEveryBit) {  // SERVER 6.7: the same kernels
  const auto server = LocalServer::start(small_server(GetParam())).value();
  const auto service = connect(server);
  const auto trainer = service.create_lora_training_client("tiny", {.rank = 8}).get().value();
  train(trainer, 5);
  const auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
  const std::vector<std::int32_t> prompt = {5, 9, 12};

  const auto answer = sampler
                          .sample(ModelInput::from_tokens(prompt),
                                  {.max_tokens = 8, .seed = 1, .stop = std::vector<std::int32_t>()})
                          .get()
                          .value();

  std::vector<std::int32_t> all = prompt;
  const auto& drawn = answer.sequences.at(0);
  all.insert(all.end(), drawn.tokens.begin(), drawn.tokens.end());
  const auto output =
      trainer.forward({Datum::next_token(all)}, LossFn::cross_entropy).get().value();
  const auto& logprobs = output.loss_fn_outputs.at(0).at("logprobs").floats();
  EXPECT_EQ(std::vector<float>(logprobs.begin() + 2, logprobs.end()), drawn.logprobs);
}

INSTANTIATE_TEST_SUITE_P(Precisions,
                         SamplerAndTrainer,
                         ::testing::Values(EnginePrecision::f32, EnginePrecision::bf16));

TEST(LocalServer, KeepsCheckpointsWhenItIsStartedAgain) {
  const testing::TemporaryFolder folder;
  auto options = small_server();
  options.data_dir = folder.path();
  std::string path;
  std::vector<std::int32_t> before;
  const SamplingParams params = {.max_tokens = 6, .seed = 7};
  const auto prompt = ModelInput::from_tokens({5, 9});
  {
    const auto server = LocalServer::start(options).value();
    const auto service = connect(server);
    const auto trainer = service.create_lora_training_client("tiny", {.rank = 8}).get().value();
    train(trainer, 3);
    path = trainer.save_weights_for_sampler("final").get().value().path;
    const auto sampler = service.create_sampling_client({.model_path = path}).get().value();
    before = sampler.sample(prompt, params).get().value().sequences.at(0).tokens;
    ASSERT_THAT(server.stop(std::chrono::seconds(5)), IsOk());
  }

  const auto server = LocalServer::start(options).value();
  const auto sampler = connect(server).create_sampling_client({.model_path = path}).get().value();

  EXPECT_EQ(sampler.sample(prompt, params).get().value().sequences.at(0).tokens, before);
}

TEST(LocalServer, NamesTheGgufFileThatClientsReadTheTokenizerFrom) {  // R16.1
  const testing::TemporaryFolder folder;
  folder.write("model.gguf", testing::tiny_llama_gguf(true));
  const auto server = LocalServer::start({.model = folder.path("model.gguf")}).value();
  const auto service = connect(server);
  const auto trainer = service.create_lora_training_client("model.gguf", {.rank = 1}).get().value();

  const auto tokenizer = trainer.get_tokenizer().get();

  EXPECT_THAT(tokenizer.value().encode("bab"), ElementsAre(1, 2));
}

TEST(LocalServer, RefusesASecondServerOnItsDataFolder) {
  const testing::TemporaryFolder folder;
  auto options = small_server();
  options.data_dir = folder.path();
  const auto first = LocalServer::start(options).value();

  EXPECT_THAT(LocalServer::start(options),
              IsError(ErrorCode::invalid_argument, HasSubstr(std::to_string(::getpid()))));
}

TEST(LocalServer, EndsSessionsOfAnEarlierLifeWhoseClientsAreGone) {
  const testing::TemporaryFolder folder;
  auto options = small_server();
  options.data_dir = folder.path();
  options.session_timeout = std::chrono::seconds(1);
  {
    const auto server = LocalServer::start(options).value();
    const auto created = testing::RawHttp(server.port())
                             .ask("POST",
                                  "/api/v1/create_session",
                                  R"({"tags":[],"sdk_version":"0.36.0","type":"create_session"})",
                                  "X-API-Key: tml-local-test\r\n");
    ASSERT_EQ(created.status, 200) << created.body;
    ASSERT_THAT(server.stop(), IsOk());
  }

  const auto server = LocalServer::start(options).value();
  const auto rest =
      RestClient::connect({.base_url = server.base_url(), .api_key = Secret("tml-local-test")})
          .value();
  const auto sessions = [&](SessionStatusQuery status) {
    return rest.search_sessions({.statuses = {{std::move(status)}}}).get().value().sessions;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!sessions(ActiveSessionStatusQuery()).empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }

  EXPECT_THAT(sessions(ActiveSessionStatusQuery()), IsEmpty());
  EXPECT_THAT(sessions(CancelledSessionStatusQuery()), SizeIs(1));
}

TEST(LocalServer, SeveralRunInOneProcess) {
  const auto one = LocalServer::start(small_server()).value();
  const auto two = LocalServer::start(small_server()).value();

  EXPECT_NE(one.port(), two.port());
  EXPECT_THAT(connect(one).get_server_capabilities().get(), IsOk());
  EXPECT_THAT(connect(two).get_server_capabilities().get(), IsOk());
}

TEST(LocalServer, NeedsKeysBeyondLoopback) {
  auto options = small_server();
  options.host = "0.0.0.0";

  EXPECT_THAT(LocalServer::start(options),
              IsError(ErrorCode::invalid_argument, HasSubstr("0.0.0.0")));
}

TEST(LocalServer, RefusesToKeepRunsInATemporaryFolder) {
  auto options = small_server();
  options.durable = true;

  EXPECT_THAT(LocalServer::start(options),
              IsError(ErrorCode::invalid_argument, HasSubstr("durable: ")));
}

TEST(LocalServer, RefusesASessionTimeoutBeyondAYear) {
  auto options = small_server();
  options.session_timeout = std::chrono::hours(365 * 24);
  EXPECT_THAT(LocalServer::start(options), IsOk());
  options.session_timeout += std::chrono::seconds(1);

  EXPECT_THAT(LocalServer::start(options),
              IsError(ErrorCode::invalid_argument, HasSubstr("found 31536001 s")));
}

TEST(LocalServer, RefusesAFlagThatThereIsNot) {
  auto options = small_server();
  options.flags = {{"paralel_chunks", "off"}};

  EXPECT_THAT(LocalServer::start(options),
              IsError(ErrorCode::invalid_argument, HasSubstr("paralel_chunks")));
}

TEST(LocalServer, HidesWhatBelongsToOthers) {
  auto options = small_server();
  options.keys = {{.owner = "ada", .key = Secret("tml-ada-0123456789abcdef")},
                  {.owner = "bob", .key = Secret("tml-bob-0123456789abcdef")}};
  const auto server = LocalServer::start(options).value();
  const auto ada = connect(server, "tml-ada-0123456789abcdef");
  const auto bob = connect(server, "tml-bob-0123456789abcdef");
  const auto trainer = ada.create_lora_training_client("tiny", {.rank = 4}).get().value();
  const auto path = trainer.save_weights_for_sampler("mine").get().value().path;

  EXPECT_THAT(bob.create_sampling_client({.model_path = path}).get(),
              IsError(ErrorCode::not_found, HasSubstr("mine")));
  EXPECT_THAT(connect(server, "tml-eve-0123456789abcdef").get_server_capabilities().get(),
              IsError(ErrorCode::unauthenticated, HasSubstr("key")));
}

TEST(LocalServer, EndsWhatRunsWhenItStops) {
  const auto server = LocalServer::start(small_server()).value();
  const auto service = connect(server);
  const auto sampler = service.create_sampling_client({.base_model = "tiny"}).get().value();
  auto endless = sampler.sample(ModelInput::from_tokens({1}),
                                {.max_tokens = 4000, .stop = std::vector<std::int32_t>()});

  EXPECT_THAT(server.stop(), IsOk());

  endless.cancel();
  EXPECT_FALSE(endless.get().ok());
}

TEST(LocalServer, LetsGoOfItsFolderWhenItIsEndedInTheMiddleOfWork) {
  const testing::TemporaryFolder folder;
  auto options = small_server();
  options.data_dir = folder.path();
  {
    const auto server = LocalServer::start(options).value();
    const auto sampler =
        connect(server).create_sampling_client({.base_model = "tiny"}).get().value();
    auto endless = sampler.sample(ModelInput::from_tokens({1}),
                                  {.max_tokens = 4000, .stop = std::vector<std::int32_t>()});
    endless.cancel();
  }  // the client goes, then the server

  EXPECT_THAT(LocalServer::start(options), IsOk());
}

TEST(LocalServer, KeepsTheLatestOfTheWeightsThatHaveNoName) {
  constexpr int kKept = 16;
  const auto server = LocalServer::start(small_server()).value();
  const auto service = connect(server);
  const auto trainer = service.create_lora_training_client("tiny", {.rank = 1}).get().value();
  const auto first = trainer.save_weights_and_get_sampling_client().get().value();
  const auto second = trainer.save_weights_and_get_sampling_client().get().value();
  for (int i = 0; i < kKept - 1; ++i) trainer.save_weights_and_get_sampling_client().get().value();
  const auto prompt = ModelInput::from_tokens({1});

  EXPECT_THAT(first.sample(prompt, {.max_tokens = 1}).get(),
              IsError(ErrorCode::request_failed, HasSubstr("newer ones")));
  EXPECT_THAT(second.sample(prompt, {.max_tokens = 1}).get(), IsOk());
}

TEST(LocalServer, SamplesFromTheWeightsThatANameHadWhenTheClientWasMade) {
  const auto server = LocalServer::start(small_server()).value();
  const auto service = connect(server);
  const auto trainer = service.create_lora_training_client("tiny", {.rank = 8}).get().value();
  const auto path = trainer.save_weights_for_sampler("latest").get().value().path;
  const auto sampler = service.create_sampling_client({.model_path = path}).get().value();
  const SamplingParams params = {.max_tokens = 6, .seed = 7};
  const auto prompt = ModelInput::from_tokens({5, 9});
  const auto before = sampler.sample(prompt, params).get().value().sequences.at(0).logprobs;
  train(trainer, 3);
  trainer.save_weights_for_sampler("latest").get().value();

  EXPECT_EQ(sampler.sample(prompt, params).get().value().sequences.at(0).logprobs, before);
}

/// A sampler of a checkpoint that is in no cache, and its logprobs.
class SamplerOfLatest : public ::testing::Test {
 protected:
  SamplerOfLatest() {
    const auto first = service.create_sampling_client({.model_path = latest}).get().value();
    before = sample(first).value();
    (void)sample(other).value();  // there is room for one
  }
  static LocalServerOptions options() {
    auto out = small_server();
    out.limits.adapters = 1;
    out.limits.ephemeral_saves = 3;
    return out;
  }
  static Result<std::vector<float>> sample(const SamplingClient& sampler) {
    const SamplingParams params = {.max_tokens = 6, .seed = 7};
    TINKER_TRY(const auto drawn, sampler.sample(ModelInput::from_tokens({5, 9}), params).get());
    return drawn.sequences.at(0).logprobs;
  }
  LocalServer server = LocalServer::start(options()).value();
  ServiceClient service = connect(server);
  TrainingClient trainer = service.create_lora_training_client("tiny", {.rank = 8}).get().value();
  std::string latest = trainer.save_weights_for_sampler("latest").get().value().path;
  SamplingClient sampler = service.create_sampling_client({.model_path = latest}).get().value();
  std::string other_path = trainer.save_weights_for_sampler("other").get().value().path;
  SamplingClient other = service.create_sampling_client({.model_path = other_path}).get().value();
  std::vector<float> before;
};

TEST_F(SamplerOfLatest, HasItsWeightsWhenTheNameIsSavedAgain) {
  train(trainer, 3);
  trainer.save_weights_for_sampler("latest").get().value();
  (void)sample(other).value();

  EXPECT_THAT(sample(sampler), IsOkAndHolds(before));
}

TEST_F(SamplerOfLatest, HasItsWeightsWhenTheCheckpointIsDeleted) {
  const auto rest = service.create_rest_client();
  ASSERT_THAT(rest.delete_checkpoint_from_tinker_path(latest).get(), IsOk());

  EXPECT_THAT(sample(sampler), IsOkAndHolds(before));
}

TEST_F(SamplerOfLatest, SaysThatItsWeightsAreGoneWhenTheSessionHasManyNewerOnes) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(service.create_sampling_client({.model_path = other_path}).get(), IsOk());
  }
  const auto rest = service.create_rest_client();
  ASSERT_THAT(rest.delete_checkpoint_from_tinker_path(latest).get(), IsOk());

  EXPECT_THAT(sample(sampler),
              IsError(ErrorCode::request_failed, HasSubstr("was replaced or deleted")));
}

TEST(LocalServer, NamesTheModelsThatThereAreWhenOneIsMissing) {
  const auto server = LocalServer::start(small_server()).value();

  EXPECT_THAT(connect(server).create_lora_training_client("huge").get(),
              IsError(ErrorCode::not_found, HasSubstr("tiny")));
}

}  // namespace
}  // namespace tinker::local_server_test
