#include "tinker/clock.h"

#include <array>
#include <cstddef>
#include <new>

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
  alignas(SystemClock) static std::array<std::byte, sizeof(SystemClock)> place;
  static const Clock& clock = *new (place.data()) SystemClock;
  return clock;
}

}  // namespace tinker
