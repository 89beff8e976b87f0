#include "tinker/engine.h"

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/cpu.h"
#include "engine/random_model.h"
#include "support/temporary_folder.h"
#include "tinker/losses.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/ask.h"
#include "unit/engine/small_config.h"

namespace tinker::engine_test {
namespace {

using engine::Ask;
using engine::sample_all;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

/// A small random model, loaded.
struct EngineTest : ::testing::Test {
  EngineTest() {
    auto config = engine::small_config();
    config.vocab_size = 300;
    config.hidden_size = 32;
    config.head_dim = 8;
    config.context_length = 128;
    EXPECT_THAT(engine::write_random_model(folder.path(), config, 3), IsOk());
  }
  [[nodiscard]] Engine load(EngineOptions options = {}) const {
    options.threads = 2;
    options.precision = EnginePrecision::f32;
    return Engine::load(folder.path(), options).value();
  }
  static Datum datum(std::vector<std::int32_t> text) {
    return {.model_input = ModelInput::from_tokens({text.begin(), text.end() - 1}),
            .loss_fn_inputs = {
                {"target_tokens", std::vector<std::int64_t>(text.begin() + 1, text.end())}}};
  }
  static Ask request(std::vector<std::int32_t> prompt, SamplingParams params) {
    return {.prompt = ModelInput::from_tokens(std::move(prompt)), .params = std::move(params)};
  }

  testing::TemporaryFolder folder;
};

/// TINKER_CPU while it lives; then what it was.
class CpuVariable {
 public:
  explicit CpuVariable(const std::optional<std::string>& value) {
    if (const char* const old = std::getenv(kName)) old_ = old;
    set(value);
  }
  CpuVariable(const CpuVariable&) = delete;
  CpuVariable& operator=(const CpuVariable&) = delete;
  ~CpuVariable() { set(old_); }

 private:
  static constexpr const char* kName = "TINKER_CPU";
  static void set(const std::optional<std::string>& value) {
    if (value) {
      ::setenv(kName, value->c_str(), 1);
    } else {
      ::unsetenv(kName);
    }
  }

  std::optional<std::string> old_ = {};
};

TEST_F(EngineTest, LearnsATextByHeart) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 8, .seed = 1}).value();
  const std::vector data = {datum({5, 9, 17, 33, 65, 129, 257, 2})};
  const double before = trainer.forward(data, LossFn::cross_entropy)->loss().value();

  for (int i = 0; i < 60; ++i) {
    ASSERT_THAT(trainer.forward_backward(data, LossFn::cross_entropy), IsOk());
    ASSERT_THAT(trainer.optim_step({.learning_rate = 0.02}), IsOk());
  }
  const double after = trainer.forward(data, LossFn::cross_entropy)->loss().value();
  const auto text = sample(engine, request({5}, {.temperature = 0}), trainer.snapshot().value());

  EXPECT_GT(before, 20);
  EXPECT_LT(after, 0.1);
  ASSERT_THAT(text, IsOk());
  EXPECT_THAT(text->sequences.at(0).tokens, ElementsAre(9, 17, 33, 65, 129, 257, 2));
  EXPECT_EQ(text->sequences.at(0).stop_reason, StopReason::stop);
}

TEST_F(EngineTest, SnapshotsStayWhatTheyAre) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  auto asked = request({1, 2, 3}, {.max_tokens = 1, .seed = 4});
  asked.options.include_prompt_logprobs = true;
  const auto first = trainer.snapshot().value();
  const auto before = sample(engine, asked, first)->prompt_logprobs;

  ASSERT_THAT(trainer.forward_backward(std::vector{datum({1, 2, 3, 4})}, LossFn::cross_entropy),
              IsOk());
  ASSERT_THAT(trainer.optim_step({.learning_rate = 0.01}), IsOk());

  EXPECT_EQ(sample(engine, asked, first)->prompt_logprobs[1], before[1]);
  EXPECT_NE(sample(engine, asked, trainer.snapshot().value())->prompt_logprobs[1], before[1]);
  EXPECT_EQ(sample(engine, asked)->prompt_logprobs[1], before[1]);  // B = 0 at first
}

