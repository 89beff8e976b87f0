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

inline Lanes dot(Pairs a, Pairs b, Lanes sum) {
  return {_mm512_dpbf16_ps(
      sum.v, reinterpret_cast<__m512bh>(a.bits), reinterpret_cast<__m512bh>(b.bits))};
}

constexpr bool kHasTiles = true;

#include "engine/kernels/impl.h"
#include "engine/kernels/tiles.h"

}  // namespace

constinit const KernelTables kAmxKernels = {make_kernels<float>(CpuPath::amx),
                                            make_kernels<Bf16>(CpuPath::amx)};

}  // namespace tinker::engine
