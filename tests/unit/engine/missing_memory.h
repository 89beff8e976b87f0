#pragma once

#include <cstddef>

namespace tinker::engine {

/// While it lives, memory is missing on this thread: after `after` calls of `new` or
/// `aligned_alloc` that succeed, `count` of them fail. There is one at a time on a thread.
class MissingMemory {
 public:
  MissingMemory(std::size_t after, std::size_t count) noexcept;
  MissingMemory(const MissingMemory&) = delete;
  MissingMemory& operator=(const MissingMemory&) = delete;
  ~MissingMemory();

  /// Calls since the last one was made.
  [[nodiscard]] static std::size_t calls() noexcept;
};

}  // namespace tinker::engine
