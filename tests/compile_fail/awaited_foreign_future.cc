// Coroutines of other types cannot await a temporary future either.
#include <coroutine>
#include <exception>

#include "tinker/future.h"

struct Plain {
  struct promise_type {
    Plain get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};
tinker::Future<int> start();

Plain run() {
#ifndef CONTROL
  (void)co_await start();
#else
  auto starting = start();
  (void)co_await starting;
#endif
}
