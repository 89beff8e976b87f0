#include "tinker/types/forward_backward.h"

#include "base/strings.h"

namespace tinker {

Result<double> ForwardBackwardOutput::loss() const {
  if (const auto found = metrics.find("loss:sum"); found != metrics.end()) return found->second;
  double sum = 0.0;
  for (std::size_t i = 0; i < loss_fn_outputs.size(); ++i) {
    const auto found = loss_fn_outputs[i].find("elementwise_loss");
    if (found == loss_fn_outputs[i].end() || found->second.dtype() != TensorDtype::float32) {
      return Error{
          .code = ErrorCode::invalid_response,
          .message = base::concat(
              "no metric 'loss:sum', and output ", i, " has no float32 'elementwise_loss'")};
    }
    for (const float value : found->second.floats()) sum += value;
  }
  if (loss_fn_outputs.empty()) {
    return Error{.code = ErrorCode::invalid_response,
                 .message = "no metric 'loss:sum', and no outputs"};
  }
  return sum;
}

}  // namespace tinker
