#include "async/thread_pool.h"

#include <algorithm>
#include <csignal>

#include <pthread.h>

#include "async/this_thread.h"

namespace tinker::async {

void enter_library_thread(const std::string& name) {
  this_thread().is_library = true;
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  // Signals are the application's business, and a broken pipe must not end it. What the thread's
  // own instructions raise stays as it is.
  sigset_t foreign;
  sigfillset(&foreign);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF}) {
    sigdelset(&foreign, own);
  }
  pthread_sigmask(SIG_BLOCK, &foreign, nullptr);
}

struct ThreadPool::Queue {
  detail::Mutex mutex;
  std::condition_variable_any changed;
  std::condition_variable_any rested;
  std::deque<UniqueFunction<void()>> work TINKER_GUARDED_BY(mutex);
  std::size_t idle TINKER_GUARDED_BY(mutex) = 0;
  std::size_t running TINKER_GUARDED_BY(mutex) = 0;
  bool is_ending TINKER_GUARDED_BY(mutex) = false;
};

ThreadPool::ThreadPool(std::string name, unsigned threads)
    : name_(std::move(name)), max_threads_(threads), queue_(std::make_shared<Queue>()) {}

ThreadPool::~ThreadPool() {
  {
    const detail::MutexLock lock(queue_->mutex);
    queue_->is_ending = true;
    queue_->changed.notify_all();
  }
  for (auto& thread : threads_) {
    if (this_thread().is_library) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void ThreadPool::post(UniqueFunction<void()> work) {
  std::size_t idle = 0;
  std::size_t queued = 0;
  {
    const detail::MutexLock lock(queue_->mutex);
    queue_->work.push_back(std::move(work));
    queued = queue_->work.size();
    idle = queue_->idle;
  }
  if (idle > 0) queue_->changed.notify_one();  // who wakes finds the lock free
  if (queued > idle) start_threads(1);
}

void ThreadPool::post_all(std::vector<UniqueFunction<void()>>& works) {
  if (works.empty()) return;
  std::size_t idle = 0;
  std::size_t queued = 0;
  {
    const detail::MutexLock lock(queue_->mutex);
    for (auto& work : works) queue_->work.push_back(std::move(work));
    queued = queue_->work.size();
    idle = queue_->idle;
  }
  for (std::size_t i = 0; i < std::min(idle, works.size()); ++i) queue_->changed.notify_one();
  if (queued > idle) start_threads(queued - idle);
  works.clear();
}

void ThreadPool::start_threads(std::size_t wanted) {
  const detail::MutexLock lock(mutex_);
  for (; wanted > 0 && threads_.size() < max_threads_; --wanted) {
    threads_.emplace_back(run, queue_, name_);
  }
}

void ThreadPool::wait_idle() {
  const detail::MutexLock lock(queue_->mutex);
  while (queue_->running > 0 || !queue_->work.empty()) queue_->rested.wait(queue_->mutex);
}

void ThreadPool::run(const std::shared_ptr<Queue>& queue, const std::string& name) {
  enter_library_thread(name);
  for (bool has_run = false;; has_run = true) {
    UniqueFunction<void()> work;
    {
      const detail::MutexLock lock(queue->mutex);
      if (has_run) --queue->running;  // and what it owned is gone, too
      if (queue->running == 0 && queue->work.empty()) queue->rested.notify_all();
      ++queue->idle;
      while (queue->work.empty() && !queue->is_ending) queue->changed.wait(queue->mutex);
      --queue->idle;
      if (queue->work.empty()) return;
      work = std::move(queue->work.front());
      queue->work.pop_front();
      ++queue->running;
    }
    work();
  }
}

}  // namespace tinker::async
