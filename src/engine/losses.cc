#include "engine/losses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "types/loss_inputs.h"

namespace tinker::engine {
namespace {

std::span<const std::string_view> settings_of(LossFn kind) {
  static constexpr std::array<std::string_view, 2> kClip = {"clip_low_threshold",
                                                            "clip_high_threshold"};
  static constexpr std::array<std::string_view, 1> kBeta = {"beta"};
  switch (kind) {
    case LossFn::ppo:
    case LossFn::cispo:
    case LossFn::gspo: return kClip;
    case LossFn::dro: return kBeta;
    default: return {};
  }
}

Result<double> setting(LossFn kind,
                       const LossFnConfig& config,
                       std::string_view name,
                       double otherwise) {
  const auto found = config.find(name);
  if (found == config.end()) return otherwise;
  const auto* number = std::get_if<double>(&found->second);
  if (number == nullptr || std::isnan(*number)) {
    const auto* text = std::get_if<std::string>(&found->second);
    return Error::invalid_argument(
        std::string(to_string(kind)) + ": loss_fn_config." + std::string(name) + " is " +
        (text == nullptr ? "nan" : "'" + *text + "'") + "; expected a number");
  }
  return *number;
}

/// The numbers of an input. Requires that the datum has it, dense.
std::vector<float> floats_of(const Datum& datum, std::string_view name) {
  return datum.loss_fn_inputs.find(name)->second.floats().to_vector();
}

/// Reads the targets and where those of each position begin.
void read_targets(const TensorData& targets, ScoredSequence& out) {
  const std::size_t n = out.tokens.size();
  out.targets.reserve(targets.size());
  for (const auto id : targets.ints()) out.targets.push_back(static_cast<std::int32_t>(id));
  if (out.targets.size() == n) return;
  for (std::size_t i = 0; i <= n; ++i) out.offsets.push_back(i * (out.targets.size() / n));
}

/// The ratio of gspo: exp(mean(logprobs - sampled)) over the positions of the mask, or, where there
/// is no mask, over those with an advantage; 1 over none.
double sequence_ratio(const TokenLoss::Inputs& inputs, std::span<const float> logprobs) {
  const auto& counted = inputs.ratio_mask.empty() ? inputs.advantages : inputs.ratio_mask;
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    if (counted[i] == 0) continue;
    sum += static_cast<double>(logprobs[i]) - static_cast<double>(inputs.logprobs[i]);
    ++count;
  }
  return count == 0 ? 1.0 : std::exp(sum / static_cast<double>(count));
}

/// Where there is nothing to gain.
std::vector<bool> zeros_of(std::span<const float> values) {
  std::vector<bool> out;
  out.reserve(values.size());
  for (const float value : values) out.push_back(value == 0);
  return out;
}

}  // namespace

Result<TokenLoss> TokenLoss::create(LossFn kind, const LossFnConfig& config) {
  if (kind == LossFn::stable_reinforce || kind == LossFn::custom) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .message = std::string(to_string(kind)) +
                   ": not a built-in loss whose definition is public; there are cross_entropy, "
                   "importance_sampling, ppo, cispo, dro, gspo and custom graphs"};
  }
  const auto known = settings_of(kind);
  for (const auto& [name, value] : config) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return Error::invalid_argument(base::concat(
        to_string(kind), ": no setting '", name, "'; it has ", tinker::detail::list_names(known)));
  }
  const bool is_cispo = kind == LossFn::cispo;
  TINKER_TRY(const double low, setting(kind, config, "clip_low_threshold", is_cispo ? 0.0 : 0.8));
  TINKER_TRY(const double high, setting(kind, config, "clip_high_threshold", is_cispo ? 4.0 : 1.2));
  TINKER_TRY(const double beta, setting(kind, config, "beta", 0.05));
  if (low > high) {
    return Error::invalid_argument(base::concat(
        to_string(kind), ": clip_low_threshold ", low, " is above clip_high_threshold ", high));
  }
  return TokenLoss(kind, low, high, beta);
}

