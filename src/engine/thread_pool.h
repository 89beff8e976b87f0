#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "engine/memory.h"

namespace tinker::engine {

inline constexpr std::size_t kMostThreads = 1024;

/// How many threads an engine takes: `asked`, or one for each processor where that is 0.
std::size_t thread_count(std::size_t asked);

/// Threads that compute one thing together, many times in a row. They are told what to do through
/// atomics and look for it a while before they sleep, so that a step of microseconds can be shared.
///
/// Thread-compatible: one `run` at a time.
class ThreadPool {
 public:
  /// The caller of `run` is one of the threads.
  explicit ThreadPool(std::size_t threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  [[nodiscard]] std::size_t size() const noexcept { return workers_.size() + 1; }

  /// Calls f(unit, thread) for every unit below `units`, each once, and returns when all are done.
  /// Which thread gets which unit is left to chance: a unit must not care. What the first unit that
  /// throws has thrown is thrown again then.
  template <typename F>
  void run(std::size_t units, F&& f) {
    run({.call =
             [](void* context, std::size_t unit, std::size_t thread) {
               (*static_cast<std::remove_reference_t<F>*>(context))(unit, thread);
             },
         .context = const_cast<void*>(static_cast<const void*>(std::addressof(f))),
         .units = units});
  }
  /// Makes room for so many floats beside each thread, between two runs.
  void reserve_scratch(std::size_t floats);
  [[nodiscard]] float* scratch(std::size_t thread) const noexcept {
    return scratch_[thread].data();
  }

  /// Calls f(i) for every i below `count`, some neighbours from the same thread.
  template <typename F>
  void for_each(std::size_t count, F&& f) {
    constexpr std::size_t kNeighbours = 16;
    run((count + kNeighbours - 1) / kNeighbours, [&](std::size_t unit, std::size_t /*thread*/) {
      const std::size_t begin = unit * kNeighbours;
      for (std::size_t i = begin; i < std::min(count, begin + kNeighbours); ++i) f(i);
    });
  }

 private:
  struct Job {
    void (*call)(void* context, std::size_t unit, std::size_t thread) = nullptr;
    void* context = nullptr;
    std::size_t units = 0;
    std::size_t first = 0;  // of the units, what they are counted from
  };
  void run(const Job& job);
  void run_round(const Job& job);
  void work(std::size_t thread);
  void stop() noexcept;
  void serve(std::size_t thread);

  Job job_;
  // Round, number of units and next unit. Who takes a unit exchanges all of it, so nobody takes one
  // of a round that is over, and a thread that does not get to run is not waited for.
  std::atomic<std::uint64_t> state_ = 0;
  std::atomic<std::uint32_t> done_ = 0;   // units of this round
  std::atomic<std::uint32_t> round_ = 0;  // what sleepers wait for
  std::atomic<bool> is_over_ = false;
  std::atomic<bool> has_thrown_ = false;
  std::exception_ptr thrown_;  // of the unit that set the flag
  std::vector<Floats> scratch_;
  std::vector<std::thread> workers_;
};

}  // namespace tinker::engine
