#pragma once

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

namespace tinker::testing {

/// How much memory this process took at most while the object lived, beyond what it had before.
class PeakMemory {
 public:
  PeakMemory() : before_(read("VmRSS:")) {
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak is from now on
  }

  [[nodiscard]] std::size_t grown_bytes() const {
    const std::size_t peak = read("VmHWM:");
    return peak > before_ ? peak - before_ : 0;
  }

 private:
  static std::size_t read(std::string_view name) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(name))
        return std::strtoul(line.c_str() + name.size(), nullptr, 10) * 1024;
    }
    return 0;
  }

  std::size_t before_;
};

/// Sanitizers keep freed memory and metadata of their own: numbers of bytes say nothing there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCanMeasureMemory = false;
#else
inline constexpr bool kCanMeasureMemory = true;
#endif

}  // namespace tinker::testing
