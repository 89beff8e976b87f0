#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "loss/tape.h"

namespace tinker::loss::eval {

struct Value;

struct None {};
struct Ellipsis {};

/// A Python number: bool, int or float, as `dtype` says.
struct Number {
  double value = 0.0;
  Dtype dtype = Dtype::floating;
};

/// A device, layout or memory format: accepted where torch takes one, without meaning here.
struct Place {
  std::string name = {};
};

/// The value of an earlier node; only inside a compiled graph.
struct Ref {
  std::size_t node = 0;
};

struct Sequence {
  std::vector<Value> items;  // no initializer: Value is not complete here
  bool is_list = false;      ///< [...], which indexes like a tensor; a tuple does not.
  bool is_extreme = false;   ///< What torch.max(x, dim) gives: (values, indices).
};

struct SliceRange {
  std::vector<Value> bounds;  ///< Start, stop, step.
};

/// Whatever flows along the edges of a traced graph.
struct Value {
  using Any = std::variant<None,
                           Ellipsis,
                           Number,
                           std::string,
                           Dtype,
                           Place,
                           Ref,
                           Variable,
                           Sequence,
                           SliceRange>;
  Any any = {};

  Value() = default;
  // NOLINTBEGIN(google-explicit-constructor): every alternative is a value.
  template <typename T>
    requires std::constructible_from<Any, T> && (!std::same_as<std::remove_cvref_t<T>, Value>)
  Value(T&& value) : any(std::forward<T>(value)) {}
  // NOLINTEND(google-explicit-constructor)

  template <typename T>
  [[nodiscard]] const T* get_if() const noexcept {
    return std::get_if<T>(&any);
  }
  [[nodiscard]] bool is_none() const noexcept { return any.index() == 0; }
};

inline Value integer_value(std::int64_t value) {
  return Number{.value = static_cast<double>(value), .dtype = Dtype::integer};
}

/// `Result<Value>` that any alternative of a value, or a computed tensor, converts to.
class Answer : public Result<Value> {
 public:
  // NOLINTBEGIN(google-explicit-constructor): `return x;` is the point of the type.
  template <typename T>
    requires std::constructible_from<Value::Any, T> &&
             (!std::same_as<std::remove_cvref_t<T>, Value>)
  Answer(T&& value) : Result<Value>(Value(std::forward<T>(value))) {}
  Answer(Value value) : Result<Value>(std::move(value)) {}
  Answer(Error error) : Result<Value>(std::move(error)) {}
  Answer(Result<Variable> computed)
      : Result<Value>(computed ? Result<Value>(Value(*std::move(computed)))
                               : Result<Value>(std::move(computed).error())) {}
  // NOLINTEND(google-explicit-constructor)
};

/// The kind of a value, for messages: "float32[3, 4]", "int 2", "None".
std::string describe(const Value& value);

}  // namespace tinker::loss::eval
