#include "engine/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace tinker::engine {
namespace {

// Parameters that are one unit of work, and one part of a norm.
constexpr std::size_t kPart = 4096;

/// Of a whole; not a number is none.
bool is_share(double beta) {
  return beta >= 0 && beta < 1;
}

Result<void> check(const AdamParams& params) {
  const auto refuse = [](const char* name, double value, const char* expected) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .message = std::string(name) + " is " + std::to_string(value) + "; expected " + expected};
  };
  if (!std::isfinite(params.learning_rate))
    return refuse("learning_rate", params.learning_rate, "a finite number");
  if (!is_share(params.beta1)) return refuse("beta1", params.beta1, "0 <= beta1 < 1");
  if (!is_share(params.beta2)) return refuse("beta2", params.beta2, "0 <= beta2 < 1");
  if (!(params.eps >= 0) || !std::isfinite(params.eps))
    return refuse("eps", params.eps, "at least 0");
  if (!std::isfinite(params.weight_decay))
    return refuse("weight_decay", params.weight_decay, "a finite number");
  if (!(params.grad_clip_norm >= 0))
    return refuse("grad_clip_norm", params.grad_clip_norm, "at least 0");
  return {};
}

}  // namespace

double norm_of(const Kernels& kernels, ThreadPool& threads, std::span<const float> values) {
  std::vector<float> parts((values.size() + kPart - 1) / kPart);
  threads.run(parts.size(), [&](std::size_t i, std::size_t /*thread*/) {
    const std::size_t begin = i * kPart;
    parts[i] =
        kernels.sum_of_squares(values.data() + begin, std::min(kPart, values.size() - begin));
  });
  double sum = 0;
  for (const float part : parts) sum += static_cast<double>(part);
  return std::sqrt(sum);
}

Result<StepReport> adam_step(const Model& model,
                             ThreadPool& threads,
                             const Adapter& adapter,
                             std::span<const float> gradients,
                             const AdamParams& params,
                             AdamState& state) {
  TINKER_TRY(check(params));
  const auto& kernels = model.kernels();
  const double norm = norm_of(kernels, threads, gradients);
  if (!std::isfinite(norm)) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = "step " + std::to_string(state.step + 1) +
                            ": the norm of the gradients is " + std::to_string(norm) +
                            "; nothing was changed, and loading weights discards these gradients"};
  }
  const std::size_t n = gradients.size();
  if (state.m.size() != n) {
    state.m = Floats(n);
    state.v = Floats(n);
  }
  ++state.step;
  const auto steps = static_cast<double>(state.step);
  AdamStep step = {
      .learning_rate = static_cast<float>(params.learning_rate),
      .beta2 = static_cast<float>(params.beta2),
      .rest1 = static_cast<float>(1.0 - params.beta1),
      .rest2 = static_cast<float>(1.0 - params.beta2),
      .eps = static_cast<float>(params.eps),
      .decay = static_cast<float>(params.learning_rate * params.weight_decay),
      .correction1 = static_cast<float>(1.0 - std::pow(params.beta1, steps)),
      .correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(params.beta2, steps))),
  };
  if (params.grad_clip_norm > 0) {
    step.gradient_scale = static_cast<float>(std::min(1.0, params.grad_clip_norm / (norm + 1e-6)));
  }
  Floats values(n);
  std::memcpy(values.data(), adapter.values().data(), n * sizeof(float));
  threads.run((n + kPart - 1) / kPart, [&](std::size_t i, std::size_t /*thread*/) {
    const std::size_t at = i * kPart;
    kernels.adam(step,
                 std::min(kPart, n - at),
                 gradients.data() + at,
                 values.data() + at,
                 state.m.data() + at,
                 state.v.data() + at);
  });
  return StepReport{
      .adapter = Adapter::with_values(model, adapter.shared_layout(), std::move(values), threads),
      .gradient_norm = norm};
}

}  // namespace tinker::engine
