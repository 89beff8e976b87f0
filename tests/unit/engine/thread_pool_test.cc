#include "engine/thread_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <numeric>

#include <gmock/gmock.h>

namespace tinker::engine::thread_pool_test {
namespace {

using ::testing::Each;
using ::testing::Eq;

constexpr std::array<std::size_t, 4> kThreads = {1, 2, 3, 8};
constexpr std::array<std::size_t, 4> kUnits = {0, 1, 7, 10'000};

TEST(ThreadPool, RunsEveryUnitOnce) {
  for (const auto threads : kThreads) {
    ThreadPool pool(threads);
    for (const auto units : kUnits) {
      std::vector<std::atomic<int>> calls(units);

      pool.run(units, [&](std::size_t unit, std::size_t /*thread*/) { ++calls[unit]; });

      EXPECT_THAT(calls, Each(Eq(1))) << threads << " threads";
    }
  }
}

TEST(ThreadPool, HasTheThreadsItWasAskedFor) {
  for (const auto threads : kThreads) EXPECT_EQ(ThreadPool(threads).size(), threads);
}

TEST(ThreadPool, NumbersItsThreads) {
  for (const auto threads : kThreads) {
    ThreadPool pool(threads);
    std::vector<std::size_t> seen(10'000);

    pool.run(seen.size(), [&](std::size_t unit, std::size_t thread) { seen[unit] = thread; });

    EXPECT_LT(*std::ranges::max_element(seen), threads);
  }
}

TEST(ThreadPool, RunsOneUnitPerThreadAtATime) {
  ThreadPool pool(8);
  std::array<std::atomic<int>, 8> running = {};
  std::atomic<int> overlaps = 0;

  pool.run(10'000, [&](std::size_t /*unit*/, std::size_t thread) {
    if (++running[thread] > 1) ++overlaps;
    --running[thread];
  });

  EXPECT_EQ(overlaps, 0);
}

TEST(ThreadPool, RunsManyRoundsInARow) {
  for (const auto threads : kThreads) {
    ThreadPool pool(threads);
    std::vector<int> sums(3);  // each written by one thread per round

    for (int round = 0; round < 20'000; ++round)
      pool.run(sums.size(), [&](std::size_t unit, std::size_t /*thread*/) { ++sums[unit]; });

    EXPECT_THAT(sums, Each(20'000)) << threads << " threads";
  }
}

TEST(ThreadPool, ShowsItsResultsToTheCallerAndToTheNextRound) {
  for (const auto threads : kThreads) {
    ThreadPool pool(threads);
    std::vector<std::size_t> values(100);
    std::vector<std::size_t> turned(values.size());
    for (std::size_t round = 0; round < 100; ++round) {
      pool.run(values.size(),
               [&](std::size_t unit, std::size_t /*thread*/) { values[unit] = round + unit; });
      pool.run(values.size(), [&](std::size_t unit, std::size_t /*thread*/) {
        turned[unit] = values[values.size() - 1 - unit];
      });

      EXPECT_EQ(std::accumulate(turned.begin(), turned.end(), std::size_t{0}), 4950 + 100 * round);
    }
  }
}

TEST(ThreadPool, RunsRoundsOfDifferentSizes) {
  ThreadPool pool(3);
  std::atomic<std::size_t> calls = 0;
  std::size_t expected = 0;

  for (std::size_t units = 0; units < 300; ++units) {
    pool.run(units, [&](std::size_t /*unit*/, std::size_t /*thread*/) { ++calls; });
    expected += units;
  }

  EXPECT_EQ(calls, expected);
}

TEST(ThreadPool, TakesAFunctionThatMayNotBeChanged) {
  ThreadPool pool(2);
  std::atomic<int> calls = 0;
  const auto f = [&](std::size_t /*unit*/, std::size_t /*thread*/) { ++calls; };

  pool.run(5, f);

  EXPECT_EQ(calls, 5);
}

TEST(ThreadPool, ThrowsWhatAUnitHasThrownWhenAllAreDone) {
  for (const std::size_t size : {1U, 2U, 3U}) {
    ThreadPool pool(size);
    for (int round = 0; round < 50; ++round) {
      EXPECT_THROW(pool.run(40,
                            [](std::size_t unit, std::size_t /*thread*/) {
                              if (unit % 7 == 3) throw std::bad_alloc();
                            }),
                   std::bad_alloc);
    }

    std::atomic<int> done = 0;
    pool.run(40, [&](std::size_t /*unit*/, std::size_t /*thread*/) { ++done; });

    EXPECT_EQ(done, 40);
  }
}

TEST(ThreadPool, RunsAnyNumberOfUnits) {
  constexpr std::size_t kMany = (std::size_t{2} << 20U) + 5;
  ThreadPool pool(2);
  std::vector<std::uint8_t> calls(kMany);

  pool.run(kMany, [&](std::size_t unit, std::size_t /*thread*/) { ++calls[unit]; });

  EXPECT_EQ(std::ranges::count(calls, 1), static_cast<std::ptrdiff_t>(kMany));
}

TEST(ThreadPool, EndsWithoutHavingWorked) {
  for (int i = 0; i < 100; ++i) const ThreadPool pool(3);
}

TEST(ThreadPool, EndsRightAfterWork) {
  std::atomic<int> calls = 0;
  for (int i = 0; i < 100; ++i) {
    ThreadPool pool(3);
    pool.run(3, [&](std::size_t /*unit*/, std::size_t /*thread*/) { ++calls; });
  }

  EXPECT_EQ(calls, 300);
}

}  // namespace
}  // namespace tinker::engine::thread_pool_test
