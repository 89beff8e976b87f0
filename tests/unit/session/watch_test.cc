#include "session/watch.h"

#include <memory>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/session/poll_support.h"

namespace tinker::session::watch_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Watch, SaysNothingAboutAShortWait) {
  SessionFixture fixture;
  std::optional<Watch> watch(std::in_place, fixture.session->runtime, "the result", "r-1");

  fixture.time.advance(29'999ms);
  watch.reset();
  fixture.time.advance(1h);

  EXPECT_THAT(fixture.log.lines("r-1"), IsEmpty());
}

TEST(Watch, SpeaksUpEveryThirtySeconds) {
  SessionFixture fixture;
  std::optional<Watch> watch(std::in_place, fixture.session->runtime, "the result", "r-1");

  fixture.time.advance(30s);
  watch->set_state("paused_capacity", "waiting for GPUs");
  fixture.time.advance(60s);
  watch.reset();
  fixture.time.advance(1h);

  const auto lines = fixture.log.lines("r-1");
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0].text,
              AllOf(HasSubstr("the result"), HasSubstr("30 s"), HasSubstr("waiting")));
  EXPECT_THAT(
      lines[1].text,
      AllOf(HasSubstr("60 s"), HasSubstr("paused_capacity"), HasSubstr("waiting for GPUs")));
  EXPECT_THAT(lines[2].text, HasSubstr("90 s"));
  for (const auto& line : lines) EXPECT_EQ(line.level, LogLevel::warn);
}

TEST(Watch, PublishesWhatItLogs) {
  SessionFixture fixture;
  const EventCapture events(fixture.session->runtime->events(), "wait.long");
  Watch watch(fixture.session->runtime, "the result", "r-1");
  watch.set_state("paused_capacity", "waiting for GPUs");

  fixture.time.advance(30s);

  ASSERT_THAT(events.seen(), SizeIs(1));
  EXPECT_EQ(events.seen()[0].request_id, "r-1");
  EXPECT_THAT(events.seen()[0].texts,
              ElementsAre("the result", "paused_capacity", "waiting for GPUs"));
}

TEST(Watch, NeedsNoRequestId) {
  SessionFixture fixture;
  const Watch watch(fixture.session->runtime, "a place among 400 samples", "");

  fixture.time.advance(30s);

  const auto lines = fixture.log.lines("a place among 400 samples takes long: 30 s");
  EXPECT_THAT(lines, SizeIs(1));
}

TEST(Watch, DoesNotFloodTheLogWhenThousandsWait) {
  SessionFixture fixture;
  std::vector<std::unique_ptr<Watch>> watches;
  for (int i = 0; i < 1000; ++i) {
    watches.push_back(std::make_unique<Watch>(fixture.session->runtime, "the result", "r"));
  }

  fixture.time.advance(60s);

  int warnings = 0;
  const auto lines = fixture.log.lines("the result");
  for (const auto& line : lines) warnings += line.level == LogLevel::warn ? 1 : 0;
  EXPECT_EQ(warnings, 40);
  EXPECT_THAT(lines, SizeIs(2000));
}

}  // namespace
}  // namespace tinker::session::watch_test
