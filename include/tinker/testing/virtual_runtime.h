#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "tinker/clock.h"
#include "tinker/log.h"
#include "tinker/runtime.h"

namespace tinker::async {
class RuntimeCore;
class VirtualLoop;
}  // namespace tinker::async

namespace tinker::testing {

/// A runtime without threads, in which time passes only when nothing else is left to do: an hour of
/// back-off takes microseconds, and the same test does the same things in the same order each time.
///
///     VirtualRuntime time;
///     auto future = start_something(time.runtime());
///     EXPECT_THAT(future.get(), IsOk());              // get() runs the loop
///     EXPECT_EQ(time.elapsed(), 3s);                  // and moved its clock
///
/// `get()` of a future that nothing can end any more gives `ErrorCode::stuck` instead of hanging,
/// as it does when only timers that repeat for ever are left. Its end is the end of all that is in
/// flight, even if clients still hold the runtime.
/// To be used on the thread that made it, one at a time. Works with `FakeTransport`, not with
/// sockets.
class VirtualRuntime {
 public:
  VirtualRuntime() : VirtualRuntime(Logger()) {}
  explicit VirtualRuntime(Logger logger, std::uint64_t seed = 1);
  VirtualRuntime(const VirtualRuntime&) = delete;
  VirtualRuntime& operator=(const VirtualRuntime&) = delete;
  ~VirtualRuntime();

  [[nodiscard]] const Runtime& runtime() const noexcept { return *runtime_; }
  /// Lets go of this object's own handle, as a program that drops its last client.
  void drop() { runtime_.reset(); }

  /// Runs all that can run without time passing.
  void run_ready();
  /// Lets time pass.
  void advance(std::chrono::nanoseconds by);
  /// Somebody sets the clock on the wall; no time passes.
  void shift_wall_time(std::chrono::nanoseconds by);
  /// Since construction.
  [[nodiscard]] std::chrono::nanoseconds elapsed() const;
  [[nodiscard]] const Clock& clock() const noexcept;

 private:
  std::shared_ptr<async::VirtualLoop> loop_;
  std::weak_ptr<async::RuntimeCore> core_;
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace tinker::testing
