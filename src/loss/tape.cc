#include "loss/tape.h"

#include <algorithm>

#include "tinker/check.h"

namespace tinker::loss::eval {

std::span<double> Gradients::of(const Variable& variable) {
  TINKER_CHECK(variable.requires_gradient());
  auto& slot = slots_[variable.slot_];
  if (slot.empty()) slot.resize(variable.size(), 0.0);
  return slot;
}

Result<void> Tape::charge(std::size_t elements) {
  if (elements > left_) return invalid("the loss needs more memory or time than it may use");
  left_ -= elements;
  return {};
}

Variable Tape::leaf(Tensor value) {
  Variable out(std::move(value));
  out.slot_ = steps_.size();
  steps_.emplace_back();
  return out;
}

Variable Tape::record(Tensor value, std::initializer_list<Variable> inputs, Backward backward) {
  return record(std::move(value), std::span(inputs.begin(), inputs.size()), std::move(backward));
}

Variable Tape::record(Tensor value, std::span<const Variable> inputs, Backward backward) {
  Variable out(std::move(value));
  if (std::ranges::any_of(inputs, &Variable::requires_gradient)) {
    out.slot_ = steps_.size();
    steps_.push_back(std::move(backward));
  }
  return out;
}

std::vector<double> Tape::differentiate(const Variable& output, const Variable& leaf) {
  Gradients gradients;
  gradients.slots_.resize(steps_.size());
  gradients.of(output)[0] = 1.0;
  for (std::size_t slot = output.slot_ + 1; slot-- > 0;) {
    if (slot == leaf.slot_ || !steps_[slot] || gradients.slots_[slot].empty()) continue;
    const auto arrived = std::exchange(gradients.slots_[slot], {});
    std::exchange(steps_[slot], {})(arrived, gradients);
  }
  const auto found = gradients.of(leaf);
  return {found.begin(), found.end()};
}

}  // namespace tinker::loss::eval
