#include "engine/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "engine/parts.h"

namespace tinker::engine {
namespace {

Result<void> check(const AdamParams& params) {
  TINKER_TRY(check_learning_rate(params.learning_rate));
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

std::size_t bytes_of(const OptimizerState& state) {
  const auto* const adam = std::get_if<AdamState>(&state);
  const std::size_t numbers =
      adam != nullptr ? adam->m.size() + adam->v.size() : std::get<MuonState>(state).m.size();
  return numbers * sizeof(float);
}

Resumable<OptimizerState> copy_of(const OptimizerState& state, ThreadPool& threads) {
  const auto* const adam = std::get_if<AdamState>(&state);
  const Floats& m = adam != nullptr ? adam->m : std::get<MuonState>(state).m;
  const Floats none;
  const Floats& v = adam != nullptr ? adam->v : none;
  Floats copy_of_m(m.size(), Zeroed::on_use);
  Floats copy_of_v(v.size(), Zeroed::on_use);
  for (const auto& [from, to] : {std::pair(&m, &copy_of_m), std::pair(&v, &copy_of_v)}) {
    for (std::size_t done = 0; done < from->size(); done += kNumbersOfStep) {
      for_parts(threads, done, from->size(), [&](std::size_t at, std::size_t count) {
        std::copy_n(from->data() + at, count, to->data() + at);
      });
      co_yield Cut::between;
    }
  }
  if (adam == nullptr)
    co_return OptimizerState(MuonState{.m = std::move(copy_of_m), .step = steps_of(state)});
  co_return OptimizerState(
      AdamState{.m = std::move(copy_of_m), .v = std::move(copy_of_v), .step = steps_of(state)});
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

Result<void> check_learning_rate(double learning_rate) {
  TINKER_TRY(check_finite("learning_rate", learning_rate));
  if (learning_rate >= 0) return {};
  return refuse_setting("learning_rate", learning_rate, "a finite number of at least 0");
}

Result<void> check_decay(double learning_rate, double weight_decay) {
  TINKER_TRY(check_finite("weight_decay", weight_decay));
  return check_finite("learning_rate * weight_decay", learning_rate * weight_decay);
}

Result<void> check_clipping(double grad_clip_norm) {
  if (grad_clip_norm >= 0) return {};
  return refuse_setting("grad_clip_norm", grad_clip_norm, "at least 0");
}

Resumable<double> norm_of(const Kernels& kernels,
                          ThreadPool& threads,
                          std::span<const float> values) {
  std::vector<float> parts((values.size() + kPart - 1) / kPart);
  for (std::size_t done = 0; done < values.size(); done += kNumbersOfStep) {
    for_parts(threads, done, values.size(), [&](std::size_t at, std::size_t count) {
      parts[at / kPart] = kernels.sum_of_squares(values.data() + at, count);
    });
    co_yield Cut::between;
  }
  double sum = 0;
  for (const float part : parts) sum += static_cast<double>(part);
  co_return std::sqrt(sum);
}

Resumable<double> checked_norm(const Kernels& kernels,
                               ThreadPool& threads,
                               std::span<const float> gradients,
                               std::int64_t step) {
  auto summing = norm_of(kernels, threads, gradients);
  while (summing.step()) co_yield Cut::between;
  TINKER_CO_TRY(const double norm, summing.take());
  if (std::isfinite(norm)) co_return norm;
  co_return Error{.code = ErrorCode::invalid_argument,
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

Resumable<StepReport> adam_step(const Model& model,
                                ThreadPool& threads,
                                const Adapter& adapter,
                                std::span<const float> gradients,
                                AdamParams params,
                                AdamState& state) {
  TINKER_CO_TRY(check(params));
  const auto& kernels = model.kernels();
  auto summing = checked_norm(kernels, threads, gradients, state.step + 1);
  while (summing.step()) co_yield Cut::between;
  TINKER_CO_TRY(const double norm, summing.take());
  const std::size_t n = gradients.size();
  const bool is_first = state.m.size() != n;
  AdamState first;
  if (is_first) first = {.m = Floats(n, Zeroed::on_use), .v = Floats(n, Zeroed::on_use)};
  const AdamState& moments = is_first ? first : state;
  const AdamStep step = step_of(params, state.step + 1, norm);
  // The parameters first, with moments that are forgotten; then the moments, once nothing can fail
  // any more. That takes less than a copy of them.
  Floats values(n, Zeroed::on_use);
  for (std::size_t done = 0; done < n; done += kNumbersOfStep) {
    for_parts(threads, done, n, [&](std::size_t at, std::size_t count) {
      Part m;
      Part v;
      std::copy_n(moments.m.data() + at, count, m.data());
      std::copy_n(moments.v.data() + at, count, v.data());
      std::copy_n(adapter.values().data() + at, count, values.data() + at);
      kernels.adam(step, count, gradients.data() + at, values.data() + at, m.data(), v.data());
    });
    co_yield Cut::between;
  }
  auto packing =
      Adapter::begin_with_values(model, adapter.shared_layout(), std::move(values), threads);
  while (packing.step()) co_yield Cut::between;
  TINKER_CO_TRY(auto moved, packing.take());
  for (std::size_t done = 0; done < n; done += kNumbersOfStep) {
    for_parts(threads, done, n, [&](std::size_t at, std::size_t count) {
      Part x;
      std::copy_n(adapter.values().data() + at, count, x.data());
      kernels.adam(step,
                   count,
                   gradients.data() + at,
                   x.data(),
                   moments.m.data() + at,
                   moments.v.data() + at);
    });
    co_yield Cut::committed;
  }
  if (is_first) {
    state.m = std::move(first.m);
    state.v = std::move(first.v);
  }
  ++state.step;
  co_return StepReport{.adapter = std::move(moved), .gradient_norm = norm};
}

}  // namespace tinker::engine
