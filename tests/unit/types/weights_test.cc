#include "tinker/types/weights.h"

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::weights_test {
namespace {

using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOkAndHolds;

TEST(SavedSampler, LinksToItsPages) {  // R1.18; texts as the official SDK makes them
  const SaveWeightsForSamplerResponse saved = {.path = "tinker://s:train:0/sampler_weights/a"};

  EXPECT_THAT(
      saved.get_console_url(),
      IsOkAndHolds(
          "https://tinker.thinkingmachines.ai/checkpoints/s%3Atrain%3A0/sampler_weights%2Fa"));
  EXPECT_EQ(saved.get_playground_url(),
            "https://tinker.thinkingmachines.ai/playground?mode=checkpoint&checkpoint="
            "tinker%3A%2F%2Fs%3Atrain%3A0%2Fsampler_weights%2Fa");
}

TEST(SavedSampler, HasNoPageForAPathThatIsNone) {
  EXPECT_THAT(SaveWeightsForSamplerResponse{.path = "elsewhere"}.get_console_url(),
              IsError(ErrorCode::invalid_argument, HasSubstr("elsewhere")));
}

}  // namespace
}  // namespace tinker::weights_test
