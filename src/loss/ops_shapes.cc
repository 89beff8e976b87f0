// What changes a tensor's shape or type but not its numbers, and what tells about them.
#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "loss/op_table.h"
#include "loss/pointwise.h"
#include "loss/views.h"

namespace tinker::loss::eval {
namespace {

Value shape_value(const Shape& shape) {
  Sequence out;
  for (const auto extent : shape) out.items.push_back(integer_value(extent));
  return out;
}

/// An operation on the first argument alone.
template <typename F>
Function of_tensor(F f) {
  return [f](const Call& call) -> Answer {
    TINKER_TRY(const Variable x, call.tensor(0));
    return f(call, x);
  };
}

Result<Variable> reshape_op(const Call& call, const Variable& x) {
  TINKER_TRY(const Shape shape, call.integers(1));
  return reshape(call.tape(), x, shape);
}

Result<Variable> expand_op(const Call& call, const Variable& x) {
  TINKER_TRY(const Shape shape, call.integers(1));
  return expand(call.tape(), x, shape);
}

Result<Variable> flatten(const Call& call, const Variable& x) {
  TINKER_TRY(const std::int64_t first, call.integer(1));
  TINKER_TRY(const std::int64_t last, call.integer(2));
  TINKER_TRY(const std::size_t from, normalize_axis(first, x.rank()));
  TINKER_TRY(const std::size_t to, normalize_axis(last, x.rank()));
  if (from > to) return invalid("start_dim comes after end_dim");
  Shape shape;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (i > from && i <= to) {
      shape.back() *= x.shape()[i];
    } else {
      shape.push_back(x.shape()[i]);
    }
  }
  return reshape(call.tape(), x, shape.empty() ? Shape{1} : shape);
}

Result<Variable> squeeze(const Call& call, const Variable& x) {
  Shape axes;
  if (call.has(1)) {
    TINKER_TRY(axes, call.integers(1));
  } else {
    axes.resize(x.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  Shape shape = x.shape();
  for (const auto axis : axes) {
    TINKER_TRY(const std::size_t at, normalize_axis(axis, x.rank()));
    if (at < shape.size() && shape[at] == 1) shape[at] = -1;
  }
  std::erase(shape, -1);
  return reshape(call.tape(), x, shape);
}

Result<Variable> transpose(const Call& call, const Variable& x) {
  TINKER_TRY(const std::int64_t a, call.integer(1));
  TINKER_TRY(const std::int64_t b, call.integer(2));
  TINKER_TRY(const std::size_t i, normalize_axis(a, x.rank()));
  TINKER_TRY(const std::size_t j, normalize_axis(b, x.rank()));
  std::vector<std::size_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), 0);
  if (!axes.empty()) std::swap(axes[i], axes[j]);
  return permute(call.tape(), x, axes);
}

/// All axes in reverse: x.T and x.t().
Result<Variable> reversed(const Call& call, const Variable& x) {
  if (x.rank() > 2) return bad_shape("at most 2 axes", x.shape());
  std::vector<std::size_t> axes(x.rank());
  std::iota(axes.rbegin(), axes.rend(), 0);
  return permute(call.tape(), x, axes);
}

Result<Variable> permute_op(const Call& call, const Variable& x) {
  TINKER_TRY(const Shape given, call.integers(1));
  std::vector<std::size_t> axes;
  for (const auto axis : given) {
    TINKER_TRY(const std::size_t at, normalize_axis(axis, x.rank()));
    if (std::ranges::find(axes, at) != axes.end()) return invalid("an axis appears twice");
    axes.push_back(at);
  }
  if (axes.size() != x.rank()) return bad_shape("one axis for each of the tensor's", given);
  return permute(call.tape(), x, axes);
}

Answer cat(const Call& call) {
  TINKER_TRY(const auto parts, call.tensors(0));
  TINKER_TRY(const std::int64_t axis, call.integer(1));
  return concatenate(call.tape(), parts, axis);
}

Answer stack(const Call& call) {
  TINKER_TRY(auto parts, call.tensors(0));
  TINKER_TRY(const std::int64_t axis, call.integer(1));
  for (const auto& part : parts) {
    if (part.shape() != parts[0].shape()) {
      return bad_shape(base::concat("parts like ", to_string(parts[0].shape())), part.shape());
    }
  }
  for (auto& part : parts) {
    TINKER_TRY(part, unsqueeze(call.tape(), part, axis));
  }
  return concatenate(call.tape(), parts, axis);
}

/// x.to(dtype), x.to(device, dtype), x.to(other), x.type(dtype).
Result<Variable> to(const Call& call, const Variable& x) {
  std::vector<Value> given = {call[2]};
  if (const auto* rest = call[1].get_if<Sequence>()) {
    given.insert(given.end(), rest->items.begin(), rest->items.end());
  }
  for (const auto& value : given) {
    if (const auto* dtype = value.get_if<Dtype>()) return cast(call.tape(), x, *dtype);
    if (const auto* other = value.get_if<Variable>()) return cast(call.tape(), x, other->dtype());
  }
  return x;
}

Function cast_to(Dtype dtype) {
  return of_tensor(
      [dtype](const Call& call, const Variable& x) { return cast(call.tape(), x, dtype); });
}

Answer size(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  if (!call.has(1)) return shape_value(x.shape());
  TINKER_TRY(const std::int64_t dim, call.integer(1));
  TINKER_TRY(const std::size_t axis, normalize_axis(dim, x.rank()));
  if (x.rank() == 0) return invalid("a scalar has no axis");
  return integer_value(x.shape()[axis]);
}

Answer attribute(const Call& call) {
  TINKER_TRY(const std::string name, call.text(1));
  if (const auto* pair = call[0].get_if<Sequence>(); pair != nullptr && pair->is_extreme) {
    if (name == "values") return pair->items[0];
    if (name == "indices") return pair->items[1];
  }
  if (const auto* x = call[0].get_if<Variable>()) {
    if (name == "shape") return shape_value(x->shape());
    if (name == "ndim") return integer_value(static_cast<std::int64_t>(x->rank()));
    if (name == "dtype") return x->dtype();
    if (name == "device") return Place{"cpu"};
    if (name == "layout") return Place{"strided"};
    if (name == "data") return x->detached();
    if (name == "T" || name == "mT") {
      return reversed(call, *x);
    }
  }
  return invalid(base::concat("unknown attribute '", name, "' of ", describe(call[0])));
}

}  // namespace

