// From examples with weights to data: cut, shifted by one, and reduced.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/strings.h"
#include "tinker/training_data.h"

namespace tinker {

namespace {

using base::concat;

Result<std::size_t> length_of(const ModelInputChunk& chunk) {
  if (const auto* text = std::get_if<EncodedTextChunk>(&chunk)) return text->tokens.size();
  TINKER_TRY(const auto length, ModelInput{.chunks = {chunk}}.length());
  return static_cast<std::size_t>(length);
}

/// Takes the end off until no more than `most` positions are left.
Result<void> truncate(ModelInput& input, std::size_t most) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < input.chunks.size(); ++i) {
    TINKER_TRY(const auto more, length_of(input.chunks[i]));
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
      TINKER_TRY(const auto length, length_of(chunk));
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

const Buffer<float>& weights_of(const Datum& datum) {
  return datum.loss_fn_inputs.find("weights")->second.floats();
}

}  // namespace

Result<Datum> to_datum(SupervisedExample example, const DatumOptions& options) {
  ModelInput& input = example.input;
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
  return Datum{
      .model_input = std::move(input),
      .loss_fn_inputs = {{"target_tokens", std::move(targets)}, {"weights", std::move(weights)}}};
}

void DataStatistics::add(const Datum& datum) {
  const auto& weights = weights_of(datum);
  const auto counted = std::ranges::count_if(weights, [](float weight) { return weight != 0; });
  ++data;
  tokens += weights.size();
  trained += static_cast<std::uint64_t>(counted);
  longest = std::max(longest, weights.size());
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
    const auto given = data[i].loss_fn_inputs.find("target_tokens");
    if (given == data[i].loss_fn_inputs.end() || !data[i].loss_fn_inputs.contains("weights")) {
      return Error::invalid_argument(
          concat("data[", i, "] has no target_tokens or no weights: it cannot be packed"));
    }
    const auto& own = weights_of(data[i]);
    if (own.size() > max_length) {
      return Error::invalid_argument(concat(
          "data[", i, "] has ", own.size(), " tokens, more than the ", max_length, " that fit"));
    }
    if (weights.size() + own.size() > max_length) flush();
    const auto& tokens = given->second.ints();
    targets.insert(targets.end(), tokens.begin(), tokens.end());
    weights.insert(weights.end(), own.begin(), own.end());
    for (auto& chunk : data[i].model_input.chunks) input.append(std::move(chunk));
  }
  flush();
  return out;
}

}  // namespace tinker
