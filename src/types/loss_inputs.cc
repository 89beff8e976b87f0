#include "types/loss_inputs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/strings.h"

namespace tinker::detail {
namespace {

bool is_optional(std::string_view input) {
  return input == "weights" || input == "sequence_ratio_mask";
}

/// How many insertions, deletions and replacements make `b` of `a`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// "a sparse tensor of float32 and shape [2, 3]"
std::string text_of(const TensorData& tensor) {
  std::string shape;
  for (const auto size :
       tensor.shape().value_or(TensorData::Shape{static_cast<std::int64_t>(tensor.size())}))
    shape += base::concat(shape.empty() ? "" : ", ", size);
  return base::concat(tensor.is_sparse() ? "a sparse" : "a dense",
                      " tensor of ",
                      to_string(tensor.dtype()),
                      " and shape [",
                      shape,
                      "]");
}

/// Where a stored value is: "[3]", or "[3, 1]" in a matrix.
std::string place_of(const TensorData& tensor, std::size_t index) {
  const auto& shape = tensor.shape();
  if (!shape || shape->size() != 2) return base::concat('[', index, ']');
  if (const auto* const csr = tensor.indices()) {
    const auto next = std::ranges::upper_bound(csr->crow, static_cast<std::int64_t>(index));
    return base::concat('[', next - csr->crow.begin() - 1, ", ", csr->col[index], ']');
  }
  const auto columns = static_cast<std::size_t>((*shape)[1]);
  return base::concat('[', index / columns, ", ", index % columns, ']');
}

std::size_t rows_of(const TensorData& tensor) {
  const auto& shape = tensor.shape();
  return shape && !shape->empty() ? static_cast<std::size_t>(shape->front()) : tensor.size();
}

// Batches have millions of numbers, so these look at them without a branch.

/// Whether all are from 0 to 2^31 - 1: none has a bit above those.
bool are_tokens(const Buffer<std::int64_t>& ids) {
  std::uint64_t bits = 0;
  for (const std::int64_t id : ids) bits |= static_cast<std::uint64_t>(id);
  return bits >> 31U == 0;
}

/// Whether none is infinite or NaN: one more in its exponent does not reach the sign.
bool are_finite(const Buffer<float>& values) {
  std::uint32_t bits = 0;
  for (const float value : values)
    bits |= (std::bit_cast<std::uint32_t>(value) & 0x7FFF'FFFFU) + 0x0080'0000U;
  return bits >> 31U == 0;
}

/// The check of one datum.
class Check {
 public:
  Check(const Datum& datum, LossFn loss, LossInputRules rules)
      : datum_(datum), loss_(loss), rules_(rules), names_(loss_input_names(loss)) {
    // An image may not say how many tokens it stands for.
    if (const auto length = datum.model_input.length(); length.ok() && *length >= 0)
      tokens_ = static_cast<std::size_t>(*length);
  }

  Result<void> run() const {
    TINKER_TRY(other_inputs());
    TINKER_TRY(required_inputs());
    TINKER_TRY(targets());
    return loss_ == LossFn::cross_entropy ? weights() : policy();
  }

 private:
  [[nodiscard]] const TensorData* find(std::string_view name) const {
    const auto found = datum_.loss_fn_inputs.find(name);
    return found == datum_.loss_fn_inputs.end() ? nullptr : &found->second;
  }

  [[nodiscard]] Result<void> other_inputs() const {
    for (const auto& [name, tensor] : datum_.loss_fn_inputs) {
      if (std::ranges::find(names_, name) != names_.end()) continue;
      if (!loss_input_dtype(name)) {
        for (const auto meant : names_) {
          if (find(meant) != nullptr || edit_distance(name, meant) > 2) continue;
          return Error::invalid_argument(base::concat(
              "loss_fn_inputs: unknown input '", name, "', did you mean '", meant, "'?"));
        }
      }
      if (rules_ != LossInputRules::engine) continue;
      return Error::invalid_argument(base::concat("loss_fn_inputs.",
                                                  name,
                                                  ": ",
                                                  to_string(loss_),
                                                  " has no such input; it takes ",
                                                  list_names(names_)));
    }
    return {};
  }

  [[nodiscard]] Result<void> required_inputs() const {
    for (const auto name : names_) {
      if (is_optional(name) || find(name) != nullptr) continue;
      if (rules_ == LossInputRules::any_server && name != "target_tokens") continue;
      return Error::invalid_argument(
          base::concat(to_string(loss_), " needs loss_fn_inputs.", name));
    }
    return {};
  }

  [[nodiscard]] Result<void> rows(std::string_view name, const TensorData& tensor) const {
    if (!tokens_ || rows_of(tensor) == *tokens_) return {};
    return Error::invalid_argument(base::concat("loss_fn_inputs.",
                                                name,
                                                " has ",
                                                rows_of(tensor),
                                                " rows; expected ",
                                                *tokens_,
                                                ", one per token"));
  }

  [[nodiscard]] Result<void> targets() const {
    const auto& targets = *find("target_tokens");
    TINKER_TRY(rows("target_tokens", targets));
    const auto& ids = targets.ints();
    if (are_tokens(ids)) return {};
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::int64_t id = ids[i];
      if (id >= 0 && id <= std::numeric_limits<std::int32_t>::max()) continue;
      return Error::invalid_argument(base::concat("loss_fn_inputs.target_tokens has ",
                                                  id,
                                                  "; expected a token of the model (at ",
                                                  place_of(targets, i),
                                                  ")"));
    }
    return {};
  }

  [[nodiscard]] Result<void> weights() const {
    const auto* const given = find("weights");
    if (given == nullptr) return {};
    TINKER_TRY(rows("weights", *given));
    const std::size_t wanted = cells_of(*find("target_tokens"));
    if (cells_of(*given) != wanted) {
      return Error::invalid_argument(base::concat("loss_fn_inputs.weights has ",
                                                  cells_of(*given),
                                                  " elements; expected ",
                                                  wanted,
                                                  ", one per target token"));
    }
    return finite("weights", *given, [](std::size_t) { return true; });
  }

  [[nodiscard]] Result<void> policy() const {
    const auto& targets = *find("target_tokens");
    const bool is_strict = rules_ == LossInputRules::engine;
    if (is_strict && tokens_ && cells_of(targets) != *tokens_)
      return Error::invalid_argument(
          base::concat(to_string(loss_), " takes one target token per position"));
    for (const auto name : names_) {
      const auto* const given = name == "target_tokens" ? nullptr : find(name);
      if (given == nullptr) continue;
      const std::string where = base::concat("loss_fn_inputs.", name);
      if (is_strict && given->is_sparse())
        return Error::invalid_argument(where + " is " + text_of(*given) +
                                       "; expected a dense one of float32");
      if (tokens_ && cells_of(*given) != *tokens_) {
        return Error::invalid_argument(base::concat(
            where, " has ", cells_of(*given), " elements; expected ", *tokens_, ", one per token"));
      }
      const bool is_sampled = name == "logprobs";
      TINKER_TRY(finite(
          name, *given, [&](std::size_t i) { return !is_sampled || uses_sampled_logprob(i); }));
    }
    return {};
  }

  /// A logprob that is not known is NaN in the official SDK, too. It does no harm where the loss
  /// does not use it.
  [[nodiscard]] bool uses_sampled_logprob(std::size_t position) const {
    if (loss_ == LossFn::dro) return true;
    const auto* counted = loss_ == LossFn::gspo ? find("sequence_ratio_mask") : nullptr;
    if (counted == nullptr) counted = find("advantages");
    return counted != nullptr && !counted->is_sparse() && position < counted->size() &&
           counted->floats()[position] != 0;
  }

  template <typename Used>
  static Result<void> finite(std::string_view name, const TensorData& tensor, const Used& is_used) {
    const auto& values = tensor.floats();
    if (are_finite(values)) return {};
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i]) || !is_used(i)) continue;
      return Error::invalid_argument(base::concat("loss_fn_inputs.",
                                                  name,
                                                  place_of(tensor, i),
                                                  " is ",
                                                  values[i],
                                                  "; expected a finite number"));
    }
    return {};
  }

  const Datum& datum_;
  LossFn loss_;
  LossInputRules rules_;
  std::span<const std::string_view> names_;
  std::optional<std::size_t> tokens_ = {};
};

}  // namespace