TEST_F(EngineTest, AStepReportsTheNormAndClearsTheGradients) {
  const auto trainer = load().create_trainer({.rank = 4, .seed = 1}).value();
  ASSERT_THAT(trainer.forward_backward(std::vector{datum({1, 2, 3, 4})}, LossFn::cross_entropy),
              IsOk());

  const auto first = trainer.optim_step({});
  const auto second = trainer.optim_step({});

  ASSERT_THAT(first, IsOk());
  EXPECT_GT(first->metrics->at("unclipped_grad_l2:mean"), 0);
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->metrics->at("unclipped_grad_l2:mean"), 0);
}

TEST_F(EngineTest, AFormulaTrainsAsTheBuiltInLossItImitates) {
  const auto engine = load();
  const auto built_in = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const auto custom = engine.create_trainer({.rank = 4, .seed = 1}).value();
  auto given = datum({7, 8, 9, 10, 11});
  given.loss_fn_inputs["logprobs"] = std::vector<float>{-5.0F, -4.0F, -6.0F, -5.5F};
  given.loss_fn_inputs["advantages"] = std::vector<float>{1.0F, -0.5F, 0.25F, 2.0F};
  auto renamed = given;
  renamed.loss_fn_inputs.erase("logprobs");
  renamed.loss_fn_inputs["sampling_logprobs"] = given.loss_fn_inputs["logprobs"];

  const auto expected = built_in.forward_backward(std::vector{given}, LossFn::importance_sampling);
  const auto got =
      custom.forward_backward(std::vector{renamed}, loss::importance_sampling().value());

  ASSERT_THAT(expected, IsOk());
  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->metrics.at("loss:sum"), expected->metrics.at("loss:sum"));
  // Scored only, it adds no gradients.
  EXPECT_EQ(custom.forward(std::vector{renamed}, loss::importance_sampling().value())->metrics,
            got->metrics);
  EXPECT_EQ(custom.optim_step({})->metrics, built_in.optim_step({})->metrics);
}

TEST_F(EngineTest, AFailedCallLeavesTheGradientsAsTheyWere) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const auto other = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const std::vector good = {datum({1, 2, 3, 4})};
  // Asks for an input that the second datum does not have.
  const auto formula =
      loss::Formula::define("f", {{"logprobs", 1}, {"w", 1}}, [](const loss::Inputs& in) {
        return -sum(in["logprobs"] * in["w"]);
      }).value();
  auto weighted = good[0];
  weighted.loss_fn_inputs["w"] = std::vector<float>{1.0F, 1.0F, 1.0F};
  ASSERT_THAT(trainer.forward_backward(good, LossFn::cross_entropy), IsOk());
  ASSERT_THAT(other.forward_backward(good, LossFn::cross_entropy), IsOk());

  const auto failed = trainer.forward_backward(std::vector{weighted, good[0]}, formula);

  EXPECT_THAT(failed, IsError(ErrorCode::invalid_argument, HasSubstr("data[1]")));
  EXPECT_EQ(trainer.optim_step({})->metrics, other.optim_step({})->metrics);
}

TEST_F(EngineTest, SamplesAskedForByManyThreadsAreAsThoseAskedForAlone) {
  const auto engine = load();
  std::vector<Ask> asked;
  for (int i = 0; i < 6; ++i)
    asked.push_back(request({i, i + 1, 40}, {.max_tokens = 12, .seed = i}));
  std::vector<SampledSequence> alone;
  for (const auto& one : asked) alone.push_back(sample(engine, one)->sequences.at(0));
  std::vector<SampledSequence> together(asked.size());

  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    callers.emplace_back([&, i] { together[i] = sample(engine, asked[i])->sequences.at(0); });
  }
  for (auto& caller : callers) caller.join();

  EXPECT_EQ(together, alone);
}

