#include "engine/losses.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>
#include <string>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::engine::losses_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::tinker::testing::IsError;
using Ids = std::vector<std::int64_t>;
using Numbers = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr auto kLn2 = std::numbers::ln2_v<float>;

auto invalid(const std::string& what) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(what));
}

TokenLoss loss_of(LossFn kind, const LossFnConfig& config = {}) {
  return TokenLoss::create(kind, config).value();
}

LossFnConfig clip(double low, double high) {
  return {{"clip_low_threshold", low}, {"clip_high_threshold", high}};
}

Datum datum_of(std::size_t tokens, NamedTensors inputs) {
  return {.model_input = ModelInput::from_tokens(std::vector<std::int32_t>(tokens, 1)),
          .loss_fn_inputs = std::move(inputs)};
}

/// What was sampled, and how good it was.
struct Rollout {
  Numbers sampled = {};
  Numbers advantages = {};
  std::optional<Numbers> ratio_mask = {};

  [[nodiscard]] Datum datum() const {
    NamedTensors inputs = {{"target_tokens", Ids(sampled.size(), 1)},
                           {"logprobs", sampled},
                           {"advantages", advantages}};
    if (ratio_mask) inputs["sequence_ratio_mask"] = *ratio_mask;
    return datum_of(sampled.size(), std::move(inputs));
  }
};

struct Evaluation {
  double loss = 0;
  Numbers elementwise = {};
  Numbers derivatives = {};

  friend bool operator==(const Evaluation&, const Evaluation&) = default;
};

Evaluation evaluate(const TokenLoss& loss, const Datum& datum, const Numbers& logprobs) {
  const auto inputs = loss.read(datum).value();
  // Everything is written, whatever was there.
  Evaluation out = {.elementwise = Numbers(inputs.sequence.tokens.size(), 99.0F),
                    .derivatives = Numbers(logprobs.size(), 99.0F)};
  out.loss = loss.evaluate(inputs, logprobs, out.elementwise, out.derivatives);
  return out;
}

/// The derivatives as differences of the loss. They are off by step^2 / 6 of its third derivatives,
/// which are below 30 here: 5e-6.
Numbers differences(const TokenLoss& loss, const Datum& datum, const Numbers& logprobs) {
  constexpr float kStep = 0x1p-10F;
  const auto loss_at = [&](std::size_t i, float logprob) {
    auto moved = logprobs;
    moved[i] = logprob;
    return evaluate(loss, datum, moved).loss;
  };
  Numbers out;
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    const double difference = loss_at(i, logprobs[i] + kStep) - loss_at(i, logprobs[i] - kStep);
    out.push_back(static_cast<float>(difference / (2.0 * double{kStep})));
  }
  return out;
}

void expect_near(const Numbers& found, const Numbers& expected, float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance) << "at " << i;
}

/// Ratios from e^-2 to e^2, none of them at the corner of a clip, with advantages of either sign.
struct Grid {
  Grid() {
    for (int eighths = -16; eighths <= 16; ++eighths) {
      const float log_ratio = static_cast<float>(eighths) / 8;
      for (const float advantage : {-2.0F, -0.5F, 0.0F, 0.75F, 1.5F}) {
        logprobs.push_back(-2.5F + log_ratio);
        rollout.sampled.push_back(-2.5F);
        rollout.advantages.push_back(advantage);
      }
    }
  }
  Numbers logprobs;
  Rollout rollout;
};

/// A row of the table of SERVER 2: the loss at one token.
struct Formula {
  LossFn kind = LossFn::ppo;
  LossFnConfig config = {};
  std::function<double(double logprob, double sampled, double advantage)> loss = {};
};

