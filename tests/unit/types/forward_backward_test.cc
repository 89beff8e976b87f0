#include "tinker/types/forward_backward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"

namespace tinker::forward_backward_test {
namespace {

using ::testing::DoubleEq;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOkAndHolds;

TEST(ForwardBackwardOutput, LossIsTheMetric) {
  const ForwardBackwardOutput output = {
      .loss_fn_outputs = {{{"elementwise_loss", std::vector<float>{9.0F}}}},
      .metrics = {{"loss:sum", 3.5}, {"loss:mean", 1.0}}};

  EXPECT_THAT(output.loss(), IsOkAndHolds(DoubleEq(3.5)));
}

TEST(ForwardBackwardOutput, LossOfServersWithoutTheMetricIsTheSumOfElements) {
  const ForwardBackwardOutput output = {
      .loss_fn_outputs = {{{"elementwise_loss", std::vector<float>{1.0F, 0.5F}}},
                          {{"elementwise_loss", std::vector<float>{-0.25F}}}}};

  EXPECT_THAT(output.loss(), IsOkAndHolds(DoubleEq(1.25)));
}

TEST(ForwardBackwardOutput, WithoutALossSaysWhatIsMissing) {
  const ForwardBackwardOutput output = {
      .loss_fn_outputs = {{{"elementwise_loss", std::vector<float>{1.0F}}},
                          {{"logprobs", std::vector<float>{1.0F}}}}};

  EXPECT_THAT(output.loss(), IsError(ErrorCode::invalid_response, HasSubstr("output 1 has no")));
  EXPECT_THAT(ForwardBackwardOutput().loss(),
              IsError(ErrorCode::invalid_response, HasSubstr("no outputs")));
}

TEST(ForwardBackwardOutput, ElementsOfAnotherTypeAreNoLoss) {
  const ForwardBackwardOutput output = {
      .loss_fn_outputs = {{{"elementwise_loss", std::vector<std::int64_t>{1}}}}};

  EXPECT_THAT(output.loss(), IsError(ErrorCode::invalid_response, HasSubstr("no float32")));
}

}  // namespace
}  // namespace tinker::forward_backward_test
