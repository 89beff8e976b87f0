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

inline __m256 dot(__m256i a, __m256i b, __m256 sum) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  const auto even = [](__m256i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); };
  const auto odd = [&](__m256i x) { return _mm256_castsi256_ps(_mm256_and_si256(x, mask)); };
  return _mm256_fmadd_ps(even(a), even(b), _mm256_fmadd_ps(odd(a), odd(b), sum));
}
inline Lanes dot(Pairs a, Pairs b, Lanes sum) {
  return {dot(a.low, b.low, sum.low), dot(a.high, b.high, sum.high)};
}

constexpr bool kHasTiles = false;

#include "engine/kernels/impl.h"

}  // namespace

constinit const KernelTables kAvx2Kernels = {make_kernels<float>(CpuPath::avx2),
                                             make_kernels<Bf16>(CpuPath::avx2)};

}  // namespace tinker::engine
