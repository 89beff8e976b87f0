#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tinker/result.h"

/// The evaluator behind `tinker::loss`: dense tensors, a tape, and the operations of torch that a
/// traced loss may use.
namespace tinker::loss::eval {

using Shape = std::vector<std::int64_t>;

inline constexpr std::size_t kMaxRank = 4;

/// What torch's promotion distinguishes: bool, any integer, any float. In this order, so that the
/// greater of two is what they promote to.
enum class Dtype { boolean, integer, floating };

/// Dense and row-major. Every element is a double, whatever `dtype` says: losses are small, and
/// what is computed here is more exact than the float32 that travels.
struct Tensor {
  Shape shape = {};
  Dtype dtype = Dtype::floating;
  std::vector<double> values = {};

  [[nodiscard]] std::size_t size() const noexcept { return values.size(); }
  [[nodiscard]] std::size_t rank() const noexcept { return shape.size(); }
};

Tensor scalar(double value, Dtype dtype = Dtype::floating);

Error invalid(std::string message);

/// The error of an operation that met shapes it cannot work with: "expected ..., found [2, 3]".
Error bad_shape(std::string_view expected, const Shape& found);

/// "[2, 3]"; "[]" for a scalar.
std::string to_string(const Shape& shape);
/// As torch names them: "bool", "int64", "float32".
std::string_view to_string(Dtype dtype);

/// Elements of a tensor of that shape; an error for a negative size, too many axes, or a product
/// beyond 2^40, which no budget allows anyway.
Result<std::size_t> element_count(const Shape& shape);

/// Distance in elements between neighbours along each axis.
std::vector<std::size_t> row_major_strides(const Shape& shape);

/// The shape that both broadcast to.
Result<Shape> broadcast(const Shape& a, const Shape& b);
/// Strides of an operand of shape `from`, walked along `to`: 0 where it repeats. Requires that
/// `from` broadcasts to `to`.
std::vector<std::size_t> broadcast_strides(const Shape& from, const Shape& to);

/// An axis as Python counts it (-1 is the last one), checked against `rank`. A scalar has an axis
/// 0, as in torch.
Result<std::size_t> normalize_axis(std::int64_t axis, std::size_t rank);

/// `value` as an integer, cut towards zero; what does not fit becomes the nearest that does, NaN
/// the smallest (as x86 does it for torch).
std::int64_t to_integer(double value);

/// Calls `visit(offset)` for each element of `shape` in row-major order, where `offset` is the
/// element's place according to `strides`.
template <typename Visit>
void walk(const Shape& shape, std::span<const std::size_t> strides, Visit&& visit) {
  for (const auto extent : shape) {
    if (extent == 0) return;
  }
  std::vector<std::int64_t> position(shape.size(), 0);
  std::size_t offset = 0;
  while (true) {
    visit(offset);
    std::size_t axis = shape.size();
    while (axis > 0) {
      --axis;
      offset += strides[axis];
      if (++position[axis] < shape[axis]) break;
      offset -= strides[axis] * static_cast<std::size_t>(shape[axis]);
      position[axis] = 0;
      if (axis == 0) return;
    }
    if (shape.empty()) return;
  }
}

}  // namespace tinker::loss::eval
