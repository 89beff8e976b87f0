// From examples with weights to data: cut, shifted by one, and reduced.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/strings.h"
#include "render/content.h"
#include "tinker/training_data.h"

namespace tinker {

namespace {

using base::concat;
using render::positions_of;

/// Of all chunks.
Result<std::size_t> length_of(const ModelInput& input) {
  std::size_t out = 0;
  for (const auto& chunk : input.chunks) {
    TINKER_TRY(const auto length, positions_of(chunk));
    out += length;
  }
  return out;
}

/// Takes the end off until no more than `most` positions are left.
Result<void> truncate(ModelInput& input, std::size_t most) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < input.chunks.size(); ++i) {
    TINKER_TRY(const auto more, positions_of(input.chunks[i]));
    if (length + more <= most) {
      length += more;
      continue;
    }
    auto* const text = std::get_if<EncodedTextChunk>(&input.chunks[i]);
    if (text) text->tokens.resize(most - length);
    input.chunks.resize(text ? i + 1 : i);
    return {};
  }
  return {};
}

/// Empty texts, and images at the end: nothing follows that could be learnt from them.
void drop_idle_chunks(ModelInput& input) {
  std::erase_if(input.chunks, [](const ModelInputChunk& chunk) {
    const auto* text = std::get_if<EncodedTextChunk>(&chunk);
    return text && text->tokens.empty();
  });
  while (!input.chunks.empty() && !std::holds_alternative<EncodedTextChunk>(input.chunks.back())) {
    input.chunks.pop_back();
  }
}

/// All tokens; 0 stands where an image is.
Result<std::vector<std::int64_t>> tokens_of(const ModelInput& input) {
  std::vector<std::int64_t> out;
  for (const auto& chunk : input.chunks) {
    if (const auto* text = std::get_if<EncodedTextChunk>(&chunk)) {
      out.insert(out.end(), text->tokens.begin(), text->tokens.end());
    } else {
      TINKER_TRY(const auto length, positions_of(chunk));
      out.insert(out.end(), length, 0);
    }
  }
  return out;
}

void drop_last_token(ModelInput& input) {
  auto& tokens = std::get<EncodedTextChunk>(input.chunks.back()).tokens;
  tokens.pop_back();
  if (tokens.empty()) input.chunks.pop_back();
}

/// A loss input of that name and type; null if there is none.
const TensorData* input_of(const Datum& datum, std::string_view name, TensorDtype dtype) {
  const auto found = datum.loss_fn_inputs.find(name);
  const bool fits = found != datum.loss_fn_inputs.end() && found->second.dtype() == dtype &&
                    !found->second.is_sparse();
  return fits ? &found->second : nullptr;
}

/// Whether a datum has what `to_datum` gives it, and nothing else.
Result<void> check_packable(const Datum& datum, std::size_t max_length) {
  const auto* const targets = input_of(datum, "target_tokens", TensorDtype::int64);
  const auto* const weights = input_of(datum, "weights", TensorDtype::float32);
  if (!targets || !weights) return Error::invalid_argument("no target_tokens, or no weights");
  for (const auto& [name, values] : datum.loss_fn_inputs) {
    if (&values != targets && &values != weights) {
      return Error::invalid_argument(concat("the loss input '", name, "' would be lost"));
    }
  }
  if (!datum.model_input_spans.empty()) {
    return Error::invalid_argument("the provenance of its tokens would be lost");
  }
  TINKER_TRY(const auto length, length_of(datum.model_input));
  if (targets->size() != length || weights->size() != length) {
    return Error::invalid_argument(concat(length,
                                          " inputs, ",
                                          targets->size(),
                                          " targets and ",
                                          weights->size(),
                                          " weights: they must be as many"));
  }
  if (length <= max_length) return {};
  return Error::invalid_argument(
      concat(length, " tokens are more than the ", max_length, " that fit"));
}

}  // namespace

Result<Datum> to_datum(SupervisedExample example, const DatumOptions& options) {
  ModelInput& input = example.input;
  TINKER_TRY(const auto length, length_of(input));
  if (example.weights.size() != length) {
    return Error::invalid_argument(concat("an example needs a weight for each token, this one has ",
                                          example.weights.size(),
                                          " for ",
                                          length));
  }
  if (options.max_length) {
    TINKER_TRY(truncate(input, *options.max_length));
  }
  drop_idle_chunks(input);
  TINKER_TRY(auto targets, tokens_of(input));
  if (targets.size() < 2) {
    return Error::invalid_argument(concat(
        "an example needs at least 2 tokens that end in text, this one has ", targets.size()));
  }
  targets.erase(targets.begin());
  drop_last_token(input);
  auto& weights = example.weights;
  weights.erase(weights.begin());
  weights.resize(targets.size());
  if (options.reduction == WeightReduction::mean) {
    const float sum = std::accumulate(weights.begin(), weights.end(), 0.0F);
    if (sum > 0) {
      for (float& weight : weights) weight /= sum;
    }
  }
  Datum out = {
      .model_input = std::move(input),
      .loss_fn_inputs = {{"target_tokens", std::move(targets)}, {"weights", std::move(weights)}}};
  if (options.statistics) {
    options.statistics->add(out);
    options.statistics->truncated += length > options.max_length.value_or(length) ? 1 : 0;
  }
  return out;
}

void DataStatistics::add(const Datum& datum) {
  const auto* const weights = input_of(datum, "weights", TensorDtype::float32);
  const std::size_t length = length_of(datum.model_input).value_or(0);
  std::size_t counted = 0;
  if (weights) {
    for (const float weight : weights->floats()) counted += weight != 0 ? 1 : 0;
  }
  ++data;
  tokens += length;
  trained += counted;
  longest = std::max(longest, length);
  untrained += counted == 0 ? 1 : 0;
}

Result<std::vector<Datum>> pack(std::vector<Datum> data, std::size_t max_length) {
  std::vector<Datum> out;
  std::vector<std::int64_t> targets;
  std::vector<float> weights;
  ModelInput input;
  const auto flush = [&] {
    if (weights.empty()) return;
    out.push_back({.model_input = std::exchange(input, {}),
                   .loss_fn_inputs = {{"target_tokens", std::exchange(targets, {})},
                                      {"weights", std::exchange(weights, {})}}});
  };
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (auto checked = check_packable(data[i], max_length); !checked.ok()) {
      return std::move(checked).error().with_context(concat("data[", i, "]"));
    }
    const auto& tokens = data[i].loss_fn_inputs.find("target_tokens")->second.ints();
    const auto& own = data[i].loss_fn_inputs.find("weights")->second.floats();
    if (weights.size() + own.size() > max_length) flush();
    targets.insert(targets.end(), tokens.begin(), tokens.end());
    weights.insert(weights.end(), own.begin(), own.end());
    for (auto& chunk : data[i].model_input.chunks) input.append(std::move(chunk));
  }
  flush();
  return out;
}

}  // namespace tinker
