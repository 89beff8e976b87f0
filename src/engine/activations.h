#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/adapter.h"
#include "engine/arena.h"
#include "engine/model.h"

namespace tinker::engine {

/// Rows of elements, `stride` elements apart.
struct ElementRows {
  std::byte* data = nullptr;
  std::size_t stride = 0;
  std::size_t element_bytes = 4;

  [[nodiscard]] std::byte* row(std::size_t index, std::size_t column = 0) const noexcept {
    return data + (index * stride + column) * element_bytes;
  }
  /// The rows from `first` on.
  [[nodiscard]] ElementRows from(std::size_t first) const noexcept {
    return {.data = row(first), .stride = stride, .element_bytes = element_bytes};
  }
};
/// Rows of floats, one after another.
struct FloatRows {
  float* data = nullptr;
  std::size_t stride = 0;

  [[nodiscard]] float* row(std::size_t index) const noexcept { return data + index * stride; }
  [[nodiscard]] FloatRows from(std::size_t first) const noexcept {
    return {.data = data == nullptr ? nullptr : row(first), .stride = stride};
  }
};

inline constexpr std::size_t kPieceRows = 512;

/// How large the arrays of a pass are.
struct PassShape {
  std::size_t rows = 0;         ///< At most.
  std::size_t padded_rank = 0;  ///< The largest of the adapters, 0 without any.
  std::size_t pages = 0;        ///< Of all sequences that are differentiated.
  std::size_t longest = 0;      ///< Tokens of one of them.
  /// Rows that go through a layer together: few enough for what is computed of them to stay in the
  /// caches. At least `kKeyBlock`.
  std::size_t piece = kPieceRows;

  [[nodiscard]] bool fits(const PassShape& room) const noexcept {
    return rows <= room.rows && padded_rank <= room.padded_rank && pages <= room.pages &&
           longest <= room.longest && piece <= room.piece;
  }
};

/// What a layer computes of each row, and its backward pass reads again.
struct LayerState {
  FloatRows x = {};       ///< (rows, hidden) its input
  FloatRows middle = {};  ///< (rows, hidden) after attention
  FloatRows raw_q = {};   ///< (rows, q_size) before norm and rotation, if they must be kept
  FloatRows raw_k = {};
  ElementRows q = {};     ///< (rows, q_size)
  ElementRows out = {};   ///< (rows, q_size) of attention
  FloatRows lse = {};     ///< (rows, heads)
  ElementRows gate = {};  ///< (rows, ffn)
  ElementRows up = {};
  std::array<ElementRows, kLayerGroups> low =
      {};  ///< (rows, count * padded rank): A x of each group

  /// The rows from `first` on.
  [[nodiscard]] LayerState from(std::size_t first) const noexcept;
};

/// Gives out the arrays of one pass.
class ActivationPlan {
 public:
  ActivationPlan(const Model& model, const PassShape& shape) : model_(model), shape_(shape) {}

  [[nodiscard]] ElementRows elements(Arena& arena, std::size_t columns) const {
    const auto& kernels = model_.kernels();
    const std::size_t stride = round_up(columns, kernels.step);
    return {.data = arena.bytes(shape_.rows * stride * kernels.element_bytes),
            .stride = stride,
            .element_bytes = kernels.element_bytes};
  }
  [[nodiscard]] FloatRows floats(Arena& arena, std::size_t columns) const {
    return {.data = arena.floats(shape_.rows * columns), .stride = columns};
  }
  [[nodiscard]] ElementRows low(Arena& arena, LoraGroup group) const {
    return elements(arena, members_of(group).count * shape_.padded_rank);
  }
  [[nodiscard]] const PassShape& shape() const noexcept { return shape_; }
  /// The same for the rows of a piece.
  [[nodiscard]] ActivationPlan of_piece() const {
    auto shape = shape_;
    shape.rows = std::min(shape.piece, shape.rows);
    return {model_, shape};
  }
  /// All but x, middle, raw_q and raw_k, which need not be kept by all.
  [[nodiscard]] LayerState layer(Arena& arena) const;

 private:
  const Model& model_;
  PassShape shape_;
};

}  // namespace tinker::engine
