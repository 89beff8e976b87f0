#include "engine/muon.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "engine/parts.h"

// A factor is U: (rank, columns), as the parameters have it; B lies transposed, and what is done to
// it does not mind. The iteration X <- (a + b S + c S^2) X with S = X X^T multiplies X by
// polynomials of the first S, so it is run on S alone, (rank, rank), in doubles, and their product
// applied once: U is read twice instead of ten times. In singular values both are the same.
namespace tinker::engine {
namespace {

// A quintic that takes singular values from [0.003, 1] to about [0.7, 1.2] in five steps
// (K. Jordan, "Muon: an optimizer for hidden layers", 2024).
constexpr double kA = 3.4445;
constexpr double kB = -4.7750;
constexpr double kC = 2.0315;
constexpr int kIterations = 5;

// Columns of a factor that are looked at together: they stay in the cache.
constexpr std::size_t kBlock = 512;
// Factors that one step updates.
constexpr std::size_t kFactorsOfStep = 16;

using Square = std::vector<double>;  // (rank, rank)

/// Sums in eight lanes, the same on every machine.
double dot(const float* x, const float* y, std::size_t n) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(y[i + lane]);
  }
  for (; i < n; ++i) sums[i % kLanes] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  double out = 0;
  for (const double sum : sums) out += sum;
  return out;
}

Square product(const Square& x, const Square& y, std::size_t rank) {
  Square out(rank * rank);
  for (std::size_t i = 0; i < rank; ++i) {
    for (std::size_t k = 0; k < rank; ++k) {
      const double factor = x[i * rank + k];
      for (std::size_t j = 0; j < rank; ++j) out[i * rank + j] += factor * y[k * rank + j];
    }
  }
  return out;
}

/// What makes U orthogonal when it is multiplied by it from the left; `s` is U U^T. Nothing for a U
/// of zeros.
Square orthogonaliser(Square s, std::size_t rank) {
  double norm_squared = 0;
  for (std::size_t i = 0; i < rank; ++i) norm_squared += s[i * rank + i];
  if (norm_squared == 0) return Square(rank * rank);
  for (double& value : s) value /= norm_squared;
  Square out(rank * rank);
  for (std::size_t i = 0; i < rank; ++i) out[i * rank + i] = 1 / std::sqrt(norm_squared);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    auto step = product(s, s, rank);
    for (std::size_t i = 0; i < step.size(); ++i) step[i] = kC * step[i] + kB * s[i];
    for (std::size_t i = 0; i < rank; ++i) step[i * rank + i] += kA;
    out = product(step, out, rank);
    if (iteration + 1 < kIterations) s = product(product(step, s, rank), step, rank);
  }
  return out;
}

/// A factor, its gradients, its momentum and itself before the step, and where it goes.
struct Factor {
  std::size_t rank = 0;
  std::size_t columns = 0;
  const float* g = nullptr;
  const float* m = nullptr;
  const float* before = nullptr;
  float* values = nullptr;
};

struct Settings {
  double learning_rate = 0;
  float momentum = 0;
  float rest = 0;   // 1 - momentum
  float decay = 0;  // learning rate times weight decay
  float gradient_scale = 1;
};

/// What the momentum becomes by a gradient.
float momentum_after(const Settings& settings, float m, float g) {
  return settings.momentum * m + settings.rest * (settings.gradient_scale * g);
}

/// Some columns of U = momentum m + (1 - momentum) g, Nesterov's, with the m after the step. u:
/// (rank, kBlock)
void read_block(const Factor& factor,
                const Settings& settings,
                std::size_t begin,
                std::size_t count,
                float* u) {
  for (std::size_t r = 0; r < factor.rank; ++r) {
    const float* const g = factor.g + r * factor.columns + begin;
    const float* const m = factor.m + r * factor.columns + begin;
    for (std::size_t i = 0; i < count; ++i)
      u[r * kBlock + i] = momentum_after(settings, momentum_after(settings, m[i], g[i]), g[i]);
  }
}

