#include "engine/activations.h"

namespace tinker::engine {

LayerState LayerState::from(std::size_t first) const noexcept {
  LayerState rows = {.x = x.from(first),
                     .middle = middle.from(first),
                     .raw_q = raw_q.from(first),
                     .raw_k = raw_k.from(first),
                     .q = q.from(first),
                     .out = out.from(first),
                     .lse = lse.from(first),
                     .gate = gate.from(first),
                     .up = up.from(first)};
  for (std::size_t i = 0; i < kLayerGroups; ++i) rows.low[i] = low[i].from(first);
  return rows;
}

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
