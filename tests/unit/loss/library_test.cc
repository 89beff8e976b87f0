#include <cmath>
#include <numbers>

#include <gmock/gmock.h>

#include "tinker/losses.h"
#include "tinker/testing/matchers.h"
#include "unit/loss/batches.h"

namespace tinker::loss::library_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

using Floats = std::vector<float>;

/// Ratios 2, 1 and 0.5 with advantages 1, -1 and 1.
Batch policy_batch() {
  const auto ln2 = std::numbers::ln2_v<float>;
  return {.data = {datum({{"sampling_logprobs", Floats{-1.0F - ln2, -1.0F, -1.0F + ln2}},
                          {"advantages", Floats{1.0F, -1.0F, 1.0F}},
                          {"sequence_ratio_mask", Floats{1.0F, 1.0F, 0.0F}}})},
          .logprobs = {{-1.0F, -1.0F, -1.0F}}};
}

TEST(Library, ImportanceSamplingWeighsByTheRatio) {
  const auto found = policy_batch().run(batch(importance_sampling().value()));
  ASSERT_THAT(found, IsOk());
  EXPECT_NEAR(found->loss, -(2.0 - 1.0 + 0.5), 1e-6);
  EXPECT_THAT(
      found->gradients[0],
      ElementsAre(FloatNear(-2.0F, 1e-6F), FloatNear(1.0F, 1e-6F), FloatNear(-0.5F, 1e-6F)));
}

TEST(Library, PpoClipsWhereThatIsPessimistic) {
  const auto found = policy_batch().run(batch(ppo().value()));
  ASSERT_THAT(found, IsOk());
  EXPECT_NEAR(found->loss, -(1.2 - 1.0 + 0.5), 1e-6);
  // In range both branches are equal and share the gradient, which is that of one.
  EXPECT_THAT(found->gradients[0],
              ElementsAre(0.0F, FloatNear(1.0F, 1e-6F), FloatNear(-0.5F, 1e-6F)));
  EXPECT_NEAR(found->metrics.at("custom/clip_fraction:mean"), 2.0 / 3.0, 1e-12);
}

TEST(Library, CispoHasTheServicesBoundsAndNoGradientThroughTheRatio) {
  const auto found = policy_batch().run(batch(cispo().value()));
  ASSERT_THAT(found, IsOk());
  EXPECT_NEAR(found->loss, 2.0 - 1.0 + 0.5, 1e-6);
  EXPECT_THAT(
      found->gradients[0],
      ElementsAre(FloatNear(-2.0F, 1e-6F), FloatNear(1.0F, 1e-6F), FloatNear(-0.5F, 1e-6F)));
}

TEST(Library, GspoHasOneRatioOfTheMaskedPositions) {
  const auto found = policy_batch().run(batch(gspo({.low = 0.5, .high = 2.0}).value()));
  ASSERT_THAT(found, IsOk());
  const auto ratio = std::numbers::sqrt2_v<float>;
  EXPECT_NEAR(found->loss, -ratio, 1e-6);
  EXPECT_THAT(
      found->gradients[0],
      ElementsAre(FloatNear(-ratio, 1e-6F), FloatNear(ratio, 1e-6F), FloatNear(-ratio, 1e-6F)));
}

TEST(Library, GspoHasTheCheckValueOfTheService) {
  // SERVER 2: each token has the gradient of its own advantage.
  const Batch given = {.data = {datum({{"sampling_logprobs", Floats{-1.1F, -0.45F, -2.05F}},
                                       {"advantages", Floats{1.0F, 0.0F, -0.5F}},
                                       {"sequence_ratio_mask", Floats{1.0F, 1.0F, 1.0F}}})},
                       .logprobs = {{-1.0F, -0.5F, -2.0F}}};
  const auto found = given.run(batch(gspo().value()));
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->gradients[0],
              ElementsAre(FloatNear(-1.034F, 5e-4F), 0.0F, FloatNear(0.517F, 5e-4F)));
}

TEST(Library, GspoHasARatioOfOneWhenEverythingIsMasked) {
  auto given = policy_batch();
  given.data[0].loss_fn_inputs["sequence_ratio_mask"] = Floats{0.0F, 0.0F, 0.0F};
  const auto found = given.run(batch(gspo().value()));
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->loss, -1.0);
  EXPECT_THAT(found->gradients[0], ElementsAre(-1.0F, 1.0F, -1.0F));
}

TEST(Library, DroPenalisesTheDistance) {
  const auto found = policy_batch().run(batch(dro(0.5).value()));
  ASSERT_THAT(found, IsOk());
  const double ln2 = std::numbers::ln2;
  EXPECT_NEAR(found->loss, 1.0 + 0.5 * ln2 * ln2, 1e-6);
  EXPECT_NEAR(found->gradients[0][0], -(1.0 - 0.5 * ln2), 1e-6);
}

