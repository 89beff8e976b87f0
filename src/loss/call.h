#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loss/value.h"

namespace tinker::loss::eval {

/// One parameter of an operation.
struct Parameter {
  std::vector<std::string> names = {};  ///< The first is ours, the others torch accepts as well.
  std::optional<Value> fallback = {};   ///< Absent: an argument is required.
  bool is_variadic = false;             ///< Takes all positional arguments that are left.
  bool is_keyword_only = false;         ///< Comes after a variadic one.
};

/// Reads "input, dim|axis=None, *sizes, p=2.0, reduction='mean'".
std::vector<Parameter> parse_signature(std::string_view signature);

/// The arguments of one call, in the order of the operation's parameters, and the tape to compute
/// on. The accessors' errors name the parameter.
class Call {
 public:
  Call(Tape& tape, std::span<const Parameter> parameters, std::vector<Value> values)
      : tape_(&tape), parameters_(parameters), values_(std::move(values)) {}

  [[nodiscard]] Tape& tape() const noexcept { return *tape_; }
  [[nodiscard]] const Value& operator[](std::size_t i) const { return values_[i]; }
  [[nodiscard]] std::size_t size() const noexcept { return values_.size(); }
  [[nodiscard]] bool has(std::size_t i) const { return !values_[i].is_none(); }

  /// A tensor; a Python number counts as one without axes.
  [[nodiscard]] Result<Variable> tensor(std::size_t i) const;
  /// Tensors: the items of a list or tuple.
  [[nodiscard]] Result<std::vector<Variable>> tensors(std::size_t i) const;
  [[nodiscard]] Result<double> number(std::size_t i) const;
  [[nodiscard]] Result<std::int64_t> integer(std::size_t i) const;
  [[nodiscard]] Result<bool> flag(std::size_t i) const;
  [[nodiscard]] Result<std::string> text(std::size_t i) const;
  /// Integers, given one by one to a variadic parameter, or as one list or tuple.
  [[nodiscard]] Result<Shape> integers(std::size_t i) const;
  [[nodiscard]] Result<std::optional<Dtype>> dtype(std::size_t i) const;

 private:
  [[nodiscard]] Error expected(std::string_view what, std::size_t i) const;

  Tape* tape_;
  std::span<const Parameter> parameters_;
  std::vector<Value> values_;
};

/// An integer: a Python one, or a tensor of one.
std::optional<std::int64_t> as_integer(const Value& value);

using Function = std::function<Answer(const Call&)>;

}  // namespace tinker::loss::eval