TEST_F(EngineTest, TrainersAndSamplersMayWorkAtTheSameTime) {
  struct Outcome {
    std::vector<double> numbers = {};
    std::vector<SampledSequence> sequences = {};
    bool operator==(const Outcome&) const = default;
  };
  // Steps of one adapter, and samples of what it has become.
  const auto train = [](const Engine& engine, int which) {
    Outcome out;
    const auto trainer = engine.create_trainer({.rank = 2 + which, .seed = which}).value();
    const std::vector data = {datum({5 + which, 9, 17, 33, 65, 129, 257, 2}),
                              datum({7, 8 + which, 9})};
    for (int step = 0; step < 6; ++step) {
      const auto pass = trainer.forward_backward(data, LossFn::cross_entropy).value();
      const auto update = trainer.optim_step({.learning_rate = 0.01}).value();
      const auto answer = sample(
          engine, request({5, which}, {.max_tokens = 6, .seed = step}), trainer.snapshot().value());
      out.numbers.push_back(pass.loss().value());
      out.numbers.push_back(update.metrics->at("unclipped_grad_l2:mean"));
      out.sequences.push_back(answer.value().sequences.at(0));
    }
    return out;
  };
  // Many requests of the base model, some in one call.
  const auto sample = [](const Engine& engine, int which) {
    Outcome out;
    for (int i = 0; i < 4; ++i) {
      std::vector<Ask> asked;
      for (int j = 0; j < 3; ++j)
        asked.push_back(request({which, i, j + 1}, {.max_tokens = 8, .seed = i + j}));
      for (const auto& answer : sample_all(engine, asked))
        out.sequences.push_back(answer.value().sequences.at(0));
    }
    return out;
  };
  const auto run = [&](const Engine& engine, int which) {
    return which % 2 == 0 ? train(engine, which) : sample(engine, which);
  };
  constexpr int kWorkers = 4;
  const auto quiet = load();
  std::vector<Outcome> alone;
  for (int i = 0; i < kWorkers; ++i) alone.push_back(run(quiet, i));
  const auto busy = load();
  std::vector<Outcome> together(kWorkers);

  std::vector<std::thread> workers;
  for (int i = 0; i < kWorkers; ++i)
    workers.emplace_back([&, i] { together[static_cast<std::size_t>(i)] = run(busy, i); });
  for (auto& worker : workers) worker.join();

  EXPECT_EQ(together, alone);
}

TEST_F(EngineTest, StopsAtStringsAcrossTokens) {
  const auto engine =
      load({.token_bytes = [](std::int32_t token) { return std::to_string(token % 10); }});
  const auto all = sample(
      engine, request({1}, {.max_tokens = 40, .seed = 5, .stop = std::vector<std::int32_t>()}));
  std::string text;
  for (const auto token : all->sequences.at(0).tokens) text += std::to_string(token % 10);
  const std::string stop = text.substr(10, 3);
  const std::size_t end = text.find(stop) + 3;

  const auto stopped = sample(engine, request({1}, {.max_tokens = 40, .seed = 5, .stop = stop}));

  ASSERT_THAT(stopped, IsOk());
  EXPECT_EQ(stopped->sequences.at(0).stop_reason, StopReason::stop);
  EXPECT_LE(stopped->sequences.at(0).tokens.size(), end);
  EXPECT_THAT(sample(load(), request({1}, {.stop = "x"})),
              IsError(ErrorCode::invalid_argument, HasSubstr("tokenizer")));
}

TEST_F(EngineTest, RefusesWhatIsTooLargeBeforeItBegins) {
  const auto engine = load({.training_bytes = 1000});
  const auto trainer = engine.create_trainer({.rank = 4}).value();

  EXPECT_THAT(trainer.forward_backward(std::vector{datum({1, 2, 3})}, LossFn::cross_entropy),
              IsError(ErrorCode::invalid_argument, HasSubstr("MiB")));
}

TEST_F(EngineTest, MayBeHeldToLessMemoryLater) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4}).value();
  const std::vector data{datum({1, 2, 3})};
  ASSERT_THAT(trainer.forward_backward(data, LossFn::cross_entropy), IsOk());
  EXPECT_EQ(engine.queue().training_bytes, trainer.memory_used().value());

  engine.limit_training(1000);
  EXPECT_THAT(trainer.forward_backward(data, LossFn::cross_entropy),
              IsError(ErrorCode::invalid_argument, HasSubstr("MiB")));

  engine.limit_training(0);
  EXPECT_THAT(trainer.forward_backward(data, LossFn::cross_entropy), IsOk());
}

