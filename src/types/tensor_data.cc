#include "tinker/types/tensor_data.h"

#include <utility>

#include "base/strings.h"

namespace tinker {
namespace {

std::string text_of(const TensorData::Shape& shape) {
  std::string out = "[";
  for (const auto size : shape) out += base::concat(out.size() > 1 ? ", " : "", size);
  return out + "]";
}

/// How many cells a shape has, or nothing when a dimension is negative or the number overflows.
std::optional<std::int64_t> cell_count(const TensorData::Shape& shape) {
  std::int64_t count = 1;
  for (const auto size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return std::nullopt;
  }
  return count;
}

Result<void> validate_csr(const CsrIndices& indices,
                          const std::optional<TensorData::Shape>& shape,
                          std::size_t listed) {
  if (!shape || shape->size() != 2) {
    return Error::invalid_argument(
        base::concat("expected the shape of a matrix for a sparse tensor, found ",
                     shape ? text_of(*shape) : "none"));
  }
  const auto& [crow, col] = indices;
  const auto rows = static_cast<std::size_t>((*shape)[0]);
  if (crow.size() != rows + 1) {
    return Error::invalid_argument(base::concat(
        "expected ", rows + 1, " crow indices for ", rows, " rows, found ", crow.size()));
  }
  if (col.size() != listed) {
    return Error::invalid_argument(
        base::concat("expected ", listed, " col indices, one per value, found ", col.size()));
  }
  if (crow[0] != 0 || std::cmp_not_equal(crow[rows], listed)) {
    return Error::invalid_argument(base::concat(
        "expected crow indices from 0 to ", listed, ", found ", crow[0], " to ", crow[rows]));
  }
  for (std::size_t row = 0; row < rows; ++row) {
    if (crow[row + 1] < crow[row] || std::cmp_greater(crow[row + 1], listed)) {
      return Error::invalid_argument(base::concat("crow indices do not ascend at row ", row));
    }
    std::int64_t previous = -1;
    for (auto i = crow[row]; i < crow[row + 1]; ++i) {
      const auto column = col[static_cast<std::size_t>(i)];
      if (column <= previous || column >= (*shape)[1]) {
        return Error::invalid_argument(base::concat(
            "expected ascending columns below ", (*shape)[1], " in row ", row, ", found ", column));
      }
      previous = column;
    }
  }
  return {};
}

template <typename T>
TensorData scatter(const Buffer<T>& listed,
                   const CsrIndices& indices,
                   const TensorData::Shape& shape,
                   std::int64_t pad) {
  const auto rows = static_cast<std::size_t>(shape[0]);
  const auto columns = static_cast<std::size_t>(shape[1]);
  std::vector<T> cells(rows * columns, static_cast<T>(pad));
  for (std::size_t row = 0; row < rows; ++row) {
    for (auto i = indices.crow[row]; i < indices.crow[row + 1]; ++i) {
      const auto at = static_cast<std::size_t>(i);
      cells[row * columns + static_cast<std::size_t>(indices.col[at])] = listed[at];
    }
  }
  return {Buffer<T>(std::move(cells)), shape};
}

template <typename T>
TensorData gather(const TensorData& dense,
                  const Buffer<T>& cells,
                  const TensorData::Shape& shape,
                  std::int64_t pad) {
  if (cells.empty()) return dense;
  const auto skip = static_cast<T>(pad);
  std::int64_t listed_count = 0;
  for (const T cell : cells) listed_count += cell != skip ? 1 : 0;
  // The official SDK's rule (PROTOBUF 3.2): CSR only when its three arrays hold fewer numbers.
  if (shape[0] + 1 + 2 * listed_count >= std::ssize(cells.bytes()) / std::ptrdiff_t{sizeof(T)}) {
    return dense;
  }
  std::vector<T> listed;
  std::vector<std::int64_t> crow = {0};
  std::vector<std::int64_t> col;
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    for (std::int64_t column = 0; column < shape[1]; ++column) {
      const T cell = cells[static_cast<std::size_t>(row * shape[1] + column)];
      if (cell == skip) continue;
      listed.push_back(cell);
      col.push_back(column);
    }
    crow.push_back(std::ssize(listed));
  }
  return {Buffer<T>(std::move(listed)),
          shape,
          CsrIndices{.crow = std::move(crow), .col = std::move(col)}};
}

}  // namespace