std::vector<Formula> token_formulas() {
  const auto ppo = [](double low, double high) {
    return [=](double l, double q, double a) {
      const double ratio = std::exp(l - q);
      return -std::min(ratio * a, std::clamp(ratio, low, high) * a);
    };
  };
  const auto cispo = [](double low, double high) {
    return [=](double l, double q, double a) {
      return -std::clamp(std::exp(l - q), low, high) * l * a;
    };
  };
  const auto dro = [](double beta) {
    return [=](double l, double q, double a) { return -(l * a - 0.5 * beta * (l - q) * (l - q)); };
  };
  return {
      {.kind = LossFn::importance_sampling,
       .loss = [](double l, double q, double a) { return -std::exp(l - q) * a; }},
      {.kind = LossFn::ppo, .loss = ppo(0.8, 1.2)},
      {.kind = LossFn::ppo, .config = clip(0.5, 3.0), .loss = ppo(0.5, 3.0)},
      {.kind = LossFn::ppo, .config = {{"clip_high_threshold", 2.0}}, .loss = ppo(0.8, 2.0)},
      {.kind = LossFn::cispo, .loss = cispo(0.0, 4.0)},
      {.kind = LossFn::cispo, .config = clip(0.8, 1.2), .loss = cispo(0.8, 1.2)},
      {.kind = LossFn::dro, .loss = dro(0.05)},
      {.kind = LossFn::dro, .config = {{"beta", 0.7}}, .loss = dro(0.7)},
  };
}

std::string name_of(const Formula& formula) {
  return std::string(tinker::detail::kEnumNames<LossFn>[static_cast<std::size_t>(formula.kind)]) +
         " with " + std::to_string(formula.config.size()) + " settings";
}

TEST(TokenLoss, IsItsFormulaAtEveryToken) {
  const Grid grid;
  for (const auto& formula : token_formulas()) {
    SCOPED_TRACE(name_of(formula));
    double sum = 0;
    Numbers expected;
    for (std::size_t i = 0; i < grid.logprobs.size(); ++i) {
      const double value = formula.loss(double{grid.logprobs[i]},
                                        double{grid.rollout.sampled[i]},
                                        double{grid.rollout.advantages[i]});
      expected.push_back(static_cast<float>(value));
      sum += value;
    }

    const auto found =
        evaluate(loss_of(formula.kind, formula.config), grid.rollout.datum(), grid.logprobs);

    EXPECT_NEAR(found.loss, sum, 1e-9);
    expect_near(found.elementwise, expected, 1e-5F);
  }
}

TEST(TokenLoss, HasTheDerivativesOfItsFormula) {
  const Grid grid;
  for (const auto& formula : token_formulas()) {
    if (formula.kind == LossFn::cispo) continue;  // whose ratio counts as a constant
    SCOPED_TRACE(name_of(formula));
    const auto loss = loss_of(formula.kind, formula.config);

    const auto found = evaluate(loss, grid.rollout.datum(), grid.logprobs);

    expect_near(found.derivatives, differences(loss, grid.rollout.datum(), grid.logprobs), 2e-5F);
  }
}

TEST(TokenLoss, DoesNotDifferentiateTheRatioOfCispo) {
  const Grid grid;

  const auto found =
      evaluate(loss_of(LossFn::cispo, clip(0.8, 1.2)), grid.rollout.datum(), grid.logprobs);

  for (std::size_t i = 0; i < grid.logprobs.size(); ++i) {
    const float ratio = std::exp(grid.logprobs[i] - grid.rollout.sampled[i]);
    EXPECT_NEAR(
        found.derivatives[i], -std::clamp(ratio, 0.8F, 1.2F) * grid.rollout.advantages[i], 1e-6F);
  }
}

TEST(TokenLoss, IsClippedOnlyWhereThatMakesItWorse) {
  const Rollout rollout = {.sampled = {0, 0, 0, 0}, .advantages = {1, -1, 1, -1}};

  const auto found = evaluate(loss_of(LossFn::ppo), rollout.datum(), {kLn2, kLn2, -kLn2, -kLn2});

  expect_near(found.elementwise, {-1.2F, 2.0F, -0.5F, 0.8F}, 1e-6F);
  expect_near(found.derivatives, {0.0F, 2.0F, -0.5F, 0.0F}, 1e-6F);
}

TEST(TokenLoss, IsNotClippedAtTheThresholdItself) {
  const Rollout rollout = {.sampled = {-1, -1}, .advantages = {1, -1}};
  for (const auto kind : {LossFn::ppo, LossFn::cispo}) {
    const auto found = evaluate(loss_of(kind, clip(1.0, 1.0)), rollout.datum(), {-1, -1});

    EXPECT_THAT(found.derivatives, ElementsAre(-1, 1));
  }
}

