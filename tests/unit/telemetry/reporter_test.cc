#include "telemetry/reporter.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"
#include "unit/telemetry/reporter_fixture.h"

// When and how often things are sent, what bounds them and what ends them.

namespace tinker::telemetry::reporter_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOk;
using ::testing::SizeIs;
using namespace std::chrono_literals;

constexpr std::string_view kAccepted = R"({"status":"accepted"})";

void add(Reporter& reporter, int count) {
  for (int i = 0; i < count; ++i) reporter.generic("event", Severity::info, {});
}

/// What was published as telemetry.dropped.
class Drops {
 public:
  explicit Drops(const EventBus& bus)
      : subscription_(bus.subscribe([this](const Event& event) {
          if (event.name == "telemetry.dropped") {
            counts_.push_back(std::get<std::int64_t>(event.fields[0].value));
          }
        })) {}
  [[nodiscard]] const std::vector<std::int64_t>& counts() const { return counts_; }

 private:
  std::vector<std::int64_t> counts_;
  Subscription subscription_;
};

TEST(TelemetrySwitch, IsOnUnlessTheEnvironmentSaysNo) {  // R14.1
  EXPECT_TRUE(is_enabled_by(nullptr));
  for (const char* on : {"1", "true", "TRUE", "Yes", "on", "ON"}) EXPECT_TRUE(is_enabled_by(on));
  for (const char* off : {"", "0", "false", "no", "off", " 1", "2", "enabled"}) {
    EXPECT_FALSE(is_enabled_by(off)) << off;
  }
}

TEST_F(ReporterTest, SendsNothingWhenSwitchedOff) {  // R14.1
  const auto reporter = started({.is_enabled = false, .session_id = "session-1"});

  reporter->generic("event", Severity::info, {});
  reporter->fatal({.message = "broken"}, "sample");
  const auto drained = drain(*reporter, 30s);
  time.advance(1min);

  EXPECT_THAT(drained, IsOk());
  EXPECT_FALSE(reporter->is_enabled());
  EXPECT_THAT(server->sent(), IsEmpty());
}

TEST_F(ReporterTest, FlushesEveryTenSeconds) {  // R14.2
  const auto reporter = started();

  time.advance(9'999ms);
  EXPECT_THAT(times(), IsEmpty());
  time.advance(1ms);
  reporter->generic("later", Severity::info, {});
  time.advance(30s);

  EXPECT_THAT(times(), ElementsAre(10s, 20s));
  EXPECT_THAT(names(events()), ElementsAre("SESSION_START", "later"));
}

TEST_F(ReporterTest, DoesNotWakeUpWithoutEvents) {
  const auto reporter = started({});

  Promise<void> never(core->callbacks());
  EXPECT_THAT(never.future().get(), IsError(ErrorCode::stuck, HasSubstr("nothing is left to run")));
  EXPECT_EQ(time.elapsed(), 0s);
}

TEST_F(ReporterTest, SendsBatchesOfAtMostAHundredUntilTheQueueIsEmpty) {  // R14.2, R14.7
  const auto reporter = started();

  add(*reporter, 250);
  time.advance(10s);

  EXPECT_THAT(times(), ElementsAre(10s, 10s, 10s));
  const auto sent = requests();
  ASSERT_THAT(sent, SizeIs(3));
  EXPECT_THAT(sent[0].events, SizeIs(100));
  EXPECT_THAT(sent[1].events, SizeIs(100));
  EXPECT_THAT(sent[2].events, SizeIs(51));
  EXPECT_EQ(reporter->queued(), 0U);
}

TEST_F(ReporterTest, UsesTheTelemetryPoolWithFiveSeconds) {  // R14.2, PROTOCOL 2.1
  const auto reporter = started();

  time.advance(10s);

  const auto sent = server->sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].request.headers.find("x-stainless-read-timeout"), "5.0");
  EXPECT_EQ(sent[0].request.timeouts.read, 5s);
  EXPECT_EQ(api->pool(api::PoolKind::telemetry).channels(), 1U);
}

TEST_F(ReporterTest, RetriesABatchForEverOnAnyError) {  // R14.8
  answer({{.status = 400, .body = "no"},
          {.status = 404, .body = "no"},
          {.status = 422, .body = "no"},
          {.body = R"({"status":"refused"})"},
          {.body = "garbage"},
          {.body = std::string(kAccepted)}});
  const auto reporter = started();

  time.advance(10s);
  EXPECT_EQ(reporter->queued(), 1U);
  time.advance(1min);

  EXPECT_THAT(times(), ElementsAre(10s, 11s, 12s, 13s, 14s, 15s));
  const auto sent = requests();
  EXPECT_THAT(sent, Each(sent[0]));
  EXPECT_EQ(reporter->queued(), 0U);
}

