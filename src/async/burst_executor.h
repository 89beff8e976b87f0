#pragma once

#include <memory>
#include <vector>

#include "async/event_loop.h"
#include "async/thread_pool.h"
#include "tinker/executor.h"

namespace tinker::async {

/// Passes work on to a pool. What comes from the loop goes together, once the loop has done what
/// was due: a burst of results wakes the pool once.
class BurstExecutor final : public Executor {
 public:
  static std::shared_ptr<BurstExecutor> create(const std::shared_ptr<EventLoop>& loop,
                                               std::shared_ptr<ThreadPool> pool);

  void post(UniqueFunction<void()> work) override;
  /// Passes on what waits. On the loop, or after its end.
  void flush();

 private:
  BurstExecutor(const std::shared_ptr<EventLoop>& loop, std::shared_ptr<ThreadPool> pool)
      : loop_(loop), pool_(std::move(pool)) {}

  std::weak_ptr<EventLoop> loop_;
  std::shared_ptr<ThreadPool> pool_;
  std::weak_ptr<BurstExecutor> self_ = {};
  std::vector<UniqueFunction<void()>> waiting_;  // loop thread
};

}  // namespace tinker::async