TEST_F(EngineTest, NamesWhatIsWrong) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4}).value();

  EXPECT_THAT(Engine::load("/nowhere"),
              IsError(ErrorCode::invalid_argument, HasSubstr("/nowhere")));
  EXPECT_THAT(Engine::load(folder.path(), {.threads = 100'000}),
              IsError(ErrorCode::invalid_argument, HasSubstr("threads is 100000")));
  EXPECT_THAT(Engine::load(folder.path(), {.cpu = "mmx"}),
              IsError(ErrorCode::invalid_argument, HasSubstr("mmx")));
  EXPECT_THAT(engine.create_trainer({.rank = 0}),
              IsError(ErrorCode::invalid_argument, HasSubstr("rank is 0")));
  EXPECT_THAT(trainer.forward(std::vector{datum({1, 300, 2})}, LossFn::cross_entropy),
              IsError(ErrorCode::invalid_argument, HasSubstr("300")));
  EXPECT_THAT(trainer.forward(std::vector{datum({1, 2})}, LossFn::stable_reinforce),
              IsError(ErrorCode::invalid_argument, HasSubstr("stable_reinforce")));
  EXPECT_THAT(sample(engine, request({300}, {})),
              IsError(ErrorCode::invalid_argument, HasSubstr("300")));
  EXPECT_THAT(sample(engine, request({}, {})),
              IsError(ErrorCode::invalid_argument, HasSubstr("prompt")));
  EXPECT_THAT(sample(engine, request({1}, {.max_tokens = 0})),
              IsError(ErrorCode::invalid_argument, HasSubstr("max_tokens is 0")));
  EXPECT_THAT(sample(engine, request({1}, {.temperature = -1})),
              IsError(ErrorCode::invalid_argument, HasSubstr("temperature")));
  EXPECT_THAT(sample(engine, request({1}, {.top_p = -0.5})),
              IsError(ErrorCode::invalid_argument, HasSubstr("top_p")));
}

TEST_F(EngineTest, TheEnvironmentSaysWhichKernelsAreUsed) {
  using enum engine::CpuPath;
  const auto machine = engine::cpu_paths();
  const auto loss = [&](const EngineOptions& options) -> Result<double> {
    TINKER_TRY(const auto engine, Engine::load(folder.path(), options));
    TINKER_TRY(const auto trainer, engine.create_trainer({.seed = 1}));
    TINKER_TRY(const auto output,
               trainer.forward(std::vector{datum({5, 9, 17, 33, 65, 129, 257, 2})},
                               LossFn::cross_entropy));
    return output.loss();
  };
  // Either the machine does not have it, or what it computes in bf16 can be told from the others.
  std::optional<double> of_amx;
  for (const auto path : {amx, scalar, avx2, avx512, avx512bf16}) {
    const std::string name(to_string(path));
    const CpuVariable set(name);

    const auto found = loss({.precision = EnginePrecision::bf16, .threads = 1});

    if (std::ranges::find(machine, path) == machine.end()) {
      EXPECT_THAT(found,
                  IsError(ErrorCode::invalid_argument,
                          HasSubstr("cannot run the kernels '" + name + "'; it has scalar")));
      continue;
    }
    ASSERT_THAT(found, IsOk()) << name;
    if (path == amx) {
      of_amx = *found;
    } else if (of_amx) {
      EXPECT_NE(*found, *of_amx) << name;
    }
  }
}

TEST_F(EngineTest, RefusesAnEnvironmentThatNamesNoKernels) {
  const CpuVariable set("mmx");

  EXPECT_THAT(Engine::load(folder.path(), {}),
              IsError(ErrorCode::invalid_argument,
                      HasSubstr("no kernels are called 'mmx'; this machine has scalar")));
}

TEST_F(EngineTest, OptionsCountForMoreThanTheEnvironment) {
  const CpuVariable set("mmx");

  EXPECT_THAT(Engine::load(folder.path(), {.threads = 1, .cpu = "scalar"}), IsOk());
}

}  // namespace
}  // namespace tinker::engine_test
