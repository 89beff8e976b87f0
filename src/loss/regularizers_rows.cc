// Regularizers that compare distributions: entropy, KL, consistency. Rows of 2-D logprobs are
// distributions over K tokens; 1-D logprobs have one sampled token per position.
#include <algorithm>
#include <cmath>

#include "loss/regularizer_terms.h"

namespace tinker::loss {
namespace {

constexpr double kNegligible = -50.0;        // logprobs below have no entropy
constexpr double kSmallProbability = 1e-10;  // probabilities below do not diverge
constexpr double kMostApart = 100.0;         // log-ratios are cut here

using Row = std::span<const double>;

/// z = log softmax(x / T), or x itself for T = 1.
std::vector<double> tempered(Row x, double temperature) {
  std::vector<double> z(x.begin(), x.end());
  if (temperature == 1.0) return z;
  for (auto& value : z) value /= temperature;
  const double top = std::ranges::max(z);
  double total = 0.0;
  for (const double value : z) total += std::exp(value - top);
  for (auto& value : z) value -= top + std::log(total);
  return z;
}

double entropy_row(Row x, double temperature, std::span<double> slopes) {
  const auto z = tempered(x, temperature);
  double entropy = 0.0;
  for (const double value : z) entropy -= value <= kNegligible ? 0.0 : std::exp(value) * value;
  for (std::size_t k = 0; k < z.size(); ++k) {
    if (z[k] <= kNegligible) continue;
    slopes[k] = temperature == 1.0 ? -std::exp(z[k]) * (1.0 + z[k])
                                   : -std::exp(z[k]) * (z[k] + entropy) / temperature;
  }
  return entropy;
}

/// KL(p || q) of logarithms, times `scale`, with slopes by p's or by q's.
double divergence_row(Row p, Row q, double scale, bool by_p, std::span<double> slopes) {
  double total = 0.0;
  for (std::size_t k = 0; k < p.size(); ++k) {
    const double probability = std::exp(p[k]);
    if (probability <= kSmallProbability) continue;
    const double apart = std::clamp(p[k] - q[k], -kMostApart, kMostApart);
    const bool inside = apart == p[k] - q[k];
    total += probability * apart;
    const double slope =
        by_p ? probability * ((inside ? 1.0 : 0.0) + apart) : (inside ? -probability : 0.0);
    slopes[k] += scale * slope;
  }
  return scale * total;
}

/// Sums a function of rows, weighted and reduced.
template <typename OfRow>
Term over_rows(const DatumView& view, Reduction reduction, OfRow of_row) {
  Term term = {.slopes = std::vector<double>(view.x.size(), 0.0)};
  const std::vector<double> x(view.x.begin(), view.x.end());
  const double share = view.share(reduction, 1);
  for (std::size_t r = 0; r < view.rows; ++r) {
    const double scale = share * view.weights[r];
    if (scale == 0.0) continue;
    const std::size_t start = r * view.columns;
    const auto slopes = std::span(term.slopes).subspan(start, view.columns);
    term.value += scale * of_row(start, Row(x).subspan(start, view.columns), slopes);
    for (auto& slope : slopes) slope *= scale;
  }
  return term;
}

/// How a token's estimate of the divergence and its slope follow from x - reference.
double estimate(KlEstimator estimator, double x, double reference, double& slope) {
  const double d = reference - x;
  if (estimator == KlEstimator::k1) {
    slope = 1.0;
    return -d;
  }
  if (estimator == KlEstimator::k2) {
    slope = -d;
    return 0.5 * d * d;
  }
  slope = -std::expm1(d);
  return std::expm1(d) - d;
}

Term symmetric_divergence(const DatumView& view, Reduction reduction, Row reference) {
  return over_rows(view, reduction, [&](std::size_t start, Row x, std::span<double> slopes) {
    const Row r = reference.subspan(start, x.size());
    return divergence_row(x, r, 0.5, true, slopes) + divergence_row(r, x, 0.5, false, slopes);
  });
}

/// 1 - cos of the angle between x and the reference, both flattened and weighted.
Term cosine(const DatumView& view, Row reference) {
  constexpr double kLeastNorm = 1e-8;
  double xx = 0.0;
  double rr = 0.0;
  double xr = 0.0;
  for (std::size_t i = 0; i < view.x.size(); ++i) {
    const double w = view.weight(i);
    if (w == 0.0) continue;
    xx += w * double{view.x[i]} * double{view.x[i]};
    rr += w * reference[i] * reference[i];
    xr += w * double{view.x[i]} * reference[i];
  }
  const double x_norm = std::max(std::sqrt(xx), kLeastNorm);
  const double r_norm = std::max(std::sqrt(rr), kLeastNorm);
  const double cos = xr / (x_norm * r_norm);
  Term term = {.value = 1.0 - cos};
  for (std::size_t i = 0; i < view.x.size(); ++i) {
    const double w = view.weight(i);
    double slope = reference[i] / (x_norm * r_norm);
    if (std::sqrt(xx) > kLeastNorm) slope -= cos * double{view.x[i]} / (x_norm * x_norm);
    term.slopes.push_back(w == 0.0 ? 0.0 : -w * slope);
  }
  return term;
}

}  // namespace

Result<Term> term_of(const Entropy& kind, const DatumView& view) {
  if (!(kind.temperature > 0.0)) return eval::invalid("expected a temperature above 0");
  const double sign = kind.mode == Entropy::Mode::minimize ? 1.0 : -1.0;
  double factor = sign;
  if (kind.normalize && view.is_matrix && view.columns > 1) {
    factor /= std::log(static_cast<double>(view.columns));
  }
  return over_rows(view, kind.reduction, [&](std::size_t, Row x, std::span<double> slopes) {
    if (!view.is_matrix) {
      slopes[0] = -factor;
      return -factor * x[0];
    }
    const double entropy = entropy_row(x, kind.temperature, slopes);
    for (auto& slope : slopes) slope *= factor;
    return factor * entropy;
  });
}

Result<Term> term_of(const KlDivergence& kind, const DatumView& view) {
  TINKER_TRY(const auto reference, read_input(view.datum, kind.reference, view.x.size()));
  const bool reverse = kind.direction == KlDivergence::Direction::reverse;
  if (!view.is_matrix) {
    if (reverse || kind.symmetric) {
      return eval::invalid("reverse and symmetric KL need 2-D logprobs: whole distributions");
    }
    return over_rows(view, kind.reduction, [&](std::size_t at, Row x, std::span<double> slopes) {
      return estimate(kind.estimator, x[0], reference[at], slopes[0]);
    });
  }
  if (kind.symmetric) return symmetric_divergence(view, kind.reduction, reference);
  return over_rows(view, kind.reduction, [&](std::size_t start, Row x, std::span<double> slopes) {
    const Row q = Row(reference).subspan(start, x.size());
    return reverse ? divergence_row(q, x, 1.0, false, slopes)
                   : divergence_row(x, q, 1.0, true, slopes);
  });
}

Result<Term> term_of(const Consistency& kind, const DatumView& view) {
  using enum Consistency::Metric;
  TINKER_TRY(const auto other, read_input(view.datum, kind.pair, view.x.size()));
  if (kind.metric == cosine) return loss::cosine(view, other);
  if (kind.metric == kl) {
    if (!view.is_matrix) return eval::invalid("consistency by kl needs 2-D logprobs");
    return symmetric_divergence(view, kind.reduction, other);
  }
  const double share = view.share(kind.reduction, view.columns);
  Term term;
  for (std::size_t i = 0; i < view.x.size(); ++i) {
    const double scale = share * view.weight(i);
    const double apart = scale == 0.0 ? 0.0 : double{view.x[i]} - other[i];
    const double sign = (apart > 0.0 ? 1.0 : 0.0) - (apart < 0.0 ? 1.0 : 0.0);
    term.value += scale * (kind.metric == mse ? apart * apart : std::abs(apart));
    term.slopes.push_back(scale * (kind.metric == mse ? 2.0 * apart : sign));
  }
  return term;
}

}  // namespace tinker::loss
