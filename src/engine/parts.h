#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/thread_pool.h"

namespace tinker::engine {

/// Numbers that are one unit of work, and that one step takes.
inline constexpr std::size_t kPart = 4096;
inline constexpr std::size_t kNumbersOfStep = 256 * kPart;

/// Calls f(begin, count) for every part of the numbers from `begin` to `end`, but not for more than
/// one step takes. What is done to an array in steps:
///
///     for (std::size_t done = 0; done < n; done += kNumbersOfStep) {
///       for_parts(threads, done, n, f);
///       co_yield Cut::between;
///     }
template <typename F>
void for_parts(ThreadPool& threads, std::size_t begin, std::size_t end, F f) {
  end = std::min(end, begin + kNumbersOfStep);
  threads.run((end - begin + kPart - 1) / kPart, [&](std::size_t i, std::size_t /*thread*/) {
    const std::size_t at = begin + i * kPart;
    f(at, std::min(kPart, end - at));
  });
}

}  // namespace tinker::engine
