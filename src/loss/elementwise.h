#pragma once

#include <cstddef>

#include "loss/call.h"
#include "loss/pointwise.h"

namespace tinker::loss::eval {

/// `function` of the call's first `count` arguments: a tensor, or a Python number when all of them
/// are numbers.
Answer elementwise(const Call& call, const Pointwise& function, std::size_t count);

/// The same as an entry of the table.
Function elementwise(const Pointwise& function, std::size_t count);

/// A result that is a number when all of the call's first `count` arguments are.
Value like_arguments(const Call& call, std::size_t count, const Variable& result);

}  // namespace tinker::loss::eval
