#include "engine/activations.h"

namespace tinker::engine {

LayerState ActivationPlan::layer(Arena& arena) const {
  const auto& config = model_.config();
  LayerState out;
  out.q = elements(arena, config.q_size());
  out.out = elements(arena, config.q_size());
  out.lse = floats(arena, config.heads);
  out.gate = elements(arena, config.ffn_size);
  out.up = elements(arena, config.ffn_size);
  for (std::size_t i = 0; i < kLayerGroups; ++i) out.low[i] = low(arena, static_cast<LoraGroup>(i));
  return out;
}

}  // namespace tinker::engine
