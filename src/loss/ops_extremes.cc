// Maxima, minima and norms.
#include <algorithm>
#include <cmath>
#include <limits>

#include "loss/elementwise.h"
#include "loss/op_table.h"
#include "loss/reduce.h"

namespace tinker::loss::eval {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Which element of each group is the greatest (or smallest): the first of equals, or of NaNs.
template <bool kMax>
std::vector<std::size_t> winners(const Variable& x, const Groups& groups) {
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> best(groups.count, kNone);
  const auto& values = x.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto& at = best[groups.target[i]];
    const bool better =
        at == kNone ||
        (!std::isnan(values[at]) &&
         (std::isnan(values[i]) || (kMax ? values[i] > values[at] : values[i] < values[at])));
    if (better) at = i;
  }
  return best;
}

Result<void> refuse_empty(const Variable& x, const Groups& groups) {
  if (groups.members > 0) return {};
  return bad_shape("at least one element to choose from", x.shape());
}

/// The extreme of each group; elements equal to it share the gradient.
template <bool kMax>
Answer shared_extreme(const Call& call, const Variable& x, const Groups& groups) {
  TINKER_TRY(refuse_empty(x, groups));
  Tensor out = {.shape = groups.shape, .dtype = x.dtype()};
  for (const auto at : winners<kMax>(x, groups)) out.values.push_back(x.values()[at]);
  return call.tape().record(out, {x}, [x, groups, y = out.values](auto dy, Gradients& g) {
    std::vector<double> equals(groups.count, 0.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x.values()[i] == y[groups.target[i]]) equals[groups.target[i]] += 1.0;
    }
    const auto dx = g.of(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto at = groups.target[i];
      if (x.values()[i] == y[at]) dx[i] += dy[at] / equals[at];
    }
  });
}

/// Places along `axis` of elements given by their index in the whole tensor.
Tensor places(const Variable& x,
              const Shape& shape,
              const std::vector<std::size_t>& found,
              std::size_t axis) {
  Tensor out = {.shape = shape, .dtype = Dtype::integer};
  const auto strides = row_major_strides(x.shape());
  for (const auto at : found) {
    const auto extent = x.rank() == 0 ? 1 : static_cast<std::size_t>(x.shape()[axis]);
    out.values.push_back(static_cast<double>(x.rank() == 0 ? 0 : at / strides[axis] % extent));
  }
  return out;
}

/// torch.max(x), torch.max(x, other) or torch.max(x, dim, keepdim) -> (values, indices).
template <bool kMax>
Answer extreme(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  auto& tape = call.tape();
  if (!call.has(1)) {
    TINKER_TRY(const Groups groups, make_groups(tape, x, {}, false));
    return shared_extreme<kMax>(call, x, groups);
  }
  if (call[1].get_if<Variable>() != nullptr) {
    const auto* maximum =
        OpTable::instance().find_function(kMax ? "torch.maximum" : "torch.minimum");
    return maximum->run(call);
  }
  TINKER_TRY(const std::int64_t dim, call.integer(1));
  TINKER_TRY(const bool keep, call.flag(2));
  TINKER_TRY(const std::size_t axis, normalize_axis(dim, x.rank()));
  TINKER_TRY(const Groups groups, make_groups(tape, x, {dim}, keep));
  TINKER_TRY(refuse_empty(x, groups));
  const auto best = winners<kMax>(x, groups);
  Tensor out = {.shape = groups.shape, .dtype = x.dtype()};
  for (const auto at : best) out.values.push_back(x.values()[at]);
  const Variable values = tape.record(std::move(out), {x}, [x, best](auto dy, Gradients& g) {
    const auto dx = g.of(x);
    for (std::size_t i = 0; i < best.size(); ++i) dx[best[i]] += dy[i];
  });
  const Variable indices(places(x, groups.shape, best, axis));
  return Sequence{.items = {values, indices}, .is_extreme = true};
}

template <bool kMax>
Answer shared(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  TINKER_TRY(const Groups groups, groups_of(call, x, 1));
  return shared_extreme<kMax>(call, x, groups);
}

