// Tensors from nothing but numbers.
#include <cmath>

#include "base/strings.h"
#include "loss/op_table.h"
#include "loss/pointwise.h"

namespace tinker::loss::eval {
namespace {

constexpr std::string_view kOptions =
    ", dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, "
    "memory_format=None";

Answer filled(const Call& call, const Shape& shape, Number fill, std::size_t dtype) {
  TINKER_TRY(const auto wanted, call.dtype(dtype));
  TINKER_TRY(const std::size_t count, element_count(shape));
  TINKER_TRY(call.tape().charge(count));
  Tensor out = {.shape = shape, .dtype = fill.dtype};
  out.values.assign(count, fill.value);
  return cast(call.tape(), Variable(std::move(out)), wanted.value_or(fill.dtype));
}

Result<Number> number_at(const Call& call, std::size_t i) {
  if (const auto* number = call[i].get_if<Number>()) return *number;
  TINKER_TRY(const double value, call.number(i));
  TINKER_TRY(const Variable tensor, call.tensor(i));
  return Number{.value = value, .dtype = tensor.dtype()};
}

/// zeros_like and ones_like: a constant in the shape and type of another tensor.
Function like(double value) {
  return [value](const Call& call) -> Answer {
    TINKER_TRY(const Variable x, call.tensor(0));
    return filled(call, x.shape(), {.value = value, .dtype = x.dtype()}, 1);
  };
}

Answer full_like(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  TINKER_TRY(const double value, call.number(1));
  const bool is_integer = x.dtype() == Dtype::integer;
  return filled(
      call, x.shape(), {.value = is_integer ? std::trunc(value) : value, .dtype = x.dtype()}, 2);
}

Function sized(double value) {
  return [value](const Call& call) -> Answer {
    TINKER_TRY(const Shape shape, call.integers(0));
    return filled(call, shape, {.value = value}, 1);
  };
}

Answer full(const Call& call) {
  TINKER_TRY(const Shape shape, call.integers(0));
  TINKER_TRY(const Number fill, number_at(call, 1));
  return filled(call, shape, fill, 2);
}

/// x.new_zeros(size), x.new_ones(size): in the type of x.
Function new_sized(double value) {
  return [value](const Call& call) -> Answer {
    TINKER_TRY(const Variable x, call.tensor(0));
    TINKER_TRY(const Shape shape, call.integers(1));
    return filled(call, shape, {.value = value, .dtype = x.dtype()}, 2);
  };
}

/// arange(end), arange(start, end), arange(start, end, step).
Answer arange(const Call& call) {
  Number start = {.dtype = Dtype::integer};
  Number step = {.value = 1.0, .dtype = Dtype::integer};
  TINKER_TRY(const Number end, number_at(call, call.has(1) ? 1 : 0));
  if (call.has(1)) {
    TINKER_TRY(start, number_at(call, 0));
  }
  if (call.has(2)) {
    TINKER_TRY(step, number_at(call, 2));
  }
  const double length = std::ceil((end.value - start.value) / step.value);
  if (!std::isfinite(length) || length < 0.0) return invalid("arange cannot reach its end");
  TINKER_TRY(const auto wanted, call.dtype(3));
  Tensor out = {.shape = {to_integer(length)},
                .dtype = std::max({start.dtype, end.dtype, step.dtype})};
  TINKER_TRY(const std::size_t count, element_count(out.shape));
  TINKER_TRY(call.tape().charge(count));
  for (std::size_t i = 0; i < count; ++i) {
    out.values.push_back(start.value + static_cast<double>(i) * step.value);
  }
  const Dtype natural = out.dtype;
  return cast(call.tape(), Variable(std::move(out)), wanted.value_or(natural));
}

/// torch.tensor(number) or torch.tensor([numbers]).
Answer tensor(const Call& call) {
  TINKER_TRY(const auto wanted, call.dtype(1));
  Tensor out = {.dtype = Dtype::boolean};
  std::vector<Value> items = {call[0]};
  if (const auto* list = call[0].get_if<Sequence>()) {
    items = list->items;
    out.shape = {static_cast<std::int64_t>(items.size())};
    if (items.empty()) out.dtype = Dtype::floating;
  }
  for (const auto& item : items) {
    if (const auto* number = item.get_if<Number>()) {
      out.values.push_back(number->value);
      out.dtype = std::max(out.dtype, number->dtype);
    } else if (const auto* x = item.get_if<Variable>(); x != nullptr && x->size() == 1) {
      out.values.push_back(x->values()[0]);
      out.dtype = std::max(out.dtype, x->dtype());
    } else {
      return invalid("expected numbers, found " + describe(item));
    }
  }
  const Dtype natural = out.dtype;
  return cast(call.tape(), Variable(std::move(out)), wanted.value_or(natural));
}

}  // namespace

void add_creation(OpTable& table) {
  using enum Where;
  const auto with_options = [](std::string_view head) { return base::concat(head, kOptions); };
  table.add(function, "zeros_like", with_options("input"), like(0.0));
  table.add(function, "ones_like", with_options("input"), like(1.0));
  table.add(function, "full_like", with_options("input, fill_value"), full_like);
  table.add(function, "zeros", with_options("*size"), sized(0.0));
  table.add(function, "ones", with_options("*size"), sized(1.0));
  table.add(function, "full", with_options("size, fill_value"), full);
  table.add(method, "new_zeros", with_options("input, *size"), new_sized(0.0));
  table.add(method, "new_ones", with_options("input, *size"), new_sized(1.0));
  table.add(function, "arange", with_options("start|end, stop|end=None, step=None"), arange);
  table.add(function, "tensor|scalar_tensor|as_tensor", with_options("data"), tensor);
}

}  // namespace tinker::loss::eval
