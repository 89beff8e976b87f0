#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>

#include "loss/tape.h"

namespace tinker::loss::eval {

/// A function of up to four numbers, applied to each element of its broadcast operands.
struct Pointwise {
  enum class Gives { promoted, floating, boolean, integer };

  /// The result for operands x[0], x[1], ...
  double (*value)(const double* x) = nullptr;
  /// Derivatives of y = value(x) by each operand, into d, which starts as zeros; null when there
  /// are none.
  void (*slopes)(const double* x, double y, double* d) = nullptr;
  Gives gives = Gives::promoted;
  /// Where a slope is 0 nothing flows, not even a NaN: for functions that pick an operand.
  bool selects = false;
};

inline constexpr std::size_t kMaxOperands = 4;

/// Requires 1 to `kMaxOperands` operands.
Result<Variable> pointwise(Tape& tape,
                           const Pointwise& function,
                           std::span<const Variable> operands);
Result<Variable> pointwise(Tape& tape,
                           const Pointwise& function,
                           std::initializer_list<Variable> operands);

// What other operations are made of.
namespace functions {
extern const Pointwise kAdd, kSub, kMul, kDiv, kSquare, kSqrt, kExp, kLog, kAbs, kIdentity, kSelect;
extern const Pointwise kClampMin, kClampMax, kFloorDivide, kRemainder, kPower, kAddScaled;
}  // namespace functions

/// The operand as that type: floats lose their fraction, and their gradient, on the way to
/// integers.
Result<Variable> cast(Tape& tape, const Variable& x, Dtype dtype);

}  // namespace tinker::loss::eval
