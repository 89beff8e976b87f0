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

/// The first and the second ones of sixteen pairs.
inline Lanes even_of(const Bf16* pairs) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(pairs), 16))};
}
inline __m512i high_halves() {
  return _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
}
inline Lanes odd_of(const Bf16* pairs) {
  return {_mm512_castsi512_ps(_mm512_and_epi32(_mm512_loadu_si512(pairs), high_halves()))};
}
/// Whole bf16 numbers become pairs.
inline void store_pairs(Bf16* pairs, Lanes even, Lanes odd) {
  const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even.v), 16);
  _mm512_storeu_si512(pairs, _mm512_or_epi32(low, _mm512_castps_si512(odd.v)));
}
inline Lanes round_to_bf16(Lanes a) {
  return {_mm512_castsi512_ps(_mm512_and_epi32(nearest(a.v), high_halves()))};
}

#include "engine/kernels/widened.h"

constexpr bool kHasTiles = false;

#include "engine/kernels/impl.h"
}  // namespace

constinit const KernelTables kAvx512Kernels = {make_kernels<float>(CpuPath::avx512),
                                               make_kernels<Bf16>(CpuPath::avx512)};

}  // namespace tinker::engine
