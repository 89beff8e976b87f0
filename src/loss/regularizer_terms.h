#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "loss/batch.h"

namespace tinker::loss {

/// One datum as a regularizer sees it.  x: (rows, columns), columns = 1 for 1-D logprobs
struct DatumView {
  const Datum& datum;
  std::span<const float> x;
  std::size_t rows = 0;
  std::size_t columns = 1;
  bool is_matrix = false;
  std::vector<double> weights = {};  ///< One per row.
  std::size_t index = 0;             ///< Of the datum in its batch.

  [[nodiscard]] double weight(std::size_t element) const { return weights[element / columns]; }
  /// 1 for a sum, one over the summed weights (of elements or rows) for a mean.
  [[nodiscard]] double share(Reduction reduction, std::size_t per_row) const;
};

/// A regularizer's value on one datum, and its slopes by x.
struct Term {
  double value = 0.0;
  std::vector<double> slopes = {};
};

Result<Term> term_of(const L1Sparsity& kind, const DatumView& view);
Result<Term> term_of(const L2WeightDecay& kind, const DatumView& view);
Result<Term> term_of(const ElasticNet& kind, const DatumView& view);
Result<Term> term_of(const Entropy& kind, const DatumView& view);
Result<Term> term_of(const KlDivergence& kind, const DatumView& view);
Result<Term> term_of(const Consistency& kind, const DatumView& view);
Result<Term> term_of(const Orthogonality& kind, const DatumView& view);
Result<Term> term_of(const GradientPenalty& kind, const DatumView& view);

}  // namespace tinker::loss
