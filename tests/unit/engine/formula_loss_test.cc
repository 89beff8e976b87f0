// Formulas against the built-in losses that they imitate: both compute in double in the same order,
// so that the same bits come out, of the loss and of the parameters after a step.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/training_run.h"
#include "tinker/losses.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine::formula_loss_test {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using Numbers = std::vector<float>;

struct FormulaLoss : ::testing::Test {
  FormulaLoss()
      : threads(2),
        model(tiny_model({.path = cpu_paths().back()}, threads)),
        adapter(tiny_adapter(*model, threads)),
        compute(std::make_shared<Compute>(std::make_unique<ThreadPool>(2), model)) {
    for (const std::size_t length : {37U, 6U}) {
      const auto text = some_tokens(*model, length + 1, length);
      data.push_back(
          {.model_input = ModelInput::from_tokens({text.begin(), text.end() - 1}),
           .loss_fn_inputs = {
               {"target_tokens", std::vector<std::int64_t>(text.begin() + 1, text.end())}}});
    }
  }
  [[nodiscard]] TrainingRun run() const { return {compute, adapter, 0}; }

  /// Adds ratios on all sides of the thresholds, and advantages of both signs, some of them 0.
  void sample() {
    const auto scored =
        run().run(data, TokenLoss::create(LossFn::cross_entropy, {}).value(), false).run().value();
    for (std::size_t i = 0; i < data.size(); ++i) {
      Numbers sampled;
      Numbers advantages;
      for (const float logprob : scored.loss_fn_outputs[i].at("logprobs").floats()) {
        const auto t = static_cast<float>(sampled.size());
        sampled.push_back(logprob + 0.5F * std::sin(3 * t + static_cast<float>(i)));
        advantages.push_back(std::floor(4 * std::sin(2 * t)) / 2);
      }
      data[i].loss_fn_inputs["logprobs"] = std::move(sampled);
      data[i].loss_fn_inputs["advantages"] = std::move(advantages);
    }
  }
  /// A formula's "logprobs" are the model's.
  [[nodiscard]] std::vector<Datum> renamed() const {
    auto out = data;
    for (auto& datum : out) {
      auto sampled = datum.loss_fn_inputs.extract("logprobs");
      sampled.key() = "sampling_logprobs";
      datum.loss_fn_inputs.insert(std::move(sampled));
    }
    return out;
  }

  void expect_same(LossFn kind,
                   const LossFnConfig& config,
                   const loss::Formula& formula,
                   std::span<const Datum> of_formula) {
    auto built_in = run();
    auto custom = run();

    const auto expected = built_in.run(data, TokenLoss::create(kind, config).value(), true).run();
    const auto found = custom.run(of_formula, formula, true).run();
    const auto step = built_in.step(AdamParams{.learning_rate = 0.01}).run();
    const auto custom_step = custom.step(AdamParams{.learning_rate = 0.01}).run();

    ASSERT_THAT(expected, IsOk());
    ASSERT_THAT(found, IsOk());
    EXPECT_NE(expected->metrics.at("loss:sum"), 0);
    EXPECT_EQ(found->metrics.at("loss:sum"), expected->metrics.at("loss:sum"));
    EXPECT_GT(step->metrics->at("unclipped_grad_l2:mean"), 0);
    EXPECT_EQ(custom_step->metrics, step->metrics);
    EXPECT_THAT(custom.adapter()->values(), ElementsAreArray(built_in.adapter()->values()));
  }

  ThreadPool threads;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Adapter> adapter;
  std::shared_ptr<Compute> compute;
  std::vector<Datum> data;
};

TEST_F(FormulaLoss, IsCrossEntropy) {
  for (auto& datum : data) {
    Numbers weights;
    for (std::int64_t i = 0; i < datum.model_input.length().value(); ++i)
      weights.push_back(static_cast<float>(i % 4) / 2 - 0.5F);
    datum.loss_fn_inputs["weights"] = std::move(weights);
  }
  const auto formula =
      loss::Formula::define("cross_entropy", {{"logprobs", 1}, {"weights", 1}}, [](const auto& in) {
        return -sum(in["weights"] * in["logprobs"]);
      }).value();

  expect_same(LossFn::cross_entropy, {}, formula, data);
}