Result<TokenLoss::Inputs> TokenLoss::read(const Datum& datum) const {
  using tinker::detail::LossInputRules;
  TINKER_TRY(tinker::detail::check_loss_inputs(datum, kind_, LossInputRules::engine));
  const auto has = [&](std::string_view name) { return datum.loss_fn_inputs.contains(name); };
  Inputs out;
  TINKER_TRY(out.sequence.tokens, datum.model_input.to_tokens());
  TINKER_TRY(out.targets, datum.loss_fn_inputs.find("target_tokens")->second.to_dense());
  read_targets(out.targets, out.sequence);
  if (kind_ == LossFn::cross_entropy) {
    if (!has("weights")) {
      out.weights.assign(out.sequence.targets.size(), 1.0F);
      return out;
    }
    TINKER_TRY(const auto weights, datum.loss_fn_inputs.find("weights")->second.to_dense());
    out.weights = weights.floats().to_vector();
    out.sequence.inert = zeros_of(out.weights);
    return out;
  }
  out.logprobs = floats_of(datum, "logprobs");
  out.advantages = floats_of(datum, "advantages");
  if (has("sequence_ratio_mask")) out.ratio_mask = floats_of(datum, "sequence_ratio_mask");
  if (kind_ != LossFn::dro) out.sequence.inert = zeros_of(out.advantages);
  return out;
}

Result<std::vector<TokenLoss::Inputs>> TokenLoss::read(std::span<const Datum> data) const {
  if (data.empty()) return tinker::detail::empty_batch_error();
  std::vector<Inputs> out;
  out.reserve(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    auto inputs = read(data[i]);
    if (!inputs) return std::move(inputs).error().with_context(base::concat("data[", i, "]"));
    out.push_back(*std::move(inputs));
  }
  return out;
}

/// -min(ratio A, clip(ratio) A) and its derivative by the logprob that the ratio grows with.
TokenLoss::Term TokenLoss::clipped(double ratio, double advantage) const {
  // Without an advantage there is nothing to gain, whatever the ratio.
  if (advantage == 0) return {};
  const double bounded = std::clamp(ratio, low_, high_);
  if (bounded * advantage < ratio * advantage) return {.loss = -bounded * advantage};
  return {.loss = -ratio * advantage, .derivative = -ratio * advantage};
}

TokenLoss::Term TokenLoss::token(double logprob, double sampled, double advantage) const {
  if (kind_ == LossFn::dro) {
    const double distance = logprob - sampled;
    return {.loss = -(logprob * advantage - 0.5 * beta_ * distance * distance),
            .derivative = -(advantage - beta_ * distance)};
  }
  if (advantage == 0) return {};  // as in `clipped`
  const double ratio = std::exp(logprob - sampled);
  if (kind_ == LossFn::ppo) return clipped(ratio, advantage);
  if (kind_ == LossFn::cispo) {
    const double weight = std::clamp(ratio, low_, high_);
    return {.loss = -weight * logprob * advantage, .derivative = -weight * advantage};
  }
  return {.loss = -ratio * advantage, .derivative = -ratio * advantage};
}

double TokenLoss::evaluate(const Inputs& inputs,
                           std::span<const float> logprobs,
                           std::span<float> elementwise,
                           std::span<float> derivatives) const {
  const double of_sequence = kind_ == LossFn::gspo ? sequence_ratio(inputs, logprobs) : 1.0;
  double loss = 0;
  for (std::size_t position = 0; position < inputs.sequence.tokens.size(); ++position) {
    double here = 0;
    for (std::size_t i = inputs.sequence.begin_of(position);
         i < inputs.sequence.begin_of(position + 1);
         ++i) {
      Term term;
      if (kind_ == LossFn::cross_entropy) {
        const auto weight = static_cast<double>(inputs.weights[i]);
        // A weight of zero means that the token does not matter, not even when it is impossible.
        if (weight != 0)
          term = {.loss = -weight * static_cast<double>(logprobs[i]), .derivative = -weight};
      } else if (kind_ == LossFn::gspo) {
        // The token's ratio is s exp(l - l'), where s and l' = l are constants: its value is s.
        term = clipped(of_sequence, static_cast<double>(inputs.advantages[i]));
      } else {
        term = token(static_cast<double>(logprobs[i]),
                     static_cast<double>(inputs.logprobs[i]),
                     static_cast<double>(inputs.advantages[i]));
      }
      here += term.loss;
      if (!derivatives.empty()) derivatives[i] = static_cast<float>(term.derivative);
    }
    loss += here;
    elementwise[position] = static_cast<float>(here);
  }
  return loss;
}

TensorData shaped_like(const TensorData& targets, std::vector<float> values) {
  const auto& shape = targets.shape();
  if (!shape) return {std::move(values)};
  return {TensorData::Values(Buffer<float>(std::move(values))), shape};
}

}  // namespace tinker::engine
