#include "engine/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace tinker::engine {
namespace {

// Parameters that are one unit of work, and one part of a norm.
constexpr std::size_t kPart = 4096;

Result<void> check(const AdamParams& params) {
  TINKER_TRY(check_finite("learning_rate", params.learning_rate));
  TINKER_TRY(check_share("beta1", params.beta1));
  TINKER_TRY(check_share("beta2", params.beta2));
  // What is smaller counts as zero where it is computed, and 0 / 0 is no number.
  constexpr double kLeastEps = std::numeric_limits<float>::min();
  if (!(params.eps >= kLeastEps))
    return refuse_setting("eps", params.eps, base::concat("at least ", kLeastEps));
  TINKER_TRY(check_finite("eps", params.eps));
  TINKER_TRY(check_decay(params.learning_rate, params.weight_decay));
  return check_clipping(params.grad_clip_norm);
}

/// Step number `number` with gradients of this norm.
AdamStep step_of(const AdamParams& params, std::int64_t number, double norm) {
  const auto steps = static_cast<double>(number);
  return {
      .learning_rate = static_cast<float>(params.learning_rate),
      .beta2 = static_cast<float>(params.beta2),
      .rest1 = static_cast<float>(1.0 - params.beta1),
      .rest2 = static_cast<float>(1.0 - params.beta2),
      .eps = static_cast<float>(params.eps),
      .decay = static_cast<float>(params.learning_rate * params.weight_decay),
      .correction1 = static_cast<float>(1.0 - std::pow(params.beta1, steps)),
      .correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(params.beta2, steps))),
      .gradient_scale = clipping_scale(norm, params.grad_clip_norm),
  };
}

/// Room for numbers of one unit of work.
using Part = std::array<float, kPart>;

}  // namespace

std::int64_t steps_of(const OptimizerState& state) {
  return std::visit([](const auto& of_family) { return of_family.step; }, state);
}

std::string_view family_of(const OptimizerState& state) noexcept {
  return std::holds_alternative<AdamState>(state) ? "adamw" : "muon";
}

OptimizerState copy_of(const OptimizerState& state) {
  const auto copy = [](const Floats& values) {
    Floats out(values.size());
    std::ranges::copy(values.span(), out.data());
    return out;
  };
  if (const auto* const adam = std::get_if<AdamState>(&state))
    return AdamState{.m = copy(adam->m), .v = copy(adam->v), .step = adam->step};
  const auto& muon = std::get<MuonState>(state);
  return MuonState{.m = copy(muon.m), .step = muon.step};
}

Error refuse_setting(std::string_view name, double value, std::string_view expected) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat(name, " is ", value, "; expected ", expected)};
}

Result<void> check_share(std::string_view name, double beta) {
  if (beta >= 0 && beta < 1) return {};
  return refuse_setting(name, beta, base::concat("0 <= ", name, " < 1"));
}

Result<void> check_finite(std::string_view name, double value) {
  if (std::abs(value) <= double{std::numeric_limits<float>::max()}) return {};
  return refuse_setting(name, value, "a finite float32");
}

Result<void> check_decay(double learning_rate, double weight_decay) {
  TINKER_TRY(check_finite("weight_decay", weight_decay));
  return check_finite("learning_rate * weight_decay", learning_rate * weight_decay);
}

Result<void> check_clipping(double grad_clip_norm) {
  if (grad_clip_norm >= 0) return {};
  return refuse_setting("grad_clip_norm", grad_clip_norm, "at least 0");
}

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

Result<double> checked_norm(const Kernels& kernels,
                            ThreadPool& threads,
                            std::span<const float> gradients,
                            std::int64_t step) {
  const double norm = norm_of(kernels, threads, gradients);
  if (std::isfinite(norm)) return norm;
  return Error{.code = ErrorCode::invalid_argument,
               .message = base::concat(
                   "step ",
                   step,
                   ": the norm of the gradients is ",
                   norm,
                   "; nothing was changed, and discard_gradients() forgets these gradients")};
}

float clipping_scale(double norm, double limit) {
  return limit > 0 ? static_cast<float>(std::min(1.0, limit / (norm + 1e-6))) : 1.0F;
}

Result<StepReport> adam_step(const Model& model,
                             ThreadPool& threads,
                             const Adapter& adapter,
                             std::span<const float> gradients,
                             const AdamParams& params,
                             AdamState& state) {
  TINKER_TRY(check(params));
  const auto& kernels = model.kernels();
  TINKER_TRY(const double norm, checked_norm(kernels, threads, gradients, state.step + 1));
  const std::size_t n = gradients.size();
  const bool is_first = state.m.size() != n;
  AdamState first;
  if (is_first) first = {.m = Floats(n), .v = Floats(n)};
  const AdamState& moments = is_first ? first : state;
  const AdamStep step = step_of(params, state.step + 1, norm);
  const auto for_parts = [&](auto f) {
    threads.run((n + kPart - 1) / kPart, [&](std::size_t i, std::size_t /*thread*/) {
      f(i * kPart, std::min(kPart, n - i * kPart));
    });
  };
  // The parameters first, with moments that are forgotten; then the moments, once nothing can fail
  // any more. That takes less than a copy of them.
  Floats values(n);
  std::ranges::copy(adapter.values(), values.data());
  for_parts([&](std::size_t at, std::size_t count) {
    Part m;
    Part v;
    std::copy_n(moments.m.data() + at, count, m.data());
    std::copy_n(moments.v.data() + at, count, v.data());
    kernels.adam(step, count, gradients.data() + at, values.data() + at, m.data(), v.data());
  });
  auto moved = Adapter::with_values(model, adapter.shared_layout(), std::move(values), threads);
  for_parts([&](std::size_t at, std::size_t count) {
    Part x;
    std::copy_n(adapter.values().data() + at, count, x.data());
    kernels.adam(
        step, count, gradients.data() + at, x.data(), moments.m.data() + at, moments.v.data() + at);
  });
  if (is_first) {
    state.m = std::move(first.m);
    state.v = std::move(first.v);
  }
  ++state.step;
  return StepReport{.adapter = std::move(moved), .gradient_norm = norm};
}

}  // namespace tinker::engine
