#include "engine/fair_shares.h"

#include <array>
#include <cmath>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace tinker::engine::fair_shares_test {
namespace {

TEST(FairShares, NobodyIsNextWhereNobodyWantsAnything) {
  FairShares<int> shares;
  EXPECT_EQ(shares.next(), nullptr);
  shares.arrive(1);
  shares.leave(1);
  EXPECT_EQ(shares.next(), nullptr);
  EXPECT_FALSE(shares.is_wanted());
}

// The bound that the class states, for turns of any cost: the difference of what two were given,
// by their weights, is never more than the largest turn of each by its weight.
TEST(FairShares, OfTwoWhoAlwaysWantDifferByATurnOfEach) {
  std::mt19937 random(1);
  for (const double weight : {1.0, 0.3, 5.0}) {
    FairShares<int> shares;
    const std::array weights = {1.0, weight};
    const std::array most = {0.02, 0.5};
    for (int who = 0; who < 2; ++who) shares.arrive(who, weights[static_cast<std::size_t>(who)]);
    std::array<double, 2> given = {};
    for (int turn = 0; turn < 20'000; ++turn) {
      const auto who = static_cast<std::size_t>(*shares.next());
      const double cost = std::uniform_real_distribution<double>(0, most[who])(random);
      shares.charge(static_cast<int>(who), cost);
      given[who] += cost;
      ASSERT_LE(std::abs(given[0] / weights[0] - given[1] / weights[1]),
                most[0] / weights[0] + most[1] / weights[1] + 1e-9)
          << turn;
    }
  }
}

TEST(FairShares, BoundHoldsForAnyTwoAmongManyWhoComeAndGo) {
  constexpr std::size_t kMany = 6;
  std::mt19937 random(2);
  FairShares<std::size_t> shares;
  std::array<double, kMany> since = {};  // given to each while both 0 and 1 wanted something
  shares.arrive(0);
  shares.arrive(1);
  for (int turn = 0; turn < 20'000; ++turn) {
    const std::size_t other = 2 + random() % (kMany - 2);
    if (random() % 2 == 0) {
      shares.arrive(other);
    } else {
      shares.leave(other);
    }
    const auto who = *shares.next();
    const double cost = static_cast<double>(random() % 100) / 100;
    shares.charge(who, cost);
    since[who] += cost;
    ASSERT_LE(std::abs(since[0] - since[1]), 2.0);
  }
  EXPECT_GT(since[0], 1000);
}

// Else whoever was idle for an hour would have the engine for the next one.
TEST(FairShares, NothingIsSavedUp) {
  FairShares<std::string> shares;
  shares.arrive("busy");
  for (int i = 0; i < 100; ++i) shares.charge("busy", 1);
  shares.arrive("late");
  double late = 0;
  double busy = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string who = *shares.next();
    shares.charge(who, 1);
    (who == "late" ? late : busy) += 1;
  }
  EXPECT_NEAR(late, busy, 2);
}

// Else who asks for one thing at a time, and leaves in between, would always be first.
TEST(FairShares, WhoLeavesAndComesBackKeepsItsDebt) {
  FairShares<std::string> shares;
  shares.arrive("steady");
  double steady = 0;
  double hasty = 0;
  for (int i = 0; i < 1000; ++i) {
    shares.arrive("hasty");
    const std::string who = *shares.next();
    shares.charge(who, 1);
    (who == "steady" ? steady : hasty) += 1;
    shares.leave("hasty");
  }
  EXPECT_NEAR(steady, hasty, 2);
}

TEST(FairShares, ForgetsThoseWhoLeftLongAgo) {
  FairShares<int> shares;
  shares.arrive(0);
  for (int i = 1; i <= 10'000; ++i) {
    shares.arrive(i);
    shares.charge(*shares.next(), 1);
    shares.charge(*shares.next(), 1);
    shares.leave(i);
  }
  EXPECT_LT(shares.size(), 10U);
}

TEST(FairShares, WhoMayNotIsPassedOver) {
  FairShares<int> shares;
  shares.arrive(1);
  shares.arrive(2);
  shares.charge(2, 1);
  EXPECT_EQ(*shares.next(), 1);
  EXPECT_EQ(*shares.next([](int key) { return key == 2; }), 2);
  EXPECT_EQ(shares.next([](int /*key*/) { return false; }), nullptr);
}

}  // namespace
}  // namespace tinker::engine::fair_shares_test
