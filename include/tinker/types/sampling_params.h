#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tinker/types/seed.h"

namespace tinker {

/// Texts, or token ids, that end a sequence. An empty list turns every stop off, the model's own
/// end-of-sequence token included.
using Stop = std::variant<std::string, std::vector<std::string>, std::vector<std::int32_t>>;

/// How to draw tokens (PROTOCOL 7.4).
struct SamplingParams {
  std::optional<std::int64_t> max_tokens = {};  ///< Absent: the server's limit.
  std::optional<Seed> seed = {};                ///< Absent: not repeatable.
  std::optional<Stop> stop = {};                ///< Absent: the model's end-of-sequence tokens.
  double temperature = 1.0;                     ///< 0 is greedy.
  std::int64_t top_k = -1;                      ///< -1 is no limit.
  double top_p = 1.0;

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

}  // namespace tinker
