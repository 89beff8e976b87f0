// Sixteen floats in two registers of AVX2.
// Included by one .cc only, inside its anonymous namespace.

struct Lanes {
  __m256 low;
  __m256 high;
};

constexpr bool kHasWideRegisters = false;

inline __m256i eight_mask(std::size_t n) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), index);
}
struct FirstMask {
  __m256i low;
  __m256i high;
};
inline FirstMask first_mask(std::size_t n) {
  return {eight_mask(n), eight_mask(n > 8 ? n - 8 : 0)};
}

inline Lanes broadcast(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline Lanes load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline Lanes load_first(const float* p, std::size_t n) {
  const auto mask = first_mask(n);
  return {_mm256_maskload_ps(p, mask.low), _mm256_maskload_ps(p + 8, mask.high)};
}
inline void store(float* p, Lanes a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}
inline void store_first(float* p, Lanes a, std::size_t n) {
  const auto mask = first_mask(n);
  _mm256_maskstore_ps(p, mask.low, a.low);
  _mm256_maskstore_ps(p + 8, mask.high, a.high);
}

inline __m256 widen(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline __m256 high_halves() {
  return _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xFFFF0000U)));
}
/// The nearest bf16, ties to even, as base::to_bf16 does it, in the high half of 32 bits.
inline __m256i nearest(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i lowest = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_add_epi32(bits, _mm256_add_epi32(lowest, _mm256_set1_epi32(0x7FFF)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, is_nan);
}
inline Lanes round_to_bf16(Lanes a) {
  const auto eight = [](__m256 x) {
    return _mm256_and_ps(_mm256_castsi256_ps(nearest(x)), high_halves());
  };
  return {eight(a.low), eight(a.high)};
}
inline Lanes load(const Bf16* p) {
  return {widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline void store(Bf16* p, Lanes a) {
  const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(nearest(a.low), 16),
                                             _mm256_srli_epi32(nearest(a.high), 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0b11011000));
}
inline Lanes load_first(const Bf16* p, std::size_t n) {
  Bf16 all[16] = {};
  std::memcpy(all, p, n * sizeof(Bf16));
  return load(all);
}
inline void store_first(Bf16* p, Lanes a, std::size_t n) {
  Bf16 all[16];
  store(all, a);
  std::memcpy(p, all, n * sizeof(Bf16));
}

inline Lanes operator+(Lanes a, Lanes b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Lanes operator-(Lanes a, Lanes b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Lanes operator*(Lanes a, Lanes b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Lanes operator/(Lanes a, Lanes b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
/// fma(a, b, sum) in the register of the sum: GCC 12 moves sums about and runs out of registers.
inline __m256 add_product(__m256 a, __m256 b, __m256 sum) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  return sum;
}
inline Lanes add_product(Lanes a, Lanes b, Lanes sum) {
  return {add_product(a.low, b.low, sum.low), add_product(a.high, b.high, sum.high)};
}
inline Lanes fnma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
inline Lanes max(Lanes a, Lanes b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline Lanes min(Lanes a, Lanes b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline Lanes square_root(Lanes a) {
  return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)};
}
inline Lanes round_to_even(Lanes a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, kMode), _mm256_round_ps(a.high, kMode)};
}
inline __m256 power_of_two(__m256 n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
inline Lanes power_of_two(Lanes n) {
  return {power_of_two(n.low), power_of_two(n.high)};
}
inline Lanes zero_below(Lanes x, Lanes bound, Lanes value) {
  return {_mm256_and_ps(_mm256_cmp_ps(x.low, bound.low, _CMP_GE_OQ), value.low),
          _mm256_and_ps(_mm256_cmp_ps(x.high, bound.high, _CMP_GE_OQ), value.high)};
}
inline Lanes first(std::size_t n, Lanes a, Lanes b) {
  const auto mask = first_mask(n);
  return {_mm256_blendv_ps(b.low, a.low, _mm256_castsi256_ps(mask.low)),
          _mm256_blendv_ps(b.high, a.high, _mm256_castsi256_ps(mask.high))};
}

template <typename F>
inline float reduce(__m256 eight, F f) {
  const __m128 four = f(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = f(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(f(two, _mm_shuffle_ps(two, two, 1)));
}
inline float sum_of(Lanes a) {
  return reduce(_mm256_add_ps(a.low, a.high), [](__m128 x, __m128 y) { return _mm_add_ps(x, y); });
}
inline float max_of(Lanes a) {
  return reduce(_mm256_max_ps(a.low, a.high), [](__m128 x, __m128 y) { return _mm_max_ps(x, y); });
}

/// The first and the second ones of sixteen pairs.
inline Lanes even_of(const Bf16* pairs) {
  const auto eight = [](const Bf16* p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), 16));
  };
  return {eight(pairs), eight(pairs + 16)};
}
inline Lanes odd_of(const Bf16* pairs) {
  const auto eight = [](const Bf16* p) {
    return _mm256_and_ps(_mm256_loadu_ps(reinterpret_cast<const float*>(p)), high_halves());
  };
  return {eight(pairs), eight(pairs + 16)};
}
/// Whole bf16 numbers become pairs.
inline void store_pairs(Bf16* pairs, Lanes even, Lanes odd) {
  const auto eight = [](Bf16* p, __m256 first, __m256 second) {
    const __m256i low = _mm256_srli_epi32(_mm256_castps_si256(first), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_or_si256(low, _mm256_castps_si256(second)));
  };
  eight(pairs, even.low, odd.low);
  eight(pairs + 16, even.high, odd.high);
}

#include "engine/kernels/transpose_plain.h"