TEST(TokenLoss, HasTheDefaultsOfTheService) {
  const Grid grid;
  const std::vector<std::pair<LossFn, LossFnConfig>> defaults = {
      {LossFn::ppo, clip(0.8, 1.2)},
      {LossFn::cispo, clip(0.0, 4.0)},
      {LossFn::dro, {{"beta", 0.05}}},
      {LossFn::gspo, clip(0.8, 1.2)},
  };
  for (const auto& [kind, config] : defaults) {
    EXPECT_EQ(evaluate(loss_of(kind), grid.rollout.datum(), grid.logprobs),
              evaluate(loss_of(kind, config), grid.rollout.datum(), grid.logprobs));
  }
}

TEST(TokenLoss, MayBeEvaluatedWithoutDerivatives) {
  const Grid grid;
  for (const auto kind : {LossFn::ppo, LossFn::gspo}) {
    const auto loss = loss_of(kind);
    Numbers elementwise(grid.logprobs.size());

    const double found =
        loss.evaluate(loss.read(grid.rollout.datum()).value(), grid.logprobs, elementwise, {});

    EXPECT_EQ(found, evaluate(loss, grid.rollout.datum(), grid.logprobs).loss);
  }
}

// ---- gspo

TEST(SequenceRatio, IsTheMeanOverTokensWithAnAdvantage) {
  // The mean of log ratios is that of 0.5 and -0.25; the third does not count.
  const Rollout rollout = {.sampled = {-1, -1, -1}, .advantages = {1, 3, 0}};
  const double ratio = std::exp(0.125);

  const auto found = evaluate(loss_of(LossFn::gspo), rollout.datum(), {-0.5F, -1.25F, -8});

  EXPECT_NEAR(found.loss, -4 * ratio, 1e-9);
  expect_near(
      found.elementwise, {static_cast<float>(-ratio), static_cast<float>(-3 * ratio), 0}, 1e-6F);
}

TEST(SequenceRatio, IsTheMeanOverTheMaskIfThereIsOne) {
  // The mask also counts where the advantage is 0, and leaves out a token that has one.
  const Rollout rollout = {
      .sampled = {-1, -1, -1}, .advantages = {1, 3, 0}, .ratio_mask = Numbers{0, 1, 1}};
  const double ratio = std::exp((0.25 - 0.125) / 2);

  const auto found = evaluate(loss_of(LossFn::gspo), rollout.datum(), {-8, -0.75F, -1.125F});

  EXPECT_NEAR(found.loss, -4 * ratio, 1e-9);
  expect_near(
      found.derivatives, {static_cast<float>(-ratio), static_cast<float>(-3 * ratio), 0}, 1e-6F);
}

TEST(SequenceRatio, HasTheCheckValueOfTheService) {
  // SERVER 2: each token has the gradient of its own advantage.
  const Rollout rollout = {.sampled = {-1.1F, -0.45F, -2.05F},
                           .advantages = {1, 0, -0.5F},
                           .ratio_mask = Numbers{1, 1, 1}};

  const auto found = evaluate(loss_of(LossFn::gspo), rollout.datum(), {-1, -0.5F, -2});

  expect_near(found.derivatives, {-1.034F, 0, 0.517F}, 5e-4F);
}

TEST(SequenceRatio, IsOneWhenEverythingIsMasked) {
  const Rollout rollout = {.sampled = {-1, -1}, .advantages = {1, 3}, .ratio_mask = Numbers{0, 0}};

  const auto found = evaluate(loss_of(LossFn::gspo), rollout.datum(), {-4, -kInfinity});

  EXPECT_EQ(found, (Evaluation{.loss = -4, .elementwise = {-1, -3}, .derivatives = {-1, -3}}));
}

TEST(SequenceRatio, IsClippedOnlyWhereThatMakesItWorse) {
  const Rollout rollout = {.sampled = {-2, -2}, .advantages = {1, -3}};
  constexpr float kUp = -2 + kLn2;
  constexpr float kDown = -2 - kLn2;

  const auto raised = evaluate(loss_of(LossFn::gspo), rollout.datum(), {kUp, kUp});
  const auto lowered = evaluate(loss_of(LossFn::gspo), rollout.datum(), {kDown, kDown});

  expect_near(raised.elementwise, {-1.2F, 6.0F}, 1e-6F);
  expect_near(raised.derivatives, {0, 6.0F}, 1e-6F);
  expect_near(lowered.elementwise, {-0.5F, 2.4F}, 1e-6F);
  expect_near(lowered.derivatives, {-0.5F, 0}, 1e-6F);
}

