#include "session/billing_pause.h"

#include <gmock/gmock.h>

#include "support/session_fixture.h"

namespace tinker::session::billing_pause_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class BillingPauseTest : public ::testing::Test {
 protected:
  /// A 402 `when` after the first.
  bool pauses(std::chrono::seconds when) {
    return billing_.should_pause(async::TimePoint(1h + when), max_, log_.logger());
  }
  [[nodiscard]] std::size_t warnings() const { return log_.lines("pausing").size(); }
  [[nodiscard]] std::size_t errors() const { return log_.lines("giving up").size(); }

  BillingPause billing_;
  std::chrono::seconds max_ = 3600s;
  LogCapture log_;
};

// R5.5.2
TEST_F(BillingPauseTest, PausesUntilTheIncidentIsTooOld) {
  for (auto t = 0s; t <= 3600s; t += 5s) EXPECT_TRUE(pauses(t)) << t.count();

  EXPECT_FALSE(pauses(3601s));
  EXPECT_EQ(errors(), 1U);
}

TEST_F(BillingPauseTest, WarnsAtMostEverySixtySeconds) {
  std::vector<std::int64_t> warned_at;
  for (auto t = 0s; t <= 200s; t += 5s) {
    const auto before = warnings();
    ASSERT_TRUE(pauses(t));
    if (warnings() > before) warned_at.push_back(t.count());
  }

  EXPECT_THAT(warned_at, ElementsAre(0, 65, 130, 195));
  EXPECT_EQ(log_.lines("pausing").front().level, LogLevel::warn);
}

TEST_F(BillingPauseTest, ForgetsAnIncidentThatWasNotLoggedForThreeHundredSeconds) {
  max_ = 100s;
  ASSERT_TRUE(pauses(0s));
  ASSERT_TRUE(pauses(65s));
  ASSERT_FALSE(pauses(110s));

  EXPECT_FALSE(pauses(365s));  // exactly 300 s after the last line
  EXPECT_TRUE(pauses(366s));   // a new incident
  EXPECT_TRUE(pauses(466s));
  EXPECT_FALSE(pauses(467s));
}

TEST_F(BillingPauseTest, CountsFromTheFirst402OfTheIncident) {
  max_ = 100s;
  ASSERT_TRUE(pauses(0s));
  ASSERT_TRUE(pauses(99s));

  EXPECT_FALSE(pauses(101s));
}

TEST_F(BillingPauseTest, SaysThatItGivesUpOnceForAllCallsOfAMinute) {
  max_ = 10s;
  ASSERT_TRUE(pauses(0s));

  for (int call = 0; call < 1000; ++call) ASSERT_FALSE(pauses(11s));
  ASSERT_FALSE(pauses(72s));

  EXPECT_EQ(errors(), 2U);
  EXPECT_EQ(log_.lines("giving up").front().level, LogLevel::error);
}

TEST_F(BillingPauseTest, DoesNotPauseLongerThanOneRoundWhenTheLimitIsZero) {
  max_ = 0s;

  EXPECT_TRUE(pauses(0s));
  EXPECT_FALSE(pauses(5s));
}

}  // namespace
}  // namespace tinker::session::billing_pause_test
