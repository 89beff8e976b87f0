#include "engine/resumable.h"

#include <memory>
#include <new>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"

namespace tinker::engine::resumable_test {
namespace {

using testing::IsError;
using testing::IsOkAndHolds;

Resumable<int> count(int steps, int* taken) {
  for (int i = 0; i < steps; ++i) {
    ++*taken;
    co_yield i % 2 == 0 ? Cut::inside : Cut::between;
  }
  co_return steps;
}

TEST(Resumable, GoesFromCutToCut) {
  int taken = 0;
  auto work = count(2, &taken);
  EXPECT_EQ(taken, 0);
  EXPECT_TRUE(work.step());
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(work.cut(), Cut::inside);
  EXPECT_TRUE(work.step());
  EXPECT_EQ(work.cut(), Cut::between);
  EXPECT_FALSE(work.step());
  EXPECT_THAT(work.take(), IsOkAndHolds(2));
}

TEST(Resumable, UnwindsWhenItIsDestroyed) {
  const auto alive = std::make_shared<int>(0);
  const auto hold = [](std::shared_ptr<int> what) -> Resumable<int> {
    const auto held = std::move(what);
    co_yield Cut::inside;
    co_return *held;
  };
  {
    auto work = hold(alive);
    work.step();
    EXPECT_GT(alive.use_count(), 1);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

template <typename E>
Resumable<int> fail(E error) {
  co_yield Cut::between;
  throw error;  // NOLINT(bugprone-std-exception-baseclass): as tested.
}

TEST(Resumable, AnExceptionIsItsResult) {
  EXPECT_THAT(fail(std::bad_alloc()).run(), IsError(ErrorCode::internal, "out of memory"));
  EXPECT_THAT(fail(std::runtime_error("broken")).run(), IsError(ErrorCode::internal, "broken"));
  EXPECT_THAT(fail(5).run(), IsError(ErrorCode::internal, ::testing::HasSubstr("unknown")));
}

}  // namespace
}  // namespace tinker::engine::resumable_test