TEST(SequenceRatio, IsAConstantToTheDerivatives) {
  // ratio_t = s exp(l_t - l_t'), where s and l' do not move: the derivative is -s A_t.
  for (const auto& mask : {std::optional<Numbers>{}, std::optional(Numbers{1, 0, 1, 1})}) {
    const Rollout rollout = {
        .sampled = {-1, -2, -3, -4}, .advantages = {1, -2, 0, 0.5F}, .ratio_mask = mask};
    Numbers logprobs = rollout.sampled;
    for (float& logprob : logprobs) logprob += 0.125F;
    const float ratio = std::exp(0.125F);

    const auto found = evaluate(loss_of(LossFn::gspo), rollout.datum(), logprobs);

    expect_near(found.derivatives, {-ratio, 2 * ratio, 0, -0.5F * ratio}, 1e-6F);
  }
}

// ---- cross_entropy

TEST(CrossEntropy, WeighsEachToken) {
  const auto datum =
      datum_of(3, {{"target_tokens", Ids{4, 5, 6}}, {"weights", Numbers{1, 0.5F, -2}}});

  const auto found = evaluate(loss_of(LossFn::cross_entropy), datum, {-1, -3, -0.25F});

  EXPECT_EQ(
      found,
      (Evaluation{.loss = 2, .elementwise = {1, 1.5F, -0.5F}, .derivatives = {-1, -0.5F, 2}}));
}

TEST(CrossEntropy, HasWeightsOfOneWhenThereAreNone) {
  const auto datum = datum_of(2, {{"target_tokens", Ids{4, 5}}});

  const auto found = evaluate(loss_of(LossFn::cross_entropy), datum, {-1, -3});

  EXPECT_EQ(found, (Evaluation{.loss = 4, .elementwise = {1, 3}, .derivatives = {-1, -1}}));
}

TEST(CrossEntropy, AddsTheTargetsOfAPosition) {
  const TensorData::Shape shape = {2, 3};
  const auto datum =
      datum_of(2,
               {{"target_tokens", TensorData(Buffer<std::int64_t>(Ids{1, 2, 3, 4, 5, 6}), shape)},
                {"weights", TensorData(Buffer<float>(Numbers{1, 2, 0, -1, 0.5F, 4}), shape)}});

  const auto found =
      evaluate(loss_of(LossFn::cross_entropy), datum, {-1, -2, -kInfinity, -4, -8, -0.5F});

  EXPECT_EQ(
      found,
      (Evaluation{.loss = 7, .elementwise = {5, 2}, .derivatives = {-1, -2, 0, 1, -0.5F, -4}}));
}

