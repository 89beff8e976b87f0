#pragma once

// TensorData to and from Eigen. Present only where Eigen is: the library does not need it.

#if __has_include(<Eigen/Core>)

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include "tinker/result.h"
#include "tinker/types/tensor_data.h"

namespace tinker::adapters {

namespace detail {
/// Floats travel as float32, signed integers as int64.
template <typename Scalar>
using WireScalar = std::conditional_t<std::is_integral_v<Scalar>, std::int64_t, float>;

template <typename Derived>
TensorData::Shape eigen_shape(const Eigen::DenseBase<Derived>& values) {
  if constexpr (Derived::IsVectorAtCompileTime) {
    return {values.size()};
  } else {
    return {values.rows(), values.cols()};
  }
}
}  // namespace detail

/// A copy of any Eigen vector (1-D) or matrix (2-D).
template <typename Derived>
  requires(std::floating_point<typename Derived::Scalar> ||
           std::signed_integral<typename Derived::Scalar>)
TensorData from_eigen(const Eigen::DenseBase<Derived>& values) {
  using Wire = detail::WireScalar<typename Derived::Scalar>;
  std::vector<Wire> cells;
  cells.reserve(static_cast<std::size_t>(values.size()));
  for (Eigen::Index row = 0; row < values.rows(); ++row) {
    for (Eigen::Index column = 0; column < values.cols(); ++column) {
      cells.push_back(static_cast<Wire>(values.derived().coeff(row, column)));
    }
  }
  return {Buffer<Wire>(std::move(cells)), detail::eigen_shape(values)};
}

/// Refers to a vector or a row-major matrix of float or int64, which the caller keeps alive and
/// unchanged for as long as any copy lives.
template <typename Derived>
  requires((std::same_as<typename Derived::Scalar, float> ||
            std::same_as<typename Derived::Scalar, std::int64_t>) &&
           (static_cast<bool>(Derived::IsRowMajor) ||
            static_cast<bool>(Derived::IsVectorAtCompileTime)))
TensorData borrow_eigen(const Eigen::PlainObjectBase<Derived>& values) {
  return TensorData::borrow(std::span<const typename Derived::Scalar>(
                                values.data(), static_cast<std::size_t>(values.size())),
                            detail::eigen_shape(values));
}

template <typename Scalar>
using RowMajorMatrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The tensor as a matrix: 2-D as it is, 1-D as one column; a sparse one is written out with `pad`.
/// An error for other ranks and for a dtype other than `Scalar`'s.
template <typename Scalar>
  requires(std::same_as<Scalar, float> || std::same_as<Scalar, std::int64_t>)
Result<RowMajorMatrix<Scalar>> to_eigen(const TensorData& tensor, std::int64_t pad = 0) {
  TINKER_TRY(const TensorData dense, tensor.to_dense(pad));
  const auto* cells = std::get_if<Buffer<Scalar>>(&dense.values());
  const auto shape =
      dense.shape().value_or(TensorData::Shape{static_cast<std::int64_t>(dense.size())});
  if (cells == nullptr || shape.empty() || shape.size() > 2) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = cells == nullptr ? "expected a tensor of the matrix's element type"
                                             : "expected a tensor of rank 1 or 2"};
  }
  RowMajorMatrix<Scalar> matrix(shape[0], shape.size() == 2 ? shape[1] : 1);
  std::copy(cells->begin(), cells->end(), matrix.data());
  return matrix;
}

}  // namespace tinker::adapters

#endif
