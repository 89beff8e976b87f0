// Values from TINKEX 1.5, gradients against finite differences.
#include <cmath>

#include <gmock/gmock.h>

#include "tinker/losses.h"
#include "tinker/testing/matchers.h"
#include "unit/loss/batches.h"

namespace tinker::loss::regularizer_test {
namespace {

using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

using Floats = std::vector<float>;

/// A base loss of nothing, so that only regularizers count.
Result<BatchResult> nothing(std::span<const Datum>, BatchLogprobs logprobs) {
  BatchResult out;
  for (const auto& one : logprobs) out.gradients.emplace_back(one.size(), 0.0F);
  return out;
}

/// sum(exp(x)), whose gradient bends.
Result<BatchResult> exponential(std::span<const Datum>, BatchLogprobs logprobs) {
  BatchResult out;
  for (const auto& one : logprobs) {
    auto& gradient = out.gradients.emplace_back();
    for (const float x : one) {
      out.loss += std::exp(double{x});
      gradient.push_back(std::exp(x));
    }
  }
  return out;
}

Batch tokens() {
  const TensorData reference = Floats{-1.0F, -0.5F, -2.0F};
  return {.data = {datum({{"reference_logprobs", reference},
                          {"original_logprobs", reference},
                          {"mask", Floats{1.0F, 0.0F, 0.5F}}})},
          .logprobs = {{-0.75F, -1.5F, -2.25F}}};
}

Batch distributions() {
  const TensorData reference(Buffer<float>({-1.0F, -1.25F, -0.75F, -2.0F, -0.5F, -1.5F}),
                             TensorData::Shape{2, 3});
  return {.data = {matrix_datum(2,
                                3,
                                {{"reference_logprobs", reference},
                                 {"original_logprobs", reference},
                                 {"mask", Floats{1.0F, 0.5F}}})},
          .logprobs = {{-0.5F, -1.5F, -1.75F, -1.0F, -0.75F, -2.5F}}};
}

struct Case {
  std::string name = {};
  Regularizer kind = {};
  bool is_matrix = false;
};

void PrintTo(const Case& found, std::ostream* out) {
  *out << found.name;
}

std::vector<Case> cases() {
  using Metric = Consistency::Metric;
  using Mode = Orthogonality::Mode;
  constexpr auto kMean = Reduction::mean;
  constexpr auto kProbabilities = RegularizerTarget::probabilities;
  std::vector<Case> out = {
      {"l1", L1Sparsity{}},
      {"l1_probabilities", L1Sparsity{.target = kProbabilities, .reduction = kMean, .lambda = 2.0}},
      {"l2", L2WeightDecay{.lambda = 0.5}},
      {"l2_centered", L2WeightDecay{.reduction = kMean, .center_on_mean = true}},
      {"l2_clipped", L2WeightDecay{.clip = 1.0, .center = -1.0}},
      {"l2_clipped_mean",
       L2WeightDecay{.target = kProbabilities, .clip = 0.15, .center_on_mean = true}},
      {"elastic_net", ElasticNet{.lambda = 2.0, .l1_ratio = 0.25}},
      {"entropy_maximize", Entropy{.mode = Entropy::Mode::maximize}},
      {"kl", KlDivergence{}},
      {"consistency_mse", Consistency{}},
      {"consistency_l1", Consistency{.metric = Metric::l1, .reduction = Reduction::sum}},
      {"consistency_cosine", Consistency{.metric = Metric::cosine}},
      {"gradient_penalty", GradientPenalty{.function = exponential}},
      {"interpolated",
       GradientPenalty{
           .function = exponential, .mode = GradientPenalty::Mode::interpolated, .seed = 7}},
  };
  const std::size_t shared = out.size();
  for (std::size_t i = 0; i < shared; ++i)
    out.push_back({"rows_" + out[i].name, out[i].kind, true});
  for (const auto estimator : {KlEstimator::k1, KlEstimator::k2}) {
    out.push_back(
        {estimator == KlEstimator::k1 ? "k1" : "k2", KlDivergence{.estimator = estimator}});
  }
  const std::vector<Case> rows = {
      {"rows_entropy_tempered", Entropy{.normalize = true, .temperature = 2.0}, true},
      {"rows_kl_reverse", KlDivergence{.direction = KlDivergence::Direction::reverse}, true},
      {"rows_kl_symmetric", KlDivergence{.symmetric = true}, true},
      {"rows_consistency_kl", Consistency{.metric = Metric::kl}, true},
      {"rows_orthogonality", Orthogonality{}, true},
      {"rows_orthogonality_hard", Orthogonality{.mode = Mode::hard, .normalize = false}, true},
      {"rows_orthogonality_spectral",
       Orthogonality{.mode = Mode::spectral, .normalize = false},
       true},
      {"rows_orthogonality_vocabulary",
       Orthogonality{.axis = Orthogonality::Axis::vocabulary},
       true},
  };
  out.insert(out.end(), std::begin(rows), std::end(rows));
  return out;
}

class Gradient : public ::testing::TestWithParam<std::tuple<Case, bool>> {};

TEST_P(Gradient, AgreesWithFiniteDifferences) {
  const auto& [tested, masked] = GetParam();
  const auto given = tested.is_matrix ? distributions() : tokens();
  const auto function =
      regularize(nothing, {{.kind = tested.kind, .weight = 3.0, .mask = masked ? "mask" : ""}});
  ASSERT_THAT(function, IsOk());

  const auto found = given.run(*function);

  ASSERT_THAT(found, IsOk());
  const auto expected = finite_differences(*function, given);
  double squares = 0.0;
  for (std::size_t i = 0; i < expected[0].size(); ++i) {
    EXPECT_NEAR(found->gradients[0][i], expected[0][i], 3e-3 * (1.0 + std::abs(expected[0][i])))
        << i;
    squares += double{found->gradients[0][i]} * double{found->gradients[0][i]};
  }
  ASSERT_EQ(found->regularizers.size(), 1U);
  const auto& report = found->regularizers[0];
  EXPECT_NEAR(report.weighted_gradient_norm, std::sqrt(squares), 1e-5 * (1.0 + std::sqrt(squares)));
  EXPECT_DOUBLE_EQ(report.contribution, 3.0 * report.value);
  EXPECT_DOUBLE_EQ(found->loss, report.contribution);
}

INSTANTIATE_TEST_SUITE_P(Regularizers,
                         Gradient,
                         ::testing::Combine(::testing::ValuesIn(cases()), ::testing::Bool()),
                         [](const auto& found) {
                           return std::get<0>(found.param).name +
                                  (std::get<1>(found.param) ? "_masked" : "");
                         });

double value_of(const Regularizer& kind, const Batch& given, const std::string& mask = "") {
  return given.run(regularize(nothing, {{.kind = kind, .mask = mask}}).value()).value().loss;
}

TEST(Regularizer, HasTheValuesOfItsFormula) {
  EXPECT_DOUBLE_EQ(value_of(L1Sparsity{}, tokens()), 4.5);
  EXPECT_DOUBLE_EQ(value_of(L1Sparsity{.reduction = Reduction::mean}, tokens()), 1.5);
  EXPECT_DOUBLE_EQ(value_of(L2WeightDecay{}, tokens()), 0.5625 + 2.25 + 5.0625);
  EXPECT_DOUBLE_EQ(value_of(L2WeightDecay{.center_on_mean = true}, tokens()), 2 * 0.5625);
  EXPECT_DOUBLE_EQ(value_of(Entropy{}, tokens()), 1.5);
  EXPECT_DOUBLE_EQ(value_of(KlDivergence{.estimator = KlEstimator::k1}, tokens()),
                   (0.25 - 1 - 0.25) / 3);
  EXPECT_DOUBLE_EQ(value_of(Consistency{}, tokens()), (0.0625 + 1.0 + 0.0625) / 3);
  EXPECT_DOUBLE_EQ(value_of(Orthogonality{}, tokens()), 0.0);
}

TEST(Regularizer, CountsMaskedTokensByTheirWeight) {
  EXPECT_DOUBLE_EQ(value_of(L1Sparsity{}, tokens(), "mask"), 0.75 + 0.5 * 2.25);
  EXPECT_DOUBLE_EQ(value_of(L1Sparsity{.reduction = Reduction::mean}, tokens(), "mask"),
                   (0.75 + 0.5 * 2.25) / 1.5);
}

TEST(Regularizer, MeasuresDistributionsByRow) {
  const double third = std::log(1.0 / 3.0);
  const auto uniform = static_cast<float>(third);
  const Batch given = {.data = {matrix_datum(1, 3, {})}, .logprobs = {{uniform, uniform, uniform}}};
  EXPECT_NEAR(value_of(Entropy{}, given), std::log(3.0), 1e-6);
  EXPECT_NEAR(
      value_of(Entropy{.mode = Entropy::Mode::maximize, .normalize = true}, given), -1.0, 1e-6);
}

TEST(Regularizer, AddsToTheBaseLossAndReports) {
  const auto function = regularize(exponential,
                                   {{.kind = L1Sparsity{}, .weight = 0.5},
                                    {.kind = L1Sparsity{}, .weight = 0.0, .name = "silent"}});
  ASSERT_THAT(function, IsOk());
  const auto found = tokens().run(*function);
  ASSERT_THAT(found, IsOk());
  EXPECT_NEAR(found->loss, found->base_loss + 0.5 * 4.5, 1e-12);
  EXPECT_GT(found->base_gradient_norm, 0.0);
  ASSERT_EQ(found->regularizers.size(), 2U);
  EXPECT_EQ(found->regularizers[0].name, "l1_sparsity");
  EXPECT_DOUBLE_EQ(found->regularizers[0].gradient_norm, std::sqrt(3.0));
  EXPECT_EQ(found->regularizers[1].contribution, 0.0);
}

TEST(Regularizer, RefusesNamesTwiceAndNegativeWeights) {
  EXPECT_THAT(regularize(nothing, {{.kind = Entropy{}}, {.kind = Entropy{}}}),
              IsError(ErrorCode::invalid_argument, HasSubstr("'entropy' comes twice")));
  EXPECT_THAT(regularize(nothing, {{.kind = Entropy{}, .weight = -1.0}}),
              IsError(ErrorCode::invalid_argument, HasSubstr("found -1")));
  EXPECT_THAT(regularize({}, {}), IsError(ErrorCode::invalid_argument, HasSubstr("base loss")));
}

TEST(Regularizer, NamesItselfAndTheDatumWhenItFails) {
  const auto function = regularize(nothing, {{.kind = KlDivergence{.reference = "absent"}}});
  EXPECT_THAT(
      tokens().run(function.value()),
      IsError(ErrorCode::invalid_argument,
              HasSubstr("regularizer 'kl_divergence': data[0]: input 'absent' is missing")));
  EXPECT_THAT(
      tokens().run(regularize(nothing, {{.kind = KlDivergence{.symmetric = true}}}).value()),
      IsError(ErrorCode::invalid_argument, HasSubstr("2-D logprobs")));
}

TEST(Regularizer, DrawsTheSamePointsForTheSameSeed) {
  const auto penalty = [](std::uint64_t seed) {
    return GradientPenalty{
        .function = exponential, .mode = GradientPenalty::Mode::interpolated, .seed = seed};
  };
  EXPECT_EQ(value_of(penalty(1), tokens()), value_of(penalty(1), tokens()));
  EXPECT_NE(value_of(penalty(1), tokens()), value_of(penalty(2), tokens()));
}

}  // namespace
}  // namespace tinker::loss::regularizer_test
