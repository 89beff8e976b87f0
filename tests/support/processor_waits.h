#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace tinker::testing {

/// How long threads of this process were ready to run while others did, as the kernel counts it.
class ProcessorWaits {
 public:
  /// Of the calling thread, and of the oldest thread of each name.
  explicit ProcessorWaits(const std::vector<std::string_view>& names) : threads_({::gettid()}) {
    for (const auto name : names) {
      if (const auto thread = oldest(name)) threads_.push_back(*thread);
    }
    is_complete_ = threads_.size() == names.size() + 1;
  }

  /// Nothing where the kernel does not count it.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> total() const {
    if (!is_complete_) return std::nullopt;
    std::chrono::nanoseconds out{0};
    for (const auto thread : threads_) {
      std::ifstream file(folder(thread) / "schedstat");
      std::chrono::nanoseconds::rep running = 0;
      std::chrono::nanoseconds::rep waiting = 0;
      if (!(file >> running >> waiting)) return std::nullopt;
      out += std::chrono::nanoseconds(waiting);
    }
    return out;
  }

 private:
  static std::filesystem::path folder(pid_t thread) {
    return "/proc/self/task/" + std::to_string(thread);
  }
  static std::optional<pid_t> oldest(std::string_view name) {
    std::optional<pid_t> out;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(entry.path() / "comm");
      std::string found;
      std::getline(file, found);
      const auto thread = static_cast<pid_t>(std::stol(entry.path().filename().string()));
      if (found == name && thread < out.value_or(thread + 1)) out = thread;
    }
    return out;
  }

  std::vector<pid_t> threads_;
  bool is_complete_ = false;
};

}  // namespace tinker::testing
