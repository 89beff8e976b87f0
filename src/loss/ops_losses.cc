// torch.nn.functional's losses of a pair of tensors, and products of vectors and matrices.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "loss/elementwise.h"
#include "loss/op_table.h"
#include "loss/reduce.h"
#include "loss/views.h"

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
namespace tinker::loss::eval {
namespace {

using enum Pointwise::Gives;

constexpr Pointwise kSquaredError = {
    [](const double* x) { return (x[0] - x[1]) * (x[0] - x[1]); },
    [](const double* x, double, double* d) { d[0] = -(d[1] = -2.0 * (x[0] - x[1])); }};

double sign(double x) {
  return (x > 0.0 ? 1.0 : 0.0) - (x < 0.0 ? 1.0 : 0.0);
}

constexpr Pointwise kAbsoluteError = {
    [](const double* x) { return std::abs(x[0] - x[1]); },
    [](const double* x, double, double* d) { d[0] = -(d[1] = -sign(x[0] - x[1])); }};

/// Quadratic below x[2] = beta, linear above.
constexpr Pointwise kSmoothError = {[](const double* x) {
                                      const double size = std::abs(x[0] - x[1]);
                                      return size < x[2] ? 0.5 * size * size / x[2]
                                                         : size - 0.5 * x[2];
                                    },
                                    [](const double* x, double, double* d) {
                                      const double apart = x[0] - x[1];
                                      d[0] = std::abs(apart) < x[2] ? apart / x[2] : sign(apart);
                                      d[1] = -d[0];
                                    }};

constexpr Pointwise kHuberError = {[](const double* x) {
                                     const double size = std::abs(x[0] - x[1]);
                                     return size < x[2] ? 0.5 * size * size
                                                        : x[2] * (size - 0.5 * x[2]);
                                   },
                                   [](const double* x, double, double* d) {
                                     const double apart = x[0] - x[1];
                                     d[0] = std::abs(apart) < x[2] ? apart : x[2] * sign(apart);
                                     d[1] = -d[0];
                                   }};

/// The error of each element, then what `reduction` says. `extra`: the argument that holds beta or
/// delta, or 0 for none.
Function pair_loss(const Pointwise& function, std::size_t reduction, std::size_t extra) {
  return [=](const Call& call) -> Answer {
    std::vector<Variable> operands;
    std::vector<std::size_t> taken = {0, 1};
    if (extra != 0) taken.push_back(extra);
    for (const std::size_t i : taken) {
      TINKER_TRY(Variable operand, call.tensor(i));
      operands.push_back(std::move(operand));
    }
    TINKER_TRY(Variable each, pointwise(call.tape(), function, operands));
    TINKER_TRY(const std::string how, call.text(reduction));
    if (how == "none") return each;
    if (how != "mean" && how != "sum")
      return invalid(base::concat("unknown reduction '", how, "'"));
    TINKER_TRY(const Groups groups, make_groups(call.tape(), each, {}, false));
    return how == "sum" ? sum(call.tape(), each, groups) : mean(call.tape(), each, groups);
  };
}

struct Extents {
  std::size_t rows, inner, columns;
};

/// c = a b for matrices.  a: (rows, inner)  b: (inner, columns)
Variable matrix_product(Tape& tape, const Variable& a, const Variable& b, Extents n, Shape shape) {
  Tensor out = {.shape = std::move(shape), .dtype = std::max(a.dtype(), b.dtype())};
  out.values.assign(n.rows * n.columns, 0.0);
  for (std::size_t i = 0; i < n.rows; ++i) {
    for (std::size_t k = 0; k < n.inner; ++k) {
      const double factor = a.values()[i * n.inner + k];
      for (std::size_t j = 0; j < n.columns; ++j) {
        out.values[i * n.columns + j] += factor * b.values()[k * n.columns + j];
      }
    }
  }
  return tape.record(std::move(out), {a, b}, [a, b, n](auto dy, Gradients& gradients) {
    const auto da = a.requires_gradient() ? gradients.of(a) : std::span<double>();
    const auto db = b.requires_gradient() ? gradients.of(b) : std::span<double>();
    for (std::size_t i = 0; i < n.rows; ++i) {
      for (std::size_t k = 0; k < n.inner; ++k) {
        for (std::size_t j = 0; j < n.columns; ++j) {
          const double flow = dy[i * n.columns + j];
          if (!da.empty()) da[i * n.inner + k] += flow * b.values()[k * n.columns + j];
          if (!db.empty()) db[k * n.columns + j] += flow * a.values()[i * n.inner + k];
        }
      }
    }
  });
}

/// Vectors and matrices, as torch.matmul treats them: a vector is a row on the left, a column on
/// the right.
Answer matmul(const Call& call) {
  TINKER_TRY(const Variable a, call.tensor(0));
  TINKER_TRY(const Variable b, call.tensor(1));
  const auto fits = [](const Variable& x) { return x.rank() == 1 || x.rank() == 2; };
  const std::size_t inner = a.rank() == 0 ? 0 : static_cast<std::size_t>(a.shape().back());
  if (!fits(a) || !fits(b) || std::cmp_not_equal(b.shape()[0], inner)) {
    return invalid(
        base::concat("cannot multiply ", to_string(a.shape()), " by ", to_string(b.shape())));
  }
  if (a.dtype() != b.dtype()) return invalid("matmul needs tensors of one dtype");
  const Extents n = {.rows = a.rank() == 2 ? static_cast<std::size_t>(a.shape()[0]) : 1,
                     .inner = inner,
                     .columns = b.rank() == 2 ? static_cast<std::size_t>(b.shape()[1]) : 1};
  TINKER_TRY(const std::size_t work,
             element_count({static_cast<std::int64_t>(n.rows),
                            static_cast<std::int64_t>(n.inner) + 1,
                            static_cast<std::int64_t>(n.columns)}));
  TINKER_TRY(call.tape().charge(work));
  Shape shape;
  if (a.rank() == 2) shape.push_back(a.shape()[0]);
  if (b.rank() == 2) shape.push_back(b.shape()[1]);
  return matrix_product(call.tape(), a, b, n, std::move(shape));
}

Answer outer(const Call& call) {
  TINKER_TRY(const Variable a, call.tensor(0));
  TINKER_TRY(const Variable b, call.tensor(1));
  if (a.rank() != 1) return bad_shape("a vector", a.shape());
  if (b.rank() != 1) return bad_shape("a vector", b.shape());
  TINKER_TRY(const Variable column, unsqueeze(call.tape(), a, 1));
  return pointwise(call.tape(), functions::kMul, {column, b});
}

Answer dot(const Call& call) {
  TINKER_TRY(const Variable a, call.tensor(0));
  TINKER_TRY(const Variable b, call.tensor(1));
  if (a.rank() != 1) return bad_shape("a vector", a.shape());
  if (b.rank() != 1) return bad_shape("a vector", b.shape());
  return matmul(call);
}

}  // namespace

void add_losses(OpTable& table) {
  constexpr std::string_view kHead =
      "input, target, size_average=None, reduce=None, reduction='mean'";
  const auto with = [&](std::string_view tail) { return base::concat(kHead, tail); };
  table.add(Where::function, "mse_loss", with(", weight=None"), pair_loss(kSquaredError, 4, 0));
  table.add(Where::function, "l1_loss", with(", weight=None"), pair_loss(kAbsoluteError, 4, 0));
  table.add(Where::function, "smooth_l1_loss", with(", beta=1.0"), pair_loss(kSmoothError, 4, 5));
  table.add(Where::function,
            "huber_loss",
            "input, target, reduction='mean', delta=1.0, weight=None",
            pair_loss(kHuberError, 2, 3));
}

void add_linear(OpTable& table) {
  table.add(Where::operation, "matmul", "a, b", matmul);
  table.add(Where::both, "matmul|mm|mv", "input, other|mat2|vec", matmul);
  table.add(Where::both, "dot|vdot|inner", "input, other|tensor", dot);
  table.add(Where::both, "outer|ger", "input, other|vec2", outer);
}

}  // namespace tinker::loss::eval
// NOLINTEND(modernize-use-designated-initializers)
