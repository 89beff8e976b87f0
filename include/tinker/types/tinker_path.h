#pragma once

#include <array>
#include <string>
#include <string_view>

#include "tinker/result.h"
#include "tinker/types/open_enum.h"

namespace tinker {

enum class CheckpointType { training, sampler, external };
template <>
inline constexpr std::array<std::string_view, 3> detail::kEnumNames<CheckpointType> = {
    "training", "sampler", "external"};

/// The address of a checkpoint, "tinker://run/kind/name" with kind `weights`, `sampler_weights` or
/// `external_weights` (PROTOCOL 7.10).
///
/// Thread-compatible.
struct TinkerPath {
  std::string training_run_id = {};
  CheckpointType kind = CheckpointType::training;
  std::string name = {};

  static Result<TinkerPath> parse(std::string_view text);

  [[nodiscard]] std::string to_string() const;
  /// "weights/step-10": how the REST calls name it within its run.
  [[nodiscard]] std::string checkpoint_id() const;

  friend bool operator==(const TinkerPath&, const TinkerPath&) = default;
};

}  // namespace tinker
