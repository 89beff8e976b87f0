#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/log.h"

namespace tinker {

/// Keeps log lines for a test to look at.
class LogCapture {
 public:
  struct Line {
    LogLevel level;
    std::string text;
  };

  [[nodiscard]] Logger logger(LogLevel threshold = LogLevel::debug) const {
    return {[lines = lines_](LogLevel level, std::string_view text) {
              const std::lock_guard lock(lines->mutex);
              lines->all.push_back({level, std::string(text)});
              lines->grown.notify_all();
            },
            threshold};
  }
  /// Those that contain `part`.
  [[nodiscard]] std::vector<Line> lines(std::string_view part = {}) const {
    const std::lock_guard lock(lines_->mutex);
    std::vector<Line> out;
    for (const auto& line : lines_->all) {
      if (line.text.find(part) != std::string::npos) out.push_back(line);
    }
    return out;
  }
  /// Until one contains `part`. Returns whether one did before so long.
  [[nodiscard]] bool wait_for(std::string_view part, std::chrono::nanoseconds limit) const {
    std::unique_lock lock(lines_->mutex);
    return lines_->grown.wait_for(lock, limit, [&] {
      return std::ranges::any_of(
          lines_->all, [&](const Line& line) { return line.text.find(part) != std::string::npos; });
    });
  }
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const auto& line : lines()) out += line.text + "\n";
    return out;
  }

 private:
  struct Lines {
    std::mutex mutex;
    std::vector<Line> all;
    std::condition_variable grown;
  };
  std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};

}  // namespace tinker
