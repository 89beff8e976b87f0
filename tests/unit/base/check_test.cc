#include "tinker/check.h"

#include <gtest/gtest.h>

namespace tinker::check_test {
namespace {

TEST(Check, PassesSilentlyWhenThePromiseHolds) {
  int evaluations = 0;

  TINKER_CHECK(++evaluations == 1);

  EXPECT_EQ(evaluations, 1);
}

TEST(CheckDeathTest, AbortsAndNamesTheBrokenPromiseAndItsPlace) {
  EXPECT_DEATH(TINKER_CHECK(1 + 1 == 3), "check_test.cc:[0-9]+: tinker check failed: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace tinker::check_test
