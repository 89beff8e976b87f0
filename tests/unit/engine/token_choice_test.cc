#include "engine/token_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include <gmock/gmock.h>

#include "engine/counter_random.h"
#include "engine/head.h"

namespace tinker::engine::token_choice_test {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;
using Logits = std::vector<float>;

constexpr double kAlmostOne = 1.0 - 0x1p-53;
// Around the blocks in which a vocabulary is looked at.
constexpr std::array<std::size_t, 5> kSizes = {
    1, Head::kBlock - 1, Head::kBlock, Head::kBlock + 1, 4000};
// Impossible next to anything of usual size, but a number.
constexpr float kNever = -1000.0F;

Distribution distribution(const Logits& logits, double temperature = 1) {
  return {kernels_of(CpuPath::scalar, Precision::f32), logits, temperature};
}

/// Between -8 and 8.
Logits random_logits(std::size_t size, std::uint64_t seed = 1) {
  Logits out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = 16 * uniform(seed, 0, i) - 8;
  return out;
}

Logits logits_of(const std::vector<double>& probabilities) {
  Logits out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

/// The plain soft-max.
std::vector<double> probabilities_of(const Logits& logits, double temperature = 1) {
  std::vector<double> out;
  for (const float logit : logits) out.push_back(std::exp(double{logit} / temperature));
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& p : out) p /= sum;
  return out;
}

/// How often each token is drawn, of 1000 draws that lie evenly in [0, 1).
std::map<std::int32_t, int> counts(const Distribution& drawn, std::int64_t top_k, double top_p) {
  std::map<std::int32_t, int> out;
  for (int i = 0; i < 1000; ++i) ++out[drawn.draw((i + 0.5) / 1000, top_k, top_p)];
  return out;
}

// ---- logprobs

TEST(Distribution, HasTheLogprobsOfASoftmax) {
  for (const auto size : kSizes) {
    for (const double temperature : {0.5, 1.0, 2.0}) {
      const auto logits = random_logits(size);
      const auto expected = probabilities_of(logits, temperature);

      const auto found = distribution(logits, temperature);

      for (std::size_t i = 0; i < size; ++i) {
        // Floats of up to 32 are 2e-6 apart.
        ASSERT_NEAR(
            double{found.logprob(static_cast<std::int32_t>(i))}, std::log(expected[i]), 6e-6)
            << size << " tokens at " << temperature;
      }
    }
  }
}

TEST(Distribution, SumsToOne) {
  for (const auto size : kSizes) {
    const auto logits = random_logits(size);
    const auto found = distribution(logits);
    double sum = 0;

    for (std::size_t i = 0; i < size; ++i)
      sum += std::exp(double{found.logprob(static_cast<std::int32_t>(i))});

    EXPECT_NEAR(sum, 1, 2e-6) << size;
  }
}

TEST(Distribution, DividesDifferencesOfLogprobsByTheTemperature) {
  const auto logits = random_logits(100);
  const auto plain = distribution(logits);
  for (const double temperature : {0.25, 0.7, 1.5, 3.0}) {
    const auto tempered = distribution(logits, temperature);
    for (std::int32_t i = 1; i < 100; ++i) {
      EXPECT_NEAR(double{tempered.logprob(i)} - double{tempered.logprob(0)},
                  (double{plain.logprob(i)} - double{plain.logprob(0)}) / temperature,
                  2e-5);
    }
  }
}

TEST(Distribution, StaysFiniteForLargeLogits) {
  const Logits logits = {30'000, 29'990, -30'000};

  const auto found = distribution(logits);

  EXPECT_NEAR(found.logprob(0), 0, 0.01);
  EXPECT_NEAR(found.logprob(1), -10, 0.01);
  EXPECT_NEAR(found.logprob(2), -60'000, 0.01);
}

TEST(Distribution, HasPlainLogprobsAtTemperatureZero) {
  const auto logits = random_logits(100);

  for (std::int32_t i = 0; i < 100; ++i)
    EXPECT_EQ(distribution(logits, 0).logprob(i), distribution(logits, 1).logprob(i));
}

// ---- the most likely ones

TEST(Distribution, IsGreedyAtTemperatureZero) {
  const Logits logits = {1, 3, 2, 3};
  const auto greedy = distribution(logits, 0);
  for (const double u : {0.0, 0.5, kAlmostOne}) {
    EXPECT_EQ(greedy.draw(u), 1);
    EXPECT_EQ(greedy.draw(u, 3, 0.9), 1);
  }
}

TEST(Distribution, IsAlmostGreedyAtTinyTemperatures) {
  const Logits logits = {1, 3, 2, -20};
  for (const double temperature : {1e-3, 1e-6, 1e-12, 1e-30, 1e-50, 1e-310}) {
    const auto drawn = distribution(logits, temperature);

    EXPECT_EQ(drawn.logprob(1), 0) << temperature;
    EXPECT_EQ(drawn.draw(0.9), 1) << temperature;
    EXPECT_EQ(drawn.draw(0.9, 3, 0.9), 1) << temperature;
  }
}

TEST(Distribution, FindsTheMostLikelyTokenInAnyBlock) {
  for (const auto size : kSizes) {
    for (const std::size_t best : {std::size_t{0}, size / 2, size - 1}) {
      auto logits = random_logits(size);
      logits[best] = 9;

      EXPECT_EQ(distribution(logits).most_likely(), best);
    }
  }
}

TEST(Distribution, ListsTheMostLikelyOnesInOrder) {
  const auto logits = logits_of({0.125, 0.5, 0.0625, 0.25, 0.0625});

  const auto found = distribution(logits).top(3);

  EXPECT_THAT(found,
              ElementsAre(Pair(1, FloatEq(std::log(0.5F))),
                          Pair(3, FloatEq(std::log(0.25F))),
                          Pair(0, FloatEq(std::log(0.125F)))));
}

TEST(Distribution, ListsEqualOnesByTheirIds) {
  const Logits logits = {0, 1, 2, 1, 2, 1, 0};

  EXPECT_THAT(distribution(logits).top(4), ElementsAre(Key(2), Key(4), Key(1), Key(3)));
}

TEST(Distribution, ListsNoMoreThanThereAre) {
  const Logits logits = {0, 1};

  EXPECT_THAT(distribution(logits).top(0), IsEmpty());
  EXPECT_THAT(distribution(logits).top(9), ElementsAre(Key(1), Key(0)));
}

TEST(Distribution, ListsTheMostLikelyOnesOfAllBlocks) {
  const auto logits = random_logits(4000);
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto place = [&](std::int32_t id) {
    return std::pair(-logits[static_cast<std::size_t>(id)], id);
  };
  std::ranges::sort(ids, {}, place);

  const auto found = distribution(logits).top(300);

  ASSERT_EQ(found.size(), 300);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].first, ids[i]);
}

// ---- draws

TEST(Draw, InvertsTheCumulativeDistribution) {
  for (const auto size : kSizes) {
    for (const double temperature : {0.5, 1.0, 2.0}) {
      const auto logits = random_logits(size);
      const auto p = probabilities_of(logits, temperature);
      const auto drawn = distribution(logits, temperature);
      for (std::uint64_t i = 0; i < 50; ++i) {
        const double u = uniform_double(1, 2, i);

        const auto token = drawn.draw(u);

        const double before = std::accumulate(p.begin(), p.begin() + token, 0.0);
        EXPECT_GE(u, before - 2e-6) << size << " tokens at " << temperature;
        EXPECT_LE(u, before + p[static_cast<std::size_t>(token)] + 2e-6);
      }
    }
  }
}

TEST(Draw, FollowsTheDistribution) {
  const auto logits = random_logits(12);
  const auto p = probabilities_of(logits, 4);
  const auto drawn = distribution(logits, 4);
  constexpr int kDraws = 20'000;
  std::vector<int> seen(p.size());

  for (std::uint64_t i = 0; i < kDraws; ++i)
    ++seen[static_cast<std::size_t>(drawn.draw(uniform_double(7, 0, i)))];

  double chi_square = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = kDraws * p[i];
    chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
  }
  // One in a hundred sets of draws would be above, with 11 degrees of freedom; this one is not.
  EXPECT_LT(chi_square, 24.7);
}