TensorData::TensorData(std::vector<float> values) : shape_(Shape{std::ssize(values)}) {
  values_ = Buffer<float>(std::move(values));
}

TensorData::TensorData(std::vector<std::int64_t> values) : shape_(Shape{std::ssize(values)}) {
  values_ = Buffer<std::int64_t>(std::move(values));
}

TensorData::TensorData(const std::vector<double>& values) : shape_(Shape{std::ssize(values)}) {
  std::vector<float> rounded;
  rounded.reserve(values.size());
  for (const double value : values) rounded.push_back(static_cast<float>(value));
  values_ = Buffer<float>(std::move(rounded));
}

TensorData::TensorData(const std::vector<std::int32_t>& values)
    : TensorData(std::vector<std::int64_t>(values.begin(), values.end())) {}

TensorData::TensorData(Values values, std::optional<Shape> shape)
    : values_(std::move(values)), shape_(std::move(shape)) {}

TensorData::TensorData(Values values, std::optional<Shape> shape, CsrIndices indices)
    : values_(std::move(values)),
      shape_(std::move(shape)),
      indices_(std::make_shared<const CsrIndices>(std::move(indices))) {}

TensorData TensorData::borrow(std::span<const float> values, Shape shape) {
  return {Buffer<float>::borrow(values), std::move(shape)};
}

TensorData TensorData::borrow(std::span<const std::int64_t> values, Shape shape) {
  return {Buffer<std::int64_t>::borrow(values), std::move(shape)};
}

std::size_t TensorData::size() const {
  return std::visit([](const auto& buffer) { return buffer.size(); }, values_);
}

const Buffer<float>& TensorData::floats() const {
  TINKER_CHECK(dtype() == TensorDtype::float32);
  return *std::get_if<Buffer<float>>(&values_);
}

const Buffer<std::int64_t>& TensorData::ints() const {
  TINKER_CHECK(dtype() == TensorDtype::int64);
  return *std::get_if<Buffer<std::int64_t>>(&values_);
}

Result<void> TensorData::validate() const {
  if (shape_) {
    const auto cells = cell_count(*shape_);
    if (!cells) return Error::invalid_argument(base::concat("impossible shape ", text_of(*shape_)));
    if (!is_sparse() && std::cmp_not_equal(*cells, size())) {
      return Error::invalid_argument(base::concat(
          "expected ", *cells, " values for shape ", text_of(*shape_), ", found ", size()));
    }
  }
  return is_sparse() ? validate_csr(*indices_, shape_, size()) : Result<void>();
}

Result<TensorData> TensorData::to_dense(std::int64_t pad) const {
  // A few bytes of indices can claim any shape; this one still fits into a large machine's memory.
  constexpr std::int64_t kMostCells = std::int64_t{1} << 28U;
  TINKER_TRY(validate());
  if (!is_sparse() || !shape_) return *this;
  if (const auto cells = cell_count(*shape_); !cells || *cells > kMostCells) {
    return Error::invalid_argument(base::concat(
        "expected at most ", kMostCells, " cells to write out, found shape ", text_of(*shape_)));
  }
  return std::visit([&](const auto& listed) { return scatter(listed, *indices_, *shape_, pad); },
                    values_);
}

TensorData TensorData::to_sparse(std::int64_t pad) const {
  if (is_sparse() || !shape_ || shape_->size() != 2 || !validate()) return *this;
  return std::visit([&](const auto& cells) { return gather(*this, cells, *shape_, pad); }, values_);
}

bool operator==(const TensorData& a, const TensorData& b) {
  const bool same_indices =
      a.is_sparse() == b.is_sparse() && (!a.is_sparse() || *a.indices_ == *b.indices_);
  return same_indices && a.shape_ == b.shape_ && a.values_ == b.values_;
}

}  // namespace tinker
