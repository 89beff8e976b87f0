#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "async/event_loop.h"
#include "tinker/detail/mutex.h"

namespace boost::asio {
class io_context;  // NOLINT(readability-identifier-naming): as Boost names it.
}

namespace tinker::async {

/// The real event loop: one thread in Boost.Asio.
class AsioLoop final : public EventLoop {
 public:
  static std::shared_ptr<AsioLoop> create();
  AsioLoop();
  AsioLoop(const AsioLoop&) = delete;
  AsioLoop& operator=(const AsioLoop&) = delete;
  ~AsioLoop() override;

  /// Runs on the calling thread until `stop`, then destroys what was still posted or scheduled.
  void run();
  /// Any thread.
  void stop();

  void post(UniqueFunction<void()> work) override;
  TimerId schedule(TimePoint when, UniqueFunction<void()> work) override;
  void cancel(TimerId id) override;
  [[nodiscard]] const Clock& clock() const noexcept override { return Clock::system(); }

  /// For sockets; only files that know Asio can use it.
  [[nodiscard]] boost::asio::io_context& io() noexcept;

 private:
  struct Impl;
  void run_posted();
  void arm();
  void run_timers();

  std::unique_ptr<Impl> impl_;
  TimerQueue timers_;
  detail::Mutex mutex_;
  std::vector<UniqueFunction<void()>> posted_ TINKER_GUARDED_BY(mutex_);
  bool is_stopped_ TINKER_GUARDED_BY(mutex_) = false;
};

}  // namespace tinker::async
