// Regularizers that are sums over elements: L1, L2, elastic net.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/strings.h"
#include "loss/regularizer_terms.h"

namespace tinker::loss {
namespace {

double sign(double x) {
  return (x > 0.0 ? 1.0 : 0.0) - (x < 0.0 ? 1.0 : 0.0);
}

/// What the regularizer looks at, which is also its slope by x where it is a probability.
std::vector<double> targets(RegularizerTarget target, const DatumView& view) {
  std::vector<double> out(view.x.begin(), view.x.end());
  if (target == RegularizerTarget::probabilities) {
    for (auto& value : out) value = std::exp(value);
  }
  return out;
}

/// Slopes by the target become slopes by x.
void chain(RegularizerTarget target, std::span<const double> values, Term& term) {
  if (target == RegularizerTarget::logprobs) return;
  for (std::size_t i = 0; i < values.size(); ++i) term.slopes[i] *= values[i];
}

}  // namespace

double DatumView::share(Reduction reduction, std::size_t per_row) const {
  if (reduction == Reduction::sum) return 1.0;
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  return total == 0.0 ? 0.0 : 1.0 / (total * static_cast<double>(per_row));
}

Result<Term> term_of(const L1Sparsity& kind, const DatumView& view) {
  const auto y = targets(kind.target, view);
  const double scale = kind.lambda * view.share(kind.reduction, view.columns);
  Term term;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double w = scale * view.weight(i);
    term.value += w == 0.0 ? 0.0 : w * std::abs(y[i]);
    term.slopes.push_back(w * sign(y[i]));
  }
  chain(kind.target, y, term);
  return term;
}

Result<Term> term_of(const L2WeightDecay& kind, const DatumView& view) {
  const auto given = targets(kind.target, view);
  const double scale = kind.lambda * view.share(kind.reduction, view.columns);
  const double per_element = view.share(Reduction::mean, view.columns);
  double center = kind.center.value_or(0.0);
  if (kind.center_on_mean) {
    center = 0.0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (view.weight(i) != 0.0) center += per_element * view.weight(i) * given[i];
    }
  }
  Term term;
  double flow = 0.0;  // into the mean
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double w = scale * view.weight(i);
    double y = w == 0.0 ? 0.0 : given[i] - center;
    const bool inside = !kind.clip || std::abs(y) < *kind.clip;
    if (!inside) y = std::copysign(*kind.clip, y);
    term.value += w * y * y;
    term.slopes.push_back(inside ? 2.0 * w * y : 0.0);
    flow += term.slopes.back();
  }
  if (kind.center_on_mean) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      term.slopes[i] -= flow * per_element * view.weight(i);
    }
  }
  chain(kind.target, given, term);
  return term;
}

Result<Term> term_of(const ElasticNet& kind, const DatumView& view) {
  if (kind.l1_ratio < 0.0 || kind.l1_ratio > 1.0) {
    return eval::invalid(base::concat("expected l1_ratio from 0 to 1, found ", kind.l1_ratio));
  }
  TINKER_TRY(Term term,
             term_of(L1Sparsity{.target = kind.target,
                                .reduction = kind.reduction,
                                .lambda = kind.lambda * kind.l1_ratio},
                     view));
  TINKER_TRY(const Term square,
             term_of(L2WeightDecay{.target = kind.target,
                                   .reduction = kind.reduction,
                                   .lambda = kind.lambda * (1.0 - kind.l1_ratio)},
                     view));
  term.value += square.value;
  for (std::size_t i = 0; i < term.slopes.size(); ++i) term.slopes[i] += square.slopes[i];
  return term;
}

}  // namespace tinker::loss
