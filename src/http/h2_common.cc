#include "http/h2_common.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/block_pool.h"
#include "tinker/check.h"

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

/// Where nghttp2 keeps what it knows of each stream and frame: in blocks that are used again.
nghttp2_mem* h2_memory() noexcept {
  static nghttp2_mem memory = {.mem_user_data = nullptr,
                               .malloc = Memory::allocate,
                               .free = Memory::release,
                               .calloc = Memory::allocate_zeros,
                               .realloc = Memory::resize};
  return &memory;
}

}  // namespace

H2SessionPtr begin_h2_session(const H2Setup& setup, void* user_data) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  TINKER_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0 && nghttp2_option_new(&option) == 0);
  setup.set_callbacks(callbacks);
  nghttp2_option_set_no_closed_streams(option, 1);
  setup.set_options(option);
  nghttp2_session* session = nullptr;
  const int made = setup.make(&session, callbacks, user_data, option, h2_memory());
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_option_del(option);
  TINKER_CHECK(made == 0);
  H2SessionPtr owner(session);
  const auto& settings = setup.settings;
  TINKER_CHECK(nghttp2_submit_settings(session, 0, settings.data(), settings.size()) == 0);
  TINKER_CHECK(nghttp2_session_set_local_window_size(session, 0, 0, setup.connection_window) == 0);
  return owner;
}

}  // namespace tinker::http
