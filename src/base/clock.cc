#include "tinker/clock.h"

namespace tinker {
namespace {

class SystemClock final : public Clock {
 public:
  [[nodiscard]] std::chrono::steady_clock::time_point now() const override {
    return std::chrono::steady_clock::now();
  }
  [[nodiscard]] std::chrono::system_clock::time_point wall_time() const override {
    return std::chrono::system_clock::now();
  }
};

}  // namespace

const Clock& Clock::system() noexcept {
  static const SystemClock clock;
  return clock;
}

}  // namespace tinker
