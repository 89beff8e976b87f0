// Direct preference optimization: a loss over pairs of data, with its gradient in closed form.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "loss/batch.h"

namespace tinker::loss {
namespace {

/// Sum of weight * (logprob - reference) of one datum, and the weights.
struct Side {
  double reward = 0.0;  // without beta
  std::vector<double> weights = {};
};

Result<Side> read_side(const Datum& datum,
                       std::span<const float> logprobs,
                       const DpoOptions& options) {
  TINKER_TRY(const auto reference, read_input(datum, options.reference, logprobs.size()));
  Side side;
  side.weights.assign(logprobs.size(), 1.0);
  if (datum.loss_fn_inputs.contains(options.weights)) {
    TINKER_TRY(side.weights, read_input(datum, options.weights, logprobs.size()));
  }
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    // A token that does not count must not, even if its logprob is -inf.
    if (side.weights[i] != 0.0) {
      side.reward += side.weights[i] * (double{logprobs[i]} - reference[i]);
    }
  }
  return side;
}

std::vector<float> scaled(const std::vector<double>& weights, double factor) {
  std::vector<float> out;
  out.reserve(weights.size());
  for (const double weight : weights) out.push_back(static_cast<float>(factor * weight));
  return out;
}

void add_pair(
    const Side& chosen, const Side& rejected, double beta, double share, BatchResult& out) {
  const double margin = beta * (chosen.reward - rejected.reward);
  // -log sigmoid(m), and its slope sigmoid(m) - 1, without overflow.
  const double loss = std::max(-margin, 0.0) + std::log1p(std::exp(-std::abs(margin)));
  const double slope = -1.0 / (1.0 + std::exp(margin));
  out.loss += share * loss;
  out.gradients.push_back(scaled(chosen.weights, share * slope * beta));
  out.gradients.push_back(scaled(rejected.weights, -share * slope * beta));
  out.metrics["accuracy"] += margin > 0.0 ? share : 0.0;
  out.metrics["margin"] += share * margin;
  out.metrics["chosen_reward"] += share * beta * chosen.reward;
  out.metrics["rejected_reward"] += share * beta * rejected.reward;
}

}  // namespace

BatchFunction dpo(DpoOptions options) {
  return [options = std::move(options)](std::span<const Datum> data,
                                        BatchLogprobs logprobs) -> Result<BatchResult> {
    TINKER_TRY(check_batch(data, logprobs));
    if (data.empty() || data.size() % 2 != 0) {
      return eval::invalid(base::concat("expected pairs of data, found ", data.size(), " data"));
    }
    if (!(options.beta > 0.0)) {
      return eval::invalid(base::concat("expected beta above 0, found ", options.beta));
    }
    BatchResult out;
    const double share = 2.0 / static_cast<double>(data.size());
    for (std::size_t i = 0; i < data.size(); i += 2) {
      auto chosen = read_side(data[i], logprobs[i], options);
      if (!chosen) return chosen.error().with_context(datum_name(i));
      auto rejected = read_side(data[i + 1], logprobs[i + 1], options);
      if (!rejected) return rejected.error().with_context(datum_name(i + 1));
      add_pair(*chosen, *rejected, options.beta, share, out);
    }
    out.metrics["dpo_loss"] = out.loss;
    return out;
  };
}

BatchFunction dpo() {
  return dpo(DpoOptions());
}

}  // namespace tinker::loss
