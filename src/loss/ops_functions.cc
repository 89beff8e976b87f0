// Functions of one number. Slopes follow torch's derivatives, at kinks too.
#include <array>
#include <cmath>
#include <numbers>

#include "loss/elementwise.h"
#include "loss/op_table.h"

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
namespace tinker::loss::eval {

using enum Pointwise::Gives;

namespace functions {
constexpr Pointwise kSquare = {[](const double* x) { return x[0] * x[0]; },
                               [](const double* x, double, double* d) { d[0] = 2.0 * x[0]; }};
constexpr Pointwise kSqrt = {[](const double* x) { return std::sqrt(x[0]); },
                             [](const double*, double y, double* d) { d[0] = 0.5 / y; },
                             floating};
constexpr Pointwise kExp = {[](const double* x) { return std::exp(x[0]); },
                            [](const double*, double y, double* d) { d[0] = y; },
                            floating};
constexpr Pointwise kLog = {[](const double* x) { return std::log(x[0]); },
                            [](const double* x, double, double* d) { d[0] = 1.0 / x[0]; },
                            floating};
constexpr Pointwise kAbs = {[](const double* x) { return std::abs(x[0]); },
                            [](const double* x, double, double* d) {
                              d[0] = (x[0] > 0.0 ? 1.0 : 0.0) - (x[0] < 0.0 ? 1.0 : 0.0);
                            }};
constexpr Pointwise kIdentity = {[](const double* x) { return x[0]; },
                                 [](const double*, double, double* d) { d[0] = 1.0; }};
}  // namespace functions

namespace {

using namespace functions;

constexpr Pointwise kNegate = {[](const double* x) { return -x[0]; },
                               [](const double*, double, double* d) { d[0] = -1.0; }};

double sigmoid(double x) {
  if (x >= 0.0) return 1.0 / (1.0 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1.0 + e);
}

/// Steps, whose slope is 0 everywhere.
template <double (*kStep)(double)>
constexpr Pointwise step() {
  return {[](const double* x) { return kStep(x[0]); },
          [](const double*, double, double*) {},
          promoted,
          true};
}

double sign(double x) {
  return std::isnan(x) ? x : (x > 0.0 ? 1.0 : 0.0) - (x < 0.0 ? 1.0 : 0.0);
}
double floor(double x) {
  return std::floor(x);
}
double ceil(double x) {
  return std::ceil(x);
}
double trunc(double x) {
  return std::trunc(x);
}
double round(double x) {
  return std::nearbyint(x);
}  // half to even

struct Row {
  std::string_view names;
  Pointwise function;
};

constexpr std::array<Row, 14> kPowers = {{
    {"exp", kExp},
    {"exp2|special_exp2",
     {[](const double* x) { return std::exp2(x[0]); },
      [](const double*, double y, double* d) { d[0] = y * std::numbers::ln2; },
      floating}},
    {"expm1",
     {[](const double* x) { return std::expm1(x[0]); },
      [](const double*, double y, double* d) { d[0] = y + 1.0; },
      floating}},
    {"log", kLog},
    {"log2",
     {[](const double* x) { return std::log2(x[0]); },
      [](const double* x, double, double* d) { d[0] = 1.0 / (x[0] * std::numbers::ln2); },
      floating}},
    {"log10",
     {[](const double* x) { return std::log10(x[0]); },
      [](const double* x, double, double* d) { d[0] = 1.0 / (x[0] * std::numbers::ln10); },
      floating}},
    {"log1p",
     {[](const double* x) { return std::log1p(x[0]); },
      [](const double* x, double, double* d) { d[0] = 1.0 / (x[0] + 1.0); },
      floating}},
    {"sqrt", kSqrt},
    {"rsqrt",
     {[](const double* x) { return 1.0 / std::sqrt(x[0]); },
      [](const double*, double y, double* d) { d[0] = -0.5 * y * y * y; },
      floating}},
    {"square", kSquare},
    {"reciprocal",
     {[](const double* x) { return 1.0 / x[0]; },
      [](const double*, double y, double* d) { d[0] = -y * y; },
      floating}},
    {"abs|absolute|fabs", kAbs},
    {"neg|negative", kNegate},
    {"sign|sgn", step<sign>()},
}};

constexpr std::array<Row, 12> kCurves = {{
    {"sigmoid|expit",
     {[](const double* x) { return sigmoid(x[0]); },
      [](const double*, double y, double* d) { d[0] = y * (1.0 - y); },
      floating}},
    {"logsigmoid|log_sigmoid",
     {[](const double* x) { return std::min(x[0], 0.0) - std::log1p(std::exp(-std::abs(x[0]))); },
      [](const double* x, double, double* d) { d[0] = sigmoid(-x[0]); },
      floating}},
    {"tanh",
     {[](const double* x) { return std::tanh(x[0]); },
      [](const double*, double y, double* d) { d[0] = 1.0 - y * y; },
      floating}},
    {"silu",
     {[](const double* x) { return x[0] * sigmoid(x[0]); },
      [](const double* x, double y, double* d) {
        const double s = sigmoid(x[0]);
        d[0] = s + y * (1.0 - s);
      },
      floating}},
    {"sin",
     {[](const double* x) { return std::sin(x[0]); },
      [](const double* x, double, double* d) { d[0] = std::cos(x[0]); },
      floating}},
    {"cos",
     {[](const double* x) { return std::cos(x[0]); },
      [](const double* x, double, double* d) { d[0] = -std::sin(x[0]); },
      floating}},
    {"erf",
     {[](const double* x) { return std::erf(x[0]); },
      [](const double* x, double, double* d) {
        d[0] = 2.0 * std::numbers::inv_sqrtpi * std::exp(-x[0] * x[0]);
      },
      floating}},
    {"floor", step<floor>()},
    {"ceil", step<ceil>()},
    {"trunc|fix", step<trunc>()},
    {"round", step<round>()},
    {"relu",
     {[](const double* x) { return x[0] > 0.0 || std::isnan(x[0]) ? x[0] : 0.0; },
      [](const double* x, double, double* d) { d[0] = x[0] > 0.0 ? 1.0 : 0.0; },
      promoted,
      true}},
}};

constexpr Pointwise kSoftplus = {[](const double* x) {
                                   const double scaled = x[0] * x[1];
                                   return scaled > x[2] ? x[0]
                                                        : std::log1p(std::exp(scaled)) / x[1];
                                 },
                                 [](const double* x, double, double* d) {
                                   d[0] = x[0] * x[1] > x[2] ? 1.0 : sigmoid(x[0] * x[1]);
                                 },
                                 floating};

constexpr Pointwise kNanToNum = {
    [](const double* x) {
      if (std::isnan(x[0])) return x[1];
      if (std::isinf(x[0])) return x[0] > 0.0 ? x[2] : x[3];
      return x[0];
    },
    [](const double* x, double, double* d) { d[0] = std::isfinite(x[0]) ? 1.0 : 0.0; },
    promoted,
    true};

Answer nan_to_num(const Call& call) {
  constexpr double kMost = 3.4028234663852886e38;  // of float32, which torch would have here
  std::vector<Variable> operands;
  const std::array<double, 4> fallback = {0.0, 0.0, kMost, -kMost};
  for (std::size_t i = 0; i < fallback.size(); ++i) {
    Variable operand(scalar(fallback[i], Dtype::boolean));
    if (i == 0 || call.has(i)) {
      TINKER_TRY(operand, call.tensor(i));
    }
    operands.push_back(std::move(operand));
  }
  return pointwise(call.tape(), kNanToNum, operands);
}

}  // namespace

void add_functions(OpTable& table) {
  for (const auto& [names, function] : kPowers) {
    table.add(Where::both, names, "input", elementwise(function, 1));
  }
  for (const auto& [names, function] : kCurves) {
    const bool is_relu = names == "relu" || names == "silu";
    table.add(Where::both,
              names,
              is_relu ? "input, inplace=False" : "input",
              [function, is_relu](const Call& call) -> Answer {
                if (is_relu) {
                  TINKER_TRY(const bool inplace, call.flag(1));
                  if (inplace) return invalid("inplace=True is not supported");
                }
                return elementwise(call, function, 1);
              });
  }
  table.add(Where::operation, "neg", "a", elementwise(kNegate, 1));
  table.add(Where::operation, "pos", "a", elementwise(kIdentity, 1));
  table.add(Where::both, "positive", "input", elementwise(kIdentity, 1));
  table.add(Where::operation, "abs", "a", elementwise(kAbs, 1));
  table.add(Where::both, "softplus", "input, beta=1.0, threshold=20.0", elementwise(kSoftplus, 3));
  table.add(Where::both, "nan_to_num", "input, nan=None, posinf=None, neginf=None", nan_to_num);
}

}  // namespace tinker::loss::eval
// NOLINTEND(modernize-use-designated-initializers)
