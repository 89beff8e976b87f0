#include <bit>
#include <cmath>
#include <type_traits>

#include "base/half.h"
#include "engine/kernels/tables.h"

namespace tinker::engine {
namespace {

struct Bf16 {
  std::uint16_t bits;
};

#include "engine/kernels/lanes_scalar.h"

inline Lanes dot(Pairs a, Pairs b, Lanes sum) {
  return fma(a.even, b.even, fma(a.odd, b.odd, sum));
}

constexpr bool kHasTiles = false;

#include "engine/kernels/impl.h"

}  // namespace

constinit const KernelTables kScalarKernels = {make_kernels<float>(CpuPath::scalar),
                                               make_kernels<Bf16>(CpuPath::scalar)};

}  // namespace tinker::engine
