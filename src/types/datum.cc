#include "tinker/types/datum.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/strings.h"
#include "tinker/types/sample.h"
#include "types/loss_inputs.h"

namespace tinker {
namespace {

Result<void> validate_input(std::string_view name, const TensorData& tensor) {
  const auto expected = loss_input_dtype(name);
  if (expected && tensor.dtype() != *expected) {
    return Error::invalid_argument(
        base::concat("expected ", to_string(*expected), ", found ", to_string(tensor.dtype())));
  }
  return tensor.validate();
}

/// Spans must tile the field they describe; `length` is absent when it cannot be known.
Result<void> validate_spans(std::span<const ProvenanceSpan> spans,
                            std::optional<std::int64_t> length) {
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const auto& span = spans[i];
    if (span.sequence_id.empty())
      return Error::invalid_argument(base::concat("span ", i, " has no sequence_id"));
    if (span.offset < 0 || span.length < 0) {
      return Error::invalid_argument(
          base::concat("expected offset and length of at least 0 in span ",
                       i,
                       ", found ",
                       span.offset,
                       " and ",
                       span.length));
    }
    if (__builtin_add_overflow(covered, span.length, &covered)) {
      return Error::invalid_argument("the spans cover more than 64 bits can count");
    }
  }
  if (length && covered != *length) {
    return Error::invalid_argument(
        base::concat("expected spans that cover ", *length, " positions, found ", covered));
  }
  return {};
}

std::optional<std::int64_t> target_length(const NamedTensors& inputs) {
  const auto targets = inputs.find("target_tokens");
  if (targets == inputs.end() || targets->second.is_sparse()) return std::nullopt;
  const auto& shape = targets->second.shape();
  if (shape && shape->size() != 1) return std::nullopt;
  return static_cast<std::int64_t>(targets->second.size());
}

/// `values` in the element type of the named input.
Result<TensorData::Values> convert(std::string_view name, std::span<const double> values) {
  const auto dtype = loss_input_dtype(name);
  if (!dtype) {
    return Error::invalid_argument(base::concat(
        "unknown loss input '", name, "': give a TensorData, its dtype cannot be known"));
  }
  if (*dtype == TensorDtype::float32) {
    std::vector<float> floats;
    floats.reserve(values.size());
    for (const double value : values) floats.push_back(static_cast<float>(value));
    return TensorData::Values(Buffer<float>(std::move(floats)));
  }
  std::vector<std::int64_t> ints;
  ints.reserve(values.size());
  for (const double value : values) {
    if (std::isnan(value) || value < -0x1.0p63 || value >= 0x1.0p63) {
      return Error::invalid_argument(
          base::concat(name, ": expected integers of 64 bits, found ", value));
    }
    ints.push_back(static_cast<std::int64_t>(value));
  }
  return TensorData::Values(Buffer<std::int64_t>(std::move(ints)));
}

/// The built-in loss that the inputs are those of, if they are. Targets alone may be for any loss.
std::optional<LossFn> loss_of(const NamedTensors& inputs) {
  if (inputs.contains("sequence_ratio_mask")) return LossFn::gspo;
  if (inputs.contains("advantages") || inputs.contains("logprobs"))
    return LossFn::importance_sampling;
  if (inputs.contains("weights")) return LossFn::cross_entropy;
  return std::nullopt;
}

}  // namespace

std::optional<TensorDtype> loss_input_dtype(std::string_view name) {
  if (name == "target_tokens") return TensorDtype::int64;
  for (const std::string_view known : {"weights",
                                       "advantages",
                                       "logprobs",
                                       "clip_low_threshold",
                                       "clip_high_threshold",
                                       "sequence_ratio_mask"}) {
    if (name == known) return TensorDtype::float32;
  }
  return std::nullopt;
}

Result<TensorData> make_loss_input(std::string_view name, std::span<const double> values) {
  TINKER_TRY(auto converted, convert(name, values));
  return TensorData(std::move(converted), TensorData::Shape{std::ssize(values)});
}

