#pragma once

#include <list>

#include "async/task.h"

namespace tinker::server {

/// Tasks that wait for the same event, each until its own time at the latest. Loop thread only.
/// Wake all before it dies.
class WaitList {
 public:
  class Waiter;

  WaitList() = default;
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;

  /// `co_await`ed, ends with `wake_all` or at `until`, or with the reason when the scope is
  /// cancelled.
  [[nodiscard]] Waiter wait(async::TimePoint until);
  void wake_all();
  [[nodiscard]] std::size_t size() const noexcept { return waiters_.size(); }

 private:
  std::list<Waiter*> waiters_ = {};
};

class [[nodiscard]] WaitList::Waiter final : public async::Wait {
 public:
  Waiter(WaitList& list, async::TimePoint until) : list_(list), until_(until) {}

  static bool await_ready() noexcept { return false; }
  template <std::derived_from<async::TaskPromiseBase> Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    return start(handle.promise().context, handle);
  }
  Result<void> await_resume() { return take_outcome(); }

 private:
  friend class WaitList;
  bool start(const async::Context& context, std::coroutine_handle<> handle);
  void abandon() override;

  WaitList& list_;
  async::TimePoint until_;
  async::TimerId timer_ = {};
  std::list<Waiter*>::iterator place_ = {};
};

inline WaitList::Waiter WaitList::wait(async::TimePoint until) {
  return {*this, until};
}

}  // namespace tinker::server
