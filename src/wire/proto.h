#pragma once

#include <string>

#include "tinker/result.h"
#include "tinker/types/datum.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/sample.h"
#include "tinker/types/tensor_data.h"
#include "wire/decoder.h"

namespace tinker::wire {

/// Writes one protobuf message (PROTOBUF.md; the schema is proto/tinker_public.proto) into a buffer
/// of exactly its size. Errors begin with the path of the member at fault:
/// "data[3].loss_fn_inputs.weights: expected 4 values for shape [4], found 3".
Result<std::string> encode_proto(const ForwardBackwardRequest& request);
Result<std::string> encode_proto(const Datum& datum);
Result<std::string> encode_proto(const TensorData& tensor);
Result<std::string> encode_proto(const SampleResponse& response);
Result<std::string> encode_proto(const ForwardBackwardOutput& output);

/// Reads one protobuf message. Dense tensors refer to `body` instead of copying it, and keep it
/// alive.
template <typename T>
Result<T> decode_proto(std::string body, DecodeOptions options = {});

template <>
Result<ForwardBackwardRequest> decode_proto(std::string body, DecodeOptions options);
template <>
Result<Datum> decode_proto(std::string body, DecodeOptions options);
template <>
Result<TensorData> decode_proto(std::string body, DecodeOptions options);
template <>
Result<SampleResponse> decode_proto(std::string body, DecodeOptions options);
template <>
Result<ForwardBackwardOutput> decode_proto(std::string body, DecodeOptions options);

}  // namespace tinker::wire
