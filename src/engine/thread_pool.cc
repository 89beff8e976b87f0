#include "engine/thread_pool.h"

#include "engine/cpu.h"
#include "tinker/check.h"

namespace tinker::engine {
namespace {

// About 50 microseconds, longer than most pauses between the products of a layer.
constexpr int kLooks = 20'000;
// Units of a round, of which there may be several: they leave 24 bits for its number.
constexpr unsigned kUnitBits = 20;
constexpr std::size_t kMostUnits = (std::size_t{1} << kUnitBits) - 1;

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

std::size_t thread_count(std::size_t asked) {
  if (asked != 0) return asked;
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
}

ThreadPool::ThreadPool(std::size_t threads) : scratch_(threads) {
  TINKER_CHECK(threads > 0);
  workers_.reserve(threads - 1);
  try {
    for (std::size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
  } catch (...) {  // the machine gives no more of them
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() noexcept {
  is_over_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::reserve_scratch(std::size_t floats) {
  for (auto& room : scratch_) {
    if (room.size() < floats) room = Floats(floats);
  }
}

void ThreadPool::run(const Job& job) {
  const FlushSubnormals flush;
  if (workers_.empty() || job.units <= 1) {
    for (std::size_t unit = 0; unit < job.units; ++unit) job.call(job.context, unit, 0);
    return;
  }
  for (Job round = job; round.first < job.units; round.first += kMostUnits) {
    round.units = std::min(kMostUnits, job.units - round.first);
    run_round(round);
  }
}

void ThreadPool::run_round(const Job& job) {
  job_ = job;
  done_.store(0, std::memory_order_relaxed);
  const std::uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  state_.store((std::uint64_t{round} << (2 * kUnitBits)) | (job.units << kUnitBits),
               std::memory_order_release);
  round_.store(round, std::memory_order_release);
  round_.notify_all();
  work(0);
  for (auto done = done_.load(std::memory_order_acquire); done != job.units;
       done = done_.load(std::memory_order_acquire)) {
    wait_while(done_, done);
  }
  if (has_thrown_.exchange(false)) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadPool::work(std::size_t thread) {
  constexpr std::uint64_t kUnitMask = (std::uint64_t{1} << kUnitBits) - 1;
  auto state = state_.load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t unit = state & kUnitMask;
    const std::uint64_t units = (state >> kUnitBits) & kUnitMask;
    if (unit >= units) return;
    if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) continue;
    try {
      job_.call(job_.context, job_.first + unit, thread);
    } catch (...) {
      if (!has_thrown_.exchange(true)) thrown_ = std::current_exception();
    }
    // The last one tells the caller, who may then change the job.
    if (done_.fetch_add(1, std::memory_order_release) + 1 == units) done_.notify_one();
    state = state_.load(std::memory_order_acquire);
  }
}

void ThreadPool::serve(std::size_t thread) {
  const FlushSubnormals flush;
  std::uint32_t seen = 0;
  while (!is_over_.load(std::memory_order_relaxed)) {
    wait_while(round_, seen);
    seen = round_.load(std::memory_order_acquire);
    work(thread);
  }
}

}  // namespace tinker::engine
