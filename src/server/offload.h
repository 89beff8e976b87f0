#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "async/event_loop.h"
#include "tinker/executor.h"
#include "tinker/future.h"

namespace tinker::server {

/// Runs `f()` on `pool`. The future's continuation runs on `loop`.
template <typename F>
auto offload(Executor& pool, std::shared_ptr<async::EventLoop> loop, F f)
    -> Future<typename detail::Unwrap<std::invoke_result_t<F&>>::Type> {
  using T = detail::Unwrap<std::invoke_result_t<F&>>::Type;
  Promise<T> promise(std::move(loop));
  auto future = promise.future();
  pool.post([f = std::move(f), promise = std::move(promise)]() mutable {
    try {
      promise.set(f());
    } catch (...) {
      promise.set(detail::error_from_current_exception("work beside the loop failed"));
    }
  });
  return future;
}

}  // namespace tinker::server
