#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/kernels.h"
#include "engine/model_config.h"
#include "tinker/types/model.h"

namespace tinker::server {

/// Bytes that a model takes, known before it is loaded.
struct MemoryNeed {
  std::size_t weights = 0;
  std::size_t least_cache = 0;    ///< Keys and values of 2048 tokens, or of a shorter context.
  std::size_t context_cache = 0;  ///< Those of a whole context.

  /// With less than this it is not loaded.
  [[nodiscard]] std::size_t least() const noexcept { return weights + least_cache; }
};
MemoryNeed memory_need(const engine::ModelConfig& config, const engine::Kernels& kernels);

/// Bytes of an adapter.
struct AdapterNeed {
  std::size_t sampling = 0;  ///< Its factors.
  /// With gradients and moments, and with the new factors that a step makes beside the old ones.
  std::size_t training = 0;
};
/// Nothing for a shape that no adapter has: the engine refuses that.
AdapterNeed adapter_need(const engine::ModelConfig& config,
                         const engine::Kernels& kernels,
                         const LoraConfig& lora);

/// The limit of a model's cache where `room` bytes are free before it is loaded: a quarter of what
/// the weights leave, at most 1 GiB or, if that is more, a whole context. Requires
/// `room >= need.least()`.
std::size_t cache_share(const MemoryNeed& need, std::size_t room);

/// Tokens of the longest sequence that is sampled with a cache of so many bytes: those of a context
/// at most.
std::size_t context_within(const engine::ModelConfig& config,
                           const engine::Kernels& kernels,
                           std::size_t cache_bytes);

/// A loaded model that nobody uses.
struct IdleModel {
  std::size_t index = 0;  ///< Whatever the caller calls it.
  std::size_t bytes = 0;
  std::uint64_t idle_since = 0;  ///< On a clock that only orders.
};

/// Those that leave so that `needed` bytes fit where `room` are free: the ones that were idle
/// longest. All of them if that is not enough.
std::vector<IdleModel> choose_leaving(std::size_t needed,
                                      std::size_t room,
                                      std::vector<IdleModel> idle);

}  // namespace tinker::server
