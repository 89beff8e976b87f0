#include "engine/kernels.h"

#include "engine/kernels/tables.h"
#include "tinker/check.h"

namespace tinker::engine {
namespace {

const KernelTables& tables_of(CpuPath path) {
  switch (path) {
    case CpuPath::scalar: return kScalarKernels;
#if defined(__x86_64__)
    case CpuPath::avx2: return kAvx2Kernels;
    case CpuPath::avx512: return kAvx512Kernels;
    case CpuPath::avx512bf16: return kAvx512Bf16Kernels;
#endif
    default: break;
  }
  TINKER_CHECK(path == CpuPath::scalar);  // others are not compiled for this machine
  return kScalarKernels;
}

}  // namespace

std::size_t attention_scratch(std::size_t head_dim) {
  const std::size_t width = (head_dim + kLanes - 1) / kLanes * kLanes;
  return 2 * kAttentionRows * width + kAttentionRows * kKeyBlock + 2 * kKeyBlock * width;
}

std::size_t attention_backward_scratch(std::size_t head_dim) {
  const std::size_t width = (head_dim + kLanes - 1) / kLanes * kLanes;
  return 6 * kKeyBlock * width + 3 * kAttentionRows * width + 2 * kAttentionRows * kKeyBlock;
}

const Kernels& kernels_of(CpuPath path, Precision precision) {
  const auto& tables = tables_of(path);
  return precision == Precision::f32 ? tables.f32 : tables.bf16;
}

}  // namespace tinker::engine
