#include "loss/batch.h"

#include <cmath>

#include "base/strings.h"

namespace tinker::loss {

std::string datum_name(std::size_t index) {
  return base::concat("data[", index, "]");
}

Result<void> check_batch(std::span<const Datum> data, BatchLogprobs logprobs) {
  if (data.size() == logprobs.size()) return {};
  return eval::invalid(base::concat(
      "expected logprobs of ", data.size(), " data, found those of ", logprobs.size()));
}

Result<TensorData::Shape> logprobs_shape(const Datum& datum, std::size_t size) {
  const TensorData::Shape flat = {static_cast<std::int64_t>(size)};
  const auto targets = datum.loss_fn_inputs.find("target_tokens");
  if (targets == datum.loss_fn_inputs.end() || !targets->second.shape()) return flat;
  const auto& shape = *targets->second.shape();
  TINKER_TRY(const std::size_t count, eval::element_count(shape));
  if (count != size) {
    return eval::bad_shape(base::concat("target_tokens of ", size, " elements, like logprobs"),
                           shape);
  }
  return shape;
}

Result<std::vector<double>> read_input(const Datum& datum,
                                       const std::string& key,
                                       std::size_t size) {
  const auto found = datum.loss_fn_inputs.find(key);
  if (found == datum.loss_fn_inputs.end()) {
    return eval::invalid(base::concat("input '", key, "' is missing"));
  }
  TINKER_TRY(const TensorData dense, found->second.to_dense());
  if (dense.size() != size) {
    return eval::invalid(
        base::concat("expected ", size, " elements in input '", key, "', found ", dense.size()));
  }
  std::vector<double> out;
  out.reserve(size);
  if (dense.dtype() == TensorDtype::int64) {
    for (const auto value : dense.ints()) out.push_back(static_cast<double>(value));
  } else {
    for (const float value : dense.floats()) out.push_back(value);
  }
  return out;
}

double norm_of(const std::vector<std::vector<float>>& gradients) {
  double squares = 0.0;
  for (const auto& gradient : gradients) {
    for (const float slope : gradient) squares += double{slope} * double{slope};
  }
  return std::sqrt(squares);
}

BatchFunction batch(Formula formula) {
  return [formula = std::move(formula)](std::span<const Datum> data,
                                        BatchLogprobs logprobs) -> Result<BatchResult> {
    TINKER_TRY(check_batch(data, logprobs));
    BatchResult out;
    for (std::size_t i = 0; i < data.size(); ++i) {
      auto shape = logprobs_shape(data[i], logprobs[i].size());
      if (!shape) return shape.error().with_context(datum_name(i));
      auto found = formula.evaluate(TensorData::borrow(logprobs[i], *std::move(shape)),
                                    data[i].loss_fn_inputs);
      if (!found) return found.error().with_context(datum_name(i));
      out.loss += found->loss;
      out.gradients.push_back(std::move(found->gradient));
      for (const auto& [name, value] : found->metrics) out.metrics[name] += value;
    }
    for (auto& [name, value] : out.metrics) {
      if (name.ends_with(":mean")) value /= static_cast<double>(data.size());
    }
    return out;
  };
}

}  // namespace tinker::loss
