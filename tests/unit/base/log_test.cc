#include "tinker/log.h"

#include <array>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "base/log_level.h"
#include "base/logging.h"
#include "tinker/testing/matchers.h"

namespace tinker::log_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::ExitedWithCode;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOkAndHolds;

using Lines = std::vector<std::pair<LogLevel, std::string>>;

constexpr std::array kLevels = {LogLevel::debug, LogLevel::info, LogLevel::warn, LogLevel::error};

LogSink into(Lines& lines) {
  return [&lines](LogLevel level, std::string_view text) { lines.emplace_back(level, text); };
}

/// Which levels a logger lets through, in order.
using Enabled = std::array<bool, kLevels.size()>;

Enabled enabled_levels(const Logger& logger) {
  Enabled out = {};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = logger.enabled(kLevels[i]);
  return out;
}

/// Sets `TINKER_LOG` (or removes it) until the end of the test.
class ScopedTinkerLog {
 public:
  explicit ScopedTinkerLog(const char* value) {
    if (const char* old = std::getenv(kName)) old_ = old;
    apply(value);
  }
  ~ScopedTinkerLog() { apply(old_ ? old_->c_str() : nullptr); }
  ScopedTinkerLog(const ScopedTinkerLog&) = delete;
  ScopedTinkerLog& operator=(const ScopedTinkerLog&) = delete;

 private:
  static constexpr const char* kName = "TINKER_LOG";

  static void apply(const char* value) {
    if (value != nullptr) {
      setenv(kName, value, 1);
    } else {
      unsetenv(kName);
    }
  }

  std::optional<std::string> old_ = {};
};

TEST(Logger, IsSilentByDefault) {
  const Logger logger;

  EXPECT_THAT(enabled_levels(logger), Each(false));
}

TEST(Logger, IsSilentWithoutASink) {
  const Logger logger(nullptr, LogLevel::debug);

  EXPECT_THAT(enabled_levels(logger), Each(false));
}

TEST(Logger, DropsWhatItIsGivenWithoutASink) {
  const Logger logger;

  EXPECT_NO_FATAL_FAILURE(logger.write(LogLevel::error, "nobody listens"));
}

TEST(Logger, EnablesTheThresholdAndWhatIsAbove) {
  Lines lines;

  EXPECT_THAT(enabled_levels({into(lines), LogLevel::debug}), ElementsAre(true, true, true, true));
  EXPECT_THAT(enabled_levels({into(lines), LogLevel::info}), ElementsAre(false, true, true, true));
  EXPECT_THAT(enabled_levels({into(lines), LogLevel::warn}), ElementsAre(false, false, true, true));
  EXPECT_THAT(enabled_levels({into(lines), LogLevel::error}),
              ElementsAre(false, false, false, true));
}

TEST(Logger, PassesOnLinesOfAtLeastItsThreshold) {
  Lines lines;
  const Logger logger(into(lines), LogLevel::warn);

  for (const LogLevel level : kLevels) logger.write(level, "line");

  EXPECT_THAT(lines, ElementsAre(Pair(LogLevel::warn, "line"), Pair(LogLevel::error, "line")));
}

TEST(Logger, SharesItsSinkWithItsCopies) {
  Lines lines;
  const Logger logger(into(lines), LogLevel::info);
  const Logger copy = logger;  // NOLINT(performance-unnecessary-copy-initialization): the subject

  copy.write(LogLevel::info, "from the copy");

  EXPECT_THAT(lines, ElementsAre(Pair(LogLevel::info, "from the copy")));
}

TEST(Logger, SwallowsWhatASinkThrows) {
  const LogSink throwing = [](LogLevel, std::string_view) {
    throw std::runtime_error("disk full");
  };
  const Logger logger(throwing, LogLevel::debug);

  EXPECT_NO_THROW(logger.write(LogLevel::error, "line"));
}

TEST(Logger, IsSilentWhenTheEnvironmentDoesNotAsk) {
  const ScopedTinkerLog environment(nullptr);

  const Logger logger = Logger::from_environment();

  EXPECT_THAT(enabled_levels(logger), Each(false));
}

