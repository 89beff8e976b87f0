// The kernels, over the `Lanes` of whoever includes this. Everything is in the anonymous namespace
// of that file and no inline function of the standard library is called: the linker keeps one copy
// of those, and it might be the one that was compiled for instructions the machine does not have.
// Included by kernels/*.cc, after lanes_*.h.
#pragma once

/// exp in sixteen lanes, within 2 units in the last place; 0 below -87.
[[gnu::always_inline]] inline Lanes exp(Lanes x) {
  const Lanes lowest = broadcast(-87.0F);
  const Lanes limited = min(max(x, lowest), broadcast(88.0F));
  const Lanes n = round_to_even(limited * broadcast(1.44269504088896341F));
  // ln 2 in two parts, so that n ln 2 is exact enough.
  const Lanes r = fnma(n, broadcast(-2.12194440e-4F), fnma(n, broadcast(0.693359375F), limited));
  Lanes y = broadcast(1.9875691500e-4F);
  y = fma(y, r, broadcast(1.3981999507e-3F));
  y = fma(y, r, broadcast(8.3334519073e-3F));
  y = fma(y, r, broadcast(4.1665795894e-2F));
  y = fma(y, r, broadcast(1.6666665459e-1F));
  y = fma(y, r, broadcast(5.0000001201e-1F));
  y = fma(y, r * r, r + broadcast(1.0F));
  return zero_below(x, lowest, y * power_of_two(n));
}

/// Calls f(start, lanes) for each sixteen of n, the last ones maybe fewer.
template <typename F>
inline void for_lanes(std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, kLanes);
  if (i < n) f(i, n - i);
}
template <typename T>
[[gnu::always_inline]] inline Lanes load_some(const T* p, std::size_t n) {
  return n == kLanes ? load(p) : load_first(p, n);
}
template <typename T>
[[gnu::always_inline]] inline void store_some(T* p, Lanes a, std::size_t n) {
  if (n == kLanes) {
    store(p, a);
  } else {
    store_first(p, a, n);
  }
}
/// Lanes of the vector q of a strip that has so many columns.
inline std::size_t lanes_of(std::size_t columns, int q) {
  const std::size_t begin = static_cast<std::size_t>(q) * kLanes;
  if (begin >= columns) return 0;
  return columns - begin < kLanes ? columns - begin : kLanes;
}
