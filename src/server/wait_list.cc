#include "server/wait_list.h"

#include <utility>

namespace tinker::server {

void WaitList::wake_all() {
  const auto waiters = std::exchange(waiters_, {});
  for (auto* waiter : waiters) {
    waiter->loop().cancel(waiter->timer_);
    waiter->wake(Result<void>());
  }
}

bool WaitList::Waiter::start(const async::Context& context, std::coroutine_handle<> handle) {
  if (!suspend(context, handle)) return false;
  place_ = list_.waiters_.insert(list_.waiters_.end(), this);
  timer_ = loop().schedule(until_, [this] {
    list_.waiters_.erase(place_);
    wake_here();
  });
  return true;
}

void WaitList::Waiter::abandon() {
  list_.waiters_.erase(place_);
  loop().cancel(timer_);
}

}  // namespace tinker::server
