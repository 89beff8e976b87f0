// The policy on simulated work: what is next, and that everybody gets a share.

#include "engine/policy.h"

#include <map>
#include <optional>

#include <gtest/gtest.h>

namespace tinker::engine::policy_test {
namespace {

bool any_line(LineId /*line*/) {
  return true;
}

/// What each got of so many turns, whose costs are given by line; 0 is the sampler.
std::map<LineId, double> simulate(Policy& policy,
                                  int turns,
                                  const std::map<LineId, double>& costs) {
  std::map<LineId, double> out;
  for (int i = 0; i < turns; ++i) {
    const auto choice = policy.next(any_line);
    if (!choice) break;
    const LineId who = choice->line.value_or(0);
    policy.charge(*choice, costs.at(who));
    out[who] += costs.at(who);
  }
  return out;
}

TEST(Policy, HasNothingToDoAtFirst) {
  Policy policy({});
  EXPECT_FALSE(policy.next(any_line));
  policy.arrive("a", 1);
  policy.leave(1);
  policy.want_sampling(true);
  policy.want_sampling(false);
  EXPECT_FALSE(policy.next(any_line));
}

TEST(Policy, WhoIsAloneGetsEverything) {
  Policy policy({});
  policy.arrive("a", 7);
  EXPECT_DOUBLE_EQ(simulate(policy, 10, {{7, 0.03}}).at(7), 0.3);
  policy.leave(7);
  policy.want_sampling(true);
  EXPECT_EQ(simulate(policy, 10, {{0, 0.01}}).size(), 1U);
}

// Within a turn of each: the bound of FairShares.
TEST(Policy, DividesTimeBetweenTrainingAndSamplingByWeights) {
  for (const double weight : {1.0, 3.0}) {
    Policy policy({.training_weight = weight});
    policy.want_sampling(true);
    policy.arrive("a", 1);

    const auto got = simulate(policy, 10'000, {{0, 0.013}, {1, 0.02}});

    EXPECT_NEAR(got.at(1) / weight, got.at(0), 0.02 / weight + 0.013);
  }
}

TEST(Policy, OneTenantWithManyTrainersDoesNotStarveAnother) {
  Policy policy({});
  policy.want_sampling(true);
  std::map<LineId, double> costs = {{0, 0.01}, {1, 0.02}};
  policy.arrive("small", 1);
  for (LineId line = 2; line < 30; ++line) {
    policy.arrive("large", line);
    costs[line] = 0.05;
  }

  const auto got = simulate(policy, 50'000, costs);

  double large = 0;
  for (LineId line = 2; line < 30; ++line) {
    large += got.at(line);
    EXPECT_NEAR(got.at(line), got.at(2), 0.1 + 1e-6) << line;
  }
  EXPECT_NEAR(got.at(1), large, 0.07 + 1e-6);
  EXPECT_NEAR(got.at(0), got.at(1) + large, 0.06 + 1e-6);
}

// While one line is inside a pass, others that need the passes have to wait; the time they wait is
// made up for.
TEST(Policy, ALineThatCannotGoOnIsServedLater) {
  Policy policy({});
  policy.arrive("a", 1);
  policy.arrive("b", 2);
  std::map<LineId, double> got;
  for (int pass = 0; pass < 100; ++pass) {
    const LineId holder = *policy.next(any_line)->line;
    for (int step = 0; step < 50; ++step) {
      const auto choice = policy.next([&](LineId line) { return line == holder; });
      ASSERT_EQ(choice->line, holder);
      policy.charge(*choice, 0.01);
      got[holder] += 0.01;
    }
  }
  EXPECT_NEAR(got[1], got[2], 0.5 + 1e-6);
}

// One tenant's calls are long, the other's short and many: the engine leaves it at each end.
TEST(Policy, ShortCallsGetTheSameTimeAsLongOnes) {
  Policy policy({});
  policy.arrive("long", 1);
  policy.arrive("short", 2);
  std::map<LineId, double> got;
  std::optional<LineId> inside;
  int steps = 0;
  for (int turn = 0; turn < 40'000; ++turn) {
    const auto choice = policy.next([&](LineId line) { return inside.value_or(line) == line; });
    policy.charge(*choice, 0.01);
    got[*choice->line] += 0.01;
    inside = choice->line;
    if (++steps < (inside == 1 ? 50 : 10)) continue;
    steps = 0;
    if (inside == 2) {  // the next call comes after the last one has ended
      policy.leave(2);
      policy.arrive("short", 2);
    }
    inside.reset();
  }
  EXPECT_NEAR(got[1], got[2], 0.5 + 0.1 + 1e-6);
}

TEST(Policy, ALineMayBecomeAnotherTenants) {
  Policy policy({});
  policy.arrive("a", 1);
  policy.leave(1);
  policy.arrive("b", 1);
  policy.arrive("b", 2);
  policy.arrive("c", 3);

  const auto got = simulate(policy, 4000, {{1, 1}, {2, 1}, {3, 1}});

  EXPECT_NEAR(got.at(3), 2 * got.at(1), 3);
  EXPECT_NEAR(got.at(1), got.at(2), 2);
}

}  // namespace
}  // namespace tinker::engine::policy_test
