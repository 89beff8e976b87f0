#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/loss.h"
#include "tinker/result.h"
#include "tinker/types/datum.h"

/// Ready-made losses, and functions with explicit gradients over a whole batch.
namespace tinker::loss {

/// What one regularizer added to a loss.
struct RegularizerReport {
  std::string name = {};
  double value = 0.0;
  double weight = 1.0;
  double contribution = 0.0;            ///< weight * value.
  double gradient_norm = 0.0;           ///< Of the value, over all logprobs of the batch.
  double weighted_gradient_norm = 0.0;  ///< weight * gradient_norm.
};

/// A loss over a batch and its slopes.
struct BatchResult {
  double loss = 0.0;
  std::map<std::string, double, std::less<>> metrics = {};
  /// d loss / d logprobs: one vector per datum, as long as its logprobs.
  std::vector<std::vector<float>> gradients = {};
  /// Filled by `regularize`: the base loss's gradient norm, and a report per regularizer.
  double base_loss = 0.0;
  double base_gradient_norm = 0.0;
  std::vector<RegularizerReport> regularizers = {};
};

/// Logprobs of each datum: of its target tokens, row by row where those are 2-D.
using BatchLogprobs = std::span<const std::span<const float>>;

/// A loss with an explicit gradient, over data that may depend on each other. Called on the thread
/// of the caller; whether it may run on several at once is up to what it captures.
using BatchFunction = std::function<Result<BatchResult>(std::span<const Datum>, BatchLogprobs)>;

/// The formula on each datum: losses are added, metrics too, those that end in ":mean" then divided
/// by the number of data (R9.7). Errors name the datum.
BatchFunction batch(Formula formula);

/// The keys of `Datum::loss_fn_inputs` that policy losses read. They cannot read "logprobs", which
/// in a formula means the model's own.
struct PolicyInputs {
  std::string sampling_logprobs = "sampling_logprobs";  ///< q, of the policy that sampled.
  std::string advantages = "advantages";                ///< A.
};

/// Bounds of the ratio exp(logprobs - q).
struct ClipRange {
  double low = 0.8;
  double high = 1.2;
};

/// -sum(ratio * A).
Result<Formula> importance_sampling(const PolicyInputs& inputs = PolicyInputs());
/// -sum(min(ratio * A, clamp(ratio) * A)); metric "custom/clip_fraction:mean".
Result<Formula> ppo(ClipRange clip, const PolicyInputs& inputs = PolicyInputs());
Result<Formula> ppo();
/// -sum(detach(clamp(ratio)) * logprobs * A), with the service's bounds 0 and 4 unless given.
Result<Formula> cispo(ClipRange clip, const PolicyInputs& inputs = PolicyInputs());
Result<Formula> cispo();
/// PPO with one ratio per sequence, s = exp(mean(logprobs - q)) over the positions where the input
/// `mask` ("sequence_ratio_mask") is not 0. The service's token variant: s is a constant, so that
/// the gradient of a token is -s * A of that token, or 0 where it is clipped.
Result<Formula> gspo(ClipRange clip,
                     const PolicyInputs& inputs = PolicyInputs(),
                     const std::string& mask = "sequence_ratio_mask");
Result<Formula> gspo();
/// -sum(logprobs * A - beta / 2 * (logprobs - q)^2).
Result<Formula> dro(double beta, const PolicyInputs& inputs = PolicyInputs());

/// Estimators of KL(policy || reference) from tokens that the policy sampled; with d = reference -
/// policy: k1 = -d (unbiased, may be negative), k2 = d^2 / 2 (biased, low variance), k3 = exp(d) -
/// 1 - d (unbiased, never negative).
enum class KlEstimator { k1, k2, k3 };

/// Per token, inside a formula: `loss + beta * sum(kl(KlEstimator::k3, in["logprobs"],
/// in["ref"]))`.
Value kl(KlEstimator estimator, const Value& logprobs, const Value& reference);
/// Per token, as numbers. Requires spans of equal length; the result is as long as the shorter.
std::vector<float> kl(KlEstimator estimator,
                      std::span<const float> logprobs,
                      std::span<const float> reference);

/// Settings of `dpo`.
struct DpoOptions {
  double beta = 0.1;  ///< How strongly to stay near the reference. Greater than 0.
  /// Key of the reference model's logprobs, shaped like the model's.
  std::string reference = "reference_logprobs";
  /// Key of the weights: tokens with weight 0 (prompts) do not count. Absent: all tokens count.
  std::string weights = "weights";
};

/// Direct preference optimization over pairs: data 0, 2, 4, ... are chosen, each followed by the
/// one that was rejected. Mean over pairs of -log sigmoid(beta * ((c - c_ref) - (r - r_ref))),
/// where c and r are weighted sums of logprobs. Metrics dpo_loss, accuracy, margin, chosen_reward
/// and rejected_reward.
BatchFunction dpo(DpoOptions options);
BatchFunction dpo();

/// How the elements (or rows) of one datum are put together. Data are always added up.
enum class Reduction { sum, mean };

/// What L1, L2 and elastic net look at: logprobs, or probabilities exp(logprobs).
enum class RegularizerTarget { logprobs, probabilities };

struct L1Sparsity {
  RegularizerTarget target = RegularizerTarget::logprobs;
  Reduction reduction = Reduction::sum;
  double lambda = 1.0;
};

struct L2WeightDecay {
  RegularizerTarget target = RegularizerTarget::logprobs;
  Reduction reduction = Reduction::sum;
  double lambda = 1.0;
  std::optional<double> clip = {};    ///< Bound of |y| after centering.
  std::optional<double> center = {};  ///< Subtracted first.
  bool center_on_mean = false;        ///< Subtract the datum's mean instead of `center`.
};

struct ElasticNet {
  RegularizerTarget target = RegularizerTarget::logprobs;
  Reduction reduction = Reduction::sum;
  double lambda = 1.0;
  double l1_ratio = 0.5;  ///< Share of L1; the rest is L2.
};

/// Rows of 2-D logprobs are distributions and have their entropy; a 1-D tensor has one sampled
/// token per position, whose surprise -logprob estimates it.
struct Entropy {
  enum class Mode { minimize, maximize };
  Mode mode = Mode::minimize;
  Reduction reduction = Reduction::mean;
  bool normalize = false;    ///< Divide by log K; 2-D only.
  double temperature = 1.0;  ///< 2-D only.
};

/// KL between rows of 2-D logprobs and of a reference; for 1-D ones the estimator per token.
struct KlDivergence {
  enum class Direction { forward, reverse };
  std::string reference = "reference_logprobs";  ///< Key of a tensor shaped like logprobs.
  Reduction reduction = Reduction::mean;
  Direction direction = Direction::forward;  ///< KL(policy || reference) or the other; 2-D only.
  bool symmetric = false;                    ///< Half of both; 2-D only.
  KlEstimator estimator = KlEstimator::k3;   ///< 1-D only.
};

struct Consistency {
  enum class Metric { mse, l1, cosine, kl };
  std::string pair = "original_logprobs";  ///< Key of a tensor shaped like logprobs.
  Metric metric = Metric::mse;             ///< kl: symmetric, between rows; 2-D only.
  Reduction reduction = Reduction::mean;
};

/// How far rows (or columns) of 2-D logprobs are from being orthogonal. 0 for 1-D ones.
struct Orthogonality {
  enum class Mode { soft, hard, spectral };
  enum class Axis { rows, vocabulary };
  Mode mode = Mode::soft;
  bool normalize = true;  ///< Rows to length 1 first.
  Axis axis = Axis::rows;
};

/// (|gradient of `function`| - target_norm)^2 per datum. Its own slope takes a second derivative,
/// for which a central difference of gradients stands in (relative error about 1e-3).
struct GradientPenalty {
  enum class Mode { output, interpolated };
  BatchFunction function = {};  ///< Called with one datum at a time. Required.
  Mode mode = Mode::output;
  double target_norm = 1.0;
  std::string reference = "reference_logprobs";  ///< For `interpolated`.
  std::uint64_t seed = 0;                        ///< For `interpolated`: same seed, same points.
};

using Regularizer = std::variant<L1Sparsity,
                                 L2WeightDecay,
                                 ElasticNet,
                                 Entropy,
                                 KlDivergence,
                                 Consistency,
                                 Orthogonality,
                                 GradientPenalty>;

/// One regularizer of a loss.
struct RegularizerSpec {
  Regularizer kind = L1Sparsity();
  double weight = 1.0;    ///< At least 0.
  std::string name = {};  ///< Unique; the kind's own ("l1_sparsity") when empty.
  /// Key of per-token weights: 0 leaves a token (a row of 2-D logprobs) out, 0.5 counts it half.
  /// Empty for none. Orthogonality and the gradient penalty only tell 0 from the rest.
  std::string mask = {};
};

/// `base` plus weight times each regularizer, with its gradient and a report of each. Errors name
/// the regularizer and the datum.
Result<BatchFunction> regularize(BatchFunction base, std::vector<RegularizerSpec> regularizers);

}  // namespace tinker::loss
