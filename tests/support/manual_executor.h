#pragma once

#include <deque>
#include <utility>

#include "tinker/executor.h"

namespace tinker::support {

/// Keeps what is posted until the test runs it. For one thread.
class ManualExecutor final : public Executor {
 public:
  void post(UniqueFunction<void()> work) override {
    if (is_stopped_) return;
    posted_.push_back(std::move(work));
    ++posts_;
  }

  /// Runs all, also what is posted meanwhile.
  void run() {
    while (!posted_.empty()) {
      auto work = std::move(posted_.front());
      posted_.pop_front();
      work();
    }
  }
  /// Destroys all, and all that comes later.
  void stop() {
    is_stopped_ = true;
    const auto gone = std::exchange(posted_, {});
  }

  /// Ever posted.
  [[nodiscard]] int posts() const noexcept { return posts_; }
  [[nodiscard]] std::size_t pending() const noexcept { return posted_.size(); }

 private:
  std::deque<UniqueFunction<void()>> posted_ = {};
  int posts_ = 0;
  bool is_stopped_ = false;
};

}  // namespace tinker::support
