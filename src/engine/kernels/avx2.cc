#include <cstring>
#include <type_traits>

#include <immintrin.h>

#include "engine/kernels/tables.h"

namespace tinker::engine {
namespace {

struct Bf16 {
  std::uint16_t bits;
};

#include "engine/kernels/lanes_avx2.h"
#include "engine/kernels/widened.h"

constexpr bool kHasTiles = false;

#include "engine/kernels/impl.h"
}  // namespace

constinit const KernelTables kAvx2Kernels = {make_kernels<float>(CpuPath::avx2),
                                             make_kernels<Bf16>(CpuPath::avx2)};

}  // namespace tinker::engine
