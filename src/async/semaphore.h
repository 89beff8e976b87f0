#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "async/task.h"

namespace tinker::async {

/// Admits work in the order it came, while a balance allows. Loop thread only.
///
/// `counting(n)`: at most n at a time. `bytes(n)`: as long as the balance is not negative, whatever
/// the size of the next one, so that one oversized piece never waits for ever (R6.8); unlike the
/// official one it is first come, first served.
class Semaphore {
 public:
  class Permit;
  class Acquire;

  static Semaphore counting(std::int64_t limit) { return {limit, 1}; }
  static Semaphore bytes(std::int64_t limit) { return {limit, 0}; }

  /// `co_await`ed, yields a `Result<Permit>`: the amount is given back when the permit dies.
  [[nodiscard]] Acquire acquire(std::int64_t amount = 1) const;
  /// The same without waiting: nothing when one would have to.
  [[nodiscard]] std::optional<Permit> try_acquire(std::int64_t amount = 1) const;
  [[nodiscard]] std::int64_t available() const noexcept { return state_->available; }
  [[nodiscard]] std::size_t waiting() const noexcept { return state_->queue.size(); }

 private:
  struct State {
    std::int64_t available;
    std::int64_t minimum;  // needed for the next one to be admitted
    std::list<Acquire*> queue = {};

    [[nodiscard]] bool admits() const noexcept { return available >= minimum; }
    void release(std::int64_t amount);
  };
  Semaphore(std::int64_t limit, std::int64_t minimum)
      : state_(std::make_shared<State>(State{.available = limit, .minimum = minimum})) {}

  std::shared_ptr<State> state_;
};

class Semaphore::Permit {
 public:
  Permit() = default;
  Permit(Permit&& other) noexcept = default;
  Permit& operator=(Permit&& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(amount_, other.amount_);
    return *this;
  }
  ~Permit() {
    if (state_) state_->release(amount_);
  }

 private:
  friend class Acquire;
  friend class Semaphore;
  Permit(std::shared_ptr<State> state, std::int64_t amount)
      : state_(std::move(state)), amount_(amount) {}

  std::shared_ptr<State> state_ = {};
  std::int64_t amount_ = 0;
};

class [[nodiscard]] Semaphore::Acquire final : public Wait {
 public:
  Acquire(std::shared_ptr<State> state, std::int64_t amount)
      : state_(std::move(state)), amount_(amount) {}

  static bool await_ready() noexcept { return false; }
  template <std::derived_from<TaskPromiseBase> Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    return start(handle.promise().context, handle);
  }
  Result<Permit> await_resume();

 private:
  friend struct State;
  bool start(const Context& context, std::coroutine_handle<> handle);
  void abandon() override { state_->queue.erase(place_); }

  std::shared_ptr<State> state_;
  std::int64_t amount_;
  std::list<Acquire*>::iterator place_ = {};
};

/// Wakes all who wait, each time something changed. They look again and wait again. Loop thread
/// only; must outlive its waiters.
class Signal {
 public:
  class Waiter;
  [[nodiscard]] Waiter wait();
  void notify_all();

 private:
  std::list<Waiter*> waiters_ = {};
};

class [[nodiscard]] Signal::Waiter final : public Wait {
 public:
  explicit Waiter(Signal& signal) : signal_(signal) {}

  static bool await_ready() noexcept { return false; }
  template <std::derived_from<TaskPromiseBase> Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    return start(handle.promise().context, handle);
  }
  Result<void> await_resume() { return take_outcome(); }

 private:
  friend class Signal;
  bool start(const Context& context, std::coroutine_handle<> handle);
  void abandon() override { signal_.waiters_.erase(place_); }

  Signal& signal_;
  std::list<Waiter*>::iterator place_ = {};
};

inline Signal::Waiter Signal::wait() {
  return Waiter(*this);
}

}  // namespace tinker::async
