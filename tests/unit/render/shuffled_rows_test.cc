#include <algorithm>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/training_data.h"

namespace tinker::render::shuffled_rows_test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

using Rows = std::vector<std::size_t>;

Rows take(ShuffledRows& rows, std::size_t count) {
  Rows out;
  while (out.size() < count) out.push_back(rows.next());
  return out;
}

Rows all_of(std::size_t count) {
  Rows out(count);
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
}

TEST(ShuffledRows, GivesEachRowOncePerEpochInAnotherOrder) {
  ShuffledRows rows(50, 1);

  const auto first = take(rows, 50);
  EXPECT_EQ(rows.position(), (DataPosition{.epoch = 0, .row = 50}));
  const auto second = take(rows, 50);

  EXPECT_THAT(first, UnorderedElementsAreArray(all_of(50)));
  EXPECT_THAT(second, UnorderedElementsAreArray(all_of(50)));
  EXPECT_NE(first, all_of(50));
  EXPECT_NE(first, second);
  EXPECT_EQ(rows.position(), (DataPosition{.epoch = 1, .row = 50}));
}

TEST(ShuffledRows, DependsOnTheSeedAlone) {
  ShuffledRows one(50, 1);
  ShuffledRows same(50, 1);
  ShuffledRows other(50, 2);

  const auto order = take(one, 120);
  EXPECT_EQ(take(same, 120), order);
  EXPECT_NE(take(other, 120), order);
}

TEST(ShuffledRows, GivesTheSameOrdersForEver) {
  ShuffledRows rows(6, 7, 2);

  EXPECT_THAT(rows.held_out(), ElementsAre(4, 3));
  EXPECT_THAT(take(rows, 8), ElementsAre(2, 5, 1, 0, 5, 2, 1, 0));
}

TEST(ShuffledRows, NeverGivesWhatIsHeldOut) {
  ShuffledRows rows(20, 3, 5);
  const auto held_out = rows.held_out();

  const auto taken = take(rows, 10 * rows.size());

  EXPECT_EQ(rows.size(), 15U);
  EXPECT_EQ(held_out.size(), 5U);
  for (const auto row : held_out) EXPECT_THAT(taken, Not(Contains(row)));
  EXPECT_THAT(taken, Each(::testing::Lt(20U)));
}

TEST(ShuffledRows, HoldsOutAllIfThereAreNoMore) {
  const ShuffledRows rows(3, 3, 5);

  EXPECT_EQ(rows.size(), 0U);
  EXPECT_THAT(rows.held_out(), UnorderedElementsAreArray(all_of(3)));
  EXPECT_THAT(ShuffledRows(0, 3).held_out(), IsEmpty());
}

TEST(ShuffledRows, GoesOnAtAnyPosition) {
  ShuffledRows rows(20, 3, 5);
  const auto order = take(rows, 60);

  for (const std::size_t taken : {0U, 1U, 14U, 15U, 16U, 44U, 45U}) {
    ShuffledRows before(20, 3, 5);
    take(before, taken);
    ShuffledRows resumed(20, 3, 5);
    resumed.seek(before.position());
    EXPECT_EQ(take(resumed, 60 - taken),
              Rows(order.begin() + static_cast<long>(taken), order.end()))
        << taken;
  }
}

TEST(ShuffledRows, GoesBack) {
  ShuffledRows rows(20, 3);
  const auto order = take(rows, 45);

  rows.seek({.epoch = 0, .row = 2});

  EXPECT_EQ(take(rows, 43), Rows(order.begin() + 2, order.end()));
}

}  // namespace
}  // namespace tinker::render::shuffled_rows_test
