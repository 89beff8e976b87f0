#include <array>
#include <cmath>
#include <set>

#include "base/strings.h"
#include "loss/regularizer_terms.h"

namespace tinker::loss {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Regularizer>> kNames = {
    "l1_sparsity",
    "l2_weight_decay",
    "elastic_net",
    "entropy",
    "kl_divergence",
    "consistency",
    "orthogonality",
    "gradient_penalty",
};

Result<DatumView> view_of(const Datum& datum,
                          std::span<const float> x,
                          const std::string& mask,
                          std::size_t index) {
  TINKER_TRY(const auto shape, logprobs_shape(datum, x.size()));
  if (shape.empty() || shape.size() > 2) return eval::bad_shape("1-D or 2-D logprobs", shape);
  DatumView view = {.datum = datum,
                    .x = x,
                    .rows = static_cast<std::size_t>(shape[0]),
                    .columns = shape.size() == 2 ? static_cast<std::size_t>(shape[1]) : 1,
                    .is_matrix = shape.size() == 2,
                    .index = index};
  view.weights.assign(view.rows, 1.0);
  if (!mask.empty()) {
    TINKER_TRY(view.weights, read_input(datum, mask, view.rows));
  }
  return view;
}

Result<Term> term_for(const RegularizerSpec& spec,
                      const Datum& datum,
                      std::span<const float> x,
                      std::size_t index) {
  TINKER_TRY(const DatumView view, view_of(datum, x, spec.mask, index));
  return std::visit([&](const auto& kind) { return term_of(kind, view); }, spec.kind);
}

/// Adds one regularizer to a result.
Result<void> add_regularizer(const RegularizerSpec& spec,
                             std::span<const Datum> data,
                             BatchLogprobs logprobs,
                             BatchResult& out) {
  RegularizerReport report = {.name = spec.name, .weight = spec.weight};
  double squares = 0.0;
  for (std::size_t i = 0; i < data.size(); ++i) {
    auto term = term_for(spec, data[i], logprobs[i], i);
    if (!term) {
      return term.error()
          .with_context(datum_name(i))
          .with_context(base::concat("regularizer '", spec.name, "'"));
    }
    report.value += term->value;
    for (std::size_t k = 0; k < term->slopes.size(); ++k) {
      squares += term->slopes[k] * term->slopes[k];
      out.gradients[i][k] += static_cast<float>(spec.weight * term->slopes[k]);
    }
  }
  report.contribution = spec.weight * report.value;
  report.gradient_norm = std::sqrt(squares);
  report.weighted_gradient_norm = spec.weight * report.gradient_norm;
  out.loss += report.contribution;
  out.regularizers.push_back(std::move(report));
  return {};
}

Result<void> check_gradients(const BatchResult& result, BatchLogprobs logprobs) {
  if (result.gradients.size() != logprobs.size()) {
    return eval::invalid(base::concat("expected gradients of ",
                                      logprobs.size(),
                                      " data from the base loss, found ",
                                      result.gradients.size()));
  }
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    if (result.gradients[i].size() == logprobs[i].size()) continue;
    return eval::invalid(base::concat(datum_name(i),
                                      ": expected a gradient of ",
                                      logprobs[i].size(),
                                      " elements from the base loss, found ",
                                      result.gradients[i].size()));
  }
  return {};
}

}  // namespace

Result<BatchFunction> regularize(BatchFunction base, std::vector<RegularizerSpec> regularizers) {
  if (!base) return eval::invalid("regularize needs a base loss");
  std::set<std::string_view> names;
  for (auto& spec : regularizers) {
    if (spec.name.empty()) spec.name = kNames[spec.kind.index()];
    if (!(spec.weight >= 0.0) || std::isinf(spec.weight)) {
      return eval::invalid(base::concat(
          "expected a weight of at least 0 of regularizer '", spec.name, "', found ", spec.weight));
    }
  }
  for (const auto& spec : regularizers) {
    if (names.insert(spec.name).second) continue;
    return eval::invalid(base::concat("regularizer '", spec.name, "' comes twice: name them"));
  }
  return BatchFunction(
      [base = std::move(base), regularizers = std::move(regularizers)](
          std::span<const Datum> data, BatchLogprobs logprobs) -> Result<BatchResult> {
        TINKER_TRY(check_batch(data, logprobs));
        TINKER_TRY(BatchResult out, base(data, logprobs));
        TINKER_TRY(check_gradients(out, logprobs));
        out.base_loss = out.loss;
        out.base_gradient_norm = norm_of(out.gradients);
        for (const auto& spec : regularizers) {
          TINKER_TRY(add_regularizer(spec, data, logprobs, out));
        }
        return out;
      });
}

}  // namespace tinker::loss
