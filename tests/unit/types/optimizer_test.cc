#include "tinker/types/optimizer.h"

#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::optimizer_test {
namespace {

using testing::IsError;
using testing::IsOk;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_refused(const AdamParams& params, const std::string& message) {
  EXPECT_THAT(params.validate(), IsError(ErrorCode::invalid_argument, message));
}

TEST(AdamParams, TakesWhatMakesSense) {
  EXPECT_THAT(AdamParams().validate(), IsOk());
  EXPECT_THAT((AdamParams{.learning_rate = 0, .beta1 = 0, .beta2 = 0, .eps = 0}).validate(),
              IsOk());
}

TEST(AdamParams, RefusesALearningRateThatIsNone) {
  const std::string expected = "; expected a finite number of at least 0";
  expect_refused({.learning_rate = -1}, "learning_rate is -1" + expected);
  expect_refused({.learning_rate = kNan}, "learning_rate is nan" + expected);
  expect_refused({.learning_rate = kInfinity}, "learning_rate is inf" + expected);
}

TEST(AdamParams, RefusesBetasThatAreNoShares) {
  expect_refused({.beta1 = 1}, "beta1 is 1; expected 0 <= beta1 < 1");
  expect_refused({.beta2 = kNan}, "beta2 is nan; expected 0 <= beta2 < 1");
}

TEST(AdamParams, RefusesWhatIsNotFinite) {
  expect_refused({.eps = kNan}, "eps is nan; expected a finite number");
  expect_refused({.weight_decay = kInfinity}, "weight_decay is inf; expected a finite number");
  expect_refused({.grad_clip_norm = kNan}, "grad_clip_norm is nan; expected a finite number");
}

}  // namespace
}  // namespace tinker::optimizer_test
