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

/// sum + odd * odd, then + even * even.
inline Lanes dot(Pairs a, Pairs b, Lanes sum) {
  return {_mm512_dpbf16_ps(
      sum.v, reinterpret_cast<__m512bh>(a.bits), reinterpret_cast<__m512bh>(b.bits))};
}

constexpr bool kHasTiles = false;

#include "engine/kernels/impl.h"

}  // namespace

constinit const KernelTables kAvx512Bf16Kernels = {make_kernels<float>(CpuPath::avx512bf16),
                                                   make_kernels<Bf16>(CpuPath::avx512bf16)};

}  // namespace tinker::engine
