#include "server/refused_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tinker::server::refused_keys_test {
namespace {

using ::testing::Eq;
using ::testing::Optional;

TEST(RefusedKeys, TellOfTheFirstAtOnceWithoutThePort) {
  EXPECT_THAT(RefusedKeys().add("127.0.0.1:50000"),
              Optional(Eq("a request from 127.0.0.1 is refused: it has no valid key")));
  EXPECT_THAT(RefusedKeys().add("[::1]:50000"),
              Optional(Eq("a request from [::1] is refused: it has no valid key")));
  EXPECT_THAT(RefusedKeys().add("unix"),
              Optional(Eq("a request from unix is refused: it has no valid key")));
}

TEST(RefusedKeys, CountTheOthersOfAPeriodInOneLine) {
  RefusedKeys refused;
  ASSERT_TRUE(refused.add("10.0.0.1:1"));

  for (int i = 0; i < 999; ++i) EXPECT_EQ(refused.add("10.0.0.2:1"), std::nullopt);

  EXPECT_THAT(refused.end_period(),
              Optional(Eq("999 more requests without a valid key were refused, the last one from "
                          "10.0.0.2")));
}

TEST(RefusedKeys, WriteOneLineAPeriodWhileTheyGoOn) {
  RefusedKeys refused;
  ASSERT_TRUE(refused.add("10.0.0.1:1"));
  EXPECT_EQ(refused.add("10.0.0.1:1"), std::nullopt);
  EXPECT_TRUE(refused.end_period());

  EXPECT_EQ(refused.add("10.0.0.1:1"), std::nullopt);

  EXPECT_TRUE(refused.end_period());
}

TEST(RefusedKeys, BeginAnewAfterAQuietPeriod) {
  RefusedKeys refused;
  ASSERT_TRUE(refused.add("10.0.0.1:1"));

  EXPECT_EQ(refused.end_period(), std::nullopt);

  EXPECT_TRUE(refused.add("10.0.0.1:1"));
}

}  // namespace
}  // namespace tinker::server::refused_keys_test
