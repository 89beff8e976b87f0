#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/types/forward_backward.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/sample.h"
#include "tinker/types/sampling_params.h"
#include "tinker/types/tensor_data.h"
#include "wire/json_codec.h"

namespace tinker::wire {

// The types whose JSON does not follow from a list of members.

template <>
struct JsonCodec<Stop> {
  static constexpr std::string_view kExpected = "a string, an array of strings or of token ids";
  static bool read(JsonView value, Stop& out, Decoder& decoder);
  static void write(const Stop& in, JsonWriter& writer);
};

template <>
struct JsonCodec<TensorData> {
  static constexpr std::string_view kExpected = "a tensor";
  static bool read(JsonView value, TensorData& out, Decoder& decoder);
  static void write(const TensorData& in, JsonWriter& writer);
};

/// Known families as their types; anything else with a `type` as it came (PROTOCOL 7.12).
template <>
struct JsonCodec<OptimizerConfig> {
  static constexpr std::string_view kExpected = "an optimizer config";
  static bool read(JsonView value, OptimizerConfig& out, Decoder& decoder);
  static void write(const OptimizerConfig& in, JsonWriter& writer);
};

/// No `type` means Adam (PROTOCOL 7.13).
template <>
struct JsonCodec<OptimParams> {
  static constexpr std::string_view kExpected = "optimizer parameters";
  static bool read(JsonView value, OptimParams& out, Decoder& decoder);
  static void write(const OptimParams& in, JsonWriter& writer);
};

/// One struct member, two wire members: `adam_params` or `optimizer_params` (PROTOCOL 9.13).
template <>
struct JsonCodec<OptimStepRequest> {
  static constexpr std::string_view kExpected = "an object";
  static bool read(JsonView value, OptimStepRequest& out, Decoder& decoder);
  static void write(const OptimStepRequest& in, JsonWriter& writer);
};

/// A setting of a loss: a number or a text.
template <>
struct JsonCodec<std::variant<double, std::string>> {
  using Value = std::variant<double, std::string>;
  static constexpr std::string_view kExpected = "a number or a string";
  static bool read(JsonView value, Value& out, Decoder& decoder);
  static void write(const Value& in, JsonWriter& writer);
};

/// One struct, two forms: with `forward_backward_input` or with `forward_input` (PROTOCOL 11).
template <>
struct JsonCodec<ForwardBackwardRequest> {
  static constexpr std::string_view kExpected = "an object";
  static bool read(JsonView value, ForwardBackwardRequest& out, Decoder& decoder);
  static void write(const ForwardBackwardRequest& in, JsonWriter& writer);
};

/// One logprob per position. Null is NaN, a position that was not computed; null in place of the
/// list is an empty one.
struct LogprobsCodec {
  static constexpr std::string_view kExpected = "an array of numbers";
  static bool read(JsonView value, std::vector<float>& out, Decoder& decoder);
  static void write(const std::vector<float>& in, JsonWriter& writer);
};

/// For each position null or its cells, pairs of a token and a logprob.
template <>
struct JsonCodec<TopkLogprobs> {
  static constexpr std::string_view kExpected = "an array of lists of [token, logprob]";
  static bool read(JsonView value, TopkLogprobs& out, Decoder& decoder);
  static void write(const TopkLogprobs& in, JsonWriter& writer);
};

}  // namespace tinker::wire
