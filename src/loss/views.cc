#include "loss/views.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "loss/pointwise.h"

namespace tinker::loss::eval {

Variable take(Tape& tape, const Variable& x, Shape shape, std::vector<std::size_t> places) {
  Tensor out = {.shape = std::move(shape), .dtype = x.dtype()};
  out.values.reserve(places.size());
  for (const auto place : places) out.values.push_back(x.values()[place]);
  return tape.record(
      std::move(out), {x}, [x, places = std::move(places)](auto dy, Gradients& gradients) {
        const auto dx = gradients.of(x);
        for (std::size_t i = 0; i < places.size(); ++i) dx[places[i]] += dy[i];
      });
}

Result<Variable> strided(Tape& tape,
                         const Variable& x,
                         Shape shape,
                         std::size_t offset,
                         const std::vector<std::size_t>& strides) {
  TINKER_TRY(const std::size_t count, element_count(shape));
  TINKER_TRY(tape.charge(2 * count));
  std::vector<std::size_t> places;
  places.reserve(count);
  walk(shape, strides, [&](std::size_t at) { places.push_back(offset + at); });
  return take(tape, x, std::move(shape), std::move(places));
}

Result<Shape> complete_shape(const Shape& shape, std::size_t count) {
  Shape out = shape;
  const auto hole = std::ranges::find(out, -1);
  if (hole != out.end()) {
    *hole = 1;
    TINKER_TRY(const std::size_t rest, element_count(out));
    if (rest == 0 || count % rest != 0) {
      return bad_shape(base::concat("a shape that ", count, " elements fit into"), shape);
    }
    *hole = static_cast<std::int64_t>(count / rest);
  }
  TINKER_TRY(const std::size_t found, element_count(out));
  if (found != count) return bad_shape(base::concat("a shape of ", count, " elements"), shape);
  return out;
}

Result<Variable> reshape(Tape& tape, const Variable& x, const Shape& shape) {
  TINKER_TRY(Shape full, complete_shape(shape, x.size()));
  if (full == x.shape()) return x;
  TINKER_TRY(tape.charge(x.size()));
  Tensor out = {.shape = std::move(full), .dtype = x.dtype(), .values = x.values()};
  return tape.record(std::move(out), {x}, [x](std::span<const double> dy, Gradients& gradients) {
    const auto dx = gradients.of(x);
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += dy[i];
  });
}

Result<Variable> permute(Tape& tape, const Variable& x, const std::vector<std::size_t>& axes) {
  const auto own = row_major_strides(x.shape());
  Shape shape;
  std::vector<std::size_t> strides;
  for (const auto axis : axes) {
    shape.push_back(x.shape()[axis]);
    strides.push_back(own[axis]);
  }
  return strided(tape, x, std::move(shape), 0, strides);
}

Result<Variable> expand(Tape& tape, const Variable& x, const Shape& shape) {
  if (shape.size() < x.rank()) {
    return bad_shape(base::concat("at least ", x.rank(), " axes"), shape);
  }
  Shape full = shape;
  const std::size_t lead = shape.size() - x.rank();
  for (std::size_t i = 0; i < full.size(); ++i) {
    if (full[i] == -1 && i >= lead) full[i] = x.shape()[i - lead];
  }
  TINKER_TRY(element_count(full));
  TINKER_TRY(const Shape both, broadcast(x.shape(), full));
  if (both != full) {
    return bad_shape(base::concat("a shape that ", to_string(x.shape()), " expands to"), shape);
  }
  return strided(tape, x, full, 0, broadcast_strides(x.shape(), full));
}

Result<Variable> unsqueeze(Tape& tape, const Variable& x, std::int64_t axis) {
  TINKER_TRY(const std::size_t at, normalize_axis(axis, x.rank() + 1));
  Shape shape = x.shape();
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), 1);
  return reshape(tape, x, shape);
}

Result<Variable> concatenate(Tape& tape, const std::vector<Variable>& parts, std::int64_t axis) {
  TINKER_TRY(const std::size_t at, normalize_axis(axis, parts[0].rank()));
  if (parts[0].rank() == 0) return invalid("scalars cannot be concatenated; stack them");
  Tensor out = {.shape = parts[0].shape(), .dtype = Dtype::boolean};
  out.shape[at] = 0;
  for (const auto& part : parts) {
    Shape expected = parts[0].shape();
    if (part.rank() == expected.size()) expected[at] = part.shape()[at];
    if (part.shape() != expected) {
      return bad_shape(base::concat("parts like ", to_string(parts[0].shape())), part.shape());
    }
    out.shape[at] += expected[at];
    out.dtype = std::max(out.dtype, part.dtype());
  }
  TINKER_TRY(const std::size_t count, element_count(out.shape));
  TINKER_TRY(tape.charge(2 * count));
  // Each part fills runs of `run` elements, one per combination of the axes before `at`.
  const auto strides = row_major_strides(out.shape);
  const std::size_t period = strides[at] * static_cast<std::size_t>(out.shape[at]);
  out.values.resize(count);
  std::vector<std::vector<std::size_t>> places;
  std::size_t start = 0;
  for (const auto& part : parts) {
    const std::size_t run = strides[at] * static_cast<std::size_t>(part.shape()[at]);
    auto& mine = places.emplace_back(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      mine[i] = start + i / run * period + i % run;
      out.values[mine[i]] = part.values()[i];
    }
    start += run;
  }
  return tape.record(
      std::move(out), std::span(parts), [parts, places](auto dy, Gradients& gradients) {
        for (std::size_t k = 0; k < parts.size(); ++k) {
          if (!parts[k].requires_gradient()) continue;
          const auto dx = gradients.of(parts[k]);
          for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += dy[places[k][i]];
        }
      });
}

}  // namespace tinker::loss::eval
