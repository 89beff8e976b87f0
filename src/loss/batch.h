#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "loss/tensor.h"
#include "tinker/losses.h"

namespace tinker::loss {

/// Checks that there is one span of logprobs per datum.
Result<void> check_batch(std::span<const Datum> data, BatchLogprobs logprobs);

/// The shape of a datum's logprobs: that of its target tokens when it fits, else 1-D.
Result<TensorData::Shape> logprobs_shape(const Datum& datum, std::size_t size);

/// The datum's input of that name as numbers; an error when it is missing or has not `size`
/// elements.
Result<std::vector<double>> read_input(const Datum& datum,
                                       const std::string& key,
                                       std::size_t size);

/// "data[3]", for the context of an error.
std::string datum_name(std::size_t index);

/// Euclidean norm over all data.
double norm_of(const std::vector<std::vector<float>>& gradients);

}  // namespace tinker::loss
