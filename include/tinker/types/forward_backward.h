#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/result.h"
#include "tinker/types/datum.h"
#include "tinker/types/open_enum.h"

namespace tinker {

enum class LossFn {
  cross_entropy,
  importance_sampling,
  ppo,
  cispo,
  dro,
  gspo,
  stable_reinforce,
  custom,  ///< A loss made by create_custom_loss; its config holds "loss_id".
};
template <>
inline constexpr std::array<std::string_view, 8> detail::kEnumNames<LossFn> = {
    "cross_entropy",
    "importance_sampling",
    "ppo",
    "cispo",
    "dro",
    "gspo",
    "stable_reinforce",
    "custom",
};

/// Settings of a loss by name, e.g. {{"clip_low_threshold", 0.8}}.
using LossFnConfig = std::map<std::string, std::variant<double, std::string>, std::less<>>;

/// POST forward_backward (PROTOCOL 9.12).
struct ForwardBackwardRequest {
  std::string model_id = {};
  std::int64_t seq_id = 0;  ///< Starts at 1; 32 bits on the wire.
  std::vector<Datum> data = {};
  OpenEnum<LossFn> loss_fn = LossFn::cross_entropy;
  LossFnConfig loss_fn_config = {};
  bool forward_only = false;

  friend bool operator==(const ForwardBackwardRequest&, const ForwardBackwardRequest&) = default;
};

/// Result of forward_backward (PROTOBUF 5).
struct ForwardBackwardOutput {
  std::string loss_fn_output_type = {};
  std::vector<NamedTensors> loss_fn_outputs = {};           ///< One per datum.
  std::map<std::string, double, std::less<>> metrics = {};  ///< By "name:reduction".
  /// The metrics of reduction `hash2` exactly; `metrics` has them rounded. Set by the clients.
  std::map<std::string, std::uint64_t, std::less<>> hashes = {};

  /// The loss of the whole batch: metric "loss:sum" or, of servers that do not send it, the sum of
  /// the outputs' "elementwise_loss".
  [[nodiscard]] Result<double> loss() const;

  friend bool operator==(const ForwardBackwardOutput&, const ForwardBackwardOutput&) = default;
};

}  // namespace tinker
