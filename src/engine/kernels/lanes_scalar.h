// Sixteen floats with nothing but the language: what every machine has, and what the others are
// compared with. Included by one .cc only, inside its anonymous namespace.

struct Lanes {
  float v[16];
};

constexpr bool kHasWideRegisters = false;

template <typename F>
inline Lanes each(F f) {
  Lanes out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}

inline Lanes broadcast(float x) {
  return each([&](int) { return x; });
}
inline Lanes load(const float* p) {
  return each([&](int i) { return p[i]; });
}
inline Lanes load_first(const float* p, std::size_t n) {
  return each([&](int i) { return static_cast<std::size_t>(i) < n ? p[i] : 0.0F; });
}
inline void store(float* p, Lanes a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
inline void store_first(float* p, Lanes a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) p[i] = a.v[i];
}
inline Lanes load(const Bf16* p) {
  return each([&](int i) { return base::from_bf16(p[i].bits); });
}
inline Lanes load_first(const Bf16* p, std::size_t n) {
  return each(
      [&](int i) { return static_cast<std::size_t>(i) < n ? base::from_bf16(p[i].bits) : 0.0F; });
}
inline void store(Bf16* p, Lanes a) {
  for (int i = 0; i < 16; ++i) p[i].bits = base::to_bf16(a.v[i]);
}
inline void store_first(Bf16* p, Lanes a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) p[i].bits = base::to_bf16(a.v[i]);
}

inline Lanes operator+(Lanes a, Lanes b) {
  return each([&](int i) { return a.v[i] + b.v[i]; });
}
inline Lanes operator-(Lanes a, Lanes b) {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
inline Lanes operator*(Lanes a, Lanes b) {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline Lanes operator/(Lanes a, Lanes b) {
  return each([&](int i) { return a.v[i] / b.v[i]; });
}
/// a * b + c, rounded once.
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return each([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
inline Lanes add_product(Lanes a, Lanes b, Lanes sum) {
  return fma(a, b, sum);
}
/// c - a * b, rounded once.
inline Lanes fnma(Lanes a, Lanes b, Lanes c) {
  return each([&](int i) { return std::fma(-a.v[i], b.v[i], c.v[i]); });
}
inline Lanes max(Lanes a, Lanes b) {
  return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Lanes min(Lanes a, Lanes b) {
  return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Lanes square_root(Lanes a) {
  return each([&](int i) { return std::sqrt(a.v[i]); });
}
inline Lanes round_to_even(Lanes a) {
  return each([&](int i) { return std::nearbyint(a.v[i]); });
}
/// 2 to the whole numbers of n, which lie in [-126, 127].
inline Lanes power_of_two(Lanes n) {
  return each([&](int i) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<std::int32_t>(n.v[i]) + 127)
                                << 23U);
  });
}
/// value where x >= bound, else 0.
inline Lanes zero_below(Lanes x, Lanes bound, Lanes value) {
  return each([&](int i) { return x.v[i] >= bound.v[i] ? value.v[i] : 0.0F; });
}
/// a in the first n lanes, b in the others.
inline Lanes first(std::size_t n, Lanes a, Lanes b) {
  return each([&](int i) { return static_cast<std::size_t>(i) < n ? a.v[i] : b.v[i]; });
}
template <typename F>
inline float reduce(Lanes a, F f) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = f(a.v[i], a.v[i + half]);
  }
  return a.v[0];
}
inline float sum_of(Lanes a) {
  return reduce(a, [](float x, float y) { return x + y; });
}
inline float max_of(Lanes a) {
  return reduce(a, [](float x, float y) { return x > y ? x : y; });
}

/// The first and the second ones of sixteen pairs.
inline Lanes even_of(const Bf16* pairs) {
  return each([&](int i) { return base::from_bf16(pairs[2 * i].bits); });
}
inline Lanes odd_of(const Bf16* pairs) {
  return each([&](int i) { return base::from_bf16(pairs[2 * i + 1].bits); });
}
/// Whole bf16 numbers become pairs.
inline void store_pairs(Bf16* pairs, Lanes even, Lanes odd) {
  for (int i = 0; i < 16; ++i) {
    pairs[2 * i].bits = base::to_bf16(even.v[i]);
    pairs[2 * i + 1].bits = base::to_bf16(odd.v[i]);
  }
}
inline Lanes round_to_bf16(Lanes a) {
  return each([&](int i) { return base::from_bf16(base::to_bf16(a.v[i])); });
}

#include "engine/kernels/transpose_plain.h"
