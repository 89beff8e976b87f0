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
#include "engine/kernels/widened.h"

constexpr bool kHasTiles = false;

#include "engine/kernels/impl.h"
}  // namespace

constinit const KernelTables kScalarKernels = {make_kernels<float>(CpuPath::scalar),
                                               make_kernels<Bf16>(CpuPath::scalar)};

}  // namespace tinker::engine
