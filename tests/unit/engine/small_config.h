#pragma once

#include "engine/model_config.h"

namespace tinker::engine {

/// A model whose sizes all differ, and are multiples of nothing in particular.
inline ModelConfig small_config(
    ModelConfig::Architecture architecture = ModelConfig::Architecture::llama) {
  return {.architecture = architecture,
          .vocab_size = 11,
          .hidden_size = 12,
          .ffn_size = 14,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 6,
          .context_length = 64,
          .tied_head = true,
          .eos_ids = {2}};
}

}  // namespace tinker::engine
