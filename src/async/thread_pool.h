#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tinker/detail/mutex.h"
#include "tinker/executor.h"

namespace tinker::async {

/// Threads that run posted work, first come first served. The first thread starts with the first
/// work. After its end they run what is queued and end; it waits for that, unless it is reached on
/// a thread of the library, which might be waited for in turn.
class ThreadPool final : public Executor {
 public:
  ThreadPool(std::string name, unsigned threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() override;

  void post(UniqueFunction<void()> work) override;
  /// In this order, under one lock and with one wake-up for each thread that can use it; empties
  /// `works`.
  void post_all(std::vector<UniqueFunction<void()>>& works);
  /// Returns when nothing is queued or running. Not for threads of the library.
  void wait_idle();

 private:
  struct Queue;  // shared with the threads, which may outlive the pool
  static void run(const std::shared_ptr<Queue>& queue, const std::string& name);
  void start_threads(std::size_t wanted);

  std::string name_;
  unsigned max_threads_;
  std::shared_ptr<Queue> queue_;
  detail::Mutex mutex_;
  std::vector<std::thread> threads_ TINKER_GUARDED_BY(mutex_);
};

/// Marks the calling thread as one of the library's: named for debuggers, no signals of the
/// application's.
void enter_library_thread(const std::string& name);

}  // namespace tinker::async
