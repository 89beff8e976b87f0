#include "server/sample_numbers.h"

#include <cstdint>
#include <optional>
#include <set>

#include <gtest/gtest.h>

namespace tinker::server::sample_numbers_test {
namespace {

using Range = SampleNumbers::Range;
using Target = SampleNumbers::Target;

constexpr std::int64_t kCloneNumbers = 1'000'000'000;

class SampleNumbersTest : public ::testing::Test {
 protected:
  std::optional<Range> enter(std::int64_t number, std::int64_t clone = 0) {
    return numbers_.enter(
        {"s:sample:1", clone}, number, [&](std::int64_t n) { return awaited_.contains(n); });
  }
  /// What the journal says last when all of these were accepted.
  Range enter_all(std::int64_t first, std::int64_t end) {
    Range out;
    for (auto number = first; number < end; ++number) {
      if (const auto range = enter(number)) out = *range;
    }
    return out;
  }

  SampleNumbers numbers_;
  std::set<std::int64_t> awaited_ = {};
};

TEST_F(SampleNumbersTest, AreJournalledABlockAtATime) {
  EXPECT_EQ(enter(5), (Range{.first = 0, .end = 1024}));
  EXPECT_EQ(enter(1023), std::nullopt);
  EXPECT_EQ(enter(1024), (Range{.first = 0, .end = 2048}));
  EXPECT_EQ(enter(2048), (Range{.first = 1024, .end = 3072}));
}

TEST_F(SampleNumbersTest, BeginWithTheLowestThatIsAwaited) {
  awaited_ = {700, 5000};

  EXPECT_EQ(enter_all(0, 10'000), (Range{.first = 700, .end = 10'240}));
  awaited_.erase(700);
  EXPECT_EQ(enter_all(10'000, 20'000), (Range{.first = 5000, .end = 20'480}));
}

TEST_F(SampleNumbersTest, MayComeLate) {
  enter_all(0, 10'000);

  EXPECT_EQ(enter(3), (Range{.first = 0, .end = 10'240}));
}

TEST_F(SampleNumbersTest, OfClonesHaveRangesOfTheirOwn) {
  enter(1);

  EXPECT_EQ(enter(kCloneNumbers + 1, 1),
            (Range{.first = kCloneNumbers, .end = kCloneNumbers + 512}));  // a block's end
  EXPECT_EQ(enter(kCloneNumbers - 1),
            (Range{.first = 0, .end = kCloneNumbers}));  // those behind are another clone's
}

TEST_F(SampleNumbersTest, OfAnEarlierLifeAreLostOnceAndJournalledFurther) {
  const Target target{"s:sample:1", 0};
  numbers_.found(target, {.first = 700, .end = 2048});

  EXPECT_EQ(enter(2048), (Range{.first = 700, .end = 3072}));  // the client was not told yet
  EXPECT_EQ(numbers_.take_lost(target), (Range{.first = 700, .end = 2048}));
  EXPECT_EQ(numbers_.take_lost(target), Range());
  EXPECT_EQ(enter(3072), (Range{.first = 2048, .end = 4096}));
  numbers_.found(target, {.first = 700, .end = 2048});
  numbers_.forget("s");
  EXPECT_EQ(numbers_.take_lost(target), Range());
}

}  // namespace
}  // namespace tinker::server::sample_numbers_test
