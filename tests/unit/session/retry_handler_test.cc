#include "session/retry_handler.h"

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"
#include "unit/session/sample_support.h"

namespace tinker::session::retry_handler_test {
namespace {

using namespace std::chrono_literals;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;

constexpr std::string_view kEvent = "RetryHandler.execute.exception";

class RetryHandlerTest : public ::testing::Test {
 protected:
  std::shared_ptr<RetryHandler> make_handler(RetryConfig config) {
    return std::make_shared<RetryHandler>(f_.session->runtime, std::move(config));
  }
  /// Without jitter, so that waits are exact.
  std::shared_ptr<RetryHandler> exact_handler() { return make_handler({.jitter_factor = 0.0}); }
  void answer(std::vector<FakeReply> replies) {
    f_.server->reply(std::string(kAsample), std::move(replies));
  }
  Future<UntypedApiFuture> start(std::shared_ptr<RetryHandler> handler) {
    return f_.spawn(
        execute<UntypedApiFuture>(f_.session,
                                  std::move(handler),
                                  "sample",
                                  [session = f_.session](const std::shared_ptr<Watch>& watch) {
                                    return asample(session, watch);
                                  }));
  }

  SessionFixture f_;
};

// R12.3, R12.4
TEST_F(RetryHandlerTest, RepeatsUntilItSucceeds) {
  answer({refused(503), refused(429), refused(408), accepted()});

  EXPECT_THAT(start(exact_handler()).get(), IsOk());

  EXPECT_THAT(times(f_), ElementsAre(0ms, 500ms, 1500ms, 3500ms));
}

TEST_F(RetryHandlerTest, DrawsItsJitterFromTheRuntime) {
  answer({refused(503), accepted()});

  EXPECT_THAT(start(make_handler({})).get(), IsOk());

  EXPECT_GE(times(f_)[1], 375ms);
  EXPECT_LE(times(f_)[1], 625ms);
  EXPECT_NE(times(f_)[1], 500ms);
}

TEST_F(RetryHandlerTest, RepeatsWithoutALimit) {
  std::vector<FakeReply> replies(500, refused(500));
  replies.push_back(accepted());
  answer(std::move(replies));

  EXPECT_THAT(start(exact_handler()).get(), IsOk());

  EXPECT_THAT(times(f_), SizeIs(501));
}

TEST_F(RetryHandlerTest, WaitsForACircuitBreakerAsLongAsThatSays) {
  const Error rejected = {.code = ErrorCode::circuit_open,
                          .retry = {.retryable = true, .after = 90s}};
  answer({{.error = rejected}, accepted()});

  EXPECT_THAT(start(exact_handler()).get(), IsOk());

  EXPECT_THAT(times(f_), ElementsAre(0s, 90s));
}

// R12.7
TEST_F(RetryHandlerTest, ReportsEveryFailureAndLogsTheLast) {
  answer({refused(503), refused(503), refused(422)});
  EXPECT_THAT(start(exact_handler()).get(), IsError(ErrorCode::unprocessable, _));

  const auto events = reported(f_, kEvent);

  ASSERT_THAT(events, SizeIs(3));
  EXPECT_THAT(names_of(events[1].event_data),
              ElementsAre("func",
                          "exception",
                          "exception_type",
                          "exception_stack",
                          "status_code",
                          "should_retry",
                          "is_user_error",
                          "attempt_count",
                          "start_time",
                          "current_time",
                          "elapsed_time"));
  EXPECT_EQ(member(events[0].event_data, "func"), Json("sample"));
  EXPECT_EQ(member(events[0].event_data, "attempt_count"), Json(1));
  EXPECT_EQ(member(events[1].event_data, "attempt_count"), Json(2));
  EXPECT_EQ(member(events[1].event_data, "elapsed_time"), Json(0.5));
  EXPECT_EQ(member(events[1].event_data, "should_retry"), Json(true));
  EXPECT_EQ(events[1].severity, Severity::warning);
  EXPECT_EQ(member(events[2].event_data, "should_retry"), Json(false));
  const auto lines = f_.log.lines("sample failed for good");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].level, LogLevel::error);
}

// R12.5
TEST_F(RetryHandlerTest, RunsOnceWhenRetriesAreOff) {
  answer({refused(503)});

  EXPECT_THAT(start(make_handler({.enable_retry_logic = false})).get(),
              IsError(ErrorCode::server_error, _));

  EXPECT_THAT(times(f_), SizeIs(1));
  EXPECT_THAT(reported(f_, kEvent), IsEmpty());
}

// Section 2, sample_no_retries
TEST_F(RetryHandlerTest, RunsOnceWithoutAHandler) {
  answer({refused(503)});

  EXPECT_THAT(start(nullptr).get(), IsError(ErrorCode::server_error, _));

  EXPECT_THAT(times(f_), SizeIs(1));
  EXPECT_THAT(reported(f_, kEvent), IsEmpty());
}

