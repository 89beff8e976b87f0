#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/event_loop.h"
#include "async/task.h"
#include "server/memory_plan.h"
#include "tinker/engine.h"
#include "tinker/executor.h"
#include "tinker/local_server.h"
#include "tinker/log.h"
#include "tinker/result.h"
#include "tinker/tokenizer.h"
#include "tinker/types/client_config.h"

namespace tinker::engine {
struct ModelConfig;
}

namespace tinker::server {

/// A base model in memory. Who holds it keeps it there; a copy of `engine` alone does not.
struct LoadedModel {
  Engine engine;
  std::optional<Tokenizer> tokenizer = {};  ///< Stop strings need one.
  std::size_t bytes = 0;                    ///< What the weights take.
};

/// What is known of a model without loading it.
struct ModelFacts {
  std::string name = {};
  std::string arch = {};  ///< "qwen3"
  /// A folder on this machine that transformers reads, else a repository of the hub; empty where
  /// neither is known.
  std::string tokenizer_id = {};
};

/// Memory that counts as taken while this lives. May die on any thread.
using MemoryHold = std::shared_ptr<const void>;

struct RegistryOptions {
  std::vector<ServedModel> models = {};
  std::size_t memory_bytes = 0;  ///< 0: what the machine has left.
  std::size_t threads = 0;
  EnginePrecision precision = EnginePrecision::bf16;
  std::filesystem::path hub_cache = {};  ///< Empty: that of the Python tools.
  Logger logger = {};
};

/// The base models of a server, and the memory that they, their adapters and their work share.
/// Models are loaded on first use, one after the other; several names of one source share an
/// engine. When memory is short the one that was idle longest leaves; what does not fit even so is
/// refused with both numbers before it is begun. Loop thread only; what `acquire` gave may be
/// dropped on any thread.
class ModelRegistry {
 public:
  /// Reads what the sources say of themselves; fails, naming the model, for a source that is not
  /// there or not understood. Blocks.
  static Result<std::unique_ptr<ModelRegistry>> create(std::shared_ptr<async::EventLoop> loop,
                                                       std::shared_ptr<Executor> workers,
                                                       RegistryOptions options);
  ~ModelRegistry();
  ModelRegistry(const ModelRegistry&) = delete;
  ModelRegistry& operator=(const ModelRegistry&) = delete;

  /// Contexts are what can be sampled: the model's, or fewer tokens where its cache holds no more;
  /// before it is loaded, the cache that it would have if it were loaded now.
  [[nodiscard]] std::vector<SupportedModel> capabilities() const;
  /// Fails with `not_found`; the message lists what there is.
  [[nodiscard]] Result<ModelFacts> facts(std::string_view name) const;
  /// Its shape, which lives as long as the registry. Fails as `facts` does.
  [[nodiscard]] Result<const engine::ModelConfig*> config(std::string_view name) const;
  /// Loads it, or joins the load that is under way, which goes on when this is cancelled. Fails as
  /// `facts` and `Engine::load` do, and with `invalid_argument` when memory is short; the next call
  /// tries again.
  async::Task<std::shared_ptr<LoadedModel>> acquire(std::string name);
  /// Bytes of an adapter of this model. Fails as `facts` does.
  [[nodiscard]] Result<AdapterNeed> adapter_need(std::string_view name,
                                                 const LoraConfig& lora) const;
  /// Memory for an adapter that is about to be made; models that nobody uses leave for it. Fails
  /// with `invalid_argument`, and both numbers, where it does not fit even so.
  Result<MemoryHold> hold(std::string_view what, std::size_t bytes);
  /// Called where memory is short, before models leave: gives back something that is only kept for
  /// speed; false where there is nothing left.
  void on_shortage(std::function<bool()> give_back);
  /// What training calls of a model may take now; 0: what the machine has left.
  [[nodiscard]] std::size_t training_room(std::string_view name) const;
  /// What the models that are loaded may take: weights and caches.
  [[nodiscard]] std::size_t loaded_bytes() const noexcept;
  /// What the engine of a model has to do; nothing while it is not loaded.
  [[nodiscard]] std::optional<EngineQueue> queue(std::string_view name) const;
  /// Names of the models that are loaded, also idle ones.
  [[nodiscard]] std::vector<std::string> loaded() const;

 private:
  struct Impl;
  explicit ModelRegistry(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // loads that end later ask whether it is still there
};

}  // namespace tinker::server
