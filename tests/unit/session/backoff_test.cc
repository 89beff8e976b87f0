#include "session/backoff.h"

#include <gmock/gmock.h>

#include "tinker/testing/virtual_runtime.h"

namespace tinker::session::backoff_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Optional;
using ::tinker::testing::VirtualRuntime;

constexpr async::TimePoint kNow(100s);

// R10.6
TEST(Backoff, LastsOneSecondForASmallSampleAndFiveForALargeOne) {
  Backoff small{EventBus()};
  Backoff large{EventBus()};

  small.request(kNow, 131'072);
  large.request(kNow, 131'073);

  EXPECT_THAT(small.until(), Optional(kNow + 1s));
  EXPECT_THAT(large.until(), Optional(kNow + 5s));
}

TEST(Backoff, IsNeverShortenedByAShorterOne) {
  Backoff backoff{EventBus()};
  backoff.request(kNow, 1'000'000);

  backoff.request(kNow + 1s, 10);
  EXPECT_THAT(backoff.until(), Optional(kNow + 5s));
  backoff.request(kNow + 4500ms, 10);
  EXPECT_THAT(backoff.until(), Optional(kNow + 5500ms));
}

TEST(Backoff, IsActiveUntilItsEnd) {
  Backoff backoff{EventBus()};
  EXPECT_FALSE(backoff.is_active(kNow));

  backoff.request(kNow, 10);

  EXPECT_TRUE(backoff.is_active(kNow));
  EXPECT_TRUE(backoff.is_active(kNow + 1s - 1ns));
  EXPECT_FALSE(backoff.is_active(kNow + 1s));
}

// R10.5
TEST(Backoff, IsRecentFromItsBeginningUntilTenSecondsAfterItsEnd) {
  Backoff backoff{EventBus()};
  EXPECT_FALSE(backoff.is_recent(kNow));

  backoff.request(kNow, 10);

  EXPECT_TRUE(backoff.is_recent(kNow));
  EXPECT_TRUE(backoff.is_recent(kNow + 11s - 1ns));
  EXPECT_FALSE(backoff.is_recent(kNow + 11s));
}

TEST(Backoff, TellsTheLocalBusHowLongItLasts) {
  const EventBus bus;
  std::vector<std::chrono::nanoseconds> lengths;
  const auto subscription = bus.subscribe([&](const Event& event) {
    if (event.name == "backoff") lengths.push_back(event.elapsed);
  });
  Backoff backoff(bus);

  backoff.request(kNow, 1'000'000);
  backoff.request(kNow + 2s, 10);

  EXPECT_THAT(lengths, ElementsAre(5s, 3s));
}

TEST(SharedBackoff, IsOnePerServerAndCredential) {
  const VirtualRuntime time;
  auto& core = *time.runtime().core();
  const auto backoff = shared_backoff(core, "https://a.test", Secret("key-1"));

  EXPECT_EQ(shared_backoff(core, "https://a.test", Secret("key-1")), backoff);
  EXPECT_NE(shared_backoff(core, "https://a.test", Secret("key-2")), backoff);
  EXPECT_NE(shared_backoff(core, "https://b.test", Secret("key-1")), backoff);
}

TEST(SharedBackoff, BelongsToItsRuntime) {
  std::shared_ptr<Backoff> first;
  {
    const VirtualRuntime time;
    first = shared_backoff(*time.runtime().core(), "https://a.test", Secret("key-1"));
  }
  const VirtualRuntime time;

  EXPECT_NE(shared_backoff(*time.runtime().core(), "https://a.test", Secret("key-1")), first);
}

TEST(SharedBackoff, IsForgottenWhenNobodyHoldsIt) {
  BackoffTable table(EventBus(), "salt");
  auto first = table.find_or_make("https://a.test", Secret("key-1"));
  first->request(kNow, 10);
  const auto second = table.find_or_make("https://b.test", Secret("key-1"));
  ASSERT_EQ(table.size(), 2U);

  first.reset();

  EXPECT_THAT(table.find_or_make("https://a.test", Secret("key-1"))->until(), Eq(std::nullopt));
  table.find_or_make("https://c.test", Secret("key-1"));
  EXPECT_THAT(table.find_or_make("https://b.test", Secret("key-1")), Eq(second));
  EXPECT_EQ(table.size(), 1U);
}

}  // namespace
}  // namespace tinker::session::backoff_test