TEST(Library, EstimatesKlInThreeWays) {
  const Floats x = {-1.0F, -2.0F};
  const Floats reference = {-1.5F, -1.0F};
  EXPECT_THAT(kl(KlEstimator::k1, x, reference), ElementsAre(0.5F, -1.0F));
  EXPECT_THAT(kl(KlEstimator::k2, x, reference), ElementsAre(0.125F, 0.5F));
  EXPECT_THAT(kl(KlEstimator::k3, x, reference),
              ElementsAre(FloatNear(std::exp(-0.5F) - 0.5F, 1e-6F),
                          FloatNear(std::exp(1.0F) - 2.0F, 1e-6F)));
}

TEST(Library, EstimatesKlInsideFormulasToo) {
  for (const auto estimator : {KlEstimator::k1, KlEstimator::k2, KlEstimator::k3}) {
    const auto formula = Formula::define("f", {{"logprobs", 1}, {"ref", 1}}, [&](const Inputs& in) {
      return sum(kl(estimator, in["logprobs"], in["ref"]));
    });
    ASSERT_THAT(formula, IsOk());
    const Floats x = {-1.0F, -2.0F};
    const Floats reference = {-1.5F, -1.0F};
    const auto found = formula->evaluate(x, {{"ref", reference}});
    ASSERT_THAT(found, IsOk());
    const auto values = kl(estimator, x, reference);
    EXPECT_NEAR(found->loss, values[0] + values[1], 1e-6);
  }
}

TEST(Batch, AddsLossesAndAveragesMeanMetrics) {
  const auto formula = Formula::define("f", {{"logprobs", 1}}, [](const Inputs& in) {
    return Output(sum(in["logprobs"]),
                  {{"custom/s:sum", sum(in["logprobs"])}, {"custom/m:mean", sum(in["logprobs"])}});
  });
  const Batch given = {.data = {datum({}), datum({})}, .logprobs = {{1.0F, 2.0F}, {4.0F}}};
  const auto found = given.run(batch(formula.value()));
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->loss, 7.0);
  EXPECT_EQ(found->metrics.at("custom/s:sum"), 7.0);
  EXPECT_EQ(found->metrics.at("custom/m:mean"), 3.5);
  EXPECT_THAT(found->gradients, ElementsAre(ElementsAre(1.0F, 1.0F), ElementsAre(1.0F)));
}

TEST(Batch, NamesTheDatumThatFails) {
  const Batch given = {.data = {policy_batch().data[0], datum({})},
                       .logprobs = {{-1, -1, -1}, {-1}}};
  EXPECT_THAT(given.run(batch(ppo().value())),
              IsError(ErrorCode::invalid_argument, HasSubstr("data[1]")));
}

Batch preference_batch() {
  return {.data = {datum({{"reference_logprobs", Floats{-1.0F, -2.0F}},
                          {"weights", Floats{0.0F, 1.0F}}}),
                   datum({{"reference_logprobs", Floats{-1.0F, -1.0F, -3.0F}}})},
          .logprobs = {{-1.0F, -2.0F}, {-1.0F, -1.0F, -3.0F}}};
}

TEST(Dpo, StartsAtLogTwoWithoutAMargin) {
  const auto found = preference_batch().run(dpo());
  ASSERT_THAT(found, IsOk());
  EXPECT_NEAR(found->loss, std::log(2.0), 1e-12);
  EXPECT_EQ(found->metrics.at("margin"), 0.0);
  EXPECT_EQ(found->metrics.at("accuracy"), 0.0);
  EXPECT_THAT(found->gradients[0], ElementsAre(0.0F, FloatNear(-0.05F, 1e-7F)));
}

TEST(Dpo, HasTheGradientOfItsLoss) {
  auto given = preference_batch();
  given.logprobs = {{-1.5F, -1.25F}, {-0.5F, -2.0F, -3.5F}};
  const auto function = dpo({.beta = 0.5});
  const auto found = given.run(function);
  ASSERT_THAT(found, IsOk());
  const auto expected = finite_differences(function, given);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      EXPECT_NEAR(found->gradients[i][k], expected[i][k], 1e-5) << i << " " << k;
    }
  }
  EXPECT_NEAR(found->metrics.at("chosen_reward"), 0.5 * 0.75, 1e-6);
  EXPECT_NEAR(found->metrics.at("rejected_reward"), 0.5 * -1.0, 1e-6);
  EXPECT_EQ(found->metrics.at("accuracy"), 1.0);
}

TEST(Dpo, IgnoresTokensWithoutWeightEvenIfInfinite) {
  auto given = preference_batch();
  given.logprobs[0][0] = -INFINITY;
  const auto found = given.run(dpo());
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->loss, DoubleNear(std::log(2.0), 1e-12));
}

TEST(Dpo, RefusesOddDataAndMissingReferences) {
  auto odd = preference_batch();
  odd.data.pop_back();
  odd.logprobs.pop_back();
  EXPECT_THAT(odd.run(dpo()), IsError(ErrorCode::invalid_argument, HasSubstr("found 1 data")));
  auto missing = preference_batch();
  missing.data[1] = datum({});
  EXPECT_THAT(
      missing.run(dpo()),
      IsError(ErrorCode::invalid_argument, HasSubstr("data[1]: input 'reference_logprobs'")));
}

}  // namespace
}  // namespace tinker::loss::library_test
