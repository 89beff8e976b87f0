#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "tinker/result.h"
#include "tinker/types/json.h"

namespace tinker {

/// AdamW (PROTOCOL 7.12).
struct AdamOptimizerConfig {
  friend bool operator==(const AdamOptimizerConfig&, const AdamOptimizerConfig&) = default;
};

struct DimuonOptimizerConfig {
  std::int64_t version = 1;  ///< Only 1 exists.

  friend bool operator==(const DimuonOptimizerConfig&, const DimuonOptimizerConfig&) = default;
};

/// A family, or a variant of one, that this library does not know: kept and sent as it came.
struct OtherOptimizerConfig {
  std::string type = {};
  JsonObject members = {};  ///< All but `type`.

  friend bool operator==(const OtherOptimizerConfig&, const OtherOptimizerConfig&) = default;
};

/// The optimizer of a training model, fixed when the model is made.
using OptimizerConfig =
    std::variant<AdamOptimizerConfig, DimuonOptimizerConfig, OtherOptimizerConfig>;

/// One step of AdamW (PROTOCOL 7.6).
struct AdamParams {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-12;
  double weight_decay = 0.0;    ///< Decoupled.
  double grad_clip_norm = 0.0;  ///< Global norm; 0 is no clipping.

  /// Refuses a learning rate below 0, betas outside of [0, 1), and whatever is not finite. The
  /// clients ask before they send.
  [[nodiscard]] Result<void> validate() const;

  friend bool operator==(const AdamParams&, const AdamParams&) = default;
};

/// One step of Dimuon (PROTOCOL 7.13).
struct DimuonParams {
  double learning_rate = 0.0;   ///< No default on the wire; at least 0.
  double grad_clip_norm = 0.0;  ///< Global norm; 0 or less is no clipping.
  double beta1 = 0.9;           ///< Momentum, in [0, 1).

  friend bool operator==(const DimuonParams&, const DimuonParams&) = default;
};

/// One step of a family this library does not know.
struct OtherOptimParams {
  std::string type = {};
  JsonObject members = {};  ///< All but `type`.

  friend bool operator==(const OtherOptimParams&, const OtherOptimParams&) = default;
};

using OptimParams = std::variant<AdamParams, DimuonParams, OtherOptimParams>;

/// POST optim_step (PROTOCOL 9.13).
struct OptimStepRequest {
  OptimParams optim_params = {};
  std::string model_id = {};
  std::optional<std::int64_t> seq_id = {};

  friend bool operator==(const OptimStepRequest&, const OptimStepRequest&) = default;
};

struct OptimStepResponse {
  std::optional<std::map<std::string, double, std::less<>>> metrics = {};

  friend bool operator==(const OptimStepResponse&, const OptimStepResponse&) = default;
};

}  // namespace tinker
