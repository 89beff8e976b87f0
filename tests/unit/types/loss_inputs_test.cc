// What is wrong with the inputs of a built-in loss (SERVER 2), and what other servers may take.
#include "types/loss_inputs.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::detail::loss_inputs_test {
namespace {

using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using Ints = std::vector<std::int64_t>;
using Floats = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr auto kLevels = {
    LossInputRules::any_server, LossInputRules::documented, LossInputRules::engine};
constexpr auto kPolicies = {
    LossFn::importance_sampling, LossFn::ppo, LossFn::cispo, LossFn::dro, LossFn::gspo};

auto invalid(const std::string& message) {
  return IsError(ErrorCode::invalid_argument, message);
}

Datum datum(NamedTensors inputs) {
  return {.model_input = ModelInput::from_tokens({10, 11, 12}),
          .loss_fn_inputs = std::move(inputs)};
}
Datum weighted(Floats weights) {
  return datum({{"target_tokens", Ints{11, 12, 13}}, {"weights", std::move(weights)}});
}
Datum rollout(Floats logprobs, Floats advantages) {
  return datum({{"target_tokens", Ints{11, 12, 13}},
                {"logprobs", std::move(logprobs)},
                {"advantages", std::move(advantages)}});
}
Datum rollout() {
  return rollout({-1, -2, -3}, {0, 1, -1});
}

TEST(LossInputs, OfGoodDataPassEverywhere) {
  for (const auto level : kLevels) {
    EXPECT_THAT(check_loss_inputs(weighted({0, 1, -0.5F}), LossFn::cross_entropy, level), IsOk());
    EXPECT_THAT(
        check_loss_inputs(datum({{"target_tokens", Ints{1, 2, 3}}}), LossFn::cross_entropy, level),
        IsOk());
    for (const auto loss : kPolicies)
      EXPECT_THAT(check_loss_inputs(rollout(), loss, level), IsOk());
  }
}

// ---- what every level refuses

TEST(LossInputs, AreAsManyAsTokens) {
  for (const auto level : kLevels) {
    EXPECT_THAT(check_loss_inputs(weighted({1, 1}), LossFn::cross_entropy, level),
                invalid("loss_fn_inputs.weights has 2 rows; expected 3, one per token"));
    EXPECT_THAT(
        check_loss_inputs(datum({{"target_tokens", Ints{1, 2}}}), LossFn::cross_entropy, level),
        invalid("loss_fn_inputs.target_tokens has 2 rows; expected 3, one per token"));
    EXPECT_THAT(check_loss_inputs(rollout({-1, -1, -1}, {1}), LossFn::ppo, level),
                invalid("loss_fn_inputs.advantages has 1 elements; expected 3, one per token"));
  }
}

TEST(LossInputs, IncludeTargets) {
  for (const auto level : kLevels) {
    EXPECT_THAT(
        check_loss_inputs(datum({{"weights", Floats{1, 1, 1}}}), LossFn::cross_entropy, level),
        invalid("cross_entropy needs loss_fn_inputs.target_tokens"));
  }
}

TEST(LossInputs, AreTokensWhereTheyAreTargets) {
  for (const auto level : kLevels) {
    EXPECT_THAT(
        check_loss_inputs(datum({{"target_tokens", Ints{1, -3, 2}}}), LossFn::cross_entropy, level),
        invalid("loss_fn_inputs.target_tokens has -3; expected a token of the model (at "
                "[1])"));
  }
}

TEST(LossInputs, AreFinite) {
  for (const auto level : kLevels) {
    EXPECT_THAT(check_loss_inputs(weighted({1, kNan, 1}), LossFn::cross_entropy, level),
                invalid("loss_fn_inputs.weights[1] is nan; expected a finite number"));
    for (const auto loss : kPolicies) {
      EXPECT_THAT(check_loss_inputs(rollout({-1, -1, -1}, {0, 0, kInfinity}), loss, level),
                  invalid("loss_fn_inputs.advantages[2] is inf; expected a finite number"));
      EXPECT_THAT(check_loss_inputs(rollout({-1, -kInfinity, -1}, {0, 1, 0}), loss, level),
                  invalid("loss_fn_inputs.logprobs[1] is -inf; expected a finite number"));
    }
  }
}

TEST(LossInputs, NameTheCellOfAMatrix) {
  auto matrix = datum({{"target_tokens", TensorData(Buffer(Ints(6, 1)), {{3, 2}})},
                       {"weights", TensorData(Buffer(Floats{1, 1, 1, 1, 1, kNan}), {{3, 2}})}});
  auto sparse = matrix;
  sparse.loss_fn_inputs["weights"] = TensorData(
      Buffer(Floats{1, kNan}), {{3, 2}}, CsrIndices{.crow = Ints{0, 1, 1, 2}, .col = Ints{0, 1}});

  for (const auto& given : {matrix, sparse}) {
    EXPECT_THAT(given.validate(LossFn::cross_entropy),
                invalid("loss_fn_inputs.weights[2, 1] is nan; expected a finite number"));
  }
}

// The official SDK makes NaN of a logprob that is not known (PROTOBUF 3.2).
TEST(LossInputs, MayLackLogprobsThatNobodyUses) {
  const auto unknown_first = rollout({kNan, -1, -1}, {0, 1, 1});
  for (const auto loss : {LossFn::importance_sampling, LossFn::ppo, LossFn::cispo, LossFn::gspo})
    EXPECT_THAT(unknown_first.validate(loss), IsOk());
  const auto names_it = invalid("loss_fn_inputs.logprobs[0] is nan; expected a finite number");
  EXPECT_THAT(unknown_first.validate(LossFn::dro), names_it);

  auto masked = unknown_first;
  masked.loss_fn_inputs["sequence_ratio_mask"] = Floats{1, 1, 1};
  EXPECT_THAT(masked.validate(LossFn::gspo), names_it);
}

TEST(LossInputs, AreSpeltAsTheyAreCalled) {
  const auto misspelt = [](const std::string& name, const TensorData& tensor) {
    auto out = rollout();
    out.loss_fn_inputs.erase("advantages");
    out.loss_fn_inputs[name] = tensor;
    return out;
  };
  for (const auto level : kLevels) {
    EXPECT_THAT(
        check_loss_inputs(datum({{"target_tokens", Ints{1, 2, 3}}, {"weigths", Floats{1, 1, 1}}}),
                          LossFn::cross_entropy,
                          level),
        invalid("loss_fn_inputs: unknown input 'weigths', did you mean 'weights'?"));
    EXPECT_THAT(check_loss_inputs(misspelt("advantage", Floats{1, 1, 1}), LossFn::ppo, level),
                invalid("loss_fn_inputs: unknown input 'advantage', did you mean 'advantages'?"));
  }
  EXPECT_THAT(datum({{"target_token", Ints{1, 2, 3}}}).validate(LossFn::cross_entropy),
              invalid("loss_fn_inputs: unknown input 'target_token', did you mean "
                      "'target_tokens'?"));
}

// ---- what other servers may take

TEST(LossInputs, AreNotComparedWithALengthThatOnlyAServerKnows) {
  Datum picture = {.model_input = {.chunks = {ImageChunk{.data = "png"}}},
                   .loss_fn_inputs = {{"target_tokens", Ints(64, 1)}, {"weights", Floats(64, 1)}}};
  EXPECT_THAT(picture.validate(LossFn::cross_entropy), IsOk());

  picture.model_input.chunks = {ImageChunk{.data = "png", .expected_tokens = 63}};
  EXPECT_THAT(picture.validate(LossFn::cross_entropy),
              invalid("loss_fn_inputs.target_tokens has 64 rows; expected 63, one per token"));
}

TEST(LossInputs, MayBeOthersThanThoseWeKnow) {
  auto extra = rollout();
  extra.loss_fn_inputs["weights"] = Floats{1, 1, 1};
  extra.loss_fn_inputs["mask"] = Floats{1};
  extra.loss_fn_inputs["clip_high_threshold"] = Floats{kInfinity};

  EXPECT_THAT(check_loss_inputs(extra, LossFn::ppo, LossInputRules::any_server), IsOk());
  EXPECT_THAT(check_loss_inputs(extra, LossFn::ppo, LossInputRules::documented), IsOk());
  EXPECT_THAT(check_loss_inputs(extra, LossFn::ppo, LossInputRules::engine),
              IsError(ErrorCode::invalid_argument, HasSubstr("ppo has no such input")));
}

TEST(LossInputs, OfAPolicyMayBeLeftToTheServer) {
  const auto bare = weighted({1, 1, 1});

  EXPECT_THAT(check_loss_inputs(bare, LossFn::cispo, LossInputRules::any_server), IsOk());
  EXPECT_THAT(check_loss_inputs(bare, LossFn::cispo, LossInputRules::documented),
              invalid("cispo needs loss_fn_inputs.logprobs"));
}

TEST(LossInputs, OfOtherLossesAreTheUsersOwn) {
  const auto own = datum({{"weigths", Floats{kNan}}, {"target_tokens", Ints{-1}}});
  for (const auto loss : {LossFn::custom, LossFn::stable_reinforce})
    EXPECT_THAT(own.validate(loss), IsOk());
}

TEST(LossInputs, OfNoDataAreRefused) {
  EXPECT_THAT(validate(std::vector<Datum>{}, LossFn::cross_entropy),
              invalid("no data: expected at least one datum"));
  EXPECT_THAT(validate(std::vector{rollout(), weighted({1})}, LossFn::cross_entropy),
              IsError(ErrorCode::invalid_argument, HasSubstr("loss_fn_inputs.weights has 1 rows")));
}

// ---- without a loss

TEST(LossInputs, SayWhichLossTheyAreMeantFor) {
  EXPECT_THAT(weighted({1, 1, 1}).validate(), IsOk());
  EXPECT_THAT(rollout().validate(), IsOk());
  EXPECT_THAT(datum({{"mine", Floats{kNan}}}).validate(), IsOk());
  EXPECT_THAT(datum({{"target_tokens", Ints{1}}}).validate(), IsOk());
  EXPECT_THAT(weighted({1, 1}).validate(),
              invalid("loss_fn_inputs.weights has 2 rows; expected 3, one per token"));
  EXPECT_THAT(datum({{"weights", Floats{1, 1, 1}}}).validate(),
              invalid("cross_entropy needs loss_fn_inputs.target_tokens"));
  EXPECT_THAT(rollout({-1, -1, -1}, {1, 1}).validate(),
              invalid("loss_fn_inputs.advantages has 2 elements; expected 3, one per token"));
}

}  // namespace
}  // namespace tinker::detail::loss_inputs_test