TEST(CrossEntropy, ReadsWhatSparseTensorsLeaveOut) {
  // Token 0 at column 1 of the first row is not listed, and neither are the weights of 0.
  const TensorData::Shape shape = {2, 3};
  const auto datum =
      datum_of(2,
               {{"target_tokens",
                 TensorData(Buffer<std::int64_t>(Ids{5, 7, 8, 9, 3}),
                            shape,
                            CsrIndices{.crow = Ids{0, 2, 5}, .col = Ids{0, 2, 0, 1, 2}})},
                {"weights",
                 TensorData(Buffer<float>(Numbers{0.5F, 0.25F, 1}),
                            shape,
                            CsrIndices{.crow = Ids{0, 2, 3}, .col = Ids{0, 1, 1}})}});

  const auto found = loss_of(LossFn::cross_entropy).read(datum).value();

  EXPECT_THAT(found.sequence.targets, ElementsAre(5, 0, 7, 8, 9, 3));
  EXPECT_THAT(found.sequence.offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(found.weights, ElementsAre(0.5F, 0.25F, 0, 0, 1, 0));
}

TEST(CrossEntropy, TakesAColumnOfTargets) {
  const auto datum = datum_of(
      2, {{"target_tokens", TensorData(Buffer<std::int64_t>(Ids{5, 7}), TensorData::Shape{2, 1})}});

  const auto found = loss_of(LossFn::cross_entropy).read(datum).value();

  EXPECT_THAT(found.sequence.targets, ElementsAre(5, 7));
  EXPECT_THAT(found.sequence.offsets, IsEmpty());
}

// ---- what does not matter

TEST(TokenLoss, IgnoresImpossibleTokensThatHaveNoWeight) {
  const auto datum = datum_of(3, {{"target_tokens", Ids{4, 5, 6}}, {"weights", Numbers{0, 1, 0}}});

  const auto found = evaluate(loss_of(LossFn::cross_entropy), datum, {-kInfinity, -1, kNan});

  EXPECT_EQ(found, (Evaluation{.loss = 1, .elementwise = {0, 1, 0}, .derivatives = {0, -1, 0}}));
}

TEST(TokenLoss, IgnoresImpossibleTokensThatHaveNoAdvantage) {
  const Rollout rollout = {.sampled = {kNan, -1, -kInfinity}, .advantages = {0, 1, 0}};
  for (const auto kind : {LossFn::importance_sampling, LossFn::ppo, LossFn::cispo, LossFn::gspo}) {
    const auto found = evaluate(loss_of(kind), rollout.datum(), {-kInfinity, -1, kNan});

    EXPECT_EQ(std::abs(found.loss), 1);
    EXPECT_THAT(found.elementwise, ElementsAre(0, static_cast<float>(found.loss), 0));
    EXPECT_THAT(found.derivatives, ElementsAre(0, -1, 0));
  }
}

TEST(TokenLoss, TakesAnEmptyDatum) {
  const auto found = evaluate(loss_of(LossFn::gspo), Rollout().datum(), {});

  EXPECT_EQ(found, Evaluation());
}

// ---- refusals

TEST(TokenLoss, RefusesLossesThatAreNotBuiltIn) {
  const std::string why =
      ": not a built-in loss whose definition is public; there are cross_entropy, "
      "importance_sampling, ppo, cispo, dro, gspo and custom graphs";

  EXPECT_THAT(TokenLoss::create(LossFn::stable_reinforce, {}), invalid("stable_reinforce" + why));
  EXPECT_THAT(TokenLoss::create(LossFn::custom, {}), invalid("custom" + why));
}

TEST(TokenLoss, RefusesSettingsItDoesNotHave) {
  EXPECT_THAT(TokenLoss::create(LossFn::cross_entropy, {{"beta", 1.0}}),
              invalid("cross_entropy: no setting 'beta'; it has none"));
  EXPECT_THAT(TokenLoss::create(LossFn::importance_sampling, clip(0, 1)),
              invalid("importance_sampling: no setting 'clip_high_threshold'"));
  EXPECT_THAT(TokenLoss::create(LossFn::ppo, {{"epsilon", 0.2}}),
              invalid("no setting 'epsilon'; it has clip_low_threshold, clip_high_threshold"));
  EXPECT_THAT(TokenLoss::create(LossFn::dro, clip(0, 1)),
              invalid("dro: no setting 'clip_high_threshold'; it has beta"));
}

TEST(TokenLoss, RefusesSettingsThatAreNoNumbers) {
  EXPECT_THAT(TokenLoss::create(LossFn::dro, {{"beta", "0.05"}}),
              invalid("dro: loss_fn_config.beta is '0.05'; expected a number"));
  EXPECT_THAT(TokenLoss::create(LossFn::ppo, clip(std::nan(""), 1)),
              invalid("ppo: loss_fn_config.clip_low_threshold is nan; expected a number"));
}

TEST(TokenLoss, RefusesThresholdsInTheWrongOrder) {
  EXPECT_THAT(TokenLoss::create(LossFn::gspo, clip(1.5, 0.5)),
              invalid("gspo: clip_low_threshold 1.5 is above clip_high_threshold 0.5"));
  EXPECT_THAT(TokenLoss::create(LossFn::ppo, {{"clip_high_threshold", 0.7999999}}),
              invalid("clip_low_threshold 0.8 is above clip_high_threshold 0.7999999"));
}

/// What reading says of a datum of two tokens with these inputs, besides those that are in order.
Result<TokenLoss::Inputs> read_with(LossFn kind, const NamedTensors& changed) {
  auto datum = Rollout{.sampled = {-1, -1}, .advantages = {1, 1}}.datum();
  if (kind == LossFn::cross_entropy) datum.loss_fn_inputs = {{"target_tokens", Ids{1, 2}}};
  for (const auto& [name, tensor] : changed) datum.loss_fn_inputs[name] = tensor;
  return loss_of(kind).read(datum);
}

TEST(TokenLoss, RefusesInputsItDoesNotTake) {
  EXPECT_THAT(read_with(LossFn::ppo, {{"weights", Numbers{1, 1}}}),
              invalid("loss_fn_inputs.weights: ppo has no such input; it takes target_tokens, "
                      "logprobs, advantages"));
  EXPECT_THAT(read_with(LossFn::cross_entropy, {{"mask", Numbers{1, 1}}}),
              invalid("loss_fn_inputs.mask: cross_entropy has no such input; it takes "
                      "target_tokens, weights"));
  EXPECT_THAT(read_with(LossFn::cispo, {{"sequence_ratio_mask", Numbers{1, 1}}}),
              invalid("loss_fn_inputs.sequence_ratio_mask: cispo has no such input"));
}

TEST(TokenLoss, RefusesADatumThatLacksAnInput) {
  for (const char* const missing : {"target_tokens", "logprobs", "advantages"}) {
    auto datum = Rollout{.sampled = {-1}, .advantages = {1}}.datum();
    datum.loss_fn_inputs.erase(missing);

    EXPECT_THAT(loss_of(LossFn::dro).read(datum),
                invalid(std::string("dro needs loss_fn_inputs.") + missing));
  }
}

TEST(TokenLoss, RefusesInputsOfTheWrongType) {
  EXPECT_THAT(read_with(LossFn::ppo, {{"target_tokens", Numbers{1, 2}}}),
              invalid("loss_fn_inputs.target_tokens: expected int64, found float32"));
  EXPECT_THAT(read_with(LossFn::cross_entropy, {{"weights", Ids{1, 2}}}),
              invalid("loss_fn_inputs.weights: expected float32, found int64"));
  for (const char* const name : {"logprobs", "advantages", "sequence_ratio_mask"}) {
    EXPECT_THAT(read_with(LossFn::gspo, {{name, Ids{1, 2}}}),
                invalid("loss_fn_inputs." + std::string(name) + ": expected float32, found int64"));
  }
}

TEST(TokenLoss, RefusesInputsOfTheWrongSize) {
  EXPECT_THAT(read_with(LossFn::ppo, {{"target_tokens", Ids{1, 2, 3}}}),
              invalid("loss_fn_inputs.target_tokens has 3 rows; expected 2, one per token"));
  for (const char* const name : {"logprobs", "advantages", "sequence_ratio_mask"}) {
    EXPECT_THAT(read_with(LossFn::gspo, {{name, Numbers{1, 2, 3}}}),
                invalid("loss_fn_inputs." + std::string(name) +
                        " has 3 elements; expected 2, one per token"));
  }
}

TEST(TokenLoss, RefusesWeightsThatAreNotThoseOfTheTargets) {
  EXPECT_THAT(read_with(LossFn::cross_entropy, {{"weights", Numbers{1, 2, 3}}}),
              invalid("loss_fn_inputs.weights has 3 rows; expected 2, one per token"));
  const auto targets = TensorData(Buffer<std::int64_t>(Ids{1, 2, 3, 4, 5, 6}), {{2, 3}});
  const auto weights = [](TensorData::Shape shape) {
    const auto cells = static_cast<std::size_t>(shape[0] * shape[1]);
    return TensorData(Buffer<float>(Numbers(cells, 1)), std::move(shape));
  };
  EXPECT_THAT(
      read_with(LossFn::cross_entropy, {{"target_tokens", targets}, {"weights", weights({2, 2})}}),
      invalid("loss_fn_inputs.weights has 4 elements; expected 6, one per target token"));
  EXPECT_THAT(
      read_with(LossFn::cross_entropy, {{"target_tokens", targets}, {"weights", weights({3, 2})}}),
      invalid("loss_fn_inputs.weights has 3 rows; expected 2, one per token"));
}

// More cells than would ever be written out: what is said of them is said before.
TEST(TokenLoss, RefusesSparseTensorsBeforeTheyAreWrittenOut) {
  constexpr std::int64_t kMany = std::int64_t{1} << 30U;
  const auto sparse = [](TensorData::Values values, TensorData::Shape shape) {
    Ids rows(static_cast<std::size_t>(shape[0]) + 1, 1);
    rows[0] = 0;
    return TensorData(
        std::move(values), std::move(shape), CsrIndices{.crow = std::move(rows), .col = Ids{0}});
  };
  const auto weights = Buffer<float>(Numbers{1});

  EXPECT_THAT(
      read_with(LossFn::cross_entropy, {{"weights", sparse(weights, {2, kMany})}}),
      invalid("loss_fn_inputs.weights has 2147483648 elements; expected 2, one per target token"));
  EXPECT_THAT(read_with(LossFn::cross_entropy, {{"weights", sparse(weights, {1, kMany})}}),
              invalid("loss_fn_inputs.weights has 1 rows; expected 2, one per token"));
  EXPECT_THAT(read_with(LossFn::cross_entropy,
                        {{"target_tokens", sparse(Buffer<std::int64_t>(Ids{1}), {1, kMany})}}),
              invalid("loss_fn_inputs.target_tokens has 1 rows; expected 2, one per token"));
}

TEST(TokenLoss, RefusesTokensThatCannotBe) {
  EXPECT_THAT(read_with(LossFn::ppo, {{"target_tokens", Ids{1, -7}}}),
              invalid("loss_fn_inputs.target_tokens has -7; expected a token of the model"));
  EXPECT_THAT(read_with(LossFn::ppo, {{"target_tokens", Ids{std::int64_t{1} << 31, 1}}}),
              invalid("loss_fn_inputs.target_tokens has 2147483648"));
}

TEST(TokenLoss, RefusesSeveralTargetsForAPolicy) {
  const auto targets = TensorData(Buffer<std::int64_t>(Ids{1, 2, 3, 4}), {{2, 2}});

  EXPECT_THAT(read_with(LossFn::importance_sampling, {{"target_tokens", targets}}),
              invalid("importance_sampling takes one target token per position"));
}

TEST(TokenLoss, RefusesSparseInputsOfAPolicy) {
  const auto sparse = TensorData(
      Buffer<float>(Numbers{1}), {{2, 1}}, CsrIndices{.crow = Ids{0, 1, 1}, .col = Ids{0}});

  EXPECT_THAT(read_with(LossFn::ppo, {{"advantages", sparse}}),
              invalid("loss_fn_inputs.advantages is a sparse tensor of float32 and shape [2, 1]; "
                      "expected a dense one of float32"));
}

TEST(TokenLoss, RefusesNumbersThatAreNotFinite) {
  EXPECT_THAT(read_with(LossFn::cross_entropy, {{"weights", Numbers{1, kNan}}}),
              invalid("loss_fn_inputs.weights[1] is nan; expected a finite number"));
  for (const auto kind : {LossFn::importance_sampling, LossFn::ppo, LossFn::cispo, LossFn::dro}) {
    EXPECT_THAT(read_with(kind, {{"advantages", Numbers{kInfinity, 1}}}),
                invalid("loss_fn_inputs.advantages[0] is inf; expected a finite number"));
    EXPECT_THAT(read_with(kind, {{"logprobs", Numbers{-1, kNan}}}),
                invalid("loss_fn_inputs.logprobs[1] is nan; expected a finite number"));
  }
  EXPECT_THAT(read_with(LossFn::gspo, {{"sequence_ratio_mask", Numbers{1, kNan}}}),
              invalid("loss_fn_inputs.sequence_ratio_mask[1] is nan; expected a finite number"));
}

TEST(TokenLoss, ReadsABatchAndNamesTheDatumThatIsWrong) {
  const auto loss = loss_of(LossFn::cross_entropy);
  std::vector<Datum> data(3, datum_of(1, {{"target_tokens", Ids{7}}}));

  const auto read = loss.read(data);
  data[2].loss_fn_inputs["weights"] = Numbers{kNan};

  EXPECT_EQ(read.value().size(), 3U);
  EXPECT_THAT(loss.read(data),
              invalid("data[2]: loss_fn_inputs.weights[0] is nan; expected a finite number"));
  EXPECT_THAT(loss.read(std::span<const Datum>()), invalid("no data: expected at least one datum"));
}

TEST(ShapedLike, KeepsTheShapeOfTheTargets) {
  const auto matrix = TensorData(Buffer<std::int64_t>(Ids{1, 2, 3, 4}), {{2, 2}});
  const auto bare = TensorData(Buffer<std::int64_t>(Ids{1, 2}), std::nullopt);

  EXPECT_EQ(shaped_like(matrix, {5, 6, 7, 8}),
            TensorData(Buffer<float>(Numbers{5, 6, 7, 8}), {{2, 2}}));
  EXPECT_EQ(shaped_like(bare, {5, 6}), TensorData(Numbers{5, 6}));
}

}  // namespace
}  // namespace tinker::engine::losses_test
