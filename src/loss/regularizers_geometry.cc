// Regularizers of the shape of things: orthogonality of rows, length of a gradient.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "loss/regularizer_terms.h"

namespace tinker::loss {
namespace {

constexpr double kLeastNorm = 1e-8;

double dot(std::span<const double> a, std::span<const double> b) {
  double total = 0.0;
  for (std::size_t k = 0; k < a.size(); ++k) total += a[k] * b[k];
  return total;
}

/// The vectors to hold apart, where each element of theirs is in x, and their lengths.
/// m: (count, length)
struct Vectors {
  std::size_t count = 0;
  std::size_t length = 0;
  std::vector<double> m = {};
  std::vector<std::size_t> places = {};
  std::vector<double> norms = {};

  [[nodiscard]] std::span<double> row(std::vector<double>& of, std::size_t i) const {
    return std::span(of).subspan(i * length, length);
  }
};

Vectors vectors_of(const Orthogonality& kind, const DatumView& view) {
  std::vector<std::size_t> rows;
  for (std::size_t r = 0; r < view.rows; ++r) {
    if (view.weights[r] != 0.0) rows.push_back(r);
  }
  const bool by_row = kind.axis == Orthogonality::Axis::rows;
  Vectors out = {.count = by_row ? rows.size() : view.columns,
                 .length = by_row ? view.columns : rows.size()};
  for (std::size_t i = 0; i < out.count; ++i) {
    for (std::size_t k = 0; k < out.length; ++k) {
      out.places.push_back(by_row ? rows[i] * view.columns + k : rows[k] * view.columns + i);
      out.m.push_back(view.x[out.places.back()]);
    }
    const auto row = out.row(out.m, i);
    const double norm = std::max(std::sqrt(dot(row, row)), kLeastNorm);
    out.norms.push_back(kind.normalize ? norm : 1.0);
    for (auto& value : row) value /= out.norms.back();
  }
  return out;
}

/// The slope through m = x / |x| back to x.
void unnormalize(std::span<const double> m, double norm, std::span<double> slope) {
  const double along = norm > kLeastNorm ? dot(m, slope) : 0.0;
  for (std::size_t k = 0; k < m.size(); ++k) slope[k] = (slope[k] - along * m[k]) / norm;
}

/// What the diagonal of G = M M^T adds, and its slope by each diagonal element.
double diagonal(const Orthogonality& kind,
                const std::vector<double>& g,
                std::vector<double>& slope) {
  slope.assign(g.size(), 0.0);
  if (kind.mode == Orthogonality::Mode::soft) return 0.0;
  double value = 0.0;
  double trace = 0.0;
  for (const double element : g) trace += element - 1.0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const bool hard = kind.mode == Orthogonality::Mode::hard;
    value += hard ? (g[i] - 1.0) * (g[i] - 1.0) : 0.0;
    slope[i] = 2.0 * (hard ? g[i] - 1.0 : trace);
  }
  return kind.mode == Orthogonality::Mode::hard ? value : trace * trace;
}

/// A number in (0, 1) from a seed and a place (SplitMix64).
double unit_random(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t z = seed + (place + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return (static_cast<double>((z ^ (z >> 31U)) >> 11U) + 0.5) * 0x1p-53;
}

/// The gradient of a function of one datum at `x`.
Result<std::vector<double>> gradient_at(const GradientPenalty& kind,
                                        const DatumView& view,
                                        std::span<const double> x) {
  const std::vector<float> narrow(x.begin(), x.end());
  const std::array<std::span<const float>, 1> spans = {narrow};
  TINKER_TRY(const BatchResult found, kind.function(std::span(&view.datum, 1), spans));
  if (found.gradients.size() != 1 || found.gradients[0].size() != x.size()) {
    return eval::invalid("the function of a gradient penalty gave no gradient of one datum");
  }
  std::vector<double> out(found.gradients[0].begin(), found.gradients[0].end());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (view.weight(i) == 0.0) out[i] = 0.0;
  }
  return out;
}

}  // namespace

Result<Term> term_of(const Orthogonality& kind, const DatumView& view) {
  Term term = {.slopes = std::vector<double>(view.x.size(), 0.0)};
  if (!view.is_matrix) return term;
  Vectors v = vectors_of(kind, view);
  std::vector<double> slopes(v.m.size(), 0.0);
  std::vector<double> on_diagonal(v.count, 0.0);
  // G is never held: it would be (count, count).
  for (std::size_t i = 0; i < v.count; ++i) {
    const auto a = v.row(v.m, i);
    on_diagonal[i] = dot(a, a);
    for (std::size_t j = i + 1; j < v.count; ++j) {
      const auto b = v.row(v.m, j);
      const double g = dot(a, b);
      term.value += 2.0 * g * g;
      for (std::size_t k = 0; k < v.length; ++k) {
        slopes[i * v.length + k] += 4.0 * g * b[k];
        slopes[j * v.length + k] += 4.0 * g * a[k];
      }
    }
  }
  std::vector<double> diagonal_slopes;
  term.value += diagonal(kind, on_diagonal, diagonal_slopes);
  for (std::size_t i = 0; i < v.count; ++i) {
    const auto m = v.row(v.m, i);
    const auto slope = v.row(slopes, i);
    for (std::size_t k = 0; k < v.length; ++k) slope[k] += 2.0 * diagonal_slopes[i] * m[k];
    if (kind.normalize) unnormalize(m, v.norms[i], slope);
    for (std::size_t k = 0; k < v.length; ++k) {
      term.slopes[v.places[i * v.length + k]] = slope[k];
    }
  }
  return term;
}

/// With g = gradient of f and H its Hessian, the slope of (|g| - t)^2 is 2 (|g| - t) H g / |g|: H
/// times a direction, for which a central difference of gradients stands in.
Result<Term> term_of(const GradientPenalty& kind, const DatumView& view) {
  if (!kind.function) return eval::invalid("a gradient penalty needs a function");
  std::vector<double> at(view.x.begin(), view.x.end());
  double inner = 1.0;  // of the point by x
  if (kind.mode == GradientPenalty::Mode::interpolated) {
    TINKER_TRY(const auto reference, read_input(view.datum, kind.reference, view.x.size()));
    inner = unit_random(kind.seed, view.index);
    for (std::size_t i = 0; i < at.size(); ++i)
      at[i] = inner * at[i] + (1.0 - inner) * reference[i];
  }
  TINKER_TRY(const auto gradient, gradient_at(kind, view, at));
  const double norm = std::sqrt(dot(gradient, gradient));
  Term term = {.value = (norm - kind.target_norm) * (norm - kind.target_norm),
               .slopes = std::vector<double>(view.x.size(), 0.0)};
  if (!(norm > kLeastNorm)) return term;
  // Between the rounding of float32 points and the curvature of the gradient.
  double largest = 1.0;
  for (const double value : at) largest = std::max(largest, std::abs(value));
  const double step = 4e-3 * largest;
  std::vector<double> up = at;
  std::vector<double> down = at;
  for (std::size_t i = 0; i < at.size(); ++i) {
    up[i] += step * gradient[i] / norm;
    down[i] -= step * gradient[i] / norm;
  }
  TINKER_TRY(const auto above, gradient_at(kind, view, up));
  TINKER_TRY(const auto below, gradient_at(kind, view, down));
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double bend = (above[i] - below[i]) / (2.0 * step);
    term.slopes[i] = 2.0 * (norm - kind.target_norm) * bend * inner;
  }
  return term;
}

}  // namespace tinker::loss
