#include "async/semaphore.h"

namespace tinker::async {

Semaphore::Acquire Semaphore::acquire(std::int64_t amount) const {
  return {state_, amount};
}

std::optional<Semaphore::Permit> Semaphore::try_acquire(std::int64_t amount) const {
  if (!state_->queue.empty() || !state_->admits()) return std::nullopt;
  state_->available -= amount;
  return Permit(state_, amount);
}

void Semaphore::State::release(std::int64_t amount) {
  available += amount;
  while (!queue.empty() && admits()) {
    Acquire& next = *queue.front();
    queue.pop_front();
    available -= next.amount_;
    next.wake(Result<void>());
  }
}

bool Semaphore::Acquire::start(const Context& context, std::coroutine_handle<> handle) {
  if (!suspend(context, handle)) return false;
  if (state_->queue.empty() && state_->admits()) {
    state_->available -= amount_;
    unlink();
    return false;
  }
  place_ = state_->queue.insert(state_->queue.end(), this);
  return true;
}

Result<Semaphore::Permit> Semaphore::Acquire::await_resume() {
  if (is_awake()) {
    if (auto outcome = take_outcome(); !outcome.ok()) return outcome.error();
  }
  return Permit(std::move(state_), amount_);
}

bool Signal::Waiter::start(const Context& context, std::coroutine_handle<> handle) {
  if (!suspend(context, handle)) return false;
  place_ = signal_.waiters_.insert(signal_.waiters_.end(), this);
  return true;
}

void Signal::notify_all() {
  const auto waiters = std::exchange(waiters_, {});
  for (auto* waiter : waiters) waiter->wake(Result<void>());
}

}  // namespace tinker::async
