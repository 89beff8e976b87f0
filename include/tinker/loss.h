#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tinker/result.h"
#include "tinker/types/custom_loss.h"
#include "tinker/types/datum.h"

/// Losses as formulas: written once over symbolic values, then evaluated and differentiated on the
/// client, sent to a server that runs custom losses, or read from a graph that PyTorch traced.
namespace tinker::loss {

namespace detail {
class Builder;
}  // namespace detail

/// A number or tensor of a formula that is being written: nothing is computed yet. Plain numbers
/// convert to it.
///
/// Mistakes (values of two formulas in one expression, an unknown input) are kept and become the
/// error of `Formula::define`.
///
/// Thread-compatible.
class Value {
 public:
  // NOLINTBEGIN(google-explicit-constructor): numbers are values.
  template <typename T>
    requires(std::integral<T> || std::floating_point<T>)
  Value(T number) : argument_(number) {}
  // NOLINTEND(google-explicit-constructor)

  /// Element or row `index` along the first axis; negative ones count from the end.
  Value operator[](std::int64_t index) const;

 private:
  friend class detail::Builder;
  Value(std::shared_ptr<detail::Builder> builder, Json argument)
      : builder_(std::move(builder)), argument_(std::move(argument)) {}

  std::shared_ptr<detail::Builder> builder_;
  Json argument_;
};

/// Any operation of the table in docs/losses.md by its torch name: `call("torch.cumsum", {x, 0})`;
/// names without a dot are methods of the first value: `call("cumsum", {x, 0})`. An unknown name is
/// an error of `Formula::define`.
Value call(std::string_view target,
           std::span<const Value> arguments,
           std::span<const std::pair<std::string, Value>> keywords = {});
Value call(std::string_view target, std::initializer_list<Value> arguments);

// Arithmetic and comparisons, element by element; shapes broadcast as in NumPy.
Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator-(const Value& a);
Value operator<(const Value& a, const Value& b);
Value operator<=(const Value& a, const Value& b);
Value operator>(const Value& a, const Value& b);
Value operator>=(const Value& a, const Value& b);
Value eq(const Value& a, const Value& b);
Value ne(const Value& a, const Value& b);
/// Of comparisons.
Value operator&(const Value& a, const Value& b);
Value operator|(const Value& a, const Value& b);
Value operator~(const Value& a);

Value exp(const Value& x);
Value expm1(const Value& x);
Value log(const Value& x);
Value log1p(const Value& x);
Value sqrt(const Value& x);
Value square(const Value& x);
Value pow(const Value& x, const Value& exponent);
Value abs(const Value& x);
Value sigmoid(const Value& x);
/// log(sigmoid(x)), without overflow.
Value logsigmoid(const Value& x);
/// log(1 + exp(x)), without overflow.
Value softplus(const Value& x);
Value tanh(const Value& x);
Value relu(const Value& x);
/// The smaller of two, element by element; equal ones share the gradient.
Value min(const Value& a, const Value& b);
/// The greater of two.
Value max(const Value& a, const Value& b);
/// `x` between `low` and `high`; the gradient passes where x is one of them or between.
Value clamp(const Value& x, const Value& low, const Value& high);
/// `a` where the condition holds, `b` elsewhere.
Value where(const Value& condition, const Value& a, const Value& b);
/// The same numbers, as constants: no gradient flows through.
Value detach(const Value& x);
/// A condition as the numbers 0 and 1.
Value to_float(const Value& x);

/// Of all elements.
Value sum(const Value& x);
Value mean(const Value& x);
/// Along one axis, which goes.
Value sum(const Value& x, std::int64_t axis);
Value mean(const Value& x, std::int64_t axis);
Value logsumexp(const Value& x, std::int64_t axis);
Value softmax(const Value& x, std::int64_t axis);
Value log_softmax(const Value& x, std::int64_t axis);
Value cumsum(const Value& x, std::int64_t axis);
/// Elements [first, last) along the first axis; negative bounds count from the end.
Value slice(const Value& x, std::int64_t first, std::int64_t last);
/// Column `index` of a matrix.
Value column(const Value& x, std::int64_t index);
/// `x` with an axis of size 1 more, for broadcasting.
Value unsqueeze(const Value& x, std::int64_t axis);

/// The inputs of a formula by name. Thread-compatible.
class Inputs {
 public:
  /// An unknown name is an error of `Formula::define`.
  Value operator[](std::string_view name) const;

 private:
  friend class detail::Builder;
  explicit Inputs(std::shared_ptr<detail::Builder> builder) : builder_(std::move(builder)) {}
  std::shared_ptr<detail::Builder> builder_;
};

/// What a formula returns: its loss, a scalar, and metrics named "custom/NAME:sum" or
/// "custom/NAME:mean", which say how they combine over data.
struct Output {
  // NOLINTNEXTLINE(google-explicit-constructor): a loss alone is an output.
  Output(Value value) : loss(std::move(value)) {}
  Output(Value value, std::map<std::string, Value, std::less<>> named)
      : loss(std::move(value)), metrics(std::move(named)) {}

  Value loss;
  std::map<std::string, Value, std::less<>> metrics;
};

/// A formula's results for one datum.
struct Evaluation {
  double loss = 0.0;
  std::map<std::string, double, std::less<>> metrics = {};
  std::vector<float> gradient = {};  ///< d loss / d logprobs, row by row.
  TensorData::Shape shape = {};      ///< Of the gradient: that of logprobs.
};

/// A loss per datum, written in C++ or traced by PyTorch. A handle: copies share the formula.
///
///     auto clipped = loss::Formula::define(
///         "clipped", {{"logprobs", 1}, {"q", 1}, {"a", 1}}, [](const loss::Inputs& in) {
///           auto ratio = exp(in["logprobs"] - in["q"]);
///           return -sum(min(ratio * in["a"], clamp(ratio, 0.8, 1.2) * in["a"]));
///         });
///
/// The first input is "logprobs", of rank 1 ([T]) or 2 ([T, K]); each of the others is the datum's
/// `loss_fn_inputs` tensor of that name (R9.4, R9.5).
///
/// Immutable.
class Formula {
 public:
  /// Calls `body` once, at once. An exception it throws is an error of code `internal`.
  static Result<Formula> define(std::string name,
                                std::vector<CustomLossInput> inputs,
                                const std::function<Output(const Inputs&)>& body);
  /// Takes a graph as it travels (PROTOCOL 7.14). What it uses and we do not know is refused by
  /// name, with the name of the node. Safe for graphs of strangers: nodes, sizes and work are
  /// bounded.
  static Result<Formula> from_graph(std::string name,
                                    std::vector<CustomLossInput> inputs,
                                    CustomLossGraph graph);

  /// Runs the formula on one datum. `inputs` may hold more than the formula reads. Errors name the
  /// input, or the node with its operation and the shapes it met.
  [[nodiscard]] Result<Evaluation> evaluate(const TensorData& logprobs,
                                            const NamedTensors& inputs) const;

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] const std::vector<CustomLossInput>& inputs() const noexcept;
  /// What `create_custom_loss` sends.
  [[nodiscard]] const CustomLossGraph& graph() const noexcept;
  /// SHA-256 of graph and inputs, in hexadecimal: equal for equal formulas, whatever their names.
  [[nodiscard]] const std::string& key() const noexcept;

 private:
  struct State;
  explicit Formula(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// The names of all operations that formulas and traced graphs may use, sorted.
std::vector<std::string> supported_operations();

}  // namespace tinker::loss
