#include "async/burst_executor.h"

#include <utility>

#include "async/this_thread.h"

namespace tinker::async {

std::shared_ptr<BurstExecutor> BurstExecutor::create(const std::shared_ptr<EventLoop>& loop,
                                                     std::shared_ptr<ThreadPool> pool) {
  std::shared_ptr<BurstExecutor> made(new BurstExecutor(loop, std::move(pool)));
  made->self_ = made;
  return made;
}

void BurstExecutor::post(UniqueFunction<void()> work) {
  const auto loop = loop_.lock();
  if (!loop || this_thread().loop != loop.get()) return pool_->post(std::move(work));
  waiting_.push_back(std::move(work));
  if (waiting_.size() > 1) return;  // a flush is on its way already
  loop->post([weak = self_] {
    if (const auto alive = weak.lock()) alive->flush();
  });
}

void BurstExecutor::flush() {
  pool_->post_all(waiting_);
}

}  // namespace tinker::async
