#include "tinker/circuit_breaker.h"

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/testing/fake_clock.h"
#include "tinker/testing/matchers.h"

namespace tinker::circuit_breaker_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;

struct Breaker {
  explicit Breaker(CircuitBreakerOptions options = {}) : breaker(make(std::move(options))) {}

  CircuitBreaker make(CircuitBreakerOptions options) {
    options.on_change = [this](const CircuitBreakerStatus& status) {
      changes.emplace_back(to_string(status.state));
    };
    return CircuitBreaker::create("thing", std::move(options), clock).value();
  }
  void fail(int times = 1) const {
    for (int i = 0; i < times; ++i) breaker.try_acquire().value().failure();
  }
  void succeed(int times = 1) const {
    for (int i = 0; i < times; ++i) breaker.try_acquire().value().success();
  }
  [[nodiscard]] CircuitState state() const { return breaker.status().state; }

  std::shared_ptr<testing::FakeClock> clock = std::make_shared<testing::FakeClock>();
  std::vector<std::string> changes;
  CircuitBreaker breaker;
};

/// Runs `f` on `count` threads at once.
template <typename F>
void on_threads(int count, F f) {
  std::latch start(count);
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      f();
    });
  }
}

TEST(CircuitBreaker, OpensAfterFailuresInARow) {
  Breaker f;

  f.fail(4);
  f.succeed();
  f.fail(4);
  EXPECT_EQ(f.state(), CircuitState::closed);
  EXPECT_EQ(f.breaker.status().failures, 4);
  f.fail();

  EXPECT_EQ(f.state(), CircuitState::open);
  EXPECT_EQ(f.breaker.status().opens, 1);
}

TEST(CircuitBreaker, RejectsWhileOpenAndSaysForHowLong) {
  Breaker f;
  f.fail(4);
  f.breaker.try_acquire().value().record(
      {.code = ErrorCode::server_error, .message = "overloaded", .http_status = 503});
  f.clock->advance(12500ms);

  const auto permit = f.breaker.try_acquire();

  EXPECT_THAT(permit,
              IsError(ErrorCode::circuit_open,
                      HasSubstr("thing is open after server_error (status 503); next attempt in "
                                "17.5 s")));
  EXPECT_EQ(permit.error().retry, (RetryHint{.retryable = true, .after = 17500ms}));
  EXPECT_EQ(f.breaker.status().retry_after, 17500ms);
  EXPECT_EQ(f.breaker.status().rejected, 1);
}

TEST(CircuitBreaker, TheHintIsNeverTooShort) {
  Breaker f({.failure_threshold = 1, .reset_timeout = 1500us});
  f.fail();

  const auto rejected = f.breaker.try_acquire();

  ASSERT_FALSE(rejected.ok());
  EXPECT_EQ(rejected.error().retry.after, 2ms);
  f.clock->advance(*rejected.error().retry.after);
  EXPECT_THAT(f.breaker.try_acquire(), IsOk());
}

TEST(CircuitBreaker, IsHalfOpenAfterItsTime) {  // TINKEX scenario 12
  Breaker f;
  f.fail(5);

  f.clock->advance(30s - 1ns);
  EXPECT_EQ(f.state(), CircuitState::open);
  f.clock->advance(1ns);
  EXPECT_EQ(f.state(), CircuitState::half_open);
  f.succeed();

  EXPECT_EQ(f.state(), CircuitState::closed);
  EXPECT_THAT(f.changes, ElementsAre("open", "half_open", "closed"));
}

TEST(CircuitBreaker, AFailedProbeOpensItForAnotherWhile) {
  Breaker f;
  f.fail(5);
  f.clock->advance(30s);

  f.fail();

  EXPECT_EQ(f.state(), CircuitState::open);
  EXPECT_EQ(f.breaker.status().opens, 2);
  EXPECT_EQ(f.breaker.status().retry_after, 30s);
  EXPECT_THAT(f.changes, ElementsAre("open", "half_open", "open"));
}

TEST(CircuitBreaker, CountsProbesWhenTheyStart) {
  Breaker f({.max_probes = 2});
  f.fail(5);
  f.clock->advance(30s);

  auto first = f.breaker.try_acquire();
  auto second = f.breaker.try_acquire();
  const auto third = f.breaker.try_acquire();

  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(third, IsError(ErrorCode::circuit_open, HasSubstr("being probed")));
  EXPECT_EQ(third.error().retry.after, 1s);
}

