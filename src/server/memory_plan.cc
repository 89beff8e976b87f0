#include "server/memory_plan.h"

#include <algorithm>
#include <limits>

#include "engine/adapter.h"
#include "engine/kv_pages.h"
#include "engine/model.h"

namespace tinker::server {

namespace {

constexpr std::size_t kUsualCache = std::size_t{1} << 30U;
constexpr std::size_t kLeastTokens = 2048;

std::size_t cache_for(std::size_t tokens, const engine::KvLayout& layout) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 4;
  const std::size_t pages = engine::pages_for(tokens);
  return pages > kMost / layout.page_bytes() ? kMost : pages * layout.page_bytes();
}

}  // namespace

MemoryNeed memory_need(const engine::ModelConfig& config, const engine::Kernels& kernels) {
  const engine::KvLayout layout(config, kernels, config.layers);
  return {.weights = engine::Model::bytes(config, kernels),
          .least_cache = cache_for(std::min(config.context_length, kLeastTokens), layout),
          .context_cache = cache_for(config.context_length, layout)};
}

AdapterNeed adapter_need(const engine::ModelConfig& config,
                         const engine::Kernels& kernels,
                         const LoraConfig& lora) {
  constexpr std::size_t kArrays = 3;  // gradients, and two moments of AdamW
  const auto layout = engine::LoraLayout::create(
      config,
      {.rank = lora.rank < 1 ? std::size_t{0} : static_cast<std::size_t>(lora.rank),
       .train_attn = lora.train_attn,
       .train_mlp = lora.train_mlp,
       .train_unembed = lora.train_unembed});
  if (!layout.ok()) return {};
  const std::size_t factors = engine::Adapter::bytes(kernels, **layout);
  return {.sampling = factors,
          .training = 2 * factors + kArrays * (*layout)->parameters() * sizeof(float)};
}

std::size_t cache_share(const MemoryNeed& need, std::size_t room) {
  const std::size_t quarter = (room - need.weights) / 4;
  const std::size_t useful = std::max(kUsualCache, need.context_cache);
  return std::max(need.least_cache, std::min(quarter, useful));
}

std::size_t context_within(const engine::ModelConfig& config,
                           const engine::Kernels& kernels,
                           std::size_t cache_bytes) {
  const engine::KvLayout layout(config, kernels, config.layers);
  const std::size_t pages = std::max<std::size_t>(1, cache_bytes / layout.page_bytes());
  return engine::pages_for(config.context_length) <= pages ? config.context_length
                                                           : pages * engine::kKeyBlock;
}

std::vector<IdleModel> choose_leaving(std::size_t needed,
                                      std::size_t room,
                                      std::vector<IdleModel> idle) {
  std::ranges::sort(idle, {}, &IdleModel::idle_since);
  auto end = idle.begin();
  for (; end != idle.end() && room < needed; ++end) room += end->bytes;
  idle.erase(end, idle.end());
  return idle;
}

}  // namespace tinker::server
