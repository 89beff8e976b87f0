#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "engine/model_config.h"
#include "tinker/engine.h"
#include "tinker/result.h"

namespace tinker::engine {

/// A Llama in the binary layout of llama2.c (its first version): seven numbers, then the weights as
/// floats, those of all layers of one kind together.
///
/// Immutable. A view of the file, which must outlive it.
class Llama2c {
 public:
  /// Fails with `invalid_argument` for sizes that cannot be, and unless the file is as long as they
  /// say.
  static Result<Llama2c> parse(std::string_view file);

  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }
  /// Makes a Hugging Face folder of it. Fails as `check_new_folder` and `write_model` do, and
  /// leaves what was there.
  [[nodiscard]] Result<void> write(const std::filesystem::path& folder,
                                   EnginePrecision precision = EnginePrecision::f32) const;

 private:
  Llama2c(ModelConfig config, std::string_view weights)
      : config_(std::move(config)), weights_(weights) {}

  ModelConfig config_;
  std::string_view weights_;
};

}  // namespace tinker::engine
