#pragma once

#include "engine/kernels.h"

/// The tables of kernels/*.cc, each compiled for its instructions. Constants: they may be looked at
/// on any machine.
namespace tinker::engine {

struct KernelTables {
  Kernels f32;
  Kernels bf16;
};

extern const KernelTables kScalarKernels;
extern const KernelTables kAvx2Kernels;
extern const KernelTables kAvx512Kernels;
extern const KernelTables kAvx512Bf16Kernels;
extern const KernelTables kAmxKernels;

}  // namespace tinker::engine
