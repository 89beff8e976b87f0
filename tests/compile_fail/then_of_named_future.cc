// Whoever calls `then` gives the future away, and says so.
#include <utility>

#include "tinker/future.h"

tinker::Future<int> twice(tinker::Future<int> future) {
#ifndef CONTROL
  return future.then([](tinker::Result<int> result) { return *result * 2; });
#else
  return std::move(future).then([](tinker::Result<int> result) { return *result * 2; });
#endif
}
