#include "engine/product.h"

#include <algorithm>

namespace tinker::engine {
namespace {

std::size_t panels_of(const Product& product) {
  return product.panels != 0 ? product.panels : product.terms[0].w->panels();
}

std::size_t units_of(const Kernels& kernels, const Product& product) {
  return (product.rows + kernels.row_block - 1) / kernels.row_block * panels_of(product);
}

void multiply_unit(const Kernels& kernels, const Product& product, std::size_t unit) {
  const std::size_t panels = panels_of(product);
  const std::size_t row = unit / panels * kernels.row_block;
  const std::size_t index = product.first_panel + unit % panels;
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
      .rows = std::min(kernels.row_block, product.rows - row),
      .width = place.width,
      .columns = place.columns,
      .c = static_cast<std::byte*>(product.c) + (row * product.c_stride + column) * c_bytes,
      .c_stride = product.c_stride,
      .output = product.output,
      .bias = product.bias == nullptr ? nullptr : product.bias + column,
  });
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
