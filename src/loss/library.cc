// Policy losses as formulas (SERVER 2) and estimators of the KL divergence.
#include <algorithm>
#include <cmath>

#include "tinker/losses.h"

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
namespace tinker::loss {
namespace {

using Names = std::vector<CustomLossInput>;

Names names_of(const PolicyInputs& inputs) {
  return {{"logprobs", 1}, {inputs.sampling_logprobs, 1}, {inputs.advantages, 1}};
}

Value clipped_objective(const Value& ratio, const Value& advantages, ClipRange clip) {
  return -sum(min(ratio * advantages, clamp(ratio, clip.low, clip.high) * advantages));
}

}  // namespace

Result<Formula> importance_sampling(const PolicyInputs& inputs) {
  return Formula::define("importance_sampling", names_of(inputs), [&](const Inputs& in) {
    return -sum(exp(in["logprobs"] - in[inputs.sampling_logprobs]) * in[inputs.advantages]);
  });
}

Result<Formula> ppo(ClipRange clip, const PolicyInputs& inputs) {
  return Formula::define("ppo", names_of(inputs), [&](const Inputs& in) {
    const Value ratio = exp(in["logprobs"] - in[inputs.sampling_logprobs]);
    const Value outside = to_float((ratio < clip.low) | (ratio > clip.high));
    return Output(clipped_objective(ratio, in[inputs.advantages], clip),
                  {{"custom/clip_fraction:mean", mean(outside)}});
  });
}
Result<Formula> ppo() {
  return ppo(ClipRange());
}

Result<Formula> cispo(ClipRange clip, const PolicyInputs& inputs) {
  return Formula::define("cispo", names_of(inputs), [&](const Inputs& in) {
    const Value ratio = exp(in["logprobs"] - in[inputs.sampling_logprobs]);
    return -sum(detach(clamp(ratio, clip.low, clip.high)) * in["logprobs"] * in[inputs.advantages]);
  });
}
Result<Formula> cispo() {
  return cispo({.low = 0.0, .high = 4.0});
}

Result<Formula> gspo(ClipRange clip, const PolicyInputs& inputs, const std::string& mask) {
  Names names = names_of(inputs);
  names.push_back({mask, 1});
  return Formula::define("gspo", std::move(names), [&](const Inputs& in) {
    const Value counts = ne(in[mask], 0.0);
    const Value apart = in["logprobs"] - in[inputs.sampling_logprobs];
    const Value mean = sum(where(counts, apart, 0.0)) / max(sum(to_float(counts)), 1.0);
    const Value ratio = detach(exp(mean)) * exp(in["logprobs"] - detach(in["logprobs"]));
    return clipped_objective(ratio, in[inputs.advantages], clip);
  });
}
Result<Formula> gspo() {
  return gspo(ClipRange());
}

Result<Formula> dro(double beta, const PolicyInputs& inputs) {
  return Formula::define("dro", names_of(inputs), [&](const Inputs& in) {
    const Value apart = in["logprobs"] - in[inputs.sampling_logprobs];
    return -sum(in["logprobs"] * in[inputs.advantages] - 0.5 * beta * square(apart));
  });
}

Value kl(KlEstimator estimator, const Value& logprobs, const Value& reference) {
  const Value d = reference - logprobs;
  if (estimator == KlEstimator::k1) return -d;
  if (estimator == KlEstimator::k2) return 0.5 * square(d);
  return expm1(d) - d;
}

std::vector<float> kl(KlEstimator estimator,
                      std::span<const float> logprobs,
                      std::span<const float> reference) {
  std::vector<float> out(std::min(logprobs.size(), reference.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double d = double{reference[i]} - double{logprobs[i]};
    double value = std::expm1(d) - d;
    if (estimator == KlEstimator::k1) value = -d;
    if (estimator == KlEstimator::k2) value = 0.5 * d * d;
    out[i] = static_cast<float>(value);
  }
  return out;
}

}  // namespace tinker::loss
// NOLINTEND(modernize-use-designated-initializers)
