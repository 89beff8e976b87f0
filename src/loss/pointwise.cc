#include "loss/pointwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
namespace tinker::loss::eval {
namespace {

using Operands = std::array<double, kMaxOperands>;

/// How to walk all operands along one shape.
struct Plan {
  Shape shape = {};
  std::vector<std::vector<std::size_t>> offsets = {};  // per operand; empty where it is plain
};

/// A list of offsets for operands that broadcast; same-shaped ones and scalars need none.
Result<Plan> make_plan(std::span<const Variable> operands) {
  Plan plan;
  for (const auto& operand : operands) {
    TINKER_TRY(plan.shape, broadcast(plan.shape, operand.shape()));
  }
  plan.offsets.resize(operands.size());
  return plan;
}

void fill_offsets(Plan& plan, std::span<const Variable> operands, std::size_t count) {
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].shape() == plan.shape || operands[k].size() == 1) continue;
    plan.offsets[k].reserve(count);
    walk(plan.shape,
         broadcast_strides(operands[k].shape(), plan.shape),
         [&out = plan.offsets[k]](std::size_t offset) { out.push_back(offset); });
  }
}

std::size_t offset_of(const Plan& plan, const Variable& operand, std::size_t k, std::size_t i) {
  if (!plan.offsets[k].empty()) return plan.offsets[k][i];
  return operand.size() == 1 ? 0 : i;
}

Operands load(const Plan& plan, std::span<const Variable> operands, std::size_t i) {
  Operands x = {};
  for (std::size_t k = 0; k < operands.size(); ++k) {
    x[k] = operands[k].values()[offset_of(plan, operands[k], k, i)];
  }
  return x;
}

Dtype result_dtype(Pointwise::Gives gives, std::span<const Variable> operands) {
  using enum Pointwise::Gives;
  if (gives == floating) return Dtype::floating;
  if (gives == boolean) return Dtype::boolean;
  if (gives == integer) return Dtype::integer;
  return std::ranges::max(operands, {}, &Variable::dtype).dtype();
}

/// What runs a pointwise function backwards.
struct Reverse {
  Pointwise function;
  Plan plan;
  std::vector<Variable> operands;
  std::shared_ptr<const Tensor> result;

  void operator()(std::span<const double> output, Gradients& inputs) const {
    std::array<std::span<double>, kMaxOperands> sinks;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      if (operands[k].requires_gradient()) sinks[k] = inputs.of(operands[k]);
    }
    for (std::size_t i = 0; i < output.size(); ++i) {
      const Operands x = load(plan, operands, i);
      Operands slopes = {};
      function.slopes(x.data(), result->values[i], slopes.data());
      for (std::size_t k = 0; k < operands.size(); ++k) {
        if (sinks[k].empty() || (function.selects && slopes[k] == 0.0)) continue;
        sinks[k][offset_of(plan, operands[k], k, i)] += output[i] * slopes[k];
      }
    }
  }
};

}  // namespace

Result<Variable> pointwise(Tape& tape,
                           const Pointwise& function,
                           std::span<const Variable> operands) {
  TINKER_TRY(Plan plan, make_plan(operands));
  TINKER_TRY(const std::size_t count, element_count(plan.shape));
  TINKER_TRY(tape.charge(count * (operands.size() + 1)));
  fill_offsets(plan, operands, count);
  Tensor out = {.shape = plan.shape, .dtype = result_dtype(function.gives, operands)};
  out.values.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    out.values[i] = function.value(load(plan, operands, i).data());
  }
  if (function.slopes == nullptr || out.dtype != Dtype::floating) return Variable(std::move(out));
  const auto result = std::make_shared<const Tensor>(out);
  return tape.record(
      std::move(out),
      operands,
      Reverse{function, std::move(plan), {operands.begin(), operands.end()}, result});
}

Result<Variable> pointwise(Tape& tape,
                           const Pointwise& function,
                           std::initializer_list<Variable> operands) {
  return pointwise(tape, function, std::span(operands.begin(), operands.size()));
}

Result<Variable> cast(Tape& tape, const Variable& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  // A number that is not a float has no gradient to pass on.
  static constexpr Pointwise kToFloat = {[](const double* v) { return v[0]; },
                                         [](const double*, double, double* d) { d[0] = 1.0; },
                                         Pointwise::Gives::floating};
  static constexpr Pointwise kToInteger = {
      [](const double* v) { return static_cast<double>(to_integer(v[0])); },
      nullptr,
      Pointwise::Gives::integer};
  static constexpr Pointwise kToBool = {
      [](const double* v) { return v[0] != 0.0 ? 1.0 : 0.0; }, nullptr, Pointwise::Gives::boolean};
  if (dtype == Dtype::floating) return pointwise(tape, kToFloat, {x});
  return pointwise(tape, dtype == Dtype::integer ? kToInteger : kToBool, {x});
}

}  // namespace tinker::loss::eval
// NOLINTEND(modernize-use-designated-initializers)