std::span<const std::string_view> loss_input_names(LossFn loss) {
  static constexpr std::array<std::string_view, 2> kWeighted = {"target_tokens", "weights"};
  static constexpr std::array<std::string_view, 4> kPolicy = {
      "target_tokens", "logprobs", "advantages", "sequence_ratio_mask"};
  switch (loss) {
    case LossFn::cross_entropy: return kWeighted;
    case LossFn::importance_sampling:
    case LossFn::ppo:
    case LossFn::cispo:
    case LossFn::dro: return std::span(kPolicy).first(3);
    case LossFn::gspo: return kPolicy;
    default: return {};
  }
}

std::string list_names(std::span<const std::string_view> names) {
  std::string out;
  for (const auto name : names) out += base::concat(out.empty() ? "" : ", ", name);
  return out.empty() ? "none" : out;
}

std::size_t cells_of(const TensorData& tensor) {
  if (!tensor.is_sparse()) return tensor.size();
  std::size_t out = 1;
  for (const auto size : *tensor.shape()) out *= static_cast<std::size_t>(size);
  return out;
}

Error empty_batch_error() {
  return Error::invalid_argument("no data: expected at least one datum");
}

Result<void> check_loss_inputs(const Datum& datum, LossFn loss, LossInputRules rules) {
  TINKER_TRY(check_form(datum));
  if (loss_input_names(loss).empty()) return {};
  return Check(datum, loss, rules).run();
}

Result<void> check_batch(std::span<const Datum> data, LossFn loss, LossInputRules rules) {
  if (data.empty()) return empty_batch_error();
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (auto ok = check_loss_inputs(data[i], loss, rules); !ok)
      return std::move(ok).error().with_context(base::concat("data[", i, "]"));
  }
  return {};
}

}  // namespace tinker::detail
