// Engine::sample as callers use it: from several adapters at once, and with an end before its time.

#include <latch>
#include <limits>
#include <mutex>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "tinker/engine.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/ask.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine_sample_test {
namespace {

using engine::sample_all;
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
  static engine::Ask request(std::int32_t first) {
    return {
        .prompt = ModelInput::from_tokens({first, 9, 17}),
        .params = {
            .max_tokens = 40, .seed = 3, .stop = std::vector<std::int32_t>(), .temperature = 1}};
  }

  testing::TemporaryFolder folder;
};

TEST_F(EngineSampleTest, TakesASnapshotForEachRequest) {
  const auto engine = load();
  std::vector<AdapterSnapshot> from(1);  // the base
  for (const int rank : {2, 5}) {
    const auto trainer = engine.create_trainer({.rank = rank, .seed = rank}).value();
    const Datum datum = {
        .model_input = ModelInput::from_tokens({5, 9, 17}),
        .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{9, 17, 33}}}};
    ASSERT_THAT(trainer.forward_backward({&datum, 1}, LossFn::cross_entropy), IsOk());
    ASSERT_THAT(trainer.optim_step({.learning_rate = 0.1}), IsOk());
    from.push_back(trainer.snapshot().value());
  }
  const std::vector requests(3, request(5));

  const auto together = sample_all(engine, requests, from);

  ASSERT_EQ(together.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto alone = sample(engine, requests[i], from[i]);
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

  EXPECT_THAT(sample(engine.with({.stop_token = source.get_token()}), request(5)),
              IsError(ErrorCode::cancelled, HasSubstr("stop")));
  EXPECT_THAT(sample(engine, request(5)), IsOk());
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
  asked.params.stop = std::vector<std::string>{"never"};

  EXPECT_THAT(sample(engine.with({.stop_token = source.get_token()}), asked),
              IsError(ErrorCode::cancelled, HasSubstr("stop")));
  EXPECT_EQ(tokens, 3);
  EXPECT_THAT(sample(engine, asked), IsOk());
}

// Once it has begun it would go on for longer than any test, unless it is stopped by what may come
// between its tokens.
TEST_F(EngineSampleTest, LetsOthersInBetweenItsSteps) {
  auto config = engine::tiny_config(engine::ModelConfig::Architecture::llama);
  config.context_length = 1'000'000;
  config.eos_ids = {};
  const testing::TemporaryFolder long_model;
  ASSERT_THAT(engine::write_random_model(long_model.path(), config, 7), IsOk());
  std::latch has_begun(1);
  std::once_flag once;
  EngineOptions options = {.threads = 2};
  options.token_bytes = [&](std::int32_t /*token*/) {
    std::call_once(once, [&] { has_begun.count_down(); });
    return std::string("x");
  };
  const auto engine = Engine::load(long_model.path(), options).value();
  std::stop_source source;
  Result<SampleResponse> endless = Error{};
  std::thread caller([&] {
    auto asked = request(5);
    asked.params = {.max_tokens = 900'000, .stop = std::vector<std::string>{"never"}};
    endless = sample(engine.with({.stop_token = source.get_token()}), asked);
  });
  has_begun.wait();

  const auto trainer = engine.create_trainer({.rank = 2, .seed = 1});
  const auto snapshot = trainer->snapshot().value();
  auto without_seed = request(6);
  without_seed.params.seed = {};
  const auto answer = sample(engine, without_seed, snapshot);
  source.request_stop();
  caller.join();

  EXPECT_THAT(trainer, IsOk());
  EXPECT_THAT(answer, IsOk());
  EXPECT_THAT(endless, IsError(ErrorCode::cancelled, HasSubstr("stop")));
}

TEST_F(EngineSampleTest, TakesSnapshotsOfEnginesThatComputeTheSame) {
  const auto engine = load();
  const auto other = load();
  const auto f32 = load({.precision = EnginePrecision::f32});
  const auto trainer = other.create_trainer({.rank = 2, .seed = 1}).value();

  EXPECT_THAT(sample(f32, request(5), trainer.snapshot().value()),
              IsError(ErrorCode::invalid_argument, HasSubstr("another model")));
  const auto answer = sample(engine, request(5), trainer.snapshot().value());
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->sequences, sample(other, request(5), trainer.snapshot().value())->sequences);
}

TEST_F(EngineSampleTest, GoesOnAfterARequestThatIsRefused) {
  const auto engine = load();
  std::vector requests(3, request(5));
  requests[1].options.num_samples = std::numeric_limits<std::int32_t>::max();

  const auto answers = sample_all(engine, requests);

  EXPECT_THAT(answers[0], IsOk());
  EXPECT_THAT(answers[1], IsError(ErrorCode::invalid_argument, HasSubstr("num_samples")));
  EXPECT_THAT(answers[2], IsOk());
}

}  // namespace
}  // namespace tinker::engine_sample_test
