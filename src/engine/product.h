#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "engine/kernels.h"
#include "engine/packed_matrix.h"
#include "engine/thread_pool.h"

namespace tinker::engine {

/// Rows of elements times a matrix: one term of a product.
struct Term {
  const void* a = nullptr;   ///< (rows, w->padded_k()), zeros behind w->k()
  std::size_t a_stride = 0;  ///< In elements.
  const PackedMatrix* w = nullptr;
  std::size_t first_k = 0;  ///< Where to begin in its columns, a multiple of the step.
  std::size_t k = 0;        ///< How many of them; 0: all.
};

/// c = the sum of its terms, in their order. An adapter is a second term beside the weights it
/// adapts.
struct Product {
  static constexpr std::size_t kMostTerms = 6;

  std::array<Term, kMostTerms> terms =
      {};  ///< Up to the first without a matrix; all matrices have as many rows.
  std::size_t rows = 0;
  void* c = nullptr;  ///< (rows, n)
  std::size_t c_stride = 0;
  Output output = Output::store;
  const float* bias = nullptr;
  std::size_t first_panel = 0;  ///< The first column of c belongs to it.
  std::size_t panels = 0;       ///< How many of them; 0: all.
};

/// Computes products that do not depend on each other.
void multiply(ThreadPool& threads, const Kernels& kernels, std::span<const Product> products);

}  // namespace tinker::engine