TEST_F(FormulaLoss, IsCrossEntropyOfSeveralTargets) {
  for (auto& datum : data) {
    const std::int64_t n = datum.model_input.length().value();
    std::vector<std::int64_t> targets;
    Numbers weights;
    for (std::int64_t i = 0; i < 2 * n; ++i) {
      targets.push_back(i * 97 % 1601);
      weights.push_back(static_cast<float>(i % 3) - 0.75F);
    }
    const TensorData::Shape shape = {n, 2};
    datum.loss_fn_inputs["target_tokens"] = TensorData(Buffer<std::int64_t>(targets), shape);
    datum.loss_fn_inputs["weights"] = TensorData(Buffer<float>(weights), shape);
  }
  const auto formula =
      loss::Formula::define("cross_entropy", {{"logprobs", 2}, {"weights", 2}}, [](const auto& in) {
        return -sum(sum(in["weights"] * in["logprobs"], 1));
      }).value();

  expect_same(LossFn::cross_entropy, {}, formula, data);
}

TEST_F(FormulaLoss, IsImportanceSampling) {
  sample();
  expect_same(LossFn::importance_sampling, {}, loss::importance_sampling().value(), renamed());
}

TEST_F(FormulaLoss, IsPpo) {
  sample();
  expect_same(LossFn::ppo, {}, loss::ppo().value(), renamed());
  expect_same(LossFn::ppo,
              {{"clip_low_threshold", 0.9}, {"clip_high_threshold", 1.5}},
              loss::ppo({.low = 0.9, .high = 1.5}).value(),
              renamed());
}

TEST_F(FormulaLoss, IsCispo) {
  sample();
  expect_same(LossFn::cispo, {}, loss::cispo().value(), renamed());
  expect_same(LossFn::cispo,
              {{"clip_low_threshold", 0.8}, {"clip_high_threshold", 1.2}},
              loss::cispo({.low = 0.8, .high = 1.2}).value(),
              renamed());
}

TEST_F(FormulaLoss, IsDro) {
  sample();
  expect_same(LossFn::dro, {}, loss::dro(0.05).value(), renamed());
  expect_same(LossFn::dro, {{"beta", 0.3}}, loss::dro(0.3).value(), renamed());
}

TEST_F(FormulaLoss, IsGspo) {
  sample();
  for (auto& datum : data) {
    Numbers mask;
    for (std::int64_t i = 0; i < datum.model_input.length().value(); ++i)
      mask.push_back(i % 3 == 0 ? 0.0F : 1.0F);
    datum.loss_fn_inputs["sequence_ratio_mask"] = std::move(mask);
  }

  expect_same(LossFn::gspo, {}, loss::gspo().value(), renamed());
}

TEST_F(FormulaLoss, NeedsTargets) {
  sample();
  auto without = renamed();
  without[1].loss_fn_inputs.erase("target_tokens");

  EXPECT_THAT(run().run(without, loss::ppo().value(), true).run(),
              IsError(ErrorCode::invalid_argument,
                      HasSubstr("data[1]: loss 'ppo' needs loss_fn_inputs.target_tokens")));
}

TEST_F(FormulaLoss, CombinesItsMetricsOverTheData) {
  sample();
  const auto share = [&](std::span<const Datum> part) {
    return run()
        .run(part, loss::ppo().value(), true)
        .run()
        ->metrics.at("custom/clip_fraction:mean");
  };
  const auto all = renamed();

  EXPECT_NE(share({&all[0], 1}), share({&all[1], 1}));
  EXPECT_DOUBLE_EQ(share(all), (share({&all[0], 1}) + share({&all[1], 1})) / 2);
}

}  // namespace
}  // namespace tinker::engine::formula_loss_test
