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
  // Never destroyed: threads of the library may outlive the program's other objects.
  static const Clock& clock = *new SystemClock;
  return clock;
}

}  // namespace tinker
