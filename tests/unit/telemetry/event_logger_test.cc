#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/event_log.h"

namespace tinker::event_logger_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class EventLoggerTest : public ::testing::Test {
 protected:
  Logger logger(LogLevel threshold) {
    return {[this](LogLevel level, std::string_view line) { lines.emplace_back(level, line); },
            threshold};
  }

  EventBus bus;
  std::vector<std::pair<LogLevel, std::string>> lines;
};

TEST_F(EventLoggerTest, WritesOneLineAtTheLevelOfTheEvent) {
  const auto subscription = log_events(bus, logger(LogLevel::debug));

  bus.publish({.name = "http.retry", .level = LogLevel::warn});

  EXPECT_THAT(lines, ElementsAre(Pair(LogLevel::warn, "event=http.retry")));
}

TEST_F(EventLoggerTest, NamesAllThatTheEventHas) {
  const auto subscription = log_events(bus, logger(LogLevel::debug));
  const std::array fields = {EventField{"is_user", true},
                             EventField{"count", std::int64_t{3}},
                             EventField{"share", 0.5},
                             EventField{"reason", std::string("queue full")}};

  bus.publish({.name = "http.response",
               .message = "too many",
               .endpoint = "/api/v1/asample",
               .session_id = "s1",
               .request_id = "r1",
               .http_status = 429,
               .error = ErrorCode::rate_limited,
               .attempt = 2,
               .elapsed = std::chrono::microseconds(12'500),
               .bytes_sent = 10,
               .bytes_received = 20,
               .fields = fields});

  EXPECT_THAT(
      lines,
      ElementsAre(Pair(LogLevel::debug,
                       R"(event=http.response message="too many" endpoint=/api/v1/asample )"
                       R"(session_id=s1 request_id=r1 status=429 error=rate_limited attempt=2 )"
                       R"(elapsed_ms=12.5 bytes_sent=10 bytes_received=20 is_user=true count=3 )"
                       R"(share=0.5 reason="queue full")")));
}

TEST_F(EventLoggerTest, QuotesWhatWouldBreakTheLine) {
  const auto subscription = log_events(bus, logger(LogLevel::debug));
  const std::array fields = {EventField{"empty", std::string()},
                             EventField{"path", std::string("/a?b=c")}};

  bus.publish({.name = "x", .message = "say \"no\"\nback\\slash\x01", .fields = fields});

  EXPECT_THAT(
      lines,
      ElementsAre(Pair(LogLevel::debug,
                       R"(event=x message="say \"no\"\nback\\slash\x01" empty="" path="/a?b=c")")));
}

TEST_F(EventLoggerTest, LeavesOutWhatTheLoggerDoesNotWant) {
  const auto subscription = log_events(bus, logger(LogLevel::warn));

  bus.publish({.name = "quiet", .level = LogLevel::info});

  EXPECT_THAT(lines, IsEmpty());
}

TEST_F(EventLoggerTest, EndsWithItsSubscription) {
  {
    const auto subscription = log_events(bus, logger(LogLevel::debug));
  }

  bus.publish({.name = "late"});

  EXPECT_THAT(lines, IsEmpty());
}

}  // namespace
}  // namespace tinker::event_logger_test