Result<TensorData> make_loss_input(std::string_view name,
                                   const std::vector<std::vector<double>>& rows) {
  const std::size_t columns = rows.empty() ? 0 : rows.front().size();
  std::vector<double> flat;
  flat.reserve(rows.size() * columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() != columns) {
      return Error::invalid_argument(base::concat(
          name, ": expected rows of ", columns, " values, found ", rows[i].size(), " in row ", i));
    }
    flat.insert(flat.end(), rows[i].begin(), rows[i].end());
  }
  if (rows.empty()) return make_loss_input(name, flat);
  TINKER_TRY(auto converted, convert(name, flat));
  return TensorData(std::move(converted),
                    TensorData::Shape{std::ssize(rows), static_cast<std::int64_t>(columns)});
}

Datum Datum::next_token(std::vector<std::int32_t> tokens, std::size_t prompt_length) {
  if (tokens.empty()) tokens.push_back(0);  // an input for no target
  std::vector<std::int64_t> targets(tokens.begin() + 1, tokens.end());
  std::vector<float> weights(targets.size(), 1.0F);
  const std::size_t unscored = prompt_length == 0 ? 0 : prompt_length - 1;
  std::fill_n(weights.begin(), std::min(unscored, weights.size()), 0.0F);
  tokens.pop_back();
  return {
      .model_input = ModelInput::from_tokens(std::move(tokens)),
      .loss_fn_inputs = {{"target_tokens", std::move(targets)}, {"weights", std::move(weights)}}};
}

Result<Datum> Datum::episode(const ModelInput& prompt,
                             const SampledSequence& sequence,
                             float advantage) {
  auto tokens = prompt.to_tokens();
  if (!tokens) return std::move(tokens).error().with_context("prompt");
  if (tokens->empty()) return Error::invalid_argument("prompt: expected at least one token");
  if (sequence.logprobs.size() != sequence.tokens.size()) {
    return Error::invalid_argument(base::concat("sequence: expected ",
                                                sequence.tokens.size(),
                                                " logprobs, one per token, found ",
                                                sequence.logprobs.size()));
  }
  const std::size_t unscored = tokens->size() - 1;  // targets that are still prompt
  tokens->insert(tokens->end(), sequence.tokens.begin(), sequence.tokens.end());
  std::vector<float> logprobs(unscored, 0.0F);
  logprobs.insert(logprobs.end(), sequence.logprobs.begin(), sequence.logprobs.end());
  std::vector<float> advantages(unscored, 0.0F);
  advantages.resize(logprobs.size(), advantage);
  Datum out = next_token(*std::move(tokens));
  out.loss_fn_inputs.erase("weights");
  out.loss_fn_inputs["logprobs"] = std::move(logprobs);
  out.loss_fn_inputs["advantages"] = std::move(advantages);
  return out;
}

Result<void> Datum::validate(LossFn loss) const {
  return detail::check_loss_inputs(*this, loss, detail::LossInputRules::documented);
}

Result<void> validate(std::span<const Datum> data, LossFn loss) {
  return detail::check_batch(data, loss, detail::LossInputRules::documented);
}

Result<void> Datum::validate() const {
  return detail::check_loss_inputs(
      *this, loss_of(loss_fn_inputs).value_or(LossFn::custom), detail::LossInputRules::any_server);
}

Result<void> detail::check_form(const Datum& datum) {
  const auto& [model_input, loss_fn_inputs, model_input_spans, loss_fn_input_spans] = datum;
  for (const auto& [name, tensor] : loss_fn_inputs) {
    if (auto ok = validate_input(name, tensor); !ok) {
      return ok.error().with_context("loss_fn_inputs." + name);
    }
  }
  if (model_input_spans.empty() != loss_fn_input_spans.empty()) {
    return Error::invalid_argument(
        "provenance comes as a pair: fill model_input_spans and loss_fn_input_spans, or neither");
  }
  if (model_input_spans.empty()) return {};
  const auto length = model_input.length();
  if (!length) return length.error().with_context("model_input");
  if (auto ok = validate_spans(model_input_spans, *length); !ok) {
    return ok.error().with_context("model_input_spans");
  }
  if (auto ok = validate_spans(loss_fn_input_spans, target_length(loss_fn_inputs)); !ok) {
    return ok.error().with_context("loss_fn_input_spans");
  }
  return {};
}

Result<void> validate(std::span<const Datum> data) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (auto ok = data[i].validate(); !ok) {
      return ok.error().with_context(base::concat("data[", i, "]"));
    }
  }
  return {};
}

}  // namespace tinker
