// Data made of tokens, and of what was sampled.
#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"
#include "tinker/types/datum.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/sample.h"

namespace tinker::datum_making_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;

TEST(NextTokenDatum, PredictsEachTokenFromThoseBefore) {
  const auto datum = Datum::next_token({5, 6, 7, 8}, 2);

  EXPECT_THAT(datum.model_input.to_tokens(), IsOkAndHolds(ElementsAre(5, 6, 7)));
  EXPECT_THAT(datum.loss_fn_inputs.at("target_tokens").ints(), ElementsAre(6, 7, 8));
  EXPECT_THAT(datum.loss_fn_inputs.at("weights").floats(), ElementsAre(0, 1, 1));
  EXPECT_THAT(datum.validate(LossFn::cross_entropy), IsOk());
}

TEST(NextTokenDatum, WeighsAllTargetsWithoutAPrompt) {
  for (const std::size_t prompt : {0U, 1U})
    EXPECT_THAT(Datum::next_token({5, 6, 7}, prompt).loss_fn_inputs.at("weights").floats(),
                ElementsAre(1, 1));
}

TEST(NextTokenDatum, WeighsNothingThatIsAllPrompt) {
  for (const std::size_t prompt : {3U, 4U, 100U})
    EXPECT_THAT(Datum::next_token({5, 6, 7}, prompt).loss_fn_inputs.at("weights").floats(),
                ElementsAre(0, 0));
}

TEST(NextTokenDatum, IsEmptyWithoutATarget) {
  for (const auto& tokens : {std::vector<std::int32_t>{}, std::vector<std::int32_t>{5}}) {
    const auto datum = Datum::next_token(tokens, 0);

    EXPECT_EQ(datum.model_input.length().value(), 0);
    EXPECT_EQ(datum.loss_fn_inputs.at("target_tokens").size(), 0U);
    EXPECT_THAT(datum.validate(LossFn::cross_entropy), IsOk());
  }
}

TEST(EpisodeDatum, HasTheSequenceAfterItsPrompt) {
  const auto prompt = ModelInput::from_tokens({5, 6});
  const SampledSequence sequence = {.tokens = {7, 8}, .logprobs = {-0.5F, -0.25F}};

  const auto datum = Datum::episode(prompt, sequence, 2);

  ASSERT_THAT(datum, IsOk());
  EXPECT_THAT(datum->model_input.to_tokens(), IsOkAndHolds(ElementsAre(5, 6, 7)));
  EXPECT_THAT(datum->loss_fn_inputs.at("target_tokens").ints(), ElementsAre(6, 7, 8));
  EXPECT_THAT(datum->loss_fn_inputs.at("logprobs").floats(), ElementsAre(0, -0.5F, -0.25F));
  EXPECT_THAT(datum->loss_fn_inputs.at("advantages").floats(), ElementsAre(0, 2, 2));
  EXPECT_EQ(datum->loss_fn_inputs.size(), 3U);
  EXPECT_THAT(datum->validate(LossFn::importance_sampling), IsOk());
}

TEST(EpisodeDatum, RefusesWhatCannotBeTrainedOn) {
  const SampledSequence sequence = {.tokens = {7, 8}, .logprobs = {-0.5F, -0.25F}};
  const SampledSequence unscored = {.tokens = {7, 8}};
  const ModelInput picture = {.chunks = {ImageChunk{.data = "png"}}};

  EXPECT_THAT(Datum::episode(ModelInput(), sequence, 1),
              IsError(ErrorCode::invalid_argument, "prompt: expected at least one token"));
  EXPECT_THAT(Datum::episode(picture, sequence, 1),
              IsError(ErrorCode::invalid_argument, HasSubstr("chunks[0] is not text")));
  EXPECT_THAT(Datum::episode(ModelInput::from_tokens({5}), unscored, 1),
              IsError(ErrorCode::invalid_argument,
                      "sequence: expected 2 logprobs, one per token, found 0"));
}

}  // namespace
}  // namespace tinker::datum_making_test
