#include "engine/kernels.h"

#include "engine/kernels/tables.h"
#include "engine/memory.h"
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
    case CpuPath::amx: return kAmxKernels;
#endif
    default: break;
  }
  TINKER_CHECK(path == CpuPath::scalar);  // others are not compiled for this machine
  return kScalarKernels;
}

}  // namespace

// Elements are counted as floats. Heads are filled up to a cache line of bf16.
std::size_t attention_scratch(std::size_t head_dim) {
  const std::size_t width = round_up(head_dim, kKeyBlock);
  return 2 * kAttentionRows * width + 2 * kAttentionRows * kKeyBlock + kKeyBlock * width;
}

std::size_t attention_backward_scratch(std::size_t head_dim, std::size_t keys) {
  const std::size_t width = round_up(head_dim, kKeyBlock);
  const std::size_t blocks = round_up(keys, kKeyBlock) / kKeyBlock;
  const std::size_t tile = 6 * kKeyBlock * width + 5 * kKeyBlock * kKeyBlock + 3 * kKeyBlock;
  return tile + blocks * (5 * kKeyBlock * width + kLanes);
}

const Kernels& kernels_of(CpuPath path, Precision precision) {
  const auto& tables = tables_of(path);
  return precision == Precision::f32 ? tables.f32 : tables.bf16;
}

}  // namespace tinker::engine
