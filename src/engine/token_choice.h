#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels.h"
#include "tinker/types/sample.h"

namespace tinker::engine {

/// A row of logits and what is needed to turn it into probabilities at one temperature. The logits
/// must outlive it.
///
/// Immutable.
class Distribution {
 public:
  /// A temperature of 0 is that of 1 for logprobs, and the choice is the most likely token.
  Distribution(const Kernels& kernels, std::span<const float> logits, double temperature);

  [[nodiscard]] float logprob(std::int32_t token) const {
    return logits_[static_cast<std::size_t>(token)] * scale_ - lse_;
  }
  [[nodiscard]] std::span<const float> logits() const noexcept { return logits_; }
  /// The first of the most likely tokens.
  [[nodiscard]] std::int32_t most_likely() const;
  /// A token drawn with the number u of [0, 1).
  [[nodiscard]] std::int32_t draw(double u) const;
  /// The same from the `top_k` most likely ones (-1: all), and of these from the smallest set of
  /// the most likely ones that has a probability of `top_p`.
  [[nodiscard]] std::int32_t draw(double u, std::int64_t top_k, double top_p) const;
  /// The k most likely ones, of equal ones the lower id first.
  [[nodiscard]] std::vector<TopkLogprobs::Cell> top(std::size_t k) const;

 private:
  /// Ids of the k largest logits, in order.
  [[nodiscard]] std::vector<std::int32_t> best(std::size_t k) const;

  const Kernels& kernels_;
  std::span<const float> logits_;
  float scale_;
  bool is_greedy_;
  std::vector<SoftmaxPart> parts_;  // of blocks of Head::kBlock
  float lse_;
};

}  // namespace tinker::engine
