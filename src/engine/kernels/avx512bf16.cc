#include <cstring>
#include <type_traits>

#include <immintrin.h>

#include "engine/kernels/tables.h"

namespace tinker::engine {
namespace {

struct Bf16 {
  std::uint16_t bits;
};

#include "engine/kernels/lanes_avx512.h"
#include "engine/kernels/pairs.h"

constexpr bool kHasTiles = false;

#include "engine/kernels/impl.h"
}  // namespace

constinit const KernelTables kAvx512Bf16Kernels = {make_kernels<float>(CpuPath::avx512bf16),
                                                   make_kernels<Bf16>(CpuPath::avx512bf16)};

}  // namespace tinker::engine