TEST(Logger, TakesItsThresholdFromTheEnvironment) {
  const std::vector<std::pair<const char*, Enabled>> cases = {
      {"debug", {true, true, true, true}},
      {"info", {false, true, true, true}},
      {"warn", {false, false, true, true}},
      {"error", {false, false, false, true}},
  };

  for (const auto& [value, expected] : cases) {
    const ScopedTinkerLog environment(value);
    EXPECT_EQ(enabled_levels(Logger::from_environment()), expected) << value;
  }
}

// Exact and lower case, as the official SDK reads it.
TEST(Logger, IsSilentForAnyOtherValueInTheEnvironment) {
  for (const char* value : {"", "DEBUG", "Info", "warning", " debug", "debug ", "1", "off"}) {
    const ScopedTinkerLog environment(value);
    EXPECT_THAT(enabled_levels(Logger::from_environment()), Each(false)) << '"' << value << '"';
  }
}

TEST(ParseLogLevel, KnowsTheLevelsAndOff) {
  EXPECT_THAT(base::parse_log_level("warn"), IsOkAndHolds(std::optional(LogLevel::warn)));
  EXPECT_THAT(base::parse_log_level("off"), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(base::parse_log_level(""), IsOkAndHolds(std::nullopt));
}

TEST(ParseLogLevel, RefusesAnythingElse) {
  EXPECT_THAT(base::parse_log_level("verbose"),
              IsError(ErrorCode::invalid_argument,
                      "expected debug, info, warn, error or off as log level, found \"verbose\""));
  EXPECT_FALSE(base::parse_log_level("WARN").ok());
}

TEST(LoggerDeathTest, FromTheEnvironmentWritesWholeLinesToStandardError) {
  const auto log_and_leave = [] {
    const ScopedTinkerLog environment("warn");
    const Logger logger = Logger::from_environment();
    logger.write(LogLevel::info, "below the threshold");
    logger.write(LogLevel::warn, "heartbeat missed");
    logger.write(LogLevel::error, "gave up");
    std::_Exit(0);
  };

  EXPECT_EXIT(log_and_leave(),
              ExitedWithCode(0),
              Eq("tinker warn: heartbeat missed\ntinker error: gave up\n"));
}

TEST(LoggerDeathTest, WritesNothingToStandardErrorByDefault) {
  const auto log_and_leave = [] {
    const ScopedTinkerLog environment(nullptr);
    Logger::from_environment().write(LogLevel::error, "gave up");
    Logger().write(LogLevel::error, "gave up");
    std::_Exit(0);
  };

  EXPECT_EXIT(log_and_leave(), ExitedWithCode(0), Eq(""));
}

TEST(LogLine, JoinsItsPieces) {
  Lines lines;
  const Logger logger(into(lines), LogLevel::debug);

  TINKER_LOG(logger, warn, "heartbeat missed ", 3, " times");

  EXPECT_THAT(lines, ElementsAre(Pair(LogLevel::warn, "heartbeat missed 3 times")));
}

TEST(LogLine, EvaluatesNoArgumentWhenItIsDisabled) {
  Lines lines;
  const Logger logger(into(lines), LogLevel::error);
  int evaluations = 0;

  TINKER_LOG(logger, warn, "evaluated ", ++evaluations, " times");

  EXPECT_EQ(evaluations, 0);
  EXPECT_THAT(lines, IsEmpty());
}

TEST(LogLine, EvaluatesEachArgumentOnceWhenItIsEnabled) {
  Lines lines;
  const Logger logger(into(lines), LogLevel::debug);
  int evaluations = 0;

  TINKER_LOG(logger, debug, "evaluated ", ++evaluations, " times");

  EXPECT_EQ(evaluations, 1);
}

TEST(LogLine, IsOneStatement) {
  Lines lines;
  const Logger logger(into(lines), LogLevel::debug);
  bool otherwise = false;

  if (lines.empty())
    TINKER_LOG(logger, info, "then");
  else
    otherwise = true;

  EXPECT_FALSE(otherwise);
  EXPECT_THAT(lines, ElementsAre(Pair(LogLevel::info, "then")));
}

}  // namespace
}  // namespace tinker::log_test
