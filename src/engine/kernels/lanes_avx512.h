// Sixteen floats in one register of AVX-512.
// Included by the kernels/*.cc that are compiled for it, inside their anonymous namespaces.

struct Lanes {
  __m512 v;
};

constexpr bool kHasWideRegisters = true;

inline __mmask16 first_mask(std::size_t n) {
  return static_cast<__mmask16>((1U << n) - 1U);
}

inline Lanes broadcast(float x) {
  return {_mm512_set1_ps(x)};
}
inline Lanes load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
inline Lanes load_first(const float* p, std::size_t n) {
  return {_mm512_maskz_loadu_ps(first_mask(n), p)};
}
inline void store(float* p, Lanes a) {
  _mm512_storeu_ps(p, a.v);
}
inline void store_first(float* p, Lanes a, std::size_t n) {
  _mm512_mask_storeu_ps(p, first_mask(n), a.v);
}

inline __m512 widen(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
/// The nearest bf16, ties to even, as base::to_bf16 does it, in the high half of 32 bits.
inline __m512i nearest(__m512 a) {
  const __m512i bits = _mm512_castps_si512(a);
  const __m512i lowest = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_add_epi32(bits, _mm512_add_epi32(lowest, _mm512_set1_epi32(0x7FFF)));
  const __m512i quiet = _mm512_or_epi32(bits, _mm512_set1_epi32(0x00400000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  return _mm512_mask_mov_epi32(rounded, is_nan, quiet);
}
inline __m256i narrow(__m512 a) {
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(nearest(a), 16));
}
inline Lanes load(const Bf16* p) {
  return {widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Lanes load_first(const Bf16* p, std::size_t n) {
  return {widen(_mm256_maskz_loadu_epi16(first_mask(n), p))};
}
inline void store(Bf16* p, Lanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(a.v));
}
inline void store_first(Bf16* p, Lanes a, std::size_t n) {
  _mm256_mask_storeu_epi16(p, first_mask(n), narrow(a.v));
}

inline Lanes operator+(Lanes a, Lanes b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline Lanes operator-(Lanes a, Lanes b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline Lanes operator*(Lanes a, Lanes b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline Lanes operator/(Lanes a, Lanes b) {
  return {_mm512_div_ps(a.v, b.v)};
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
inline Lanes add_product(Lanes a, Lanes b, Lanes sum) {
  return fma(a, b, sum);
}
inline Lanes fnma(Lanes a, Lanes b, Lanes c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}
inline Lanes max(Lanes a, Lanes b) {
  return {_mm512_max_ps(a.v, b.v)};
}
inline Lanes min(Lanes a, Lanes b) {
  return {_mm512_min_ps(a.v, b.v)};
}
inline Lanes square_root(Lanes a) {
  return {_mm512_sqrt_ps(a.v)};
}
inline Lanes round_to_even(Lanes a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Lanes power_of_two(Lanes n) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23))};
}
inline Lanes zero_below(Lanes x, Lanes bound, Lanes value) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, bound.v, _CMP_GE_OQ), value.v)};
}
inline Lanes first(std::size_t n, Lanes a, Lanes b) {
  return {_mm512_mask_mov_ps(b.v, first_mask(n), a.v)};
}

template <typename F4, typename F8>
inline float reduce(Lanes a, F8 f8, F4 f4) {
  const __m256 eight = f8(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = f4(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = f4(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(f4(two, _mm_shuffle_ps(two, two, 1)));
}
inline float sum_of(Lanes a) {
  return reduce(
      a,
      [](__m256 x, __m256 y) { return _mm256_add_ps(x, y); },
      [](__m128 x, __m128 y) { return _mm_add_ps(x, y); });
}
inline float max_of(Lanes a) {
  return reduce(
      a,
      [](__m256 x, __m256 y) { return _mm256_max_ps(x, y); },
      [](__m128 x, __m128 y) { return _mm_max_ps(x, y); });
}

/// Sixteen rows of sixteen words become columns.
inline void transpose_block(const float* in, std::size_t in_row, float* out, std::size_t out_row) {
  __m512 a[16];
  __m512 b[16];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) a[i] = _mm512_loadu_ps(in + i * in_row);
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  const auto low = [](__m512 x, __m512 y) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  };
  const auto high = [](__m512 x, __m512 y) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
  };
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {  // a[i + c]: columns c, c + 4, c + 8, c + 12 of rows i to i + 3
    a[i] = low(b[i], b[i + 2]);
    a[i + 1] = high(b[i], b[i + 2]);
    a[i + 2] = low(b[i + 1], b[i + 3]);
    a[i + 3] = high(b[i + 1], b[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 even0 = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
    const __m512 odd0 = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xDD);
    const __m512 even1 = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
    const __m512 odd1 = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xDD);
    b[i] = _mm512_shuffle_f32x4(even0, even1, 0x88);
    b[i + 8] = _mm512_shuffle_f32x4(even0, even1, 0xDD);
    b[i + 4] = _mm512_shuffle_f32x4(odd0, odd1, 0x88);
    b[i + 12] = _mm512_shuffle_f32x4(odd0, odd1, 0xDD);
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) _mm512_storeu_ps(out + i * out_row, b[i]);
}