TEST_F(ReporterTest, RetriesTenTimesInTheHttpLayerFirst) {  // R14.8, R5.2
  answer({{.status = 503, .body = "no", .headers = {{"retry-after-ms", "1"}}}});
  const auto reporter = started();

  time.advance(10s + 500ms);

  const auto sent = server->sent();
  ASSERT_THAT(sent, SizeIs(11));
  EXPECT_EQ(sent[10].request.headers.find("x-stainless-retry-count"), "10");
}

TEST_F(ReporterTest, GoesOnAfterAnErrorOfTheCredential) {  // R14.8: the official flush ends here
  tokens->failures_left = 2;
  const auto reporter = started();

  time.advance(20s);

  EXPECT_THAT(times(), ElementsAre(12s));
  EXPECT_EQ(reporter->queued(), 0U);
}

TEST_F(ReporterTest, WarnsOnceForAnOutage) {
  answer({{.status = 404, .body = "no"},
          {.status = 404, .body = "no"},
          {.body = std::string(kAccepted)},
          {.status = 404, .body = "no"},
          {.body = std::string(kAccepted)}});
  const auto reporter = started();

  time.advance(20s);
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("telemetry: a batch could not be sent")));
  reporter->generic("event", Severity::info, {});
  time.advance(20s);

  EXPECT_THAT(warnings(), SizeIs(2));
}

TEST_F(ReporterTest, DoesNotReportItsOwnFailures) {
  answer({{.status = 500, .body = "no"}});
  const auto reporter = started();
  add(*reporter, 4);

  time.advance(10min);

  EXPECT_EQ(reporter->queued(), 5U);
}

TEST_F(ReporterTest, PublishesItsFailures) {
  answer({{.status = 404, .body = "no"}, {.body = std::string(kAccepted)}});
  std::vector<std::pair<int, std::int64_t>> failures;
  const auto subscription = core->events().subscribe([&](const Event& event) {
    if (event.name == "telemetry.batch_failed") {
      failures.emplace_back(event.http_status, event.attempt);
    }
  });
  const auto reporter = started();

  time.advance(20s);

  EXPECT_THAT(failures, ElementsAre(std::pair(404, 0)));
}

