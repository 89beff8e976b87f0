#include "http/h2_common.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/block_pool.h"

namespace tinker::http {

namespace {

struct Memory {
  // In front of each block, whose size it has to know at its end.
  struct alignas(std::max_align_t) Head {
    std::size_t size;
  };

  static void* allocate(std::size_t size, void*) noexcept {
    if (size > PTRDIFF_MAX - sizeof(Head)) return nullptr;
    try {
      auto* const head = static_cast<Head*>(base::allocate_block(sizeof(Head) + size));
      head->size = size;
      return head + 1;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  static void release(void* block, void*) noexcept {
    if (block == nullptr) return;
    Head* const head = static_cast<Head*>(block) - 1;
    base::free_block(head, sizeof(Head) + head->size);
  }
  static void* allocate_zeros(std::size_t count, std::size_t size, void*) noexcept {
    if (size != 0 && count > PTRDIFF_MAX / size) return nullptr;
    void* const block = allocate(count * size, nullptr);
    return block == nullptr ? nullptr : std::memset(block, 0, count * size);
  }
  static void* resize(void* block, std::size_t size, void*) noexcept {
    void* const grown = allocate(size, nullptr);
    if (grown == nullptr || block == nullptr) return grown;
    std::memcpy(grown, block, std::min(size, (static_cast<Head*>(block) - 1)->size));
    release(block, nullptr);
    return grown;
  }
};

}  // namespace

nghttp2_mem* h2_memory() noexcept {
  static nghttp2_mem memory = {.mem_user_data = nullptr,
                               .malloc = Memory::allocate,
                               .free = Memory::release,
                               .calloc = Memory::allocate_zeros,
                               .realloc = Memory::resize};
  return &memory;
}

}  // namespace tinker::http
