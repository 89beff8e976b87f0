#pragma once

// TensorData to and from libtorch. Present only where libtorch is: the library does not need it.

#if __has_include(<torch/types.h>)

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include <torch/types.h>

#include "tinker/result.h"
#include "tinker/types/tensor_data.h"

namespace tinker::adapters {

/// Refers to a contiguous CPU tensor of float32 or int64 and keeps it alive; anything else is
/// converted once (floats to float32, signed integers to int64). The caller must not write to the
/// tensor while copies live. An error for bool and unsigned elements.
inline Result<TensorData> from_torch(const torch::Tensor& tensor) {
  const bool is_float = tensor.is_floating_point();
  const auto type = tensor.scalar_type();
  const bool is_signed =
      type == torch::kLong || type == torch::kInt || type == torch::kShort || type == torch::kChar;
  if (!is_float && !is_signed) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "expected a tensor of floats or signed integers"};
  }
  const auto owner = std::make_shared<const torch::Tensor>(
      tensor.detach().to(torch::kCPU, is_float ? torch::kFloat : torch::kLong).contiguous());
  const auto bytes = std::span(static_cast<const std::byte*>(owner->data_ptr()), owner->nbytes());
  TensorData::Shape shape(owner->sizes().begin(), owner->sizes().end());
  if (is_float) return TensorData(Buffer<float>::view(bytes, owner), std::move(shape));
  return TensorData(Buffer<std::int64_t>::view(bytes, owner), std::move(shape));
}

/// A copy as a CPU tensor; a sparse one is written out with `pad`.
inline Result<torch::Tensor> to_torch(const TensorData& tensor, std::int64_t pad = 0) {
  TINKER_TRY(const TensorData dense, tensor.to_dense(pad));
  const auto shape =
      dense.shape().value_or(TensorData::Shape{static_cast<std::int64_t>(dense.size())});
  torch::Tensor out =
      torch::empty(shape, dense.dtype() == TensorDtype::float32 ? torch::kFloat : torch::kLong);
  const auto bytes = std::visit([](const auto& values) { return values.bytes(); }, dense.values());
  if (!bytes.empty()) std::memcpy(out.data_ptr(), bytes.data(), bytes.size());
  return out;
}

}  // namespace tinker::adapters

#endif
