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

inline Lanes even_of(Pairs a) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(a.bits, 16))};
}
inline Lanes odd_of(Pairs a) {
  return {_mm512_castsi512_ps(
      _mm512_and_epi32(a.bits, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))))};
}
inline Lanes dot(Pairs a, Pairs b, Lanes sum) {
  return fma(even_of(a), even_of(b), fma(odd_of(a), odd_of(b), sum));
}

constexpr bool kHasTiles = false;

#include "engine/kernels/impl.h"

}  // namespace

constinit const KernelTables kAvx512Kernels = {make_kernels<float>(CpuPath::avx512),
                                               make_kernels<Bf16>(CpuPath::avx512)};

}  // namespace tinker::engine
