#include "engine/losses.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "base/strings.h"

namespace tinker::engine {
namespace {

Error invalid(std::string message) {
  return {.code = ErrorCode::invalid_argument, .message = std::move(message)};
}

std::string_view name_of(LossFn kind) {
  return tinker::detail::kEnumNames<LossFn>[static_cast<std::size_t>(kind)];
}

/// What a loss knows: names of its inputs and of its settings.
struct Known {
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> settings;
};

Known known_of(LossFn kind) {
  constexpr std::string_view kLow = "clip_low_threshold";
  constexpr std::string_view kHigh = "clip_high_threshold";
  switch (kind) {
    case LossFn::cross_entropy: return {.inputs = {"target_tokens", "weights"}, .settings = {}};
    case LossFn::importance_sampling:
      return {.inputs = {"target_tokens", "logprobs", "advantages"}, .settings = {}};
    case LossFn::ppo:
    case LossFn::cispo:
      return {.inputs = {"target_tokens", "logprobs", "advantages"}, .settings = {kLow, kHigh}};
    case LossFn::dro:
      return {.inputs = {"target_tokens", "logprobs", "advantages"}, .settings = {"beta"}};
    case LossFn::gspo:
      return {.inputs = {"target_tokens", "logprobs", "advantages", "sequence_ratio_mask"},
              .settings = {kLow, kHigh}};
    default: return {};
  }
}

std::string list(const std::vector<std::string_view>& names) {
  std::string out;
  for (const auto name : names) out += (out.empty() ? "" : ", ") + std::string(name);
  return out.empty() ? "none" : out;
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
    return invalid(std::string(name_of(kind)) + ": loss_fn_config." + std::string(name) + " is " +
                   (text == nullptr ? "nan" : "'" + *text + "'") + "; expected a number");
  }
  return *number;
}

/// "a sparse tensor of float32 and shape [2, 3]"
std::string text_of(const TensorData& tensor) {
  std::string shape;
  for (const auto size :
       tensor.shape().value_or(TensorData::Shape{static_cast<std::int64_t>(tensor.size())}))
    shape += base::concat(shape.empty() ? "" : ", ", size);
  return base::concat(tensor.is_sparse() ? "a sparse" : "a dense",
                      " tensor of ",
                      to_string(tensor.dtype()),
                      " and shape [",
                      shape,
                      "]");
}

/// How many numbers a tensor has when all are written out. Requires that it is valid.
std::size_t cells_of(const TensorData& tensor) {
  if (!tensor.is_sparse()) return tensor.size();
  std::size_t out = 1;
  for (const auto size : *tensor.shape()) out *= static_cast<std::size_t>(size);
  return out;
}

/// A float per position. Requires that the datum has it.
Result<std::vector<float>> floats_of(const Datum& datum, std::string_view name, std::size_t size) {
  const auto& tensor = datum.loss_fn_inputs.find(name)->second;
  const std::string where = "loss_fn_inputs." + std::string(name);
  if (tensor.dtype() != TensorDtype::float32 || tensor.is_sparse()) {
    return invalid(where + " is " + text_of(tensor) + "; expected a dense one of float32");
  }
  if (tensor.size() != size) {
    return invalid(where + " has " + std::to_string(tensor.size()) + " elements; expected " +
                   std::to_string(size) + ", one per token");
  }
  return std::vector<float>(tensor.floats().begin(), tensor.floats().end());
}

Result<void> check_rows(const TensorData& tensor, std::string_view name, std::size_t expected) {
  const auto& shape = tensor.shape();
  const std::size_t rows =
      shape && !shape->empty() ? static_cast<std::size_t>(shape->front()) : tensor.size();
  if (rows == expected) return {};
  return invalid("loss_fn_inputs." + std::string(name) + " has " + std::to_string(rows) +
                 " rows; expected " + std::to_string(expected) + ", one per token");
}

/// Reads the targets and where those of each position begin.
Result<void> read_targets(const TensorData& targets, ScoredSequence& out) {
  const std::size_t n = out.tokens.size();
  if (targets.dtype() != TensorDtype::int64)
    return invalid("loss_fn_inputs.target_tokens is " + text_of(targets) + "; expected int64");
  for (const auto id : targets.ints()) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      return invalid("loss_fn_inputs.target_tokens has " + std::to_string(id) +
                     "; expected a token of the model");
    }
    out.targets.push_back(static_cast<std::int32_t>(id));
  }
  if (out.targets.size() == n) return {};
  for (std::size_t i = 0; i <= n; ++i) out.offsets.push_back(i * (out.targets.size() / n));
  return {};
}

/// Reads a weight for each of the targets.
Result<std::vector<float>> read_weights(const TensorData& weights, const ScoredSequence& sequence) {
  TINKER_TRY(check_rows(weights, "weights", sequence.tokens.size()));
  // Before they are written out: a few bytes can claim any shape.
  if (cells_of(weights) != sequence.targets.size()) {
    return invalid(base::concat("loss_fn_inputs.weights has ",
                                cells_of(weights),
                                " elements; expected ",
                                sequence.targets.size(),
                                ", one per target token"));
  }
  TINKER_TRY(const auto dense, weights.to_dense());
  return std::vector<float>(dense.floats().begin(), dense.floats().end());
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
        .message = std::string(name_of(kind)) +
                   ": not a built-in loss whose definition is public; there are cross_entropy, "
                   "importance_sampling, ppo, cispo, dro, gspo and custom graphs"};
  }
  const auto known = known_of(kind);
  for (const auto& [name, value] : config) {
    if (std::ranges::find(known.settings, name) != known.settings.end()) continue;
    return invalid(std::string(name_of(kind)) + ": no setting '" + name + "'; it has " +
                   list(known.settings));
  }
  const bool is_cispo = kind == LossFn::cispo;
  TINKER_TRY(const double low, setting(kind, config, "clip_low_threshold", is_cispo ? 0.0 : 0.8));
  TINKER_TRY(const double high, setting(kind, config, "clip_high_threshold", is_cispo ? 4.0 : 1.2));
  TINKER_TRY(const double beta, setting(kind, config, "beta", 0.05));
  if (low > high) {
    return invalid(base::concat(
        name_of(kind), ": clip_low_threshold ", low, " is above clip_high_threshold ", high));
  }
  return TokenLoss(kind, low, high, beta);
}