TEST(CircuitBreaker, ACancelledProbeGivesItsPlaceBack) {
  Breaker f;
  f.fail(5);
  f.clock->advance(30s);
  {
    const auto cancelled = f.breaker.try_acquire();
    ASSERT_THAT(cancelled, IsOk());
    ASSERT_FALSE(f.breaker.try_acquire().ok());
  }

  EXPECT_EQ(f.state(), CircuitState::half_open);
  f.breaker.try_acquire().value().record({.code = ErrorCode::cancelled});
  EXPECT_EQ(f.state(), CircuitState::half_open) << "nothing was learned";
  f.succeed();

  EXPECT_EQ(f.state(), CircuitState::closed);
}

TEST(CircuitBreaker, OnlyOneThreadGetsTheProbe) {  // not tested by Tinkex, and broken there
  Breaker f;
  f.fail(5);
  f.clock->advance(30s);
  std::atomic<int> admitted = 0;
  std::latch all_asked(16);

  on_threads(16, [&] {
    const auto permit = f.breaker.try_acquire();
    if (permit.ok()) ++admitted;
    all_asked.arrive_and_wait();  // the permit lives until everybody has asked
  });

  EXPECT_EQ(admitted, 1);
  EXPECT_EQ(f.breaker.status().rejected, 15);
}

TEST(CircuitBreaker, LosesNoFailureOfManyThreads) {  // TINKEX scenario 12
  Breaker f({.failure_threshold = 20});
  f.fail(19);
  f.breaker.reset();

  on_threads(20, [&] { f.fail(); });

  EXPECT_EQ(f.state(), CircuitState::open);
  EXPECT_EQ(f.breaker.status().opens, 1);
}

TEST(CircuitBreaker, StragglersOfAnOutageDoNotCount) {
  Breaker f;
  auto failing = f.breaker.try_acquire().value();
  auto succeeding = f.breaker.try_acquire().value();
  f.fail(5);

  succeeding.success();
  EXPECT_EQ(f.state(), CircuitState::open) << "begun before it opened";
  f.clock->advance(30s);
  auto probe = f.breaker.try_acquire().value();
  failing.failure();
  EXPECT_EQ(f.state(), CircuitState::half_open);
  EXPECT_FALSE(f.breaker.try_acquire().ok()) << "the probe's place is still taken";

  probe.success();
  EXPECT_EQ(f.state(), CircuitState::closed);
}

TEST(CircuitBreaker, TheFirstVerdictCounts) {
  Breaker f({.failure_threshold = 1});
  auto permit = f.breaker.try_acquire().value();

  permit.success();
  permit.failure();
  permit.record({.code = ErrorCode::timed_out});

  EXPECT_EQ(f.state(), CircuitState::closed);
}

TEST(CircuitBreaker, KnowsTroubleFromAnswers) {
  const auto status = [](int code) {
    return Error{.code = error_code_for_status(code), .http_status = code};
  };
  for (const int code : {500, 502, 503, 504, 529}) {
    EXPECT_TRUE(is_service_failure(status(code))) << code;
  }
  for (const int code : {400, 401, 402, 403, 404, 408, 409, 410, 422, 429}) {
    EXPECT_FALSE(is_service_failure(status(code))) << code;
  }
  EXPECT_TRUE(is_service_failure({.code = ErrorCode::connection_failed}));
  EXPECT_TRUE(is_service_failure({.code = ErrorCode::timed_out}));
  EXPECT_FALSE(is_service_failure({.code = ErrorCode::invalid_response}));
}

TEST(CircuitBreaker, AnswersCloseItAndOurOwnErrorsSayNothing) {
  Breaker f({.failure_threshold = 2});
  f.fail();
  f.breaker.try_acquire().value().record({.code = ErrorCode::deadline_exceeded});
  EXPECT_EQ(f.breaker.status().failures, 1);

  f.breaker.try_acquire().value().record({.code = ErrorCode::rate_limited, .http_status = 429});

  EXPECT_EQ(f.breaker.status().failures, 0);
}

TEST(CircuitBreaker, TakesAnotherClassifier) {  // TINKEX scenario 12
  Breaker f({.failure_threshold = 1,
             .is_failure = [](const Error& error) { return error.code == ErrorCode::not_found; }});

  f.breaker.try_acquire().value().record({.code = ErrorCode::server_error, .http_status = 500});
  EXPECT_EQ(f.state(), CircuitState::closed);
  f.breaker.try_acquire().value().record({.code = ErrorCode::not_found, .http_status = 404});

  EXPECT_EQ(f.state(), CircuitState::open);
}