// R12.2
TEST_F(RetryHandlerTest, RunsNoMoreThanItsLimitInTheOrderOfTheCalls) {
  f_.server->handle(std::string(kAsample), [](const http::Request&) {
    FakeReply reply = accepted();
    reply.delay = 1s;
    return reply;
  });
  const auto handler = make_handler({.max_connections = 7});
  auto futures = many(100, [&](int) { return start(handler); });

  EXPECT_THAT(when_all(std::move(futures)).get(), IsOkAndHolds(SizeIs(100)));

  EXPECT_EQ(most_at_once(times(f_), 1s), 7U);
  EXPECT_EQ(handler->limit()->available(), 7);
  EXPECT_EQ(handler->running(), 0U);
}

async::Task<int> note(std::shared_ptr<std::vector<int>> order, int number) {
  order->push_back(number);
  auto pause = async::sleep_for(1s);
  TINKER_CO_TRY(co_await pause);
  co_return number;
}

TEST_F(RetryHandlerTest, AdmitsInTheOrderOfTheCalls) {
  const auto handler = make_handler({.max_connections = 2});
  const auto order = std::make_shared<std::vector<int>>();
  auto futures = many(20, [&](int i) {
    return f_.spawn(execute<int>(
        f_.session, handler, "sample", [order, i](const auto&) { return note(order, i); }));
  });

  EXPECT_THAT(when_all(std::move(futures)).get(), IsOk());

  EXPECT_TRUE(std::is_sorted(order->begin(), order->end()));
}

// R12.2: the limit is held while an operation waits for its next attempt.
TEST_F(RetryHandlerTest, KeepsItsPlaceBetweenAttempts) {
  answer({refused(503), accepted()});
  const auto handler = make_handler({.max_connections = 1, .jitter_factor = 0.0});
  auto first = start(handler);
  auto second = start(handler);

  EXPECT_THAT(second.get(), IsOk());

  EXPECT_TRUE(first.is_ready());
  EXPECT_THAT(times(f_), ElementsAre(0ms, 500ms, 500ms));
}

TEST_F(RetryHandlerTest, SaysThatAnOperationWaitsForItsTurnForLong) {
  answer({{.never = true}});
  const auto handler = make_handler({.max_connections = 1});
  auto first = start(handler);
  auto second = start(handler);

  f_.time.advance(30s);

  EXPECT_THAT(f_.log.lines("as many operations as allowed are running"), SizeIs(1));
}

TEST_F(RetryHandlerTest, HasNoLimitWhenNoneIsSet) {
  answer({{.never = true}});
  const auto handler = make_handler({.max_connections = {}});
  for (int i = 0; i < 1500; ++i) (void)start(handler);
  f_.time.advance(1s);

  EXPECT_EQ(handler->running(), 1500U);
}

class StuckTest : public RetryHandlerTest {
 protected:
  std::shared_ptr<RetryHandler> handler_ =
      make_handler({.jitter_factor = 0.0, .progress_timeout = 60s});
};

// R12.6
TEST_F(StuckTest, FailsWhatMakesNoProgress) {
  answer({{.never = true}});
  auto future = start(handler_);

  const auto result = future.get();

  EXPECT_THAT(result,
              IsError(ErrorCode::stuck,
                      AllOf(HasSubstr("no progress made in 60 s"),
                            HasSubstr("Requests appear to be stuck"))));
  EXPECT_EQ(f_.time.elapsed(), 60s);
  EXPECT_TRUE(f_.server->sent(kAsample).front().is_cancelled);
  EXPECT_EQ(handler_->limit()->available(), 1000);
}

TEST_F(StuckTest, DoesNotTakeRetriesForProgress) {
  answer({refused(503)});

  EXPECT_THAT(start(handler_).get(), IsError(ErrorCode::stuck, _));

  EXPECT_EQ(f_.time.elapsed(), 60s);
}

TEST_F(StuckTest, TakesEverySuccessForProgressOfAll) {
  FakeReply slow = accepted();
  slow.delay = 50s;
  answer({{.never = true}, slow});
  auto stalled = start(handler_);
  for (int i = 0; i < 10; ++i) EXPECT_THAT(start(handler_).get(), IsOk());

  EXPECT_FALSE(stalled.is_ready());
  EXPECT_THAT(stalled.get(), IsError(ErrorCode::stuck, _));
  EXPECT_EQ(f_.time.elapsed(), 560s);
}

TEST_F(StuckTest, DoesNotTakeAFailureForProgress) {
  FakeReply late_failure = refused(422);
  late_failure.delay = 50s;
  answer({{.never = true}, late_failure});
  auto stalled = start(handler_);
  EXPECT_THAT(start(handler_).get(), IsError(ErrorCode::unprocessable, _));

  EXPECT_THAT(stalled.get(), IsError(ErrorCode::stuck, _));
  EXPECT_EQ(f_.time.elapsed(), 60s);
}

TEST_F(StuckTest, CountsFromTheFirstOperationAfterAnIdleTime) {
  answer({accepted(), {.never = true}});
  EXPECT_THAT(start(handler_).get(), IsOk());
  f_.time.advance(1h);

  EXPECT_THAT(start(handler_).get(), IsError(ErrorCode::stuck, _));

  EXPECT_EQ(f_.time.elapsed(), 1h + 60s);
}

