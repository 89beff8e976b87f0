#include "engine/product.h"

#include <algorithm>

namespace tinker::engine {
namespace {

/// Widened rows that stay in the second-level cache beside a panel.
constexpr std::size_t kWidenedFloats = std::size_t{64} << 10U;
/// Rows that are a whole number of tiles on every path.
constexpr std::size_t kWholeTiles = 24;

std::size_t panels_of(const Product& product) {
  return product.panels != 0 ? product.panels : product.terms[0].w->panels();
}
std::size_t depth_of(const Kernels& kernels, const Term& term) {
  return term.k != 0 ? round_up(term.k, kernels.step) : term.w->padded_k();
}
std::size_t terms_of(const Product& product) {
  std::size_t count = 0;
  while (count < product.terms.size() && product.terms[count].w != nullptr) ++count;
  return count;
}
bool widens(const Kernels& kernels) {
  return kernels.left_bytes != kernels.element_bytes;
}
/// Between widened rows: not a multiple of what a cache has sets of.
std::size_t widened_stride(std::size_t depth) {
  return round_up(depth, kLanes) + kLanes;
}
/// Floats of one widened row of all terms.
std::size_t widened_size(const Kernels& kernels, const Product& product) {
  if (!widens(kernels)) return 0;
  std::size_t size = 0;
  for (std::size_t i = 0; i < terms_of(product); ++i)
    size += widened_stride(depth_of(kernels, product.terms[i]));
  return size;
}

/// Rows and panels of a unit of work: as many as are best multiplied at once, and fewer panels
/// where the threads would have too few units.
struct UnitShape {
  UnitShape(const Kernels& kernels, std::size_t threads, const Product& product)
      : rows(kernels.row_block) {
    if (const std::size_t widened = widened_size(kernels, product); widened > 0)
      rows = std::clamp(kWidenedFloats / widened / kWholeTiles * kWholeTiles, kWholeTiles, rows);
    const std::size_t row_blocks = (product.rows + rows - 1) / rows;
    const std::size_t all = panels_of(product);
    panels = std::clamp<std::size_t>(row_blocks * all / (4 * threads), 1, kernels.panel_block);
    groups = (all + panels - 1) / panels;
    units = row_blocks * groups;
  }
  std::size_t rows;
  std::size_t panels = 1;
  std::size_t groups = 1;  ///< Of panels.
  std::size_t units = 0;
};

/// The left side of a term, from the first row of a unit on.
struct LeftRows {
  const std::byte* data = nullptr;
  std::size_t stride = 0;
};
using LeftSides = std::array<LeftRows, Product::kMostTerms>;

LeftSides left_sides(const Kernels& kernels,
                     const Product& product,
                     std::size_t first_row,
                     std::size_t rows,
                     float* scratch) {
  LeftSides out;
  for (std::size_t i = 0; i < terms_of(product); ++i) {
    const auto& term = product.terms[i];
    const std::size_t row_bytes = term.a_stride * kernels.element_bytes;
    const std::byte* a = static_cast<const std::byte*>(term.a) + first_row * row_bytes;
    if (!widens(kernels)) {
      out[i] = {.data = a, .stride = term.a_stride};
      continue;
    }
    const std::size_t depth = depth_of(kernels, term);
    out[i] = {.data = reinterpret_cast<const std::byte*>(scratch), .stride = widened_stride(depth)};
    for (std::size_t row = 0; row < rows; ++row, a += row_bytes, scratch += out[i].stride)
      kernels.from_elements(a, depth, scratch);
  }
  return out;
}

void multiply_unit(const Kernels& kernels,
                   const Product& product,
                   const UnitShape& shape,
                   std::size_t unit,
                   float* scratch) {
  const std::size_t row = unit / shape.groups * shape.rows;
  const std::size_t rows = std::min(product.rows - row, shape.rows);
  const std::size_t panel = unit % shape.groups * shape.panels;
  const std::size_t panels = std::min(panels_of(product) - panel, shape.panels);
  const auto& matrix = *product.terms[0].w;
  const std::size_t column = panel * kPanelColumns;  // in c
  const std::size_t first = product.first_panel * kPanelColumns + column;
  const auto left = left_sides(kernels, product, row, rows, scratch);
  const std::size_t count = terms_of(product);
  std::array<Segment, Product::kMostTerms> segments;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& term = product.terms[i];
    segments[i] = {.a = left[i].data,
                   .a_stride = left[i].stride,
                   .panels = term.w->panel(product.first_panel + panel).data,
                   .depth = term.w->padded_k(),
                   .first_k = term.first_k,
                   .k = depth_of(kernels, term)};
  }
  const std::size_t c_bytes =
      product.output == Output::store_elements ? kernels.element_bytes : sizeof(float);
  kernels.product({
      .segments = segments.data(),
      .segment_count = count,
      .rows = rows,
      .columns = std::min(matrix.n() - first, panels * kPanelColumns),
      .c = static_cast<std::byte*>(product.c) + (row * product.c_stride + column) * c_bytes,
      .c_stride = product.c_stride,
      .output = product.output,
      .bias = product.bias == nullptr ? nullptr : product.bias + column,
  });
}

}  // namespace

void multiply(ThreadPool& threads, const Kernels& kernels, std::span<const Product> products) {
  std::size_t units = 0;
  std::size_t widened = 0;
  for (const auto& product : products) {
    const UnitShape shape(kernels, threads.size(), product);
    units += shape.units;
    widened = std::max(widened, shape.rows * widened_size(kernels, product));
  }
  threads.reserve_scratch(widened);
  threads.run(units, [&](std::size_t unit, std::size_t thread) {
    for (const auto& product : products) {
      const UnitShape shape(kernels, threads.size(), product);
      if (unit < shape.units)
        return multiply_unit(kernels, product, shape, unit, threads.scratch(thread));
      unit -= shape.units;
    }
  });
}

}  // namespace tinker::engine
