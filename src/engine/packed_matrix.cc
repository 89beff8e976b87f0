#include "engine/packed_matrix.h"

#include <algorithm>
#include <cstdint>

#include "base/half.h"
#include "tinker/check.h"

namespace tinker::engine {

PackedMatrix::PackedMatrix(const Kernels& kernels, std::size_t n, std::size_t k)
    : n_(n),
      k_(k),
      padded_k_(round_up(k, kernels.step)),
      element_bytes_(kernels.element_bytes),
      group_(kernels.group),
      data_(bytes(kernels, n, k)) {}

std::size_t PackedMatrix::bytes(const Kernels& kernels, std::size_t n, std::size_t k) {
  return round_up(n, kLanes) * round_up(k, kernels.step) * kernels.element_bytes;
}

PackedMatrix::Panel PackedMatrix::panel(std::size_t index) const noexcept {
  const std::size_t first = index * kPanelColumns;
  const std::size_t columns = std::min(kPanelColumns, n_ - first);
  return {.data = data_.data() + first * padded_k_ * element_bytes_,
          .first = first,
          .columns = columns,
          .width = round_up(columns, kLanes)};
}

PackedMatrix::RowPlace PackedMatrix::place_of(std::size_t row) const noexcept {
  const auto home = panel(row / kPanelColumns);
  return {.begin = home.first * padded_k_ + (row - home.first) * group_,
          .step = home.width * group_};
}

void PackedMatrix::set_row(std::size_t row, std::span<const float> values) {
  TINKER_CHECK(values.size() == k_);
  set_columns(row, 0, values);
}

void PackedMatrix::set_columns(std::size_t row, std::size_t first, std::span<const float> values) {
  TINKER_CHECK(row < n_ && first % 2 == 0 && first + values.size() <= k_);
  auto place = place_of(row);
  place.begin += first / group_ * place.step;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t at = place.begin + i / group_ * place.step + i % group_;
    if (element_bytes_ == sizeof(float)) {
      reinterpret_cast<float*>(data_.data())[at] = values[i];
    } else {
      reinterpret_cast<std::uint16_t*>(data_.data())[at] = base::to_bf16(values[i]);
    }
  }
}

void PackedMatrix::read_row(std::size_t row, std::span<float> out) const {
  TINKER_CHECK(row < n_ && out.size() == k_);
  const auto place = place_of(row);
  for (std::size_t i = 0; i < k_; ++i) {
    const std::size_t at = place.begin + i / group_ * place.step + i % group_;
    out[i] = element_bytes_ == sizeof(float)
                 ? reinterpret_cast<const float*>(data_.data())[at]
                 : base::from_bf16(reinterpret_cast<const std::uint16_t*>(data_.data())[at]);
  }
}

void PackedMatrix::set_transposed_panel(const Kernels& kernels,
                                        std::size_t index,
                                        const PackedMatrix& other,
                                        std::size_t first_panel) {
  TINKER_CHECK(n_ == other.k_ && first_panel * kPanelColumns + k_ <= other.n_);
  const auto mine = panel(index);
  std::byte* out = data_.data() + mine.first * padded_k_ * element_bytes_;
  for (std::size_t row = 0; row < k_; row += kPanelColumns) {
    const auto theirs = other.panel(first_panel + row / kPanelColumns);
    kernels.transpose(theirs.data + mine.first * theirs.width * element_bytes_,
                      theirs.width,
                      mine.columns,
                      std::min(theirs.columns, k_ - row),
                      out + row * mine.width * element_bytes_,
                      mine.width);
  }
}

}  // namespace tinker::engine
