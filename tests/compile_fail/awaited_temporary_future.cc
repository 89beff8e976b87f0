// Who awaits a future gives it away, and says so.
#include <utility>

#include "tinker/future.h"

tinker::Future<int> increment(tinker::Future<int> future) {
#ifndef CONTROL
  const auto value = co_await future;
#else
  const auto value = co_await std::move(future);
#endif
  co_return *value + 1;
}
