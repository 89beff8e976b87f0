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

constexpr bool kHasTiles = true;

#include "engine/kernels/impl.h"
#include "engine/kernels/tiles.h"

}  // namespace

constinit const KernelTables kAmxKernels = {make_kernels<float>(CpuPath::amx),
                                            make_kernels<Bf16>(CpuPath::amx)};

}  // namespace tinker::engine