Result<TokenLoss::Inputs> TokenLoss::read(const Datum& datum) const {
  TINKER_TRY(datum.validate());
  const auto known = known_of(kind_);
  for (const auto& [name, tensor] : datum.loss_fn_inputs) {
    if (std::ranges::find(known.inputs, name) != known.inputs.end()) continue;
    return invalid("loss_fn_inputs." + name + ": " + std::string(name_of(kind_)) +
                   " has no such input; it takes " + list(known.inputs));
  }
  const auto has = [&](std::string_view name) { return datum.loss_fn_inputs.contains(name); };
  for (const auto name : known.inputs) {
    if (has(name) || name == "weights" || name == "sequence_ratio_mask") continue;
    return invalid(std::string(name_of(kind_)) + " needs loss_fn_inputs." + std::string(name));
  }
  Inputs out;
  TINKER_TRY(out.sequence.tokens, datum.model_input.to_tokens());
  const auto& targets = datum.loss_fn_inputs.find("target_tokens")->second;
  TINKER_TRY(check_rows(targets, "target_tokens", out.sequence.tokens.size()));
  TINKER_TRY(out.targets, targets.to_dense());
  TINKER_TRY(read_targets(out.targets, out.sequence));
  const std::size_t n = out.sequence.tokens.size();
  if (kind_ == LossFn::cross_entropy) {
    if (!has("weights")) {
      out.weights.assign(out.sequence.targets.size(), 1.0F);
      return out;
    }
    TINKER_TRY(out.weights,
               read_weights(datum.loss_fn_inputs.find("weights")->second, out.sequence));
    out.sequence.inert = zeros_of(out.weights);
    return out;
  }
  if (!out.sequence.offsets.empty()) {
    return invalid(std::string(name_of(kind_)) + " takes one target token per position");
  }
  TINKER_TRY(out.logprobs, floats_of(datum, "logprobs", n));
  TINKER_TRY(out.advantages, floats_of(datum, "advantages", n));
  if (has("sequence_ratio_mask")) {
    TINKER_TRY(out.ratio_mask, floats_of(datum, "sequence_ratio_mask", n));
  }
  if (kind_ != LossFn::dro && kind_ != LossFn::gspo) out.sequence.inert = zeros_of(out.advantages);
  return out;
}

TokenLoss::Term TokenLoss::token(double logprob, double sampled, double advantage) const {
  if (kind_ == LossFn::dro) {
    const double distance = logprob - sampled;
    return {.loss = -(logprob * advantage - 0.5 * beta_ * distance * distance),
            .derivative = -(advantage - beta_ * distance)};
  }
  // Without an advantage there is nothing to gain, whatever the ratio.
  if (advantage == 0) return {};
  const double ratio = std::exp(logprob - sampled);
  const double clipped = std::clamp(ratio, low_, high_);
  switch (kind_) {
    case LossFn::ppo:
      if (clipped * advantage < ratio * advantage) return {.loss = -clipped * advantage};
      break;
    case LossFn::cispo:
      return {.loss = -clipped * logprob * advantage, .derivative = -clipped * advantage};
    default: break;
  }
  return {.loss = -ratio * advantage, .derivative = -ratio * advantage};
}

double TokenLoss::sequence_ratio(const Inputs& inputs,
                                 std::span<const float> logprobs,
                                 std::span<float> elementwise,
                                 std::span<float> derivatives) const {
  const std::size_t n = logprobs.size();
  const auto counts = [&](std::size_t i) {
    return inputs.ratio_mask.empty() ? inputs.advantages[i] != 0 : inputs.ratio_mask[i] != 0;
  };
  double sum = 0;
  std::size_t counted = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!counts(i)) continue;
    sum += static_cast<double>(logprobs[i]) - static_cast<double>(inputs.logprobs[i]);
    ++counted;
  }
  const double ratio = counted == 0 ? 1.0 : std::exp(sum / static_cast<double>(counted));
  const double clipped = std::clamp(ratio, low_, high_);
  double loss = 0;
  double by_ratio = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto advantage = static_cast<double>(inputs.advantages[i]);
    elementwise[i] = 0;
    if (advantage == 0) continue;
    const bool is_clipped = clipped * advantage < ratio * advantage;
    const double value = -(is_clipped ? clipped : ratio) * advantage;
    if (!is_clipped) by_ratio -= advantage;
    elementwise[i] = static_cast<float>(value);
    loss += value;
  }
  if (derivatives.empty()) return loss;
  for (std::size_t i = 0; i < n; ++i) {
    derivatives[i] =
        counts(i) ? static_cast<float>(by_ratio * ratio / static_cast<double>(counted)) : 0.0F;
  }
  return loss;
}

double TokenLoss::evaluate(const Inputs& inputs,
                           std::span<const float> logprobs,
                           std::span<float> elementwise,
                           std::span<float> derivatives) const {
  if (kind_ == LossFn::gspo) return sequence_ratio(inputs, logprobs, elementwise, derivatives);
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
