#pragma once

#include <cstddef>
#include <vector>

#include "loss/tape.h"

namespace tinker::loss::eval {

/// The elements of `x` at `places`, as a tensor of that shape: what all indexing and reordering
/// comes down to. Requires as many valid places as the shape has elements.
Variable take(Tape& tape, const Variable& x, Shape shape, std::vector<std::size_t> places);

/// The elements of `x` at offset + sum(position * strides), for every position in `shape`.
Result<Variable> strided(Tape& tape,
                         const Variable& x,
                         Shape shape,
                         std::size_t offset,
                         const std::vector<std::size_t>& strides);

/// The same elements under another shape of the same size.
Result<Variable> reshape(Tape& tape, const Variable& x, const Shape& shape);
/// `shape` with its -1, if any, replaced by what is left of `count` elements.
Result<Shape> complete_shape(const Shape& shape, std::size_t count);

Result<Variable> permute(Tape& tape, const Variable& x, const std::vector<std::size_t>& axes);
Result<Variable> expand(Tape& tape, const Variable& x, const Shape& shape);
Result<Variable> unsqueeze(Tape& tape, const Variable& x, std::int64_t axis);
/// Parts side by side along `axis`; their other sizes agree.
Result<Variable> concatenate(Tape& tape, const std::vector<Variable>& parts, std::int64_t axis);

}  // namespace tinker::loss::eval
