// Reductions and what normalises along an axis: each one a pass over groups of elements.
#include <algorithm>
#include <cmath>
#include <limits>

#include "loss/op_table.h"
#include "loss/pointwise.h"
#include "loss/reduce.h"

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
namespace tinker::loss::eval {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The argument as a float tensor, or as the dtype given by argument `dtype`.
Result<Variable> as_float(const Call& call, std::size_t dtype) {
  TINKER_TRY(const Variable x, call.tensor(0));
  TINKER_TRY(const auto wanted, call.dtype(dtype));
  return cast(call.tape(), x, wanted.value_or(Dtype::floating));
}

Answer sum_op(const Call& call) {
  TINKER_TRY(Variable x, call.tensor(0));
  TINKER_TRY(const auto dtype, call.dtype(3));
  if (dtype) {
    TINKER_TRY(x, cast(call.tape(), x, *dtype));
  }
  TINKER_TRY(const Groups groups, groups_of(call, x, 1));
  return sum(call.tape(), x, groups);
}

Answer mean_op(const Call& call) {
  TINKER_TRY(Variable x, call.tensor(0));
  TINKER_TRY(const auto dtype, call.dtype(3));
  if (dtype) {
    TINKER_TRY(x, cast(call.tape(), x, *dtype));
  }
  TINKER_TRY(const Groups groups, groups_of(call, x, 1));
  return mean(call.tape(), x, groups);
}

/// A product's slope is the product of the others, which with a zero among them cannot be had by
/// division.
Answer prod(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  TINKER_TRY(const Groups groups, groups_of(call, x, 1));
  std::vector<double> without_zeros(groups.count, 1.0);
  std::vector<int> zeros(groups.count, 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto at = groups.target[i];
    if (x.values()[i] == 0.0) {
      zeros[at] = std::min(zeros[at] + 1, 2);
    } else {
      without_zeros[at] *= x.values()[i];
    }
  }
  Tensor out = {.shape = groups.shape, .dtype = std::max(x.dtype(), Dtype::integer)};
  for (std::size_t at = 0; at < groups.count; ++at) {
    out.values.push_back(zeros[at] > 0 ? 0.0 : without_zeros[at]);
  }
  return call.tape().record(std::move(out), {x}, [=](std::span<const double> dy, Gradients& g) {
    const auto dx = g.of(x);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      const auto at = groups.target[i];
      const double value = x.values()[i];
      if (zeros[at] == 0) dx[i] += dy[at] * (without_zeros[at] / value);
      if (zeros[at] == 1 && value == 0.0) dx[i] += dy[at] * without_zeros[at];
    }
  });
}

/// log(sum(exp(x))) of each group, from its maximum down so that nothing overflows.
std::vector<double> log_sum_exp(const Variable& x, const Groups& groups) {
  std::vector<double> top(groups.count, -kInfinity);
  for (std::size_t i = 0; i < x.size(); ++i) {
    top[groups.target[i]] = std::max(top[groups.target[i]], x.values()[i]);
  }
  for (auto& value : top) value = std::isinf(value) ? 0.0 : value;
  std::vector<double> total(groups.count, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    total[groups.target[i]] += std::exp(x.values()[i] - top[groups.target[i]]);
  }
  for (std::size_t at = 0; at < total.size(); ++at) total[at] = top[at] + std::log(total[at]);
  return total;
}

Answer logsumexp(const Call& call) {
  TINKER_TRY(const Variable given, call.tensor(0));
  TINKER_TRY(const Variable x, cast(call.tape(), given, Dtype::floating));
  TINKER_TRY(const Groups groups, groups_of(call, x, 1));
  const Tensor out = {.shape = groups.shape, .values = log_sum_exp(x, groups)};
  return call.tape().record(
      out, {x}, [x, groups, y = out.values](std::span<const double> dy, Gradients& g) {
        const auto dx = g.of(x);
        for (std::size_t i = 0; i < dx.size(); ++i) {
          const auto at = groups.target[i];
          dx[i] += dy[at] * std::exp(x.values()[i] - y[at]);
        }
      });
}

/// softmax, or its logarithm, along one axis.
template <bool kLog>
Answer softmax(const Call& call) {
  if (!call.has(1)) return invalid("softmax needs 'dim'");
  TINKER_TRY(const Variable x, as_float(call, 3));
  TINKER_TRY(const std::int64_t axis, call.integer(1));
  TINKER_TRY(const Groups groups, make_groups(call.tape(), x, {axis}, false));
  const auto total = log_sum_exp(x, groups);
  Tensor out = {.shape = x.shape()};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x.values()[i] - total[groups.target[i]];
    out.values.push_back(kLog ? value : std::exp(value));
  }
  return call.tape().record(out, {x}, [x, groups, y = out.values](auto dy, Gradients& g) {
    std::vector<double> flow(groups.count, 0.0);
    for (std::size_t i = 0; i < y.size(); ++i)
      flow[groups.target[i]] += dy[i] * (kLog ? 1.0 : y[i]);
    const auto dx = g.of(x);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double carried = flow[groups.target[i]];
      dx[i] += kLog ? dy[i] - std::exp(y[i]) * carried : y[i] * (dy[i] - carried);
    }
  });
}