void add_shapes(OpTable& table) {
  using enum Where;
  const auto keep = of_tensor([](const Call&, const Variable& x) -> Result<Variable> { return x; });
  table.add(method, "reshape|view", "input, *shape|size", of_tensor(reshape_op));
  table.add(function, "reshape", "input, shape", of_tensor(reshape_op));
  table.add(method, "expand", "input, *size", of_tensor(expand_op));
  table.add(function, "broadcast_to", "input, size", of_tensor(expand_op));
  table.add(both, "flatten", "input, start_dim=0, end_dim=-1", of_tensor(flatten));
  table.add(both, "ravel", "input, start_dim=0, end_dim=-1", of_tensor(flatten));
  table.add(both, "squeeze", "input, dim=None", of_tensor(squeeze));
  table.add(both,
            "unsqueeze",
            "input, dim",
            of_tensor([](const Call& call, const Variable& x) -> Result<Variable> {
              TINKER_TRY(const std::int64_t axis, call.integer(1));
              return unsqueeze(call.tape(), x, axis);
            }));
  table.add(both, "transpose|swapaxes", "input, dim0, dim1", of_tensor(transpose));
  table.add(both, "t", "input", of_tensor(reversed));
  table.add(method, "permute", "input, *dims", of_tensor(permute_op));
  table.add(function, "permute", "input, dims", of_tensor(permute_op));
  table.add(function, "cat|concat", "tensors, dim|axis=0", cat);
  table.add(function, "stack", "tensors, dim|axis=0", stack);
  table.add(
      both, "detach", "input", of_tensor([](const Call&, const Variable& x) -> Result<Variable> {
        return x.detached();
      }));
  table.add(both, "clone", "input, memory_format=None", keep);
  table.add(method, "contiguous|cpu", "input, memory_format=None", keep);
  table.add(
      method,
      "to|type",
      "input, *other, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None",
      of_tensor(to));
  table.add(
      method, "float|double|half|bfloat16", "input, memory_format=None", cast_to(Dtype::floating));
  table.add(method, "long|int|short", "input, memory_format=None", cast_to(Dtype::integer));
  table.add(method, "bool", "input, memory_format=None", cast_to(Dtype::boolean));
  table.add(method,
            "type_as",
            "input, other",
            of_tensor([](const Call& call, const Variable& x) -> Result<Variable> {
              TINKER_TRY(const Variable other, call.tensor(1));
              return cast(call.tape(), x, other.dtype());
            }));
  table.add(method, "size", "input, dim=None", size);
  table.add(both, "numel", "input", [](const Call& call) -> Answer {
    TINKER_TRY(const Variable x, call.tensor(0));
    return integer_value(static_cast<std::int64_t>(x.size()));
  });
  table.add(method, "dim|ndimension", "input", [](const Call& call) -> Answer {
    TINKER_TRY(const Variable x, call.tensor(0));
    return integer_value(static_cast<std::int64_t>(x.rank()));
  });
  table.add(operation, "getattr", "object, name", attribute);
}

}  // namespace tinker::loss::eval
