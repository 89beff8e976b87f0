#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/model_registry.h"
#include "server/model_source.h"

namespace tinker::server {

/// A model in memory, whether somebody uses it or not.
struct ResidentModel {
  /// The engine may read its files again, so this member outlives it.
  std::shared_ptr<const ScratchFolder> scratch = {};
  LoadedModel model;
  std::size_t cache_bytes = 0;
  /// When the last user dropped it, on a clock that only orders.
  std::atomic<std::uint64_t> idle_since = 0;

  /// What it may take.
  [[nodiscard]] std::size_t bytes() const noexcept { return model.bytes + cache_bytes; }
};

/// A load for a worker.
struct LoadJob {
  std::string name = {};
  ModelSource source = {};
  EngineOptions engine = {};
  std::size_t weight_bytes = 0;
  /// Models that give their memory back before it begins.
  std::vector<std::shared_ptr<ResidentModel>> leaving = {};
  Logger logger = {};
};

/// Blocks. Fails as `Engine::load` does, and as `Tokenizer::load` for a tokenizer that the user
/// chose; without another one the model is loaded all the same.
Result<std::shared_ptr<ResidentModel>> load_model(LoadJob job);

}  // namespace tinker::server
