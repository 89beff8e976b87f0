// Comparisons, tests and logic: results without a gradient.
#include <array>
#include <cmath>

#include "loss/elementwise.h"
#include "loss/op_table.h"

// NOLINTBEGIN(modernize-use-designated-initializers): rows of tables read better without.
namespace tinker::loss::eval {
namespace {

using enum Pointwise::Gives;

struct Row {
  std::string_view names;
  Pointwise function;
};

template <typename Compare>
constexpr Pointwise compare() {
  return {[](const double* x) { return Compare{}(x[0], x[1]) ? 1.0 : 0.0; }, nullptr, boolean};
}

constexpr std::array<Row, 6> kComparisons = {{
    {"gt|greater", compare<std::greater<>>()},
    {"ge|greater_equal", compare<std::greater_equal<>>()},
    {"lt|less", compare<std::less<>>()},
    {"le|less_equal", compare<std::less_equal<>>()},
    {"eq", compare<std::equal_to<>>()},
    {"ne|not_equal", compare<std::not_equal_to<>>()},
}};

constexpr Pointwise kNot = {
    [](const double* x) { return x[0] == 0.0 ? 1.0 : 0.0; }, nullptr, boolean};

constexpr std::array<Row, 4> kTests = {{
    {"isnan", {[](const double* x) { return std::isnan(x[0]) ? 1.0 : 0.0; }, nullptr, boolean}},
    {"isinf", {[](const double* x) { return std::isinf(x[0]) ? 1.0 : 0.0; }, nullptr, boolean}},
    {"isfinite",
     {[](const double* x) { return std::isfinite(x[0]) ? 1.0 : 0.0; }, nullptr, boolean}},
    {"logical_not", kNot},
}};

constexpr std::array<Row, 3> kLogical = {{
    {"logical_and",
     {[](const double* x) { return x[0] != 0.0 && x[1] != 0.0 ? 1.0 : 0.0; }, nullptr, boolean}},
    {"logical_or",
     {[](const double* x) { return x[0] != 0.0 || x[1] != 0.0 ? 1.0 : 0.0; }, nullptr, boolean}},
    {"logical_xor",
     {[](const double* x) { return (x[0] != 0.0) != (x[1] != 0.0) ? 1.0 : 0.0; },
      nullptr,
      boolean}},
}};

template <typename Combine>
constexpr Pointwise bitwise() {
  return {[](const double* x) {
    return static_cast<double>(Combine{}(to_integer(x[0]), to_integer(x[1])));
  }};
}

constexpr std::array<std::pair<std::string_view, Pointwise>, 3> kBitwise = {{
    {"and", bitwise<std::bit_and<>>()},
    {"or", bitwise<std::bit_or<>>()},
    {"xor", bitwise<std::bit_xor<>>()},
}};

Result<void> refuse_floats(const Call& call, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    TINKER_TRY(const Variable operand, call.tensor(i));
    if (operand.dtype() == Dtype::floating) {
      return invalid("expected bools or integers, found " + describe(call[i]));
    }
  }
  return {};
}

Function bitwise_op(const Pointwise& function) {
  return [function](const Call& call) -> Answer {
    TINKER_TRY(refuse_floats(call, 2));
    return elementwise(call, function, 2);
  };
}

Answer invert(const Call& call) {
  TINKER_TRY(refuse_floats(call, 1));
  TINKER_TRY(const Variable x, call.tensor(0));
  if (x.dtype() == Dtype::boolean) return elementwise(call, kNot, 1);
  static constexpr Pointwise kComplement = {[](const double* v) { return -v[0] - 1.0; }};
  return elementwise(call, kComplement, 1);
}

}  // namespace

void add_logic(OpTable& table) {
  for (const auto& [names, function] : kComparisons) {
    table.add(Where::both, names, "input, other", elementwise(function, 2));
    table.add(Where::operation, names.substr(0, 2), "a, b", elementwise(function, 2));
  }
  for (const auto& [names, function] : kTests) {
    table.add(Where::both, names, "input", elementwise(function, 1));
  }
  for (const auto& [names, function] : kLogical) {
    table.add(Where::both, names, "input, other", elementwise(function, 2));
  }
  for (const auto& [name, function] : kBitwise) {
    const std::string text(name);
    table.add(Where::both, "bitwise_" + text, "input, other", bitwise_op(function));
    table.add(Where::operation, text == "xor" ? text : text + "_", "a, b", bitwise_op(function));
  }
  table.add(Where::operation, "invert|inv", "a", invert);
  table.add(Where::both, "bitwise_not", "input", invert);
}

}  // namespace tinker::loss::eval
// NOLINTEND(modernize-use-designated-initializers)
