#include "engine/head.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tinker::engine {

void Head::lower(const Rows& rows) {
  products_.clear();
  for (const auto& run : rows.runs) {
    const auto* lora = run.adapter == nullptr ? nullptr : run.adapter->find(0, LoraGroup::head);
    if (lora == nullptr) continue;
    Product product = {.rows = run.count,
                       .c = rows.low.row(run.first),
                       .c_stride = rows.low.stride,
                       .output = Output::store_elements};
    product.terms[0] = {
        .a = rows.normed.row(run.first), .a_stride = rows.normed.stride, .w = &lora->a};
    products_.push_back(product);
  }
  multiply(threads_, model_.kernels(), products_);
}

void Head::logits(const Rows& rows, std::size_t block, const FloatRows& logits) {
  const std::size_t panels = (block_size(block) + kPanelColumns - 1) / kPanelColumns;
  multiply_panels(rows, block * kBlockPanels, panels, logits);
}

void Head::all_logits(const Rows& rows, const FloatRows& logits) {
  multiply_panels(rows, 0, model_.head().panels(), logits);
}

void Head::multiply_panels(const Rows& rows,
                           std::size_t first_panel,
                           std::size_t panels,
                           const FloatRows& logits) {
  products_.clear();
  for (const auto& run : rows.runs) {
    const auto* lora = run.adapter == nullptr ? nullptr : run.adapter->find(0, LoraGroup::head);
    Product product = {.rows = run.count,
                       .c = logits.row(run.first),
                       .c_stride = logits.stride,
                       .first_panel = first_panel,
                       .panels = panels};
    product.terms[0] = {
        .a = rows.normed.row(run.first), .a_stride = rows.normed.stride, .w = &model_.head()};
    if (lora != nullptr) {
      product.terms[1] = {
          .a = rows.low.row(run.first), .a_stride = rows.low.stride, .w = &lora->b[0]};
    }
    products_.push_back(product);
  }
  multiply(threads_, model_.kernels(), products_);
}

const PackedMatrix& Head::transposed(std::size_t block) {
  const auto& kernels = model_.kernels();
  auto& out = block_size(block) == kBlock ? transposed_ : transposed_rest_;
  if (out.n() == 0) out = PackedMatrix(kernels, model_.config().hidden_size, block_size(block));
  threads_.run(out.panels(), [&](std::size_t panel, std::size_t /*thread*/) {
    out.set_transposed_panel(kernels, panel, model_.head(), block * kBlockPanels);
  });
  return out;
}

float log_sum_exp(std::span<const SoftmaxPart> parts) {
  float top = -std::numeric_limits<float>::infinity();
  for (const auto& part : parts) top = std::max(top, part.max);
  double sum = 0;
  for (const auto& part : parts) {
    sum += static_cast<double>(part.sum) *
           std::exp(static_cast<double>(part.max) - static_cast<double>(top));
  }
  return static_cast<float>(static_cast<double>(top) + std::log(sum));
}

}  // namespace tinker::engine
