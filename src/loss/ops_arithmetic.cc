// Functions of two numbers, and what clamps one between others.
#include <array>
#include <cmath>

#include "loss/elementwise.h"
#include "loss/op_table.h"

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
namespace tinker::loss::eval {

using enum Pointwise::Gives;

namespace functions {
constexpr Pointwise kAdd = {[](const double* x) { return x[0] + x[1]; },
                            [](const double*, double, double* d) { d[0] = d[1] = 1.0; }};
constexpr Pointwise kSub = {[](const double* x) { return x[0] - x[1]; },
                            [](const double*, double, double* d) {
                              d[0] = 1.0;
                              d[1] = -1.0;
                            }};
constexpr Pointwise kMul = {[](const double* x) { return x[0] * x[1]; },
                            [](const double* x, double, double* d) {
                              d[0] = x[1];
                              d[1] = x[0];
                            }};
constexpr Pointwise kDiv = {[](const double* x) { return x[0] / x[1]; },
                            [](const double* x, double y, double* d) {
                              d[0] = 1.0 / x[1];
                              d[1] = -y / x[1];
                            },
                            floating};
/// x[0] + x[2] * x[1]: torch's add and sub with their alpha.
constexpr Pointwise kAddScaled = {[](const double* x) { return x[0] + x[2] * x[1]; },
                                  [](const double* x, double, double* d) {
                                    d[0] = 1.0;
                                    d[1] = x[2];
                                  }};
/// The quotient that goes with `kRemainder`: the rounded a / b may lie on the wrong side of an
/// integer.
constexpr Pointwise kFloorDivide = {[](const double* x) {
  if (x[1] == 0.0) return x[0] / x[1];
  const double rest = std::fmod(x[0], x[1]);
  const double quotient =
      (x[0] - rest) / x[1] - (rest != 0.0 && (rest < 0.0) != (x[1] < 0.0) ? 1.0 : 0.0);
  return std::round(quotient);
}};
/// With the sign of the divisor, as Python and torch have it.
constexpr Pointwise kRemainder = {[](const double* x) {
                                    const double rest = std::fmod(x[0], x[1]);
                                    return rest != 0.0 && (rest < 0.0) != (x[1] < 0.0) ? rest + x[1]
                                                                                       : rest;
                                  },
                                  [](const double* x, double, double* d) {
                                    d[0] = 1.0;
                                    d[1] = -kFloorDivide.value(x);
                                  }};
constexpr Pointwise kPower = {[](const double* x) { return std::pow(x[0], x[1]); },
                              [](const double* x, double y, double* d) {
                                d[0] = x[1] == 0.0 ? 0.0 : x[1] * std::pow(x[0], x[1] - 1.0);
                                d[1] = x[0] == 0.0 && x[1] >= 0.0 ? 0.0 : y * std::log(x[0]);
                              }};
// Both bounds let the gradient through where they are met exactly.
constexpr Pointwise kClampMin = {
    [](const double* x) { return std::isnan(x[0]) || x[0] >= x[1] ? x[0] : x[1]; },
    [](const double* x, double, double* d) { d[x[0] >= x[1] ? 0 : 1] = 1.0; },
    promoted,
    true};
constexpr Pointwise kClampMax = {
    [](const double* x) { return std::isnan(x[0]) || x[0] <= x[1] ? x[0] : x[1]; },
    [](const double* x, double, double* d) { d[x[0] <= x[1] ? 0 : 1] = 1.0; },
    promoted,
    true};
constexpr Pointwise kSelect = {
    [](const double* x) { return x[0] != 0.0 ? x[1] : x[2]; },
    [](const double* x, double, double* d) { d[x[0] != 0.0 ? 1 : 2] = 1.0; },
    promoted,
    true};
}  // namespace functions

namespace {

using namespace functions;

/// The greater (or the smaller) of two; equal ones share the gradient.
template <bool kGreater>
constexpr Pointwise extreme() {
  return {[](const double* x) {
            if (std::isnan(x[0]) || std::isnan(x[1])) return x[0] + x[1];
            return (kGreater ? x[0] >= x[1] : x[0] <= x[1]) ? x[0] : x[1];
          },
          [](const double* x, double, double* d) {
            d[0] = x[0] == x[1] ? 0.5 : ((x[0] > x[1]) == kGreater ? 1.0 : 0.0);
            d[1] = 1.0 - d[0];
          },
          promoted,
          true};
}

constexpr Pointwise kLogAddExp = {[](const double* x) {
                                    const double high = std::max(x[0], x[1]);
                                    if (std::isinf(high)) return high;
                                    return high + std::log1p(std::exp(-std::abs(x[0] - x[1])));
                                  },
                                  [](const double* x, double y, double* d) {
                                    d[0] = std::exp(x[0] - y);
                                    d[1] = std::exp(x[1] - y);
                                  },
                                  floating};

constexpr Pointwise kXlogY = {
    [](const double* x) { return x[0] == 0.0 && !std::isnan(x[1]) ? 0.0 : x[0] * std::log(x[1]); },
    [](const double* x, double, double* d) {
      d[0] = x[0] == 0.0 && x[1] <= 0.0 ? 0.0 : std::log(x[1]);
      d[1] = x[0] / x[1];
    },
    floating};

bool are_numbers(const Call& call) {
  return call[0].get_if<Number>() != nullptr && call[1].get_if<Number>() != nullptr;
}

/// Division that Python, or torch among integers, refuses by zero.
template <const Pointwise& kFunction, bool kAlsoFloats>
Answer divide(const Call& call) {
  TINKER_TRY(const Variable a, call.tensor(0));
  TINKER_TRY(const Variable b, call.tensor(1));
  const bool integers = a.dtype() != Dtype::floating && b.dtype() != Dtype::floating;
  if ((integers && !kAlsoFloats) || are_numbers(call)) {
    for (const double divisor : b.values()) {
      if (divisor == 0.0) return invalid("division by zero");
    }
  }
  return elementwise(call, kFunction, 2);
}

Answer power(const Call& call) {
  TINKER_TRY(const Variable base, call.tensor(0));
  TINKER_TRY(const Variable exponent, call.tensor(1));
  if (base.dtype() != Dtype::floating && exponent.dtype() != Dtype::floating &&
      !exponent.values().empty() && exponent.values()[0] < 0.0) {
    if (!are_numbers(call)) return invalid("integers to negative integer powers are not allowed");
    return Number{.value = std::pow(base.values()[0], exponent.values()[0])};
  }
  return elementwise(call, kPower, 2);
}

/// torch.div with its rounding_mode.
Answer div_rounded(const Call& call) {
  if (!call.has(2)) return divide<kDiv, true>(call);
  TINKER_TRY(const std::string mode, call.text(2));
  if (mode == "floor") return divide<kFloorDivide, false>(call);
  if (mode != "trunc") return invalid("unknown rounding_mode '" + mode + "'");
  static constexpr Pointwise kTruncDivide = {
      [](const double* x) { return std::trunc(x[0] / x[1]); }};
  return divide<kTruncDivide, false>(call);
}

template <int kSign, bool kSwap>
Answer add_scaled(const Call& call) {
  TINKER_TRY(Variable a, call.tensor(0));
  TINKER_TRY(Variable b, call.tensor(1));
  TINKER_TRY(const Variable alpha, call.tensor(2));
  if (kSwap) std::swap(a, b);
  if (alpha.size() != 1) return bad_shape("one number for 'alpha'", alpha.shape());
  const Variable factor(scalar(kSign * alpha.values()[0], alpha.dtype()));
  TINKER_TRY(const Variable result, pointwise(call.tape(), kAddScaled, {a, b, factor}));
  return like_arguments(call, 2, result);
}

Answer clamp(const Call& call) {
  TINKER_TRY(Variable x, call.tensor(0));
  if (!call.has(1) && !call.has(2)) return invalid("clamp needs min, max, or both");
  if (call.has(1)) {
    TINKER_TRY(const Variable low, call.tensor(1));
    TINKER_TRY(x, pointwise(call.tape(), kClampMin, {x, low}));
  }
  if (call.has(2)) {
    TINKER_TRY(const Variable high, call.tensor(2));
    TINKER_TRY(x, pointwise(call.tape(), kClampMax, {x, high}));
  }
  return x;
}

Answer select(const Call& call, std::size_t condition, std::size_t yes) {
  TINKER_TRY(const Variable mask, call.tensor(condition));
  if (mask.dtype() != Dtype::boolean) {
    return invalid("expected a bool condition, found " + describe(call[condition]));
  }
  TINKER_TRY(const Variable a, call.tensor(yes));
  TINKER_TRY(const Variable b, call.tensor(2));
  return pointwise(call.tape(), kSelect, {mask, a, b});
}

/// x.masked_fill(mask, value).
Answer masked_fill(const Call& call) {
  TINKER_TRY(const Variable x, call.tensor(0));
  TINKER_TRY(const Variable mask, call.tensor(1));
  TINKER_TRY(const Variable value, call.tensor(2));
  if (mask.dtype() != Dtype::boolean) return invalid("expected a bool mask");
  return pointwise(call.tape(), kSelect, {mask, value, x});
}

}  // namespace

void add_arithmetic(OpTable& table) {
  using enum Where;
  struct Row {
    Where where;
    std::string_view names;
    std::string_view signature;
    Function run;
  };
  const std::vector<Row> rows = {
      {operation, "add|iadd", "a, b", elementwise(kAdd, 2)},
      {operation, "sub|isub", "a, b", elementwise(kSub, 2)},
      {operation, "mul|imul", "a, b", elementwise(kMul, 2)},
      {operation, "truediv|itruediv", "a, b", divide<kDiv, true>},
      {operation, "floordiv", "a, b", divide<kFloorDivide, false>},
      {operation, "mod", "a, b", divide<kRemainder, false>},
      {operation, "pow", "a, b", power},
      {both, "add", "input, other, alpha=1", add_scaled<1, false>},
      {both, "sub|subtract", "input, other, alpha=1", add_scaled<-1, false>},
      {both, "rsub", "input, other, alpha=1", add_scaled<-1, true>},
      {both, "mul|multiply", "input, other", elementwise(kMul, 2)},
      {both, "div|divide|true_divide", "input, other, rounding_mode=None", div_rounded},
      {both, "floor_divide", "input, other", divide<kFloorDivide, false>},
      {both, "remainder", "input, other", divide<kRemainder, false>},
      {both, "pow", "input|self, exponent", power},
      {both, "minimum", "input, other", elementwise(extreme<false>(), 2)},
      {both, "maximum", "input, other", elementwise(extreme<true>(), 2)},
      {both, "logaddexp", "input, other", elementwise(kLogAddExp, 2)},
      {both, "xlogy", "input, other", elementwise(kXlogY, 2)},
      {both, "clamp|clip", "input, min=None, max=None", clamp},
      {both, "clamp_min", "input, min", elementwise(kClampMin, 2)},
      {both, "clamp_max", "input, max", elementwise(kClampMax, 2)},
      {function,
       "where",
       "condition, input|self, other",
       [](const Call& call) { return select(call, 0, 1); }},
      {method,
       "where",
       "input|self, condition, other",
       [](const Call& call) { return select(call, 1, 0); }},
      {both, "masked_fill", "input, mask, value", masked_fill},
  };
  for (const auto& row : rows) table.add(row.where, row.names, row.signature, row.run);
}

}  // namespace tinker::loss::eval
// NOLINTEND(modernize-use-designated-initializers)
