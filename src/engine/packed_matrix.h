#pragma once

#include <cstddef>
#include <span>

#include "engine/kernels.h"
#include "engine/memory.h"

namespace tinker::engine {

/// A matrix of weights in the order in which the products read it: panels of 48 rows, in each of
/// which the elements of a column (or of a pair of columns, in bf16) lie side by side. (n, k), y =
/// W x.
class PackedMatrix {
 public:
  struct Panel {
    const std::byte* data = nullptr;
    std::size_t first = 0;    ///< Row of the matrix, column of the product.
    std::size_t columns = 0;  ///< That exist.
    std::size_t width = 0;    ///< With padding.
  };

  PackedMatrix() = default;
  /// All zeros.
  PackedMatrix(const Kernels& kernels, std::size_t n, std::size_t k);
  /// What such a matrix takes.
  static std::size_t bytes(const Kernels& kernels, std::size_t n, std::size_t k);

  [[nodiscard]] std::size_t n() const noexcept { return n_; }
  [[nodiscard]] std::size_t k() const noexcept { return k_; }
  /// `k` with the zeros that fill its last step.
  [[nodiscard]] std::size_t padded_k() const noexcept { return padded_k_; }
  [[nodiscard]] std::size_t panels() const noexcept {
    return (n_ + kPanelColumns - 1) / kPanelColumns;
  }
  [[nodiscard]] Panel panel(std::size_t index) const noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return data_.size(); }

  /// Different rows may be set from different threads.
  void set_row(std::size_t row, std::span<const float> values);
  /// Some columns of a row, from an even one on.
  void set_columns(std::size_t row, std::size_t first, std::span<const float> values);
  void read_row(std::size_t row, std::span<float> out) const;
  /// Copies the panel `index` of the transpose of `other`, of as many of its rows as this has
  /// columns, from the panel `first_panel` on.
  void set_transposed_panel(const Kernels& kernels,
                            std::size_t index,
                            const PackedMatrix& other,
                            std::size_t first_panel = 0);

 private:
  /// Where row `row` has its first element, and how far it is from group to group.
  struct RowPlace {
    std::size_t begin = 0;
    std::size_t step = 0;
  };
  [[nodiscard]] RowPlace place_of(std::size_t row) const noexcept;
  std::size_t n_ = 0;
  std::size_t k_ = 0;
  std::size_t padded_k_ = 0;
  std::size_t element_bytes_ = 4;
  std::size_t group_ = 1;
  AlignedBytes data_;
};

}  // namespace tinker::engine