TEST_F(StuckTest, JudgesALateComerByTheProgressOfAll) {
  answer({{.never = true}});
  auto first = start(handler_);
  f_.time.advance(59s);
  auto second = start(handler_);

  EXPECT_THAT(second.get(), IsError(ErrorCode::stuck, _));

  EXPECT_EQ(f_.time.elapsed(), 60s);
  EXPECT_TRUE(first.is_ready());
}

TEST_F(StuckTest, GivesThoseBehindAStuckOneTheirOwnTime) {
  answer({{.never = true}});
  const auto handler = make_handler({.max_connections = 2, .progress_timeout = 60s});
  auto futures = many(6, [&](int) { return start(handler); });

  f_.time.advance(60s);
  EXPECT_TRUE(futures[1].is_ready());
  EXPECT_FALSE(futures[2].is_ready());
  EXPECT_THAT(futures[5].get(), IsError(ErrorCode::stuck, _));

  EXPECT_EQ(f_.time.elapsed(), 180s);
  EXPECT_EQ(handler->running(), 0U);
}

TEST_F(StuckTest, IsNotLookedForWhenSwitchedOff) {
  answer({{.never = true}});
  auto future = start(make_handler({.enable_stuck_detection = false, .progress_timeout = 60s}));

  EXPECT_THAT(future.get(100h), IsError(ErrorCode::deadline_exceeded, _));

  EXPECT_FALSE(future.is_ready());
}

// R12.7 is about attempts that failed; this one was ended by us.
TEST_F(StuckTest, IsLoggedAndPublishedButNotReportedAsAFailedAttempt) {
  answer({{.never = true}});
  std::vector<std::string> names;
  const auto subscription = f_.session->runtime->events().subscribe([&](const Event& event) {
    if (event.name.starts_with("operation.")) names.emplace_back(event.name);
  });
  EXPECT_THAT(start(handler_).get(), IsError(ErrorCode::stuck, _));

  EXPECT_THAT(names, ElementsAre("operation.stuck"));
  EXPECT_THAT(f_.log.lines("are given up"), SizeIs(1));
  EXPECT_THAT(reported(f_, kEvent), IsEmpty());
}

TEST_F(StuckTest, LeavesNothingBehindWhenTheCallerCancels) {
  answer({{.never = true}});
  auto running = start(handler_);
  f_.time.advance(10s);
  EXPECT_EQ(handler_->running(), 1U);

  running.cancel();

  EXPECT_THAT(running.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_EQ(f_.time.elapsed(), 10s);
  EXPECT_EQ(handler_->running(), 0U);
  EXPECT_EQ(handler_->limit()->available(), 1000);
  const std::weak_ptr<RetryHandler> weak = std::exchange(handler_, nullptr);
  f_.time.advance(1h);
  EXPECT_TRUE(weak.expired());
}

class RetryHandlersTest : public ::testing::Test {
 protected:
  std::shared_ptr<RetryHandler> find(const std::string& id, const RetryConfig& config = {}) {
    return handlers_.find_or_make(id, config, {}).value();
  }

  ::tinker::testing::VirtualRuntime time_;
  RetryHandlers handlers_{time_.runtime().core()};
};

// R12.1
TEST_F(RetryHandlersTest, AreSharedByTheSameSessionAndConfiguration) {
  const auto handler = find("s1");

  EXPECT_EQ(find("s1"), handler);
  EXPECT_NE(find("s2"), handler);
  EXPECT_NE(find("s1", {.progress_timeout = 1s}), handler);
  // The server decides about it, so the user's value makes no difference.
  EXPECT_EQ(find("s1", {.max_connections = 5}), handler);
}

TEST_F(RetryHandlersTest, KeepTheHundredUsedLast) {
  const std::weak_ptr<RetryHandler> first = find("first");
  const std::weak_ptr<RetryHandler> second = find("second");
  for (int i = 0; i < 98; ++i) (void)find("s" + std::to_string(i));
  (void)find("first");
  EXPECT_FALSE(second.expired());

  (void)find("one more");

  EXPECT_TRUE(second.expired());
  EXPECT_FALSE(first.expired());
}

TEST_F(RetryHandlersTest, KeepWhatAClientStillUses) {
  const auto used = find("used");
  for (int i = 0; i < 300; ++i) (void)find("s" + std::to_string(i));

  EXPECT_EQ(find("used"), used) << "its limit and its progress are those of the whole session";
}

TEST_F(RetryHandlersTest, RefuseAConfigurationThatCannotWork) {
  EXPECT_THAT(handlers_.find_or_make("s1", {.max_connections = 0}, {}),
              IsError(ErrorCode::invalid_argument, HasSubstr("got 0")));
  EXPECT_THAT(handlers_.find_or_make("s1", {}, {.sample_max_concurrent_requests = 0}),
              IsError(ErrorCode::invalid_argument, HasSubstr("sample_max_concurrent_requests")));
}

}  // namespace
}  // namespace tinker::session::retry_handler_test
