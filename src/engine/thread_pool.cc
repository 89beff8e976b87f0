#include "engine/thread_pool.h"

#include "engine/cpu.h"
#include "tinker/check.h"

namespace tinker::engine {
namespace {

// About 50 microseconds, longer than most pauses between the products of a layer.
constexpr int kLooks = 20'000;

/// Returns when `value` is no longer `old`.
template <typename T>
void wait_while(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kLooks; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(std::size_t threads) {
  TINKER_CHECK(threads > 0);
  for (std::size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
}

ThreadPool::~ThreadPool() {
  is_over_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::run(const Job& job) {
  const FlushSubnormals flush;
  if (workers_.empty() || job.units <= 1) {
    for (std::size_t unit = 0; unit < job.units; ++unit) job.call(job.context, unit, 0);
    return;
  }
  job_ = job;
  next_unit_.store(0, std::memory_order_relaxed);
  working_.store(workers_.size(), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work(0);
  for (auto left = working_.load(std::memory_order_acquire); left != 0;
       left = working_.load(std::memory_order_acquire)) {
    wait_while(working_, left);
  }
}

void ThreadPool::work(std::size_t thread) {
  for (;;) {
    const std::size_t unit = next_unit_.fetch_add(1, std::memory_order_relaxed);
    if (unit >= job_.units) return;
    job_.call(job_.context, unit, thread);
  }
}

void ThreadPool::serve(std::size_t thread) {
  const FlushSubnormals flush;
  for (unsigned seen = 0;; ++seen) {
    wait_while(round_, seen);
    if (is_over_.load(std::memory_order_relaxed)) return;
    work(thread);
    working_.fetch_sub(1, std::memory_order_release);
    working_.notify_one();
  }
}

}  // namespace tinker::engine
