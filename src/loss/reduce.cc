#include "loss/reduce.h"

#include <algorithm>
#include <limits>

#include "loss/pointwise.h"

namespace tinker::loss::eval {

Result<Groups> make_groups(Tape& tape, const Variable& x, const Shape& axes, bool keep_axes) {
  std::vector<bool> reduced(x.rank(), axes.empty());
  for (const auto axis : axes) {
    TINKER_TRY(const std::size_t at, normalize_axis(axis, x.rank()));
    if (at >= reduced.size()) continue;  // axis 0 of a scalar
    if (reduced[at]) return invalid("an axis appears twice in 'dim'");
    reduced[at] = true;
  }
  Groups groups;
  Shape kept = x.shape();
  groups.count = groups.members = 1;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto extent = static_cast<std::size_t>(kept[i]);
    (reduced[i] ? groups.members : groups.count) *= extent;
    if (!reduced[i] || keep_axes) groups.shape.push_back(reduced[i] ? 1 : kept[i]);
    if (reduced[i]) kept[i] = 1;
  }
  TINKER_TRY(tape.charge(2 * x.size() + groups.count));
  groups.target.reserve(x.size());
  walk(x.shape(), broadcast_strides(kept, x.shape()), [&](std::size_t at) {
    groups.target.push_back(at);
  });
  return groups;
}

Result<Groups> groups_of(const Call& call, const Variable& x, std::size_t dim) {
  Shape axes;
  if (call.has(dim)) {
    TINKER_TRY(axes, call.integers(dim));
  }
  TINKER_TRY(const bool keep, call.flag(dim + 1));
  return make_groups(call.tape(), x, axes, keep);
}

Result<Variable> sum(Tape& tape, const Variable& x, const Groups& groups) {
  Tensor out = {.shape = groups.shape, .dtype = std::max(x.dtype(), Dtype::integer)};
  out.values.assign(groups.count, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) out.values[groups.target[i]] += x.values()[i];
  return tape.record(std::move(out), {x}, [x, groups](std::span<const double> dy, Gradients& g) {
    const auto dx = g.of(x);
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += dy[groups.target[i]];
  });
}

Result<Variable> mean(Tape& tape, const Variable& x, const Groups& groups) {
  if (x.dtype() != Dtype::floating) return invalid("mean needs floats");
  TINKER_TRY(const Variable total, sum(tape, x, groups));
  return pointwise(
      tape, functions::kDiv, {total, Variable(scalar(static_cast<double>(groups.members)))});
}

}  // namespace tinker::loss::eval