/// var or std. Arguments: input, dim, unbiased, keepdim, correction.
template <bool kRoot>
Answer variance(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  if (x.dtype() != Dtype::floating) return invalid("var and std need floats");
  // torch.var(x, False) gives `unbiased` where torch.var(x, 0) gives `dim`.
  const auto* first = call[1].get_if<Number>();
  const bool biased_first = first != nullptr && first->dtype == Dtype::boolean;
  Shape axes;
  if (call.has(1) && !biased_first) {
    TINKER_TRY(axes, call.integers(1));
  }
  TINKER_TRY(const bool keep, call.flag(3));
  TINKER_TRY(const bool unbiased, call.flag(biased_first ? 1 : 2));
  double correction = unbiased ? 1.0 : 0.0;
  if (call.has(4)) {
    TINKER_TRY(correction, call.number(4));
  }
  auto& tape = call.tape();
  TINKER_TRY(const Groups wide, make_groups(tape, x, axes, true));
  TINKER_TRY(const Variable center, mean(tape, x, wide));
  TINKER_TRY(const Variable apart, pointwise(tape, functions::kSub, {x, center}));
  TINKER_TRY(const Variable squares, pointwise(tape, functions::kSquare, {apart}));
  TINKER_TRY(const Groups groups, make_groups(tape, x, axes, keep));
  TINKER_TRY(Variable out, sum(tape, squares, groups));
  const double divisor = std::max(0.0, static_cast<double>(groups.members) - correction);
  TINKER_TRY(out, pointwise(tape, functions::kDiv, {out, Variable(scalar(divisor))}));
  if (!kRoot) return out;
  static constexpr Pointwise kRootOrZero = {
      [](const double* v) { return std::sqrt(v[0]); },
      [](const double*, double y, double* d) { d[0] = y == 0.0 ? 0.0 : 0.5 / y; },
      Pointwise::Gives::floating,
      true};
  TINKER_TRY(out, pointwise(tape, kRootOrZero, {out}));
  return out;
}

template <bool kAll>
Answer any_all(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  TINKER_TRY(const Groups groups, groups_of(call, x, 1));
  Tensor out = {.shape = groups.shape, .dtype = Dtype::boolean};
  out.values.assign(groups.count, kAll ? 1.0 : 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if ((x.values()[i] != 0.0) != kAll) out.values[groups.target[i]] = kAll ? 0.0 : 1.0;
  }
  return Variable(std::move(out));
}

Answer cumsum(const Call& call) {
  TINKER_TRY(Variable x, call.tensor(0));
  TINKER_TRY(const std::int64_t axis, call.integer(1));
  TINKER_TRY(const auto dtype, call.dtype(2));
  TINKER_TRY(x, cast(call.tape(), x, dtype.value_or(std::max(x.dtype(), Dtype::integer))));
  TINKER_TRY(const Groups groups, make_groups(call.tape(), x, {axis}, false));
  Tensor out = {.shape = x.shape(), .dtype = x.dtype()};
  std::vector<double> total(groups.count, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    out.values.push_back(total[groups.target[i]] += x.values()[i]);
  }
  return call.tape().record(std::move(out), {x}, [x, groups](auto dy, Gradients& g) {
    std::vector<double> later(groups.count, 0.0);
    const auto dx = g.of(x);
    for (std::size_t i = dx.size(); i-- > 0;) dx[i] += later[groups.target[i]] += dy[i];
  });
}

}  // namespace

void add_reductions(OpTable& table) {
  using enum Where;
  constexpr std::string_view kPlain = "input, dim|axis=None, keepdim|keepdims=False, dtype=None";
  constexpr std::string_view kSoftmax = "input, dim|axis=None, _stacklevel=3, dtype=None";
  constexpr std::string_view kVariance =
      "input, dim|axis=None, unbiased=True, keepdim=False, correction=None";
  table.add(both, "sum", kPlain, sum_op);
  table.add(both, "mean", kPlain, mean_op);
  table.add(both, "prod", kPlain, prod);
  table.add(both, "any", kPlain, any_all<false>);
  table.add(both, "all", kPlain, any_all<true>);
  table.add(both, "logsumexp", kPlain, logsumexp);
  table.add(function, "softmax", kSoftmax, softmax<false>);
  table.add(function, "log_softmax", kSoftmax, softmax<true>);
  constexpr std::string_view kMethod = "input, dim|axis=None, dtype=None, _=None";
  const auto reorder = [](Function run) -> Function {
    return [run = std::move(run)](const Call& call) {
      static const auto parameters =
          parse_signature("input, dim|axis=None, _stacklevel=3, dtype=None");
      return run(Call(call.tape(), parameters, {call[0], call[1], Value(), call[2]}));
    };
  };
  table.add(method, "softmax", kMethod, reorder(softmax<false>));
  table.add(method, "log_softmax", kMethod, reorder(softmax<true>));
  table.add(both, "var", kVariance, variance<false>);
  table.add(both, "std", kVariance, variance<true>);
  table.add(both, "cumsum", "input, dim|axis, dtype=None", cumsum);
}

}  // namespace tinker::loss::eval
// NOLINTEND(modernize-use-designated-initializers)