template <bool kMax>
Answer arg_extreme(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  TINKER_TRY(const Groups groups, groups_of(call, x, 1));
  TINKER_TRY(refuse_empty(x, groups));
  const auto best = winners<kMax>(x, groups);
  if (!call.has(1)) {
    return Variable(Tensor{
        .shape = groups.shape, .dtype = Dtype::integer, .values = {static_cast<double>(best[0])}});
  }
  TINKER_TRY(const std::int64_t dim, call.integer(1));
  TINKER_TRY(const std::size_t axis, normalize_axis(dim, x.rank()));
  return Variable(places(x, groups.shape, best, axis));
}

double norm_slope(double x, double y, double p) {
  if (y == 0.0) return 0.0;
  if (p == 1.0) return (x > 0.0 ? 1.0 : 0.0) - (x < 0.0 ? 1.0 : 0.0);
  if (p == 2.0) return x / y;
  if (x == 0.0) return 0.0;
  return std::copysign(std::pow(std::abs(x) / y, p - 1.0), x);
}

Result<Variable> p_norm(Tape& tape, const Variable& x, const Groups& groups, double p) {
  Tensor out = {.shape = groups.shape};
  out.values.assign(groups.count, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double size = std::abs(x.values()[i]);
    out.values[groups.target[i]] += p == 2.0 ? size * size : std::pow(size, p);
  }
  for (auto& value : out.values) value = p == 2.0 ? std::sqrt(value) : std::pow(value, 1.0 / p);
  return tape.record(out, {x}, [x, groups, p, y = out.values](auto dy, Gradients& g) {
    const auto dx = g.of(x);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      const auto at = groups.target[i];
      dx[i] += dy[at] * norm_slope(x.values()[i], y[at], p);
    }
  });
}

/// Arguments: input, p, dim, keepdim.
Answer norm(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  if (x.dtype() != Dtype::floating) return invalid("a norm needs floats");
  double p = 2.0;
  if (call[1].get_if<std::string>() == nullptr && call.has(1)) {
    TINKER_TRY(p, call.number(1));
  } else if (call.has(1)) {
    TINKER_TRY(const std::string name, call.text(1));
    if (name != "fro") return invalid("unknown norm '" + name + "'");
  }
  TINKER_TRY(const Groups groups, groups_of(call, x, 2));
  if (p == kInfinity || p == -kInfinity) {
    TINKER_TRY(const Variable sizes, pointwise(call.tape(), functions::kAbs, {x}));
    return p > 0.0 ? shared_extreme<true>(call, sizes, groups)
                   : shared_extreme<false>(call, sizes, groups);
  }
  if (p <= 0.0) return invalid("a norm needs a positive order");
  return p_norm(call.tape(), x, groups, p);
}

/// torch.linalg.norm, which for two axes and an order means a norm of matrices.
Answer linalg_norm(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  TINKER_TRY(const Shape axes, call.has(2) ? call.integers(2) : Result<Shape>(x.shape()));
  if (call.has(1) && axes.size() > 1)
    return bad_shape("a vector: matrix norms are not supported", x.shape());
  return norm(call);
}

}  // namespace

void add_extremes(OpTable& table) {
  using enum Where;
  constexpr std::string_view kPlain = "input, dim|axis=None, keepdim=False";
  constexpr std::string_view kExtreme = "input, dim|axis|other=None, keepdim=False";
  table.add(both, "max", kExtreme, extreme<true>);
  table.add(both, "min", kExtreme, extreme<false>);
  table.add(both, "amax", kPlain, shared<true>);
  table.add(both, "amin", kPlain, shared<false>);
  table.add(both, "argmax", kPlain, arg_extreme<true>);
  table.add(both, "argmin", kPlain, arg_extreme<false>);
  table.add(
      both, "norm", "input, p|ord='fro', dim|axis=None, keepdim=False, out=None, dtype=None", norm);
  table.add(function,
            "vector_norm|linalg_vector_norm",
            "input|x, ord=2, dim|axis=None, keepdim=False, dtype=None",
            norm);
  table.add(function,
            "linalg_norm",
            "input|A, ord=None, dim=None, keepdim=False, dtype=None",
            linalg_norm);
}

}  // namespace tinker::loss::eval
