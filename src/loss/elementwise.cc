#include "loss/elementwise.h"

namespace tinker::loss::eval {

Value like_arguments(const Call& call, std::size_t count, const Variable& result) {
  for (std::size_t i = 0; i < count; ++i) {
    if (call[i].get_if<Number>() == nullptr) return result;
  }
  return Number{.value = result.values()[0], .dtype = result.dtype()};
}

Answer elementwise(const Call& call, const Pointwise& function, std::size_t count) {
  std::vector<Variable> operands;
  for (std::size_t i = 0; i < count; ++i) {
    TINKER_TRY(Variable operand, call.tensor(i));
    operands.push_back(std::move(operand));
  }
  TINKER_TRY(const Variable result, pointwise(call.tape(), function, operands));
  return like_arguments(call, count, result);
}

Function elementwise(const Pointwise& function, std::size_t count) {
  return [function, count](const Call& call) { return elementwise(call, function, count); };
}

}  // namespace tinker::loss::eval