TEST_F(ReporterTest, DropsTheEventsOfACallThatDoNotFit) {  // R14.3
  const Drops drops(core->events());
  answer({{.never = true}});
  const auto reporter = started({});
  add(*reporter, 9'999);

  // Two events, of which one would fit.
  const auto with_session = started();
  add(*with_session, 9'998);
  with_session->fatal({.message = "broken"}, "sample");

  EXPECT_EQ(with_session->queued(), 9'999U);
  EXPECT_THAT(drops.counts(), ElementsAre(2));
  EXPECT_THAT(warnings(), ElementsAre("telemetry: dropped 2 events: the queue is full"));

  add(*reporter, 1);
  EXPECT_EQ(reporter->queued(), 10'000U);
  EXPECT_THAT(drops.counts(), SizeIs(1));
}

TEST_F(ReporterTest, CountsTheNumbersOfDroppedEvents) {  // R14.3, R14.4: the server sees the gap
  const auto reporter = started({});
  add(*reporter, 10'000);
  add(*reporter, 3);
  time.advance(10s);

  reporter->generic("after", Severity::info, {});
  time.advance(10s);

  const auto all = events();
  ASSERT_THAT(all, SizeIs(10'001));
  EXPECT_EQ(std::get<GenericEvent>(all.back()).event_session_index, 10'003);
}

TEST_F(ReporterTest, WarnsAboutDropsOnceAMinute) {
  answer({{.never = true}});
  const auto reporter = started({});
  add(*reporter, 10'000);

  add(*reporter, 5);
  time.advance(59s);
  add(*reporter, 3);
  EXPECT_THAT(warnings(), ElementsAre("telemetry: dropped 1 events: the queue is full"));
  time.advance(1s);
  // A batch of a hundred is under way by now, which makes room.
  add(*reporter, 101);

  EXPECT_THAT(warnings(),
              ElementsAre("telemetry: dropped 1 events: the queue is full",
                          "telemetry: dropped 5 events: the queue is full"));
}

TEST_F(ReporterTest, BoundsItsMemoryInBytes) {
  const Drops drops(core->events());
  const auto reporter = started({});

  for (int i = 0; i < 2'000; ++i) {
    reporter->generic("event", Severity::info, {{"text", std::string(1 << 16, 'x')}});
  }

  // 16 KiB of each text stay, 16 MiB of all.
  EXPECT_GT(reporter->queued(), 900U);
  EXPECT_LT(reporter->queued(), 1'024U);
  EXPECT_EQ(drops.counts().size(), 2'000 - reporter->queued());

  time.advance(10s);
  EXPECT_EQ(reporter->queued(), 0U);
  reporter->generic("event", Severity::info, {});
  EXPECT_EQ(reporter->queued(), 1U);
}

TEST_F(ReporterTest, DrainSendsWhatIsQueuedAndStops) {  // R14.14
  const auto reporter = started();
  add(*reporter, 150);

  const auto drained = drain(*reporter, 30s);
  reporter->generic("too_late", Severity::info, {});
  time.advance(1min);

  EXPECT_THAT(drained, IsOk());
  EXPECT_FALSE(reporter->is_enabled());
  EXPECT_THAT(times(), ElementsAre(0s, 0s));
  const auto sent = names(events());
  ASSERT_THAT(sent, SizeIs(151));
  EXPECT_EQ(sent.front(), "SESSION_START");
  EXPECT_EQ(sent.back(), "event");  // and no SESSION_END
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(ReporterTest, DrainWaitsForTheBatchUnderWay) {  // R14.14
  answer({{.body = std::string(kAccepted), .delay = 4s}});
  const auto reporter = started();
  time.advance(10s);

  const auto drained = drain(*reporter, 30s);

  EXPECT_THAT(drained, IsOk());
  EXPECT_EQ(time.elapsed(), 14s);
  EXPECT_THAT(times(), SizeIs(1));
}

TEST_F(ReporterTest, DrainEndsAtItsLimitWithAWarning) {  // R14.14
  const Drops drops(core->events());
  answer({{.never = true}});
  const auto reporter = started();
  add(*reporter, 2);

  const auto drained = drain(*reporter, 30s);

  EXPECT_THAT(drained, IsOk());
  EXPECT_EQ(time.elapsed(), 30s);
  EXPECT_THAT(warnings(),
              ElementsAre("telemetry: dropped 3 events: not sent before the end of the session"));
  EXPECT_THAT(drops.counts(), ElementsAre(3));
  time.run_ready();
  EXPECT_EQ(server->in_flight(), 0U);
  EXPECT_TRUE(server->sent()[0].is_cancelled);
}

TEST_F(ReporterTest, DrainTriesAgainUntilItsLimit) {  // R14.8, R14.14
  answer({{.status = 404, .body = "no"}, {.body = std::string(kAccepted)}});
  const auto reporter = started();

  const auto drained = drain(*reporter, 30s);

  EXPECT_THAT(drained, IsOk());
  EXPECT_EQ(time.elapsed(), 1s);
  EXPECT_THAT(times(), ElementsAre(0s, 1s));
}

TEST_F(ReporterTest, DrainWithNothingToSendEndsAtOnce) {
  const auto reporter = started();
  EXPECT_THAT(drain(*reporter, 30s), IsOk());

  EXPECT_THAT(drain(*reporter, 30s), IsOk());
  EXPECT_EQ(time.elapsed(), 0s);
  EXPECT_THAT(times(), SizeIs(1));
}

TEST_F(ReporterTest, DrainSendsEventsFromBeforeTheStart) {
  const auto reporter = make({});
  reporter->generic("early", Severity::info, {});

  EXPECT_THAT(drain(*reporter, 30s), IsOk());

  EXPECT_THAT(names(events()), ElementsAre("early"));
}

TEST_F(ReporterTest, ACancelledDrainStopsAllTheSame) {
  answer({{.never = true}});
  const auto reporter = started();

  auto draining = core->spawn(core->scope(), reporter->drain(30s));
  time.advance(1s);
  draining.cancel();
  const auto drained = draining.get();
  time.advance(1min);

  EXPECT_THAT(drained, IsError(ErrorCode::cancelled, HasSubstr("cancel")));
  EXPECT_EQ(server->in_flight(), 0U);
  EXPECT_FALSE(reporter->is_enabled());
}

TEST_F(ReporterTest, EndsWithItsScope) {
  answer({{.never = true}});
  const auto reporter = started();
  time.advance(10s);
  ASSERT_EQ(server->in_flight(), 1U);

  scope->cancel({.code = ErrorCode::cancelled, .message = "the client went away"});
  time.run_ready();
  reporter->generic("too_late", Severity::info, {});
  time.advance(1min);

  EXPECT_FALSE(reporter->is_enabled());
  EXPECT_EQ(server->in_flight(), 0U);
  EXPECT_EQ(reporter->queued(), 0U);
  EXPECT_THAT(times(), SizeIs(1));
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(ReporterTest, DrainAfterTheEndOfItsScopeDoesNotWait) {
  const auto reporter = make({.session_id = "session-1"});
  scope->cancel({.code = ErrorCode::cancelled, .message = "the client went away"});
  reporter->start(scope);

  const auto drained = core->spawn(core->scope(), reporter->drain(30s)).get();

  EXPECT_THAT(drained, IsOk());
  EXPECT_EQ(time.elapsed(), 0s);
  EXPECT_THAT(times(), IsEmpty());
}

TEST_F(ReporterTest, LetsGoOfEverythingAtItsEnd) {
  const std::weak_ptr<TestTokens> left = tokens;
  auto reporter = started();
  add(*reporter, 2);
  time.advance(10s);

  scope->cancel({.code = ErrorCode::cancelled, .message = "the client went away"});
  time.run_ready();
  reporter.reset();
  tokens.reset();

  EXPECT_TRUE(left.expired());
}

}  // namespace
}  // namespace tinker::telemetry::reporter_test
