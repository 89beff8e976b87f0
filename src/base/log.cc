#include "tinker/log.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/log_level.h"
#include "base/strings.h"

namespace tinker {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"debug", "info", "warn", "error"};

void write_to_stderr(LogLevel level, std::string_view message) {
  std::string line = "tinker ";
  line += kLevelNames[static_cast<std::size_t>(level)];
  line += ": ";
  line += message;
  line += '\n';
  // One call, so that lines of several threads do not mix.
  (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

namespace base {

Result<std::optional<LogLevel>> parse_log_level(std::string_view text) {
  if (text.empty() || text == "off") return std::optional<LogLevel>();
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == text) return std::optional(static_cast<LogLevel>(i));
  }
  return Error{.code = ErrorCode::invalid_argument,
               .message = concat(
                   "expected debug, info, warn, error or off as log level, found \"", text, "\"")};
}

}  // namespace base

Logger::Logger(LogSink sink, LogLevel threshold)
    : sink_(sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr),
      threshold_(threshold) {}

Logger Logger::from_environment() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in the library changes the environment.
  const char* wanted = std::getenv("TINKER_LOG");
  if (wanted == nullptr) return {};
  const auto level = base::parse_log_level(wanted);
  if (!level.ok() || !*level) return {};
  return {write_to_stderr, **level};
}

void Logger::write(LogLevel level, std::string_view message) const noexcept {
  if (!enabled(level)) return;
  try {
    (*sink_)(level, message);
  } catch (...) {  // NOLINT(bugprone-empty-catch): logging never fails a call.
  }
}

}  // namespace tinker
