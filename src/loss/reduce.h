#pragma once

#include <cstddef>
#include <vector>

#include "loss/call.h"

namespace tinker::loss::eval {

/// Which elements of a tensor are reduced into which element of the result.
struct Groups {
  Shape shape = {};                      ///< Of the result.
  std::vector<std::size_t> target = {};  ///< Per input element, its place in the result.
  std::size_t count = 0;                 ///< Elements of the result.
  std::size_t members = 0;               ///< Elements per group.
};

/// Groups of `x` along `axes`, all of them when there are none.
Result<Groups> make_groups(Tape& tape, const Variable& x, const Shape& axes, bool keep_axes);

/// The groups that arguments `dim` and `dim + 1` (dim and keepdim) of a call ask for.
Result<Groups> groups_of(const Call& call, const Variable& x, std::size_t dim);

Result<Variable> sum(Tape& tape, const Variable& x, const Groups& groups);
Result<Variable> mean(Tape& tape, const Variable& x, const Groups& groups);

}  // namespace tinker::loss::eval
