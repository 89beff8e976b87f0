#include "engine/product.h"

#include <algorithm>

namespace tinker::engine {
namespace {

std::size_t panels_of(const Product& product) {
  return product.panels != 0 ? product.panels : product.terms[0].w->panels();
}

/// Rows and panels of a unit of work. Few rows leave many panels for the other threads.
struct UnitShape {
  UnitShape(const Kernels& kernels, const Product& product)
      : rows(kernels.row_block), panels(product.rows > rows ? kernels.panel_block : 1) {}
  std::size_t rows;
  std::size_t panels;
};

std::size_t units_of(const Kernels& kernels, const Product& product) {
  const UnitShape shape(kernels, product);
  return (product.rows + shape.rows - 1) / shape.rows *
         ((panels_of(product) + shape.panels - 1) / shape.panels);
}

void multiply_panel(const Kernels& kernels,
                    const Product& product,
                    std::size_t row,
                    std::size_t rows,
                    std::size_t index) {
  const auto place = product.terms[0].w->panel(index);
  const std::size_t column = place.first - product.first_panel * kPanelColumns;
  std::array<Segment, Product::kMostTerms> segments;
  std::size_t count = 0;
  for (; count < product.terms.size() && product.terms[count].w != nullptr; ++count) {
    const auto& term = product.terms[count];
    segments[count] = {
        .a = static_cast<const std::byte*>(term.a) + row * term.a_stride * kernels.element_bytes,
        .a_stride = term.a_stride,
        .panel = term.w->panel(index).data + term.first_k * place.width * kernels.element_bytes,
        .k = term.k != 0 ? round_up(term.k, kernels.step) : term.w->padded_k()};
  }
  const std::size_t c_bytes =
      product.output == Output::store_elements ? kernels.element_bytes : sizeof(float);
  kernels.product({
      .segments = segments.data(),
      .segment_count = count,
      .rows = rows,
      .width = place.width,
      .columns = place.columns,
      .c = static_cast<std::byte*>(product.c) + (row * product.c_stride + column) * c_bytes,
      .c_stride = product.c_stride,
      .output = product.output,
      .bias = product.bias == nullptr ? nullptr : product.bias + column,
  });
}

void multiply_unit(const Kernels& kernels, const Product& product, std::size_t unit) {
  const UnitShape shape(kernels, product);
  const std::size_t panels = panels_of(product);
  const std::size_t groups = (panels + shape.panels - 1) / shape.panels;
  const std::size_t first_row = unit / groups * shape.rows;
  const std::size_t last_row = std::min(product.rows, first_row + shape.rows);
  const std::size_t first = unit % groups * shape.panels;
  const std::size_t last = std::min(panels, first + shape.panels);
  for (std::size_t row = first_row; row < last_row; row += kernels.tile_rows) {
    for (std::size_t panel = first; panel < last; ++panel) {
      multiply_panel(kernels,
                     product,
                     row,
                     std::min(kernels.tile_rows, last_row - row),
                     product.first_panel + panel);
    }
  }
}

}  // namespace

void multiply(ThreadPool& threads, const Kernels& kernels, std::span<const Product> products) {
  std::size_t units = 0;
  for (const auto& product : products) units += units_of(kernels, product);
  threads.run(units, [&](std::size_t unit, std::size_t /*thread*/) {
    const Product* product = products.data();
    for (; unit >= units_of(kernels, *product); ++product) unit -= units_of(kernels, *product);
    multiply_unit(kernels, *product, unit);
  });
}

}  // namespace tinker::engine
