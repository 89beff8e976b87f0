// The gradient of a head without an adapter comes from the mean of its rows (Scorer), that of one
// with an adapter from logits that are computed again. Both are the same gradient, and neither
// depends on what is computed together.

#include "engine/scorer.h"

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/trainer.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine::scorer_test {
namespace {

class ScorerTest : public ::testing::TestWithParam<Setting> {
 protected:
  ScorerTest() : threads(2), model(tiny_model(GetParam(), threads)) {
    // More rows than a piece has.
    for (const std::size_t length : {200U, 1U, 90U, 130U, 33U, 150U}) {
      const auto text = some_tokens(*model, length + 1, length);
      sequences.push_back(
          {.tokens = {text.begin(), text.end() - 1}, .targets = {text.begin() + 1, text.end()}});
    }
  }

  /// The same factors of the layers, whatever else is adapted; B is not zero there.
  [[nodiscard]] std::shared_ptr<const Adapter> adapter(bool has_head) {
    const auto layout =
        LoraLayout::create(model->config(), {.rank = 3, .train_unembed = has_head}).value();
    Floats values(layout->parameters());
    for (const auto& module : layout->modules()) {
      const bool is_head = module.name == "lm_head";
      for (std::size_t i = 0; i < 3 * module.in; ++i)
        values[module.a + i] = 0.02F * static_cast<float>(i * 37 % 11) - 0.1F;
      for (std::size_t i = 0; i < 3 * module.out; ++i)
        values[module.b + i] = is_head ? 0.0F : 0.02F * static_cast<float>(i * 29 % 13) - 0.12F;
    }
    return Adapter::with_values(*model, layout, std::move(values), threads);
  }

  struct Outcome {
    std::vector<float> logprobs = {};
    std::vector<float> gradients = {};
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };
  /// In calls of so many sequences. Every third target does not matter.
  Outcome train(const Adapter& of, ThreadPool& pool, std::size_t per_call, bool says_inert) {
    auto data = sequences;
    for (auto& sequence : data) {
      for (std::size_t i = 0; says_inert && i < sequence.targets.size(); ++i)
        sequence.inert.push_back(i % 3 == 0);
    }
    Trainer trainer(model, pool, {});
    Outcome out;
    out.gradients.resize(of.layout().parameters());
    for (std::size_t begin = 0; begin < data.size(); begin += per_call) {
      const auto part = std::span(data).subspan(begin, std::min(per_call, data.size() - begin));
      const auto done =
          trainer
              .forward_backward(
                  of,
                  part,
                  [&](std::size_t,
                      std::span<const float> logprobs,
                      std::span<float> d) -> Result<void> {
                    out.logprobs.insert(out.logprobs.end(), logprobs.begin(), logprobs.end());
                    for (std::size_t i = 0; i < d.size(); ++i)
                      d[i] = i % 3 == 0 ? 0.0F : -1.0F / static_cast<float>(i);
                    return {};
                  },
                  out.gradients)
              .run();
      EXPECT_THAT(done, testing::IsOk());
    }
    return out;
  }

  ThreadPool threads;
  std::shared_ptr<const Model> model;
  std::vector<ScoredSequence> sequences;
};

TEST_P(ScorerTest, DoesNotDependOnTheCutOrTheThreads) {
  const auto headless = adapter(false);
  const auto whole = train(*headless, threads, sequences.size(), false);
  ThreadPool one(1);
  EXPECT_EQ(whole, train(*headless, one, sequences.size(), false));
  EXPECT_EQ(whole, train(*headless, threads, 1, false));
}

TEST_P(ScorerTest, LeavesOutWhatIsInertAndNothingElse) {
  const auto headless = adapter(false);
  EXPECT_EQ(train(*headless, threads, 2, true), train(*headless, threads, 2, false));
}

TEST_P(ScorerTest, AgreesWithLogitsThatAreComputedAgain) {
  const auto from_means = train(*adapter(false), threads, sequences.size(), false);
  const auto from_logits = train(*adapter(true), threads, sequences.size(), false);
  EXPECT_EQ(from_means.logprobs, from_logits.logprobs);
  double difference = 0;
  double length = 0;
  for (std::size_t i = 0; i < from_means.gradients.size(); ++i) {  // those of the head come last
    const auto a = static_cast<double>(from_means.gradients[i]);
    const auto b = static_cast<double>(from_logits.gradients[i]);
    difference += (a - b) * (a - b);
    length += a * a;
  }
  const double tolerance = GetParam().precision == Precision::f32 ? 1e-5 : 2e-2;
  EXPECT_LT(std::sqrt(difference), tolerance * std::sqrt(length));
}

INSTANTIATE_TEST_SUITE_P(Engine,
                         ScorerTest,
                         ::testing::ValuesIn(all_settings()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace tinker::engine::scorer_test
