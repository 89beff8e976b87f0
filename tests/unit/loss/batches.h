#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tinker/losses.h"

namespace tinker::loss {

/// Data and logprobs that a test may change.
struct Batch {
  std::vector<Datum> data = {};
  std::vector<std::vector<float>> logprobs = {};

  [[nodiscard]] Result<BatchResult> run(const BatchFunction& function) const {
    std::vector<std::span<const float>> spans(logprobs.begin(), logprobs.end());
    return function(data, spans);
  }
};

inline Datum datum(NamedTensors inputs) {
  return {.loss_fn_inputs = std::move(inputs)};
}

/// A datum whose targets are 2-D: (rows, columns).
inline Datum matrix_datum(std::int64_t rows, std::int64_t columns, NamedTensors inputs) {
  Datum out = datum(std::move(inputs));
  out.loss_fn_inputs.emplace(
      "target_tokens",
      TensorData(
          Buffer<std::int64_t>(std::vector<std::int64_t>(static_cast<std::size_t>(rows * columns))),
          TensorData::Shape{rows, columns}));
  return out;
}

/// d loss / d logprobs by central differences. The step is a power of two, so that the moved
/// logprobs are exact in float32.
inline std::vector<std::vector<double>> finite_differences(const BatchFunction& function,
                                                           Batch batch) {
  constexpr float kStep = 0x1p-9F;
  std::vector<std::vector<double>> out;
  for (auto& logprobs : batch.logprobs) {
    auto& slopes = out.emplace_back();
    for (auto& value : logprobs) {
      const float kept = value;
      value = kept + kStep;
      const double above = batch.run(function).value().loss;
      value = kept - kStep;
      const double below = batch.run(function).value().loss;
      value = kept;
      slopes.push_back((above - below) / (2.0 * double{kStep}));
    }
  }
  return out;
}

}  // namespace tinker::loss
