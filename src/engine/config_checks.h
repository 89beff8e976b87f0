#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/strings.h"
#include "engine/model_config.h"
#include "tinker/result.h"

// What every reader of a ModelConfig makes sure of. `name` is that of the member in its file.
namespace tinker::engine {

inline Error refuse(std::string_view why) {
  return {.code = ErrorCode::invalid_argument, .message = std::string(why)};
}

inline Error refuse_value(std::string_view name, std::string_view value) {
  return refuse(base::concat("'", name, "' is ", value, ", which is not supported"));
}

/// 1 to `most`. The default leaves room for products of two sizes and the size of a float.
inline Result<std::size_t> checked_size(std::string_view name,
                                        std::int64_t value,
                                        std::int64_t most = std::int64_t{1} << 24U) {
  if (value >= 1 && value <= most) return static_cast<std::size_t>(value);
  return refuse(base::concat("'", name, "' is ", value, ", expected 1 to ", most));
}

/// Few enough that a list of all tensors is no burden.
inline Result<std::size_t> checked_layers(std::string_view name, std::int64_t value) {
  constexpr std::int64_t kMaxLayers = 4096;
  return checked_size(name, value, kMaxLayers);
}

inline Result<double> checked_positive(std::string_view name, double value) {
  if (std::isfinite(value) && value > 0) return value;
  return refuse(base::concat("'", name, "' is ", value, ", expected a positive number"));
}

inline Result<float> checked_eps(std::string_view name, double value) {
  if (value >= 0 && value < 1) return static_cast<float>(value);
  return refuse(base::concat("'", name, "' is ", value, ", expected 0 or a little more"));
}

inline Result<std::int32_t> checked_token(std::string_view name,
                                          std::int64_t value,
                                          const ModelConfig& config) {
  if (value >= 0 && std::cmp_less(value, config.vocab_size)) {
    return static_cast<std::int32_t>(value);
  }
  return refuse(base::concat("'", name, "' is ", value, ", no token of ", config.vocab_size));
}

/// That heads, kv_heads and head_dim go together.
inline Result<void> check_heads(const ModelConfig& config) {
  if (config.heads % config.kv_heads != 0) {
    return refuse(base::concat(
        config.heads, " attention heads are no multiple of ", config.kv_heads, " kv heads"));
  }
  if (config.head_dim % 2 != 0) {
    return refuse(base::concat("heads of odd size ", config.head_dim));
  }
  TINKER_TRY(checked_size("heads * head_dim", static_cast<std::int64_t>(config.q_size())));
  return {};
}

Result<ModelConfig::Architecture> architecture_of(std::string_view name, std::string_view value);

}  // namespace tinker::engine
