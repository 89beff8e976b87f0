#include "session/queue_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/session/poll_support.h"

namespace tinker::session::queue_observer_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const OpenEnum<QueueState> kUnknown = OpenEnum<QueueState>::parse("on_holiday");

/// The one log line that `state` and `reason` make.
std::string line_for(QueuedWork work,
                     const OpenEnum<QueueState>& state,
                     std::optional<std::string> reason) {
  const SessionFixture fixture;
  QueueStateObserver observer(fixture.session, work, "the-id");

  observer.notify(state, std::move(reason));

  const auto lines = fixture.log.lines("is paused");
  EXPECT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines.at(0).level, LogLevel::warn);
  return lines.at(0).text;
}

TEST(QueueStateObserver, IgnoresTheActiveState) {  // R13.2
  const SessionFixture fixture;
  QueueStateObserver observer(fixture.session, QueuedWork::training, "m1");

  observer.notify(QueueState::active, "all is well");

  EXPECT_THAT(fixture.log.lines("m1"), IsEmpty());
}

TEST(QueueStateObserver, NamesWhatIsPausedAndWhy) {  // R13.4
  const auto state = QueueState::paused_capacity;
  EXPECT_THAT(line_for(QueuedWork::training, state, "waiting for GPUs"),
              AllOf(HasSubstr("training"), HasSubstr("the-id"), HasSubstr("waiting for GPUs")));
  EXPECT_THAT(
      line_for(QueuedWork::model_creation, state, "waiting for GPUs"),
      AllOf(HasSubstr("model creation"), HasSubstr("the-id"), HasSubstr("waiting for GPUs")));
  EXPECT_THAT(line_for(QueuedWork::sampling, state, "waiting for GPUs"),
              AllOf(HasSubstr("sampling"), HasSubstr("the-id"), HasSubstr("waiting for GPUs")));
}

TEST(QueueStateObserver, HasADefaultReasonForEachState) {  // R13.1, R13.3
  const auto rate_limit = QueueState::paused_rate_limit;
  for (const auto& none : {std::optional<std::string>(), std::optional<std::string>("")}) {
    EXPECT_THAT(line_for(QueuedWork::training, rate_limit, none),
                HasSubstr("limit on concurrent training clients"));
    EXPECT_THAT(line_for(QueuedWork::model_creation, rate_limit, none),
                HasSubstr("limit on concurrent training clients"));
    EXPECT_THAT(line_for(QueuedWork::sampling, rate_limit, none),
                HasSubstr("limit on concurrent sampler weights"));
    EXPECT_THAT(line_for(QueuedWork::sampling, QueueState::paused_capacity, none),
                HasSubstr("short on capacity"));
    EXPECT_THAT(line_for(QueuedWork::sampling, kUnknown, none), HasSubstr("unknown"));
  }
}

TEST(QueueStateObserver, LogsAtMostOnceAMinute) {  // R13.2
  SessionFixture fixture;
  QueueStateObserver observer(fixture.session, QueuedWork::training, "m1");

  observer.notify(QueueState::paused_capacity, "first");
  fixture.time.advance(59'999ms);
  observer.notify(QueueState::paused_rate_limit, "too early");
  fixture.time.advance(1ms);
  observer.notify(QueueState::paused_capacity, "second");

  EXPECT_THAT(fixture.log.lines("m1"), SizeIs(2));
  EXPECT_THAT(fixture.log.lines("too early"), IsEmpty());
}

TEST(QueueStateObserver, IsNotSilencedByAClockThatIsSetBack) {
  SessionFixture fixture;
  QueueStateObserver observer(fixture.session, QueuedWork::training, "m1");
  observer.notify(QueueState::paused_capacity, "first");

  fixture.time.shift_wall_time(-24h);
  fixture.time.advance(60s);
  observer.notify(QueueState::paused_capacity, "second");

  EXPECT_THAT(fixture.log.lines("m1"), SizeIs(2));
}

TEST(QueueStateObserver, IsThrottledByItself) {  // R13.5
  const SessionFixture fixture;
  QueueStateObserver first(fixture.session, QueuedWork::training, "m1");
  QueueStateObserver second(fixture.session, QueuedWork::training, "m2");

  first.notify(QueueState::paused_capacity, {});
  second.notify(QueueState::paused_capacity, {});

  EXPECT_THAT(fixture.log.lines("m1"), SizeIs(1));
  EXPECT_THAT(fixture.log.lines("m2"), SizeIs(1));
}

TEST(QueueStateObserver, PublishesChangesOnly) {
  const SessionFixture fixture;
  const EventCapture events(fixture.session->runtime->events(), "queue_state");
  QueueStateObserver observer(fixture.session, QueuedWork::sampling, "s1");

  observer.notify(QueueState::active, {});
  observer.notify(QueueState::paused_capacity, "waiting for GPUs");
  observer.notify(QueueState::paused_capacity, "waiting for GPUs");
  observer.notify(QueueState::paused_capacity, "still");
  observer.notify(kUnknown, {});
  observer.notify(QueueState::active, {});

  ASSERT_THAT(events.seen(), SizeIs(4));
  EXPECT_THAT(events.seen()[0].texts, ElementsAre("paused_capacity", "sampling", "s1"));
  EXPECT_EQ(events.seen()[0].message, "waiting for GPUs");
  EXPECT_EQ(events.seen()[0].level, LogLevel::warn);
  EXPECT_EQ(events.seen()[1].message, "still");
  EXPECT_THAT(events.seen()[2].texts, ElementsAre("on_holiday", "sampling", "s1"));
  EXPECT_THAT(events.seen()[3].texts, ElementsAre("active", "sampling", "s1"));
  EXPECT_EQ(events.seen()[3].level, LogLevel::info);
}

TEST(QueueStateObserver, RepeatsNoSecret) {
  SessionFixture fixture;
  fixture.server->reply(std::string(kRetrieveFuture),
                        {{.status = 408,
                          .body = R"({"queue_state":"paused_capacity",)"
                                  R"("queue_state_reason":"tml-secret-key has used it all"})"},
                         done()});
  auto request = optim_step();
  request.observer =
      std::make_shared<QueueStateObserver>(fixture.session, QueuedWork::training, "m1");

  EXPECT_TRUE(fixture.spawn(poll_future(fixture.session, request)).get().ok());

  EXPECT_THAT(fixture.log.lines("has used it all"), SizeIs(1));
  EXPECT_THAT(fixture.log.text(), Not(HasSubstr("tml-secret-key")));
}

}  // namespace
}  // namespace tinker::session::queue_observer_test