/// The parameters, not the momentum.
void update(const Factor& factor, const Settings& settings) {
  const std::size_t rank = factor.rank;
  std::vector<float> u(rank * kBlock);
  const auto for_blocks = [&](auto f) {
    for (std::size_t begin = 0; begin < factor.columns; begin += kBlock) {
      const std::size_t count = std::min(kBlock, factor.columns - begin);
      read_block(factor, settings, begin, count, u.data());
      f(begin, count);
    }
  };
  Square s(rank * rank);
  for_blocks([&](std::size_t /*begin*/, std::size_t count) {
    for (std::size_t i = 0; i < rank; ++i) {
      for (std::size_t k = 0; k <= i; ++k)
        s[i * rank + k] += dot(u.data() + i * kBlock, u.data() + k * kBlock, count);
    }
  });
  for (std::size_t i = 0; i < rank; ++i) {
    for (std::size_t k = 0; k < i; ++k) s[k * rank + i] = s[i * rank + k];
  }
  const auto by = orthogonaliser(std::move(s), rank);
  // An orthogonal matrix has a root mean square of 1 / sqrt(longer side). AdamW's steps have about
  // 0.2, so its learning rates fit (Liu et al., "Muon is scalable for LLM training", 2025).
  const double scale =
      0.2 * std::sqrt(static_cast<double>(std::max(rank, factor.columns))) * settings.learning_rate;
  std::array<float, kBlock> change = {};
  for_blocks([&](std::size_t begin, std::size_t count) {
    for (std::size_t i = 0; i < rank; ++i) {
      change.fill(0);
      for (std::size_t k = 0; k < rank; ++k) {
        const auto weight = static_cast<float>(scale * by[i * rank + k]);
        for (std::size_t j = 0; j < count; ++j) change[j] += weight * u[k * kBlock + j];
      }
      const float* const before = factor.before + i * factor.columns + begin;
      float* const values = factor.values + i * factor.columns + begin;
      for (std::size_t j = 0; j < count; ++j) {
        values[j] = before[j] - settings.decay * before[j];
        values[j] -= change[j];
      }
    }
  });
}

Result<void> check(const MuonParams& params) {
  TINKER_TRY(check_learning_rate(params.learning_rate));
  TINKER_TRY(check_share("momentum", params.momentum));
  TINKER_TRY(check_decay(params.learning_rate, params.weight_decay));
  return check_clipping(params.grad_clip_norm);
}

}  // namespace

Resumable<StepReport> muon_step(const Model& model,
                                ThreadPool& threads,
                                const Adapter& adapter,
                                std::span<const float> gradients,
                                MuonParams params,
                                MuonState& state) {
  TINKER_CO_TRY(check(params));
  auto summing = checked_norm(model.kernels(), threads, gradients, state.step + 1);
  while (summing.step()) co_yield Cut::between;
  TINKER_CO_TRY(const double norm, summing.take());
  const std::size_t n = gradients.size();
  const bool is_first = state.m.size() != n;
  Floats first(is_first ? n : 0, Zeroed::on_use);
  const Settings settings = {
      .learning_rate = params.learning_rate,
      .momentum = static_cast<float>(params.momentum),
      .rest = static_cast<float>(1.0 - params.momentum),
      .decay = static_cast<float>(params.learning_rate * params.weight_decay),
      .gradient_scale = clipping_scale(norm, params.grad_clip_norm),
  };
  Floats values(n, Zeroed::on_use);
  std::vector<Factor> factors;
  const auto add = [&](std::size_t begin, std::size_t columns) {
    factors.push_back({.rank = adapter.layout().config().rank,
                       .columns = columns,
                       .g = gradients.data() + begin,
                       .m = (is_first ? first : state.m).data() + begin,
                       .before = adapter.values().data() + begin,
                       .values = values.data() + begin});
  };
  for (const auto& module : adapter.layout().modules()) {
    add(module.a, module.in);
    add(module.b, module.out);
  }
  // The longest first, so that no thread is left alone with it.
  std::ranges::sort(factors, std::ranges::greater(), &Factor::columns);
  for (std::size_t done = 0; done < factors.size(); done += kFactorsOfStep) {
    const auto some =
        std::span(factors).subspan(done).first(std::min(kFactorsOfStep, factors.size() - done));
    threads.run(some.size(),
                [&](std::size_t i, std::size_t /*thread*/) { update(some[i], settings); });
    co_yield Cut::between;
  }
  auto packing =
      Adapter::begin_with_values(model, adapter.shared_layout(), std::move(values), threads);
  while (packing.step()) co_yield Cut::between;
  TINKER_CO_TRY(auto moved, packing.take());
  const Floats& m = is_first ? first : state.m;
  for (std::size_t done = 0; done < n; done += kNumbersOfStep) {
    for_parts(threads, done, n, [&](std::size_t at, std::size_t count) {
      for (std::size_t i = at; i < at + count; ++i)
        m[i] = momentum_after(settings, m[i], gradients[i]);
    });
    co_yield Cut::committed;
  }
  if (is_first) state.m = std::move(first);
  ++state.step;
  co_return StepReport{.adapter = std::move(moved), .gradient_norm = norm};
}

}  // namespace tinker::engine
