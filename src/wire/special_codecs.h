#pragma once

#include <string_view>

#include "tinker/types/optimizer.h"
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

}  // namespace tinker::wire
