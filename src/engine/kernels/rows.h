// What is done row by row: norms, rotations, gates, soft-max, the optimizer.
// Included by impl.h.
#pragma once

#include "engine/kernels/lanes.h"

template <typename E>
float rms_norm(const float* x, const float* gain, std::size_t n, float eps, void* out) {
  Lanes squares = broadcast(0.0F);
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    const Lanes v = load_some(x + i, lanes);
    squares = fma(v, v, squares);
  });
  const float inverse = 1.0F / __builtin_sqrtf(sum_of(squares) / static_cast<float>(n) + eps);
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    const Lanes v = load_some(x + i, lanes) * broadcast(inverse) * load_some(gain + i, lanes);
    store_some(static_cast<E*>(out) + i, v, lanes);
  });
  return inverse;
}

void rms_norm_backward(const float* d_y,
                       const float* x,
                       const float* gain,
                       float inverse_rms,
                       std::size_t n,
                       float* d_x) {
  Lanes products = broadcast(0.0F);
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    products = fma(
        load_some(d_y + i, lanes) * load_some(gain + i, lanes), load_some(x + i, lanes), products);
  });
  const Lanes scale = broadcast(inverse_rms);
  const Lanes pull =
      broadcast(sum_of(products) / static_cast<float>(n) * inverse_rms * inverse_rms * inverse_rms);
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    const Lanes direct = load_some(d_y + i, lanes) * load_some(gain + i, lanes) * scale;
    const Lanes whole = fnma(load_some(x + i, lanes), pull, direct);
    store_some(d_x + i, load_some(d_x + i, lanes) + whole, lanes);
  });
}

void rotate(const float* x, const float* cos, const float* sin, std::size_t n, float* out) {
  const std::size_t half = n / 2;
  for_lanes(half, [&](std::size_t i, std::size_t lanes) {
    const Lanes c = load_some(cos + i, lanes);
    const Lanes s = load_some(sin + i, lanes);
    const Lanes a = load_some(x + i, lanes);
    const Lanes b = load_some(x + half + i, lanes);
    store_some(out + i, fnma(b, s, a * c), lanes);
    store_some(out + half + i, fma(a, s, b * c), lanes);
  });
}

inline Lanes sigmoid(Lanes x) {
  return broadcast(1.0F) / (broadcast(1.0F) + exp(broadcast(0.0F) - x));
}

template <typename E>
void silu_product(const void* gate, const void* up, std::size_t n, void* out) {
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    const Lanes g = load_some(static_cast<const E*>(gate) + i, lanes);
    const Lanes u = load_some(static_cast<const E*>(up) + i, lanes);
    store_some(static_cast<E*>(out) + i, g * sigmoid(g) * u, lanes);
  });
}

template <typename E>
void silu_product_backward(
    const float* d_out, const void* gate, const void* up, std::size_t n, void* d_gate, void* d_up) {
  const Lanes one = broadcast(1.0F);
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    const Lanes d = load_some(d_out + i, lanes);
    const Lanes g = load_some(static_cast<const E*>(gate) + i, lanes);
    const Lanes u = load_some(static_cast<const E*>(up) + i, lanes);
    const Lanes s = sigmoid(g);
    store_some(static_cast<E*>(d_up) + i, d * (g * s), lanes);
    store_some(static_cast<E*>(d_gate) + i, d * u * s * fma(g, one - s, one), lanes);
  });
}

// ---- vocabulary

SoftmaxPart softmax_part(const float* logits, std::size_t n, float scale) {
  const Lanes factor = broadcast(scale);
  const Lanes nothing = broadcast(-__builtin_inff());
  const auto scaled = [&](std::size_t i, std::size_t lanes) {
    return first(lanes, load_some(logits + i, lanes) * factor, nothing);
  };
  Lanes highest = nothing;
  for_lanes(n, [&](std::size_t i, std::size_t lanes) { highest = max(highest, scaled(i, lanes)); });
  const float top = max_of(highest);
  Lanes sum = broadcast(0.0F);
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    sum = sum + exp(scaled(i, lanes) - broadcast(top));
  });
  return {top, sum_of(sum)};
}

void softmax_values(float* logits, std::size_t n, float lse, float factor) {
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    const Lanes p = exp(load_some(logits + i, lanes) - broadcast(lse));
    store_some(logits + i, p * broadcast(factor), lanes);
  });
}

// ---- plain vectors

template <typename E>
void to_elements(const float* x, std::size_t n, void* out) {
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    store_some(static_cast<E*>(out) + i, load_some(x + i, lanes), lanes);
  });
}
template <typename E>
void from_elements(const void* x, std::size_t n, float* out) {
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    store_some(out + i, load_some(static_cast<const E*>(x) + i, lanes), lanes);
  });
}

void add(const float* x, std::size_t n, float* y) {
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    store_some(y + i, load_some(y + i, lanes) + load_some(x + i, lanes), lanes);
  });
}

float sum_of_squares(const float* x, std::size_t n) {
  Lanes sum = broadcast(0.0F);
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    const Lanes v = load_some(x + i, lanes);
    sum = fma(v, v, sum);
  });
  return sum_of(sum);
}

/// As torch.optim.AdamW computes it, in the same order.
void adam(const AdamStep& step, std::size_t n, const float* g, float* x, float* m, float* v) {
  const Lanes keep = broadcast(1.0F - step.decay);
  const Lanes rate = broadcast(step.learning_rate / step.correction1);
  const Lanes root = broadcast(step.correction2);
  for_lanes(n, [&](std::size_t i, std::size_t lanes) {
    const Lanes gradient = load_some(g + i, lanes) * broadcast(step.gradient_scale);
    const Lanes m_old = load_some(m + i, lanes);
    const Lanes m_new = fma(gradient - m_old, broadcast(step.rest1), m_old);
    const Lanes v_new = fma(gradient * gradient,
                            broadcast(step.rest2),
                            load_some(v + i, lanes) * broadcast(step.beta2));
    const Lanes spread = square_root(v_new) / root + broadcast(step.eps);
    // The lanes behind the end hold zeros, and 0 / eps is one, too.
    const Lanes moved = fnma(rate, m_new / spread, load_some(x + i, lanes) * keep);
    store_some(m + i, m_new, lanes);
    store_some(v + i, v_new, lanes);
    store_some(x + i, moved, lanes);
  });
}
