#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/scored_sequence.h"
#include "tinker/result.h"
#include "tinker/types/datum.h"
#include "tinker/types/forward_backward.h"

namespace tinker::engine {

/// A built-in loss with its settings (SERVER 2). All losses are plain sums over the tokens of all
/// data.
///
/// Immutable.
class TokenLoss {
 public:
  /// Fails with `invalid_argument` for settings it does not have, and for losses that are not
  /// defined publicly.
  static Result<TokenLoss> create(LossFn kind, const LossFnConfig& config);

  /// What a datum asks for.
  struct Inputs {
    ScoredSequence sequence = {};
    std::vector<float> weights = {};   ///< One per target; of cross_entropy.
    std::vector<float> logprobs = {};  ///< One per position, as the rest; of the others.
    std::vector<float> advantages = {};
    std::vector<float> ratio_mask = {};  ///< Of gspo.
    TensorData targets = {};             ///< Dense; the outputs have their shape.
  };
  /// Fails with `invalid_argument` for a datum that `detail::check_loss_inputs` refuses, and names
  /// the input. All numbers of the result that the loss depends on are finite.
  [[nodiscard]] Result<Inputs> read(const Datum& datum) const;
  /// The same for a batch, which must not be empty; the error names the datum.
  [[nodiscard]] Result<std::vector<Inputs>> read(std::span<const Datum> data) const;

  /// The loss of one datum. Writes the loss at each position, and its derivatives by
  /// the logprobs if there is room for them.
  [[nodiscard]] double evaluate(const Inputs& inputs,
                                std::span<const float> logprobs,
                                std::span<float> elementwise,
                                std::span<float> derivatives) const;

 private:
  TokenLoss(LossFn kind, double low, double high, double beta)
      : kind_(kind), low_(low), high_(high), beta_(beta) {}
  struct Term {
    double loss = 0;
    double derivative = 0;
  };
  [[nodiscard]] Term token(double logprob, double sampled, double advantage) const;
  [[nodiscard]] Term clipped(double ratio, double advantage) const;

  LossFn kind_;
  double low_;
  double high_;
  double beta_;
};

/// `values` in the shape of `targets`.
TensorData shaped_like(const TensorData& targets, std::vector<float> values);

}  // namespace tinker::engine
