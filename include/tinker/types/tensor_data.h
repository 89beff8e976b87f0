#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "tinker/result.h"
#include "tinker/types/buffer.h"
#include "tinker/types/open_enum.h"

namespace tinker {

/// The two element types that travel. Other types become these on the way in: shorter integers are
/// widened, doubles rounded.
enum class TensorDtype { int64, float32 };
template <>
inline constexpr std::array<std::string_view, 2> detail::kEnumNames<TensorDtype> = {"int64",
                                                                                    "float32"};

/// Where the listed values of a sparse matrix sit: compressed sparse rows.
struct CsrIndices {
  Buffer<std::int64_t> crow = {};  ///< rows + 1 entries: row r lists values [crow[r], crow[r + 1]).
  Buffer<std::int64_t> col = {};   ///< One column per listed value, ascending within a row.

  friend bool operator==(const CsrIndices&, const CsrIndices&) = default;
};

/// A tensor of a request or an answer: float32 or int64, dense or CSR. Copies share the numbers.
///
///     TensorData weights = std::vector<float>{0.0F, 1.0F};         // 1-D, takes it over
///     auto targets = TensorData::borrow(std::span(ids), {2, 3});   // refers to ids
///
/// Immutable.
class TensorData {
 public:
  using Shape = std::vector<std::int64_t>;
  using Values = std::variant<Buffer<std::int64_t>, Buffer<float>>;

  /// An empty 1-D float32 tensor.
  TensorData() : TensorData(std::vector<float>{}) {}
  // NOLINTBEGIN(google-explicit-constructor): a vector is a 1-D tensor.
  TensorData(std::vector<float> values);
  TensorData(std::vector<std::int64_t> values);
  TensorData(const std::vector<double>& values);
  TensorData(const std::vector<std::int32_t>& values);
  // NOLINTEND(google-explicit-constructor)
  /// Without a shape the tensor means 1-D, but none is sent. Consistency is `validate()`'s
  /// business.
  TensorData(Values values, std::optional<Shape> shape);
  /// A CSR matrix; `shape` is that of the dense form, `values` are the listed ones.
  TensorData(Values values, std::optional<Shape> shape, CsrIndices indices);

  /// Refers to memory the caller keeps alive and unchanged for as long as any copy lives.
  static TensorData borrow(std::span<const float> values, Shape shape);
  static TensorData borrow(std::span<const std::int64_t> values, Shape shape);

  [[nodiscard]] TensorDtype dtype() const noexcept {
    return static_cast<TensorDtype>(values_.index());
  }
  /// Absent when none was given or received; empty for a scalar.
  [[nodiscard]] const std::optional<Shape>& shape() const noexcept { return shape_; }
  [[nodiscard]] bool is_sparse() const noexcept { return indices_ != nullptr; }
  /// Null unless sparse.
  [[nodiscard]] const CsrIndices* indices() const noexcept { return indices_.get(); }
  /// How many values are stored: all of a dense tensor, the listed ones of a sparse one.
  [[nodiscard]] std::size_t size() const;

  [[nodiscard]] const Values& values() const noexcept { return values_; }
  /// The stored values; requires that `dtype()` is that type.
  [[nodiscard]] const Buffer<float>& floats() const;
  [[nodiscard]] const Buffer<std::int64_t>& ints() const;

  /// Checks that values, shape and indices fit together (PROTOBUF 3.2): the error says what was
  /// found and what was expected.
  [[nodiscard]] Result<void> validate() const;

  /// This tensor with every cell written out; cells a sparse one does not list become `pad`. A
  /// dense one comes back as it is.
  [[nodiscard]] Result<TensorData> to_dense(std::int64_t pad = 0) const;
  /// This 2-D dense tensor as CSR without the cells equal to `pad`, when that saves space (PROTOBUF
  /// 3.2); otherwise unchanged.
  [[nodiscard]] TensorData to_sparse(std::int64_t pad = 0) const;

  friend bool operator==(const TensorData& a, const TensorData& b);

 private:
  Values values_;
  std::optional<Shape> shape_;
  std::shared_ptr<const CsrIndices> indices_;
};

}  // namespace tinker
