#pragma once

#include <cstddef>

#include "engine/kernels.h"

namespace tinker {

/// GFLOP/s of the instructions that the products of these kernels consist of, on registers only and
/// on so many threads at once: what they could reach. 0 where there is no single such instruction.
double register_peak(const engine::Kernels& kernels, std::size_t threads);

}  // namespace tinker
