#pragma once

#include <memory>
#include <utility>

#include "async/thread_pool.h"
#include "server/offload.h"
#include "server/store.h"

namespace tinker::server {

/// The thread on which the store is used. Work is done in the order in which it came.
class Disk {
 public:
  Disk(std::unique_ptr<Store> store, std::shared_ptr<async::EventLoop> loop)
      : store_(std::move(store)), loop_(std::move(loop)) {}
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  ~Disk() { thread_.wait_idle(); }

  /// Runs `f(Store&)` there.
  template <typename F>
  auto run(F f) {
    return offload(thread_, loop_, [this, f = std::move(f)]() mutable { return f(*store_); });
  }
  /// Lets go of the folder. Nothing may be asked of the store after that.
  void close() {
    thread_.wait_idle();
    store_.reset();
  }
  /// For what needs no thread: the folder and the secret, which do not change.
  [[nodiscard]] const Store& store() const noexcept { return *store_; }

 private:
  std::unique_ptr<Store> store_;
  std::shared_ptr<async::EventLoop> loop_;
  async::ThreadPool thread_{"tinker-store", 1};
};

}  // namespace tinker::server
