// PROTOBUF 4: SampleResponse.
#include "tinker/types/sample.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include <gmock/gmock.h>

namespace tinker::sample_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::Pair;

constexpr float kMask = TopkLogprobs::kMaskLogprob;

/// "rows [(0,-99999),(0,-99999)], [(5,-.5),(0,-99999)], [(0,-.25),(7,-.5)]" (observed)
TopkLogprobs example() {
  return {.token_ids = {0, 0, 5, 0, 0, 7},
          .logprobs = {kMask, kMask, -0.5F, kMask, -0.25F, -0.5F},
          .k = 2,
          .length = 3};
}

TEST(TopkLogprobs, MarksPaddingAsOnTheWire) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(kMask), 0xc7c34f80U);  // 80 4f c3 c7, little-endian
}

TEST(TopkLogprobs, HaveNothingAtARowOfPadding) {
  EXPECT_EQ(example().at(0), std::nullopt);
}

TEST(TopkLogprobs, DropPaddingAtTheEndOfARow) {
  EXPECT_THAT(example().at(1), Optional(ElementsAre(Pair(5, -0.5F))));
}

TEST(TopkLogprobs, KeepAGenuineTokenZero) {
  EXPECT_THAT(example().at(2), Optional(ElementsAre(Pair(0, -0.25F), Pair(7, -0.5F))));
}

TEST(TopkLogprobs, KeepAnotherTokenWithTheLogprobOfPadding) {
  const TopkLogprobs topk = {.token_ids = {5, 3}, .logprobs = {-0.5F, kMask}, .k = 2, .length = 1};

  EXPECT_THAT(topk.at(0), Optional(ElementsAre(Pair(5, -0.5F), Pair(3, kMask))));
}

// Only trailing cells are dropped.
TEST(TopkLogprobs, KeepPaddingInsideARow) {
  const TopkLogprobs topk = {
      .token_ids = {5, 0, 7}, .logprobs = {-0.5F, kMask, -2.0F}, .k = 3, .length = 1};

  EXPECT_THAT(topk.at(0), Optional(ElementsAre(Pair(5, -0.5F), Pair(0, kMask), Pair(7, -2.0F))));
}

TEST(TopkLogprobs, HaveNothingWhenNoneWereAskedFor) {
  const TopkLogprobs topk = {.k = 0, .length = 2};

  EXPECT_EQ(topk.at(1), std::nullopt);
}

TEST(TopkLogprobsDeathTest, HaveNoPositionBeyondTheirLength) {
  EXPECT_DEATH((void)example().at(3), "tinker check failed: position < length");
}

TEST(PromptLogprob, IsTheNumberAtThatPosition) {
  const SampleResponse response = {.prompt_logprobs = {std::nanf(""), -1.0F}};

  EXPECT_THAT(response.prompt_logprob(1), Optional(-1.0F));
}

// "The first prompt token is normally NaN."
TEST(PromptLogprob, IsNothingWhereItWasNotComputed) {
  const SampleResponse response = {.prompt_logprobs = {std::nanf(""), -1.0F}};

  EXPECT_EQ(response.prompt_logprob(0), std::nullopt);
}

TEST(PromptLogprob, IsNothingWhenNoneWereAskedFor) {
  EXPECT_EQ(SampleResponse().prompt_logprob(0), std::nullopt);
}

TEST(PromptLogprob, MayBeInfinite) {
  const SampleResponse response = {.prompt_logprobs = {-INFINITY}};

  EXPECT_THAT(response.prompt_logprob(0), Optional(-INFINITY));
}

}  // namespace
}  // namespace tinker::sample_test
