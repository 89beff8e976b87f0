#pragma once

#include <cstddef>

namespace tinker::engine {

/// Rotations turn pairs of rows of a q or k projection. Hugging Face has the first of all pairs of
/// a head, then the second of all; llama2.c and GGUF files of Llama have the two side by side.
/// Where the latter have the row that is `row` for the former.
constexpr std::size_t side_by_side_row(std::size_t row, std::size_t head_dim) noexcept {
  const std::size_t half = head_dim / 2;
  const std::size_t in_head = row % head_dim;
  return row - in_head + in_head % half * 2 + in_head / half;
}

}  // namespace tinker::engine
