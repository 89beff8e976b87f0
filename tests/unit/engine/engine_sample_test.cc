// Engine::sample as callers use it: from several adapters at once, and with an end before its time.

#include <stop_token>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "tinker/engine.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/tiny_model.h"

namespace tinker {
namespace {

using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

class EngineSampleTest : public ::testing::Test {
 protected:
  EngineSampleTest() {
    const auto config = engine::tiny_config(engine::ModelConfig::Architecture::llama);
    EXPECT_THAT(engine::write_random_model(folder.path(), config, 7), IsOk());
  }
  [[nodiscard]] Engine load(EngineOptions options = {}) const {
    options.threads = 2;
    return Engine::load(folder.path(), options).value();
  }
  static SampleRequest request(std::int32_t first) {
    return {
        .prompt = ModelInput::from_tokens({first, 9, 17}),
        .sampling_params = {
            .max_tokens = 40, .seed = 3, .stop = std::vector<std::int32_t>(), .temperature = 1}};
  }

  testing::TemporaryFolder folder;
};

TEST_F(EngineSampleTest, TakesASnapshotForEachRequest) {
  const auto engine = load();
  std::vector<AdapterSnapshot> from(1);  // the base
  for (const int rank : {2, 5}) {
    const auto trainer = engine.create_adapter({.rank = rank, .seed = rank}).value();
    const Datum datum = {
        .model_input = ModelInput::from_tokens({5, 9, 17}),
        .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{9, 17, 33}}}};
    ASSERT_THAT(trainer.forward_backward({&datum, 1}, LossFn::cross_entropy), IsOk());
    ASSERT_THAT(trainer.optim_step({.learning_rate = 0.1}), IsOk());
    from.push_back(trainer.snapshot());
  }
  const std::vector requests(3, request(5));

  const auto together = engine.sample(requests, from);

  ASSERT_EQ(together.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto alone = engine.sample(requests[i], from[i]);
    ASSERT_THAT(together[i], IsOk());
    EXPECT_EQ(together[i]->sequences[0].tokens, alone->sequences[0].tokens) << i;
    EXPECT_EQ(together[i]->sequences[0].logprobs, alone->sequences[0].logprobs) << i;
  }
  EXPECT_NE(together[0]->sequences[0].logprobs, together[1]->sequences[0].logprobs);
}

TEST_F(EngineSampleTest, BeginsNothingAfterItWasAskedToStop) {
  const auto engine = load();
  std::stop_source source;
  source.request_stop();

  EXPECT_THAT(engine.sample(request(5), {}, source.get_token()),
              IsError(ErrorCode::cancelled, HasSubstr("stop")));
  EXPECT_THAT(engine.sample(request(5)), IsOk());
}

TEST_F(EngineSampleTest, StopsBetweenTokens) {
  std::stop_source source;
  int tokens = 0;
  EngineOptions options;
  options.token_bytes = [&](std::int32_t /*token*/) {
    if (++tokens == 3) source.request_stop();
    return std::string("x");
  };
  const auto engine = load(options);
  auto asked = request(5);
  asked.sampling_params.stop = std::vector<std::string>{"never"};

  EXPECT_THAT(engine.sample(asked, {}, source.get_token()),
              IsError(ErrorCode::cancelled, HasSubstr("stop")));
  EXPECT_EQ(tokens, 3);
  EXPECT_THAT(engine.sample(asked), IsOk());
}

}  // namespace
}  // namespace tinker
