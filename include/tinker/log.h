#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace tinker {

enum class LogLevel { debug, info, warn, error };

/// Receives one finished line, without a line end. May be called from any thread, also
/// concurrently.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

/// Where a client writes its log lines. Silent unless the application gives it a sink or the
/// environment asks for one: the library itself never prints.
///
/// A copy shares the sink. Thread-safe.
class Logger {
 public:
  /// Drops everything.
  Logger() = default;
  /// Passes lines of at least `threshold` to `sink`.
  Logger(LogSink sink, LogLevel threshold);

  /// Reads `TINKER_LOG` (`debug`, `info`, `warn`, `error`, or `off`) and writes to standard error.
  /// Silent for anything else, which `ServiceClient::connect` refuses.
  static Logger from_environment();

  /// A disabled line costs this branch and nothing else.
  [[nodiscard]] bool enabled(LogLevel level) const noexcept {
    return sink_ != nullptr && level >= threshold_;
  }
  /// Hands `message` to the sink when `level` is enabled. What a sink throws is swallowed.
  void write(LogLevel level, std::string_view message) const noexcept;

 private:
  std::shared_ptr<const LogSink> sink_ = {};
  LogLevel threshold_ = LogLevel::error;
};

}  // namespace tinker