TEST(CircuitBreaker, OpensByTheRateOfFailures) {
  Breaker f({.failure_threshold = 100,
             .failure_rate = FailureRate{.threshold = 0.5, .calls = 10, .min_calls = 4}});

  f.succeed(2);
  f.fail();
  EXPECT_EQ(f.state(), CircuitState::closed) << "too few calls";
  f.succeed();
  f.fail();
  EXPECT_EQ(f.state(), CircuitState::closed) << "2 of 5";
  f.fail();

  EXPECT_EQ(f.state(), CircuitState::open) << "3 of 6";
}

TEST(CircuitBreaker, TheRateForgetsOldCalls) {
  const FailureRate rate = {.threshold = 0.5, .calls = 4, .window = 10s, .min_calls = 4};
  Breaker by_number({.failure_threshold = 100, .failure_rate = rate});
  by_number.fail();
  by_number.succeed(4);  // the failure is out
  by_number.fail();
  EXPECT_EQ(by_number.state(), CircuitState::closed) << "1 of 4";
  by_number.fail();
  EXPECT_EQ(by_number.state(), CircuitState::open) << "2 of 4";

  Breaker by_time({.failure_threshold = 100, .failure_rate = rate});
  by_time.fail(3);
  by_time.clock->advance(10s + 1ns);
  by_time.fail();
  EXPECT_EQ(by_time.state(), CircuitState::closed) << "1 call";
  by_time.fail(3);
  EXPECT_EQ(by_time.state(), CircuitState::open) << "4 of 4";
}

TEST(CircuitBreaker, CanBeReset) {
  Breaker f;
  f.fail(5);

  f.breaker.reset();

  EXPECT_EQ(f.state(), CircuitState::closed);
  EXPECT_THAT(f.breaker.try_acquire(), IsOk());
  EXPECT_THAT(f.changes, ElementsAre("open", "closed"));
}

TEST(CircuitBreaker, MakesCalls) {
  Breaker f({.failure_threshold = 2});
  int calls = 0;
  const auto call = [&](Result<int> answer) {
    return f.breaker.call([&]() -> Result<int> {
      ++calls;
      return answer;
    });
  };

  EXPECT_THAT(call(7), IsOkAndHolds(7));
  EXPECT_THAT(call(Error{.code = ErrorCode::timed_out}), IsError(ErrorCode::timed_out, ""));
  EXPECT_THROW((void)f.breaker.call([]() -> Result<int> { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_THAT(call(7), IsError(ErrorCode::circuit_open, HasSubstr("thing")));

  EXPECT_EQ(calls, 2);
}

TEST(CircuitBreaker, WhatAListenerThrowsIsSwallowed) {
  const auto breaker =
      CircuitBreaker::create("thing",
                             {.failure_threshold = 1,
                              .on_change = [](const auto&) { throw std::runtime_error("no"); }})
          .value();

  breaker.try_acquire().value().failure();

  EXPECT_EQ(breaker.status().state, CircuitState::open);
}

TEST(CircuitBreaker, RefusesOptionsThatMakeNoSense) {
  const auto message = [](CircuitBreakerOptions options) {
    const auto breaker = CircuitBreaker::create("thing", std::move(options));
    return breaker.ok() ? std::string("ok") : breaker.error().to_string();
  };

  EXPECT_EQ(message({}), "ok");
  EXPECT_THAT(message({.failure_threshold = 0}), AllOf(HasSubstr("threshold"), HasSubstr("0")));
  EXPECT_THAT(message({.reset_timeout = 0s}), HasSubstr("reset_timeout"));
  EXPECT_THAT(message({.max_probes = -1}), AllOf(HasSubstr("max_probes"), HasSubstr("-1")));
  EXPECT_THAT(message({.failure_rate = FailureRate{.threshold = 1.5}}), HasSubstr("1.5"));
  EXPECT_THAT(message({.failure_rate = FailureRate{.threshold = 0}}), HasSubstr("threshold"));
  EXPECT_THAT(message({.failure_rate = FailureRate{.calls = 5}}), HasSubstr("20 and 5"));
  EXPECT_THAT(message({.failure_rate = FailureRate{.min_calls = 0}}), HasSubstr("min_calls"));
  EXPECT_THAT(message({.failure_rate = FailureRate{.window = 0s}}), HasSubstr("window"));
}

}  // namespace
}  // namespace tinker::circuit_breaker_test
