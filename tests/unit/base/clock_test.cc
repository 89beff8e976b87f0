#include "tinker/clock.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tinker/testing/fake_clock.h"

namespace tinker::clock_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::FakeClock;

TEST(Clock, OfTheSystemNeverRunsBackwards) {
  const Clock& clock = Clock::system();

  const auto first = clock.now();
  const auto second = clock.now();

  EXPECT_LE(first, second);
}

TEST(Clock, OfTheSystemTellsTheTimeOfThisCentury) {
  const auto year_2020 = std::chrono::sys_days{std::chrono::year{2020} / 1 / 1};

  const auto wall_time = Clock::system().wall_time();

  EXPECT_GT(wall_time, year_2020);
}

TEST(FakeClock, StartsInJanuary2026) {
  const FakeClock clock;

  const auto wall_time = clock.wall_time();

  EXPECT_EQ(wall_time, std::chrono::sys_days{std::chrono::year{2026} / 1 / 1});
}

TEST(FakeClock, StartsWhereItIsTold) {
  const auto start = std::chrono::sys_days{std::chrono::year{1999} / 12 / 31};

  const FakeClock clock(start);

  EXPECT_EQ(clock.wall_time(), start);
}

TEST(FakeClock, StandsStillByItself) {
  const FakeClock clock;

  const auto first = clock.now();
  const auto second = clock.now();

  EXPECT_EQ(first, second);
}

TEST(FakeClock, AdvancesElapsedTimeToTheNanosecond) {
  FakeClock clock;
  const auto before = clock.now();

  clock.advance(nanoseconds(7));

  EXPECT_EQ(clock.now() - before, nanoseconds(7));
}

TEST(FakeClock, AdvancesTheWallTimeByTheSameAmount) {
  FakeClock clock;
  const auto before = clock.wall_time();

  clock.advance(milliseconds(1500));

  EXPECT_EQ(clock.wall_time() - before, milliseconds(1500));
}

TEST(FakeClock, AddsUpWhatSeveralThreadsAdvance) {
  FakeClock clock;
  const auto before = clock.now();
  const auto advance_often = [&clock] {
    for (int i = 0; i < 1000; ++i) clock.advance(nanoseconds(1));
  };

  std::thread other(advance_often);
  advance_often();
  other.join();

  EXPECT_EQ(clock.now() - before, nanoseconds(2000));
}

}  // namespace
}  // namespace tinker::clock_test
