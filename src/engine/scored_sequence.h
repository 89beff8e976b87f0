#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tinker::engine {

/// Tokens, and what is scored after each of them.
struct ScoredSequence {
  std::vector<std::int32_t> tokens = {};
  std::vector<std::int32_t> targets = {};
  /// Where the targets of each position begin, and where the last ones end; empty: one target each.
  std::vector<std::size_t> offsets = {};
  /// Targets by whose logprobs the derivative of the loss is always 0; empty: none.
  std::vector<bool> inert = {};

  [[nodiscard]] std::size_t begin_of(std::size_t position) const {
    return offsets.empty() ? position : offsets[position];
  }
};

}  // namespace tinker::engine