TEST(Draw, ReachesBothEnds) {
  for (const auto size : kSizes) {
    const auto logits = random_logits(size);
    const auto drawn = distribution(logits, 4);

    EXPECT_EQ(drawn.draw(0), 0);
    EXPECT_EQ(drawn.draw(1 - 1e-5), size - 1);
  }
}

TEST(Draw, NeverTakesWhatIsImpossible) {
  // Sums of rounded probabilities may end a little before 1: what is drawn there must be possible.
  for (const float never : {kNever, -std::numeric_limits<float>::infinity()}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      auto logits = random_logits(4000, seed);
      std::fill(logits.begin(), logits.begin() + 100, never);
      std::fill(logits.begin() + 200, logits.begin() + 1600, never);
      std::fill(logits.begin() + 1700, logits.end(), never);
      const auto drawn = distribution(logits);
      for (const double u : {0.0, 0.1, 0.5, 0.9, kAlmostOne}) {
        EXPECT_GT(logits[static_cast<std::size_t>(drawn.draw(u))], never) << seed << ", " << u;
      }
    }
  }
}

TEST(Draw, NeverTakesWhatIsImpossibleEvenIfAllowed) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto logits = random_logits(40, seed);
    std::fill(logits.begin() + 20, logits.end(), kNever);
    const auto drawn = distribution(logits);
    for (const double u : {0.0, 0.5, kAlmostOne}) {
      EXPECT_LT(drawn.draw(u, 30, 1.0), 20) << seed << ", " << u;
      EXPECT_LT(drawn.draw(u, -1, 0.9999999999), 20) << seed << ", " << u;
    }
  }
}

