#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "loss/tensor.h"
#include "tinker/unique_function.h"

namespace tinker::loss::eval {

/// A tensor, and where on the tape its gradient is kept if it has one. Copies share the numbers.
class Variable {
 public:
  explicit Variable(Tensor constant) : tensor_(std::make_shared<Tensor>(std::move(constant))) {}

  [[nodiscard]] const Tensor& tensor() const noexcept { return *tensor_; }
  [[nodiscard]] const Shape& shape() const noexcept { return tensor_->shape; }
  [[nodiscard]] Dtype dtype() const noexcept { return tensor_->dtype; }
  [[nodiscard]] std::size_t rank() const noexcept { return tensor_->rank(); }
  [[nodiscard]] std::size_t size() const noexcept { return tensor_->size(); }
  [[nodiscard]] const std::vector<double>& values() const noexcept { return tensor_->values; }
  [[nodiscard]] bool requires_gradient() const noexcept { return slot_ != kConstant; }

  /// The same numbers without a gradient.
  [[nodiscard]] Variable detached() const {
    Variable out = *this;
    out.slot_ = kConstant;
    return out;
  }

 private:
  friend class Tape;
  friend class Gradients;
  static constexpr std::size_t kConstant = static_cast<std::size_t>(-1);

  std::shared_ptr<const Tensor> tensor_;
  std::size_t slot_ = kConstant;
};

/// Gradients of the output with respect to everything on the tape, as far as they are known.
class Gradients {
 public:
  /// Where to add the gradient with respect to `variable`. Requires that it has one.
  std::span<double> of(const Variable& variable);

 private:
  friend class Tape;
  std::vector<std::vector<double>> slots_;  // empty: nothing has arrived yet
};

/// Adds to the gradients of an operation's inputs, given that of its output.
using Backward = UniqueFunction<void(std::span<const double> output, Gradients& inputs)>;

/// Remembers what was computed, to run it backwards; and what it cost, to stop graphs of strangers
/// before they exhaust the machine. Thread-compatible.
class Tape {
 public:
  /// `budget`: elements that all operations together may read and write.
  explicit Tape(std::size_t budget) : left_(budget) {}

  /// Takes `elements` off the budget; operations do it before they allocate.
  Result<void> charge(std::size_t elements);

  /// A variable to differentiate by.
  Variable leaf(Tensor value);
  /// The result of an operation: a constant unless one of `inputs` has a gradient.
  Variable record(Tensor value, std::initializer_list<Variable> inputs, Backward backward);
  Variable record(Tensor value, std::span<const Variable> inputs, Backward backward);

  /// d output / d leaf. `output` has one element and a gradient. Uses the tape up.
  std::vector<double> differentiate(const Variable& output, const Variable& leaf);

 private:
  std::size_t left_;
  std::vector<Backward> steps_;  // by slot; empty for leaves
};

}  // namespace tinker::loss::eval
