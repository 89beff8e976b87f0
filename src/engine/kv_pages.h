#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/kernels.h"
#include "engine/memory.h"
#include "engine/model_config.h"

namespace tinker::engine {

/// Pages that hold so many tokens.
constexpr std::size_t pages_for(std::size_t tokens) {
  return (tokens + kKeyBlock - 1) / kKeyBlock;
}

/// How the keys and values of `kKeyBlock` positions lie in a page: for each layer and each head of
/// them, a block of keys and one of values, as `AttentionForward` takes them.
struct KvLayout {
  KvLayout(const ModelConfig& config, const Kernels& kernels, std::size_t layers_of_page)
      : kv_heads(config.kv_heads),
        head_dim(config.head_dim),
        value_stride(round_up(config.head_dim, kLanes)),
        layers(layers_of_page),
        key_bytes(round_up(config.head_dim, kernels.step) * kKeyBlock * kernels.element_bytes),
        value_bytes(kKeyBlock * value_stride * kernels.element_bytes) {}

  std::size_t kv_heads;
  std::size_t head_dim;
  std::size_t value_stride;
  std::size_t layers;  ///< That a page holds.
  std::size_t key_bytes;
  std::size_t value_bytes;

  [[nodiscard]] std::size_t page_bytes() const noexcept {
    return layers * kv_heads * (key_bytes + value_bytes);
  }
  [[nodiscard]] std::size_t key_offset(std::size_t layer, std::size_t head) const noexcept {
    return (layer * kv_heads + head) * (key_bytes + value_bytes);
  }
  [[nodiscard]] std::size_t value_offset(std::size_t layer, std::size_t head) const noexcept {
    return key_offset(layer, head) + key_bytes;
  }
};

/// The blocks of one head of one layer that hold the first `tokens` positions, as attention takes
/// them.
struct KvBlocks {
  KvBlocks(const KvLayout& layout,
           std::span<std::byte* const> pages,
           std::size_t layer,
           std::size_t head,
           std::size_t tokens) {
    for (const std::byte* page : pages.first(pages_for(tokens))) {
      keys.push_back(page + layout.key_offset(layer, head));
      values.push_back(page + layout.value_offset(layer, head));
    }
  }

  std::vector<const void*> keys;
  std::vector<const void*> values;
};

}  // namespace tinker::engine