// ---- top_k and top_p

TEST(Draw, IsGreedyWithATopKOfOne) {
  const auto logits = random_logits(4000);
  const auto drawn = distribution(logits, 5);

  EXPECT_THAT(counts(drawn, 1, 1.0), ElementsAre(Pair(drawn.most_likely(), 1000)));
}

TEST(Draw, IsPlainWithoutLimits) {
  const auto logits = random_logits(2000);
  const auto drawn = distribution(logits);
  for (std::uint64_t i = 0; i < 50; ++i) {
    const double u = uniform_double(1, 2, i);
    EXPECT_EQ(drawn.draw(u, -1, 1.0), drawn.draw(u));
    EXPECT_EQ(drawn.draw(u, 2000, 1.0), drawn.draw(u));
    EXPECT_EQ(drawn.draw(u, 5000, 1.0), drawn.draw(u));
  }
}

TEST(Draw, KeepsTheTopKInProportion) {
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});

  EXPECT_THAT(counts(distribution(logits), 2, 1.0), ElementsAre(Pair(1, 571), Pair(3, 429)));
}

TEST(Draw, KeepsTokensWhileThoseBeforeThemAreBelowTopP) {
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});
  const auto drawn = distribution(logits);

  EXPECT_THAT(counts(drawn, -1, 0.39), ElementsAre(Key(1)));
  EXPECT_THAT(counts(drawn, -1, 0.41), ElementsAre(Pair(1, 571), Pair(3, 429)));
  EXPECT_THAT(counts(drawn, -1, 0.69), ElementsAre(Key(1), Key(3)));
  EXPECT_THAT(counts(drawn, -1, 0.71), ElementsAre(Key(1), Key(2), Key(3)));
  EXPECT_THAT(counts(drawn, -1, 0.91), ElementsAre(Key(0), Key(1), Key(2), Key(3)));
}

TEST(Draw, AlwaysKeepsTheMostLikelyToken) {
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});

  EXPECT_THAT(counts(distribution(logits), -1, 0.0), ElementsAre(Pair(1, 1000)));
}

TEST(Draw, AppliesTopPToWhatTopKLeaves) {
  // Of 0.4 and 0.3, the first has 0.57.
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});
  const auto drawn = distribution(logits);

  EXPECT_THAT(counts(drawn, 2, 0.56), ElementsAre(Key(1)));
  EXPECT_THAT(counts(drawn, 2, 0.58), ElementsAre(Key(1), Key(3)));
}

TEST(Draw, AppliesTopPAtTheTemperature) {
  // The squares of the probabilities: 0.16 of 0.3 is 0.53.
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});
  const auto drawn = distribution(logits, 0.5);

  EXPECT_THAT(counts(drawn, -1, 0.52), ElementsAre(Key(1)));
  EXPECT_THAT(counts(drawn, -1, 0.54), ElementsAre(Key(1), Key(3)));
}

TEST(Draw, KeepsAsManyTokensAsTopPNeeds) {
  // 2000 of 4000 equal ones are half; a little more than half is one more.
  const Logits logits(4000, 1.0F);
  const auto drawn = distribution(logits);
  constexpr double kTopP = 2000.5 / 4000;

  for (const std::int32_t token : {0, 1, 255, 256, 1023, 1024, 1999, 2000})
    EXPECT_EQ(drawn.draw((token + 0.5) / 2001, -1, kTopP), token);
}

TEST(Draw, KeepsEqualTokensByTheirIds) {
  const Logits logits(10, 1.0F);

  EXPECT_THAT(counts(distribution(logits), 3, 1.0), ElementsAre(Key(0), Key(1), Key(2)));
  EXPECT_THAT(counts(distribution(logits), -1, 0.15), ElementsAre(Key(0), Key(1)));
}

}  // namespace
}  // namespace tinker::engine::token_choice_test
