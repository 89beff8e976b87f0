#pragma once

#include <cstddef>
#include <new>

namespace tinker::base {

/// Memory for what comes and goes with every request. Freed blocks are kept by their size, some by
/// each thread and up to 2 MiB for all, so that a block costs a few instructions however many are
/// in use, where a general allocator searches. A block may be freed by any thread.
void* allocate_block(std::size_t size);
/// `size` as it was allocated.
void free_block(void* block, std::size_t size) noexcept;

/// For `std::allocate_shared`.
template <typename T>
struct BlockAllocator {
  using value_type = T;

  BlockAllocator() = default;
  template <typename U>
  explicit BlockAllocator(const BlockAllocator<U>&) noexcept {}

  // NOLINTBEGIN(readability-identifier-naming): the standard's names.
  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return static_cast<T*>(allocate_block(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept { free_block(block, count * sizeof(T)); }
  // NOLINTEND(readability-identifier-naming)
  friend bool operator==(const BlockAllocator&, const BlockAllocator&) { return true; }
};

}  // namespace tinker::base
