#include "server/shares.h"

#include <string>

#include <gtest/gtest.h>

namespace tinker::server::shares_test {
namespace {

constexpr std::size_t kLimit = 100;

TEST(Shares, AdmitEverybodyWithinTheLimit) {
  Shares shares;
  shares.add("ada", 99);

  EXPECT_TRUE(shares.admits("ada", 1, kLimit));
  EXPECT_FALSE(shares.admits("ada", 2, kLimit));
}

TEST(Shares, AdmitWhoHoldsLessThanHisShareBeyondIt) {
  Shares shares;
  shares.add("ada", kLimit);
  EXPECT_TRUE(shares.admits("bob", 1, kLimit));
  shares.add("bob", 1);

  EXPECT_FALSE(shares.admits("ada", 1, kLimit));
  EXPECT_TRUE(shares.admits("bob", 49, kLimit));
  EXPECT_FALSE(shares.admits("bob", 50, kLimit));
  EXPECT_EQ(shares.total(), kLimit + 1);
}

TEST(Shares, AdmitWhoHoldsNothing) {
  const Shares shares;

  EXPECT_TRUE(shares.admits("ada", 10 * kLimit, kLimit));
}

TEST(Shares, TogetherStayNearTheLimitHoweverManyThereAre) {
  Shares shares;
  for (int i = 0; i < 10; ++i) {
    const std::string owner = std::to_string(i);
    while (shares.admits(owner, 1, kLimit)) shares.add(owner, 1);
  }

  EXPECT_LE(shares.total(), 3 * kLimit);
}

TEST(Shares, AreGivenBack) {
  Shares shares;
  shares.add("ada", kLimit);
  shares.add("bob", 7);
  shares.remove("ada", kLimit);

  EXPECT_EQ(shares.of("ada"), 0U);
  EXPECT_EQ(shares.total(), 7U);
  EXPECT_TRUE(shares.admits("bob", kLimit - 7, kLimit));
}

}  // namespace
}  // namespace tinker::server::shares_test
