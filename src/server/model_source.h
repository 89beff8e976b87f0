#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "engine/model_config.h"
#include "server/random_source.h"
#include "server/scratch_folder.h"
#include "tinker/local_server.h"
#include "tinker/result.h"

namespace tinker::server {

/// Where a model and its tokenizer are on this machine.
struct ModelSource {
  std::filesystem::path path = {};  ///< A Hugging Face folder or a GGUF file, without links.
  /// With this, the folder gets its weights when the model is first needed.
  std::optional<RandomSource> random = {};
  std::shared_ptr<const ScratchFolder> scratch = {};  ///< Keeps that folder.
  engine::ModelConfig config = {};
  std::filesystem::path tokenizer = {};  ///< What `Tokenizer::load` takes; empty: there is none.
  bool has_chosen_tokenizer = false;     ///< The user named it, so it has to be good.
  /// For clients: a folder that transformers reads, else a repository of the hub, else a file that
  /// clients of this library read, such as a GGUF file; else empty.
  std::string tokenizer_id = {};

  /// Models for which this is the same share an engine: stop strings depend on the tokenizer.
  [[nodiscard]] std::string key() const { return path.string() + '\n' + tokenizer.string(); }
};

/// The repository of the hub that a model is, unless its source is on this machine.
std::optional<std::string> hub_repository(const ServedModel& model);

/// Finds the sources of models. Blocks.
///
/// Thread-compatible.
class SourceFinder {
 public:
  /// `hub_cache` is the cache of the Python tools; empty: where the environment says.
  explicit SourceFinder(std::filesystem::path hub_cache) : hub_cache_(std::move(hub_cache)) {}

  /// Reads what the source says of itself. Fails with `invalid_argument`, and names the model.
  Result<ModelSource> find(const ServedModel& model);
  /// The same of what the hub's cache has of a repository.
  [[nodiscard]] Result<ModelSource> find_in_cache(const std::string& repository) const;

 private:
  struct CachedTokenizer {
    std::filesystem::path folder = {};
    std::string repository = {};
  };

  Result<ModelSource> find_model(const ServedModel& model);
  Result<ModelSource> make_random(const std::string& source);
  Result<void> find_tokenizer(const ServedModel& model, ModelSource& out);
  [[nodiscard]] std::optional<CachedTokenizer> tokenizer_in_cache(const std::string& name) const;
  [[nodiscard]] Result<std::filesystem::path> cache_folder() const;

  std::filesystem::path hub_cache_;
  std::shared_ptr<const ScratchFolder> scratch_ = {};  // made for the first random model
};

}  // namespace tinker::server
