#include "tinker/log.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

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

Logger::Logger(LogSink sink, LogLevel threshold)
    : sink_(sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr),
      threshold_(threshold) {}

Logger Logger::from_environment() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in the library changes the environment.
  const char* wanted = std::getenv("TINKER_LOG");
  if (wanted == nullptr) return {};
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == wanted) return {write_to_stderr, static_cast<LogLevel>(i)};
  }
  return {};
}

void Logger::write(LogLevel level, std::string_view message) const noexcept {
  if (!enabled(level)) return;
  try {
    (*sink_)(level, message);
  } catch (...) {  // NOLINT(bugprone-empty-catch): logging never fails a call.
  }
}

}  // namespace tinker
