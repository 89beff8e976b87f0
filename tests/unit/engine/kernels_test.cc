// Kernels against plain loops in double precision, and against each other: every path gives the
// same bits, except for products of bf16 on tiles, which have a twin of their own.

#include "engine/kernels.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/half.h"
#include "engine/counter_random.h"
#include "engine/packed_matrix.h"
#include "engine/product.h"

namespace tinker::engine::kernels_test {
namespace {

/// Numbers in [-1, 1).
std::vector<float> some(std::size_t count, std::uint64_t seed) {
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(2.0F * uniform(seed, 0, i) - 1.0F);
  return out;
}

struct Case {
  CpuPath path = CpuPath::scalar;
  Precision precision = Precision::f32;
};

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (const auto path : cpu_paths()) {
    for (const auto precision : {Precision::f32, Precision::bf16}) out.push_back({path, precision});
  }
  return out;
}

class KernelsTest : public ::testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] const Kernels& tested() const {
    return kernels_of(GetParam().path, GetParam().precision);
  }
  [[nodiscard]] const Kernels& scalar() const {
    return kernels_of(CpuPath::scalar, GetParam().precision);
  }
  [[nodiscard]] bool is_f32() const { return GetParam().precision == Precision::f32; }
  /// Tiles add up products in an order of their own.
  [[nodiscard]] bool has_tiles() const { return !is_f32() && GetParam().path == CpuPath::amx; }

  /// As the kernels take them.
  [[nodiscard]] std::vector<std::byte> elements(std::span<const float> values) const {
    std::vector<std::byte> out(values.size() * tested().element_bytes + 64);
    scalar().to_elements(values.data(), values.size(), out.data());
    return out;
  }
  [[nodiscard]] std::vector<float> floats(const std::vector<std::byte>& given,
                                          std::size_t count) const {
    std::vector<float> out(count);
    scalar().from_elements(given.data(), count, out.data());
    return out;
  }
  /// What is left of them as elements.
  [[nodiscard]] std::vector<float> rounded(const std::vector<float>& values) const {
    return floats(elements(values), values.size());
  }
};

/// Compares within a tolerance, and bits with bits.
void expect_near(std::span<const float> got, std::span<const double> expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(
        static_cast<double>(got[i]), expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << i;
  }
}
void expect_same_bits(std::span<const float> a, std::span<const float> b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0);
}

/// A sum and n products more, as tiles add them: of each 32 the even and the odd ones by
/// themselves.
float add_as_tiles(float sum, std::span<const float> a, std::span<const float> b) {
  for (std::size_t begin = 0; begin < a.size(); begin += 32) {
    std::array<float, 2> part = {};
    for (std::size_t i = begin; i < std::min(begin + 32, a.size()); ++i)
      part[i % 2] = std::fma(a[i], b[i], part[i % 2]);
    sum += part[0] + part[1];
  }
  return sum;
}

struct ProductSize {
  std::size_t rows;
  std::size_t n;
  std::size_t k;
};
// The last one is of several units, each of several panels.
constexpr std::array<ProductSize, 13> kProductSizes = {{{1, 1, 1},
                                                        {1, 48, 16},
                                                        {2, 16, 5},
                                                        {3, 17, 33},
                                                        {7, 32, 8},
                                                        {8, 48, 64},
                                                        {13, 60, 20},
                                                        {24, 16, 7},
                                                        {29, 100, 2},
                                                        {12, 32, 9},
                                                        {130, 50, 6},
                                                        {70, 144, 100},
                                                        {26, 200, 1400}}};

TEST_P(KernelsTest, ProductAddsUpItsTermsAndTheBias) {
  ThreadPool threads(1);
  for (const auto& [rows, n, k] : kProductSizes) {
    const std::size_t k2 = 3;
    const auto a = rounded(some(rows * k, 1));
    const auto w = rounded(some(n * k, 2));
    const auto a2 = rounded(some(rows * k2, 3));
    const auto w2 = rounded(some(n * k2, 4));
    const auto bias = some(n, 5);
    const auto before = some(rows * n, 6);
    std::vector<double> expected(rows * n);
    for (std::size_t i = 0; i < rows * n; ++i) {
      const std::size_t row = i / n;
      const std::size_t column = i % n;
      expected[i] = static_cast<double>(before[i]) + static_cast<double>(bias[column]);
      for (std::size_t j = 0; j < k; ++j)
        expected[i] += static_cast<double>(a[row * k + j]) * static_cast<double>(w[column * k + j]);
      for (std::size_t j = 0; j < k2; ++j)
        expected[i] +=
            static_cast<double>(a2[row * k2 + j]) * static_cast<double>(w2[column * k2 + j]);
    }
    const auto run = [&](const Kernels& kernels) {
      PackedMatrix first(kernels, n, k);
      PackedMatrix second(kernels, n, k2);
      for (std::size_t i = 0; i < n; ++i) {
        first.set_row(i, std::span(w).subspan(i * k, k));
        second.set_row(i, std::span(w2).subspan(i * k2, k2));
      }
      const auto lay_out = [&](const std::vector<float>& from,
                               std::size_t columns,
                               std::size_t stride) {
        AlignedBytes out(rows * stride * kernels.element_bytes);
        for (std::size_t i = 0; i < rows; ++i) {
          kernels.to_elements(
              from.data() + i * columns, columns, out.data() + i * stride * kernels.element_bytes);
        }
        return out;
      };
      const auto left = lay_out(a, k, first.padded_k());
      const auto left2 = lay_out(a2, k2, second.padded_k());
      std::vector<float> c = before;
      Product product = {
          .rows = rows, .c = c.data(), .c_stride = n, .output = Output::add, .bias = bias.data()};
      product.terms[0] = {.a = left.data(), .a_stride = first.padded_k(), .w = &first};
      product.terms[1] = {.a = left2.data(), .a_stride = second.padded_k(), .w = &second};
      multiply(threads, kernels, {&product, 1});
      return c;
    };

    const auto c = run(tested());

    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(n) + " x " + std::to_string(k));
    expect_near(c, expected, 4e-5);
    if (!has_tiles()) {
      expect_same_bits(c, run(scalar()));
      continue;
    }
    std::vector<float> twin(rows * n);
    for (std::size_t i = 0; i < rows * n; ++i) {
      const auto row_of = [](const std::vector<float>& from, std::size_t row, std::size_t columns) {
        return std::span(from).subspan(row * columns, columns);
      };
      const float first = add_as_tiles(0.0F, row_of(a, i / n, k), row_of(w, i % n, k));
      const float sum = add_as_tiles(first, row_of(a2, i / n, k2), row_of(w2, i % n, k2));
      twin[i] = before[i] + (sum + bias[i % n]);
    }
    expect_same_bits(c, twin);
  }
}

TEST_P(KernelsTest, OuterProductGoesOnFromWhatIsThere) {
  for (const auto& [rows, columns, rank] : kProductSizes) {
    const auto u = rounded(some(rows * rank, 1));
    const auto x = rounded(some(rows * columns, 2));
    const auto before = some(rank * columns, 3);
    std::vector<double> expected(before.begin(), before.end());
    for (std::size_t t = 0; t < rows; ++t) {
      for (std::size_t j = 0; j < rank; ++j) {
        for (std::size_t n = 0; n < columns; ++n) {
          expected[j * columns + n] +=
              static_cast<double>(u[t * rank + j]) * static_cast<double>(x[t * columns + n]);
        }
      }
    }
    const auto run = [&](const Kernels& kernels) {
      const auto rows_of_u = elements(u);
      std::vector<std::byte> packed(round_up(rows, kernels.step) * rank * kernels.left_bytes);
      kernels.pack_rows(rows_of_u.data(), rank, rows, rank, 1.0F, packed.data());
      const auto x_elements = elements(x);
      auto g = before;
      kernels.outer_product({.u = packed.data(),
                             .x = x_elements.data(),
                             .x_stride = columns,
                             .rows = rows,
                             .rank = rank,
                             .columns = columns,
                             .g = g.data(),
                             .g_stride = columns});
      return g;
    };

    const auto g = run(tested());

    SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns, rank " +
                 std::to_string(rank));
    expect_near(g, expected, 1e-5);
    if (!has_tiles()) {
      expect_same_bits(g, run(scalar()));
      continue;
    }
    auto twin = before;
    for (std::size_t i = 0; i < twin.size(); ++i) {
      std::vector<float> left;
      std::vector<float> right;
      for (std::size_t t = 0; t < rows; ++t) {
        left.push_back(u[t * rank + i / columns]);
        right.push_back(x[t * columns + i % columns]);
      }
      twin[i] = add_as_tiles(before[i], left, right);
    }
    expect_same_bits(g, twin);
  }
}

TEST_P(KernelsTest, PackedRowsAreScaledAndFilledUp) {
  const std::size_t rows = 35;
  const std::size_t rank = 70;
  const std::size_t stride = 75;
  const std::size_t step = tested().step;
  const auto u = rounded(some(rows * stride, 1));
  const auto given = elements(u);
  std::vector<std::byte> packed(round_up(rows, step) * rank * tested().left_bytes);

  tested().pack_rows(given.data(), stride, rows, rank, 0.3F, packed.data());

  std::vector<float> expected(round_up(rows, step) * rank);
  for (std::size_t t = 0; t < rows; ++t) {
    for (std::size_t j = 0; j < rank; ++j)
      expected[t / step * rank * step + j * step + t % step] = u[t * stride + j] * 0.3F;
  }
  std::vector<float> got = floats(packed, expected.size());
  if (tested().left_bytes == sizeof(float))
    std::memcpy(got.data(), packed.data(), got.size() * sizeof(float));
  expect_same_bits(got, rounded(expected));
}

TEST_P(KernelsTest, TransposeTurnsPanels) {
  const std::size_t group = tested().group;
  for (const auto& [k, n] : {std::pair(1U, 1U), std::pair(48U, 48U), std::pair(70U, 37U)}) {
    const std::size_t in_row = round_up(n, 16) + 16;
    const std::size_t out_row = round_up(k, 16);
    std::vector<float> in(round_up(k, group) * in_row);
    std::vector<float> expected(round_up(n, group) * out_row);
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const auto value = static_cast<float>(i * 3 + j);
        in[i / group * in_row * group + j * group + i % group] = value;
        expected[j / group * out_row * group + i * group + j % group] = value;
      }
    }
    const auto given = elements(rounded(in));
    std::vector<std::byte> out(expected.size() * tested().element_bytes);

    tested().transpose(given.data(), in_row, k, n, out.data(), out_row);

    expect_same_bits(floats(out, expected.size()), rounded(expected));
  }
}

TEST_P(KernelsTest, NormDividesByTheRootOfTheMeanSquare) {
  for (const std::size_t n : {1U, 15U, 16U, 17U, 50U}) {
    const auto x = some(n, 1);
    const auto gain = some(n, 2);
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    std::vector<double> expected;
    for (std::size_t i = 0; i < n; ++i)
      expected.push_back(static_cast<double>(x[i]) * inverse * static_cast<double>(gain[i]));
    std::vector<std::byte> out(4 * n + 64);
    std::vector<std::byte> theirs(4 * n + 64);

    const float got = tested().rms_norm(x.data(), gain.data(), n, 1e-5F, out.data());

    EXPECT_NEAR(static_cast<double>(got), inverse, 1e-6 * inverse);
    expect_near(floats(out, n), expected, is_f32() ? 1e-6 : 4e-3);
    EXPECT_EQ(got, scalar().rms_norm(x.data(), gain.data(), n, 1e-5F, theirs.data()));
    expect_same_bits(floats(out, n), floats(theirs, n));
  }
}

TEST_P(KernelsTest, NormBackwardIsTheDerivative) {
  const std::size_t n = 21;
  const auto x = some(n, 1);
  const auto gain = some(n, 2);
  const auto d_y = some(n, 3);
  const auto loss = [&](const std::vector<double>& at) {
    double squares = 0;
    for (const double v : at) squares += v * v;
    double out = 0;
    for (std::size_t i = 0; i < n; ++i) {
      out += static_cast<double>(d_y[i]) * at[i] /
             std::sqrt(squares / static_cast<double>(n) + 1e-5) * static_cast<double>(gain[i]);
    }
    return out;
  };
  std::vector<double> expected;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> up(x.begin(), x.end());
    std::vector<double> down = up;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    expected.push_back(1.0 + (loss(up) - loss(down)) / 2e-5);
  }
  std::vector<float> unused(n + 16);
  const float inverse = kernels_of(GetParam().path, Precision::f32)
                            .rms_norm(x.data(), gain.data(), n, 1e-5F, unused.data());
  std::vector<float> d_x(n, 1.0F);
  std::vector<float> theirs(n, 1.0F);

  tested().rms_norm_backward(d_y.data(), x.data(), gain.data(), inverse, n, d_x.data());
  scalar().rms_norm_backward(d_y.data(), x.data(), gain.data(), inverse, n, theirs.data());

  expect_near(d_x, expected, 1e-5);
  expect_same_bits(d_x, theirs);
}

TEST_P(KernelsTest, RotationTurnsPairsAndBack) {
  for (const std::size_t n : {2U, 12U, 32U, 50U}) {
    const auto x = some(n, 1);
    std::vector<float> cos;
    std::vector<float> sin;
    std::vector<float> minus_sin;
    for (std::size_t i = 0; i < n / 2; ++i) {
      cos.push_back(std::cos(static_cast<float>(i)));
      sin.push_back(std::sin(static_cast<float>(i)));
      minus_sin.push_back(-sin.back());
    }
    std::vector<double> expected(n);
    for (std::size_t i = 0; i < n / 2; ++i) {
      const auto a = static_cast<double>(x[i]);
      const auto b = static_cast<double>(x[i + n / 2]);
      expected[i] = a * static_cast<double>(cos[i]) - b * static_cast<double>(sin[i]);
      expected[i + n / 2] = b * static_cast<double>(cos[i]) + a * static_cast<double>(sin[i]);
    }
    std::vector<float> turned(n);
    std::vector<float> theirs(n);
    std::vector<float> back(n);

    tested().rotate(x.data(), cos.data(), sin.data(), n, turned.data());
    scalar().rotate(x.data(), cos.data(), sin.data(), n, theirs.data());
    tested().rotate(turned.data(), cos.data(), minus_sin.data(), n, back.data());

    expect_near(turned, expected, 1e-6);
    expect_same_bits(turned, theirs);
    expect_near(back, std::vector<double>(x.begin(), x.end()), 1e-6);
  }
}

TEST_P(KernelsTest, GateIsSiluAndItsDerivative) {
  const std::size_t n = 37;
  auto gate = some(n, 1);
  for (float& g : gate) g *= 8;
  gate[3] = 200;
  gate[4] = -200;
  gate = rounded(gate);
  const auto up = rounded(some(n, 2));
  const auto d = some(n, 3);
  std::vector<double> expected;
  std::vector<double> d_gate;
  std::vector<double> d_up;
  for (std::size_t i = 0; i < n; ++i) {
    const auto g = static_cast<double>(gate[i]);
    const double s = 1.0 / (1.0 + std::exp(-g));
    expected.push_back(g * s * static_cast<double>(up[i]));
    d_up.push_back(static_cast<double>(d[i]) * g * s);
    d_gate.push_back(static_cast<double>(d[i]) * static_cast<double>(up[i]) *
                     (s + g * s * (1.0 - s)));
  }
  const auto g_elements = elements(gate);
  const auto u_elements = elements(up);
  const auto run = [&](const Kernels& kernels) {
    std::vector<std::vector<std::byte>> out(3, std::vector<std::byte>(4 * n + 64));
    kernels.silu_product(g_elements.data(), u_elements.data(), n, out[0].data());
    kernels.silu_product_backward(
        d.data(), g_elements.data(), u_elements.data(), n, out[1].data(), out[2].data());
    return std::vector{floats(out[0], n), floats(out[1], n), floats(out[2], n)};
  };

  const auto got = run(tested());

  const double tolerance = is_f32() ? 1e-6 : 4e-3;
  expect_near(got[0], expected, tolerance);
  expect_near(got[1], d_gate, tolerance);
  expect_near(got[2], d_up, tolerance);
  const auto theirs = run(scalar());
  for (std::size_t i = 0; i < 3; ++i) expect_same_bits(got[i], theirs[i]);
}

TEST_P(KernelsTest, SoftmaxOfLargeAndImpossibleLogits) {
  for (const std::size_t n : {1U, 16U, 19U, 100U}) {
    auto logits = some(n, 1);
    for (float& z : logits) z = z * 30 + 500;
    if (n > 2) logits[2] = -std::numeric_limits<float>::infinity();
    double top = -1e9;
    for (const float z : logits) top = std::max(top, static_cast<double>(z) * 0.5);
    double sum = 0;
    for (const float z : logits) sum += std::exp(static_cast<double>(z) * 0.5 - top);

    const auto part = tested().softmax_part(logits.data(), n, 0.5F);
    const auto theirs = scalar().softmax_part(logits.data(), n, 0.5F);
    auto values = logits;
    auto their_values = logits;
    const auto lse = static_cast<float>(2 * (top + std::log(sum)));
    tested().softmax_values(values.data(), n, lse, -2.0F);
    scalar().softmax_values(their_values.data(), n, lse, -2.0F);

    EXPECT_EQ(static_cast<double>(part.max), top);
    EXPECT_NEAR(static_cast<double>(part.sum), sum, 1e-5 * sum);
    EXPECT_EQ(part.max, theirs.max);
    EXPECT_EQ(part.sum, theirs.sum);
    std::vector<double> expected;
    for (const float z : logits)
      expected.push_back(-2 * std::exp(static_cast<double>(z) - static_cast<double>(lse)));
    expect_near(values, expected, 1e-5);
    expect_same_bits(values, their_values);
  }
}

TEST_P(KernelsTest, ElementsAreTheNearestOnes) {
  const float infinity = std::numeric_limits<float>::infinity();
  // Ties go to even: 1 + 2^-8 and 1 + 3 * 2^-8 lie half way between neighbours.
  std::vector<float> given = {0.0F,
                              -0.0F,
                              1.0F,
                              1.0F + 0x1p-8F,
                              1.0F + 0x3p-8F,
                              3.0e38F,
                              -infinity,
                              infinity,
                              0x1p-120F,
                              0.1F};
  const auto more = some(23, 1);
  given.insert(given.end(), more.begin(), more.end());
  std::vector<float> expected;
  for (const float x : given) expected.push_back(is_f32() ? x : base::from_bf16(base::to_bf16(x)));
  std::vector<std::byte> out(4 * given.size() + 64);
  std::vector<float> back(given.size());

  tested().to_elements(given.data(), given.size(), out.data());
  tested().from_elements(out.data(), given.size(), back.data());

  expect_same_bits(back, expected);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  tested().to_elements(&nan, 1, out.data());
  tested().from_elements(out.data(), 1, back.data());
  EXPECT_TRUE(std::isnan(back[0]));
}

TEST_P(KernelsTest, SumsAndAdditions) {
  const std::size_t n = 77;
  const auto x = some(n, 1);
  const auto y = some(n, 2);
  double squares = 0;
  std::vector<double> expected;
  for (std::size_t i = 0; i < n; ++i) {
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    expected.push_back(static_cast<double>(x[i]) + static_cast<double>(y[i]));
  }
  auto sum = y;

  tested().add(x.data(), n, sum.data());

  expect_near(sum, expected, 1e-7);
  EXPECT_NEAR(static_cast<double>(tested().sum_of_squares(x.data(), n)), squares, 1e-5);
  EXPECT_EQ(tested().sum_of_squares(x.data(), n), scalar().sum_of_squares(x.data(), n));
}

TEST_P(KernelsTest, AdamHasTheSameBitsOnEveryPath) {
  const std::size_t n = 35;
  const AdamStep step = {.learning_rate = 1e-2F,
                         .beta2 = 0.95F,
                         .rest1 = 0.1F,
                         .rest2 = 0.05F,
                         .eps = 1e-12F,
                         .decay = 1e-3F,
                         .correction1 = 0.1F,
                         .correction2 = 0.2236F,
                         .gradient_scale = 0.5F};
  const auto run = [&](const Kernels& kernels) {
    auto x = some(n, 1);
    auto m = some(n, 2);
    std::vector<float> v(n, 0.25F);
    const auto g = some(n, 3);
    kernels.adam(step, n, g.data(), x.data(), m.data(), v.data());
    x.insert(x.end(), m.begin(), m.end());
    x.insert(x.end(), v.begin(), v.end());
    return x;
  };

  expect_same_bits(run(tested()), run(scalar()));
}

/// Queries, keys and values of one head.
struct Attention {
  std::size_t head_dim = 0;
  std::size_t keys = 0;
  std::vector<std::size_t> limits = {};  ///< Of the queries, ascending.
};
const std::vector<Attention> kAttentions = {
    {.head_dim = 2, .keys = 1, .limits = {1}},
    {.head_dim = 12, .keys = 33, .limits = {1, 2, 31, 32, 33, 33}},
    {.head_dim = 64,
     .keys = 70,
     .limits = {1, 5, 5, 5, 20, 32, 33, 34, 35, 40, 50, 60, 64, 65, 66, 70, 70}},
    {.head_dim = 80, .keys = 64, .limits = {64, 64, 64}},
    {.head_dim = 48, .keys = 40, .limits = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
                                            15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
                                            29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40}},
};

/// The arrays of an attention, and what plain loops make of them.
class AttentionCase {
 public:
  AttentionCase(const Attention& shape,
                std::vector<float> given_q,
                std::vector<float> given_k,
                std::vector<float> given_v,
                std::vector<float> given_d)
      : shape_(shape),
        q(std::move(given_q)),
        k(std::move(given_k)),
        v(std::move(given_v)),
        d(std::move(given_d)) {
    const std::size_t n = shape.head_dim;
    const std::size_t rows = shape.limits.size();
    scale = 1.0F / std::sqrt(static_cast<float>(n));
    out.assign(rows * n, 0);
    lse.assign(rows, 0);
    d_q.assign(rows * n, 0);
    d_k.assign(shape.keys * n, 0);
    d_v.assign(shape.keys * n, 0);
    for (std::size_t r = 0; r < rows; ++r) attend(r);
  }

 private:
  void attend(std::size_t r) {
    const std::size_t n = shape_.head_dim;
    const std::size_t limit = shape_.limits[r];
    std::vector<double> p(limit);
    double top = -1e30;
    for (std::size_t j = 0; j < limit; ++j) {
      for (std::size_t i = 0; i < n; ++i)
        p[j] += static_cast<double>(q[r * n + i]) * static_cast<double>(k[j * n + i]);
      p[j] *= static_cast<double>(scale);
      top = std::max(top, p[j]);
    }
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - top);
    lse[r] = top + std::log(sum);
    for (double& x : p) x /= sum;
    double pull = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < limit; ++j)
        out[r * n + i] += p[j] * static_cast<double>(v[j * n + i]);
      pull += out[r * n + i] * static_cast<double>(d[r * n + i]);
    }
    for (std::size_t j = 0; j < limit; ++j) {
      double d_p = 0;
      for (std::size_t i = 0; i < n; ++i)
        d_p += static_cast<double>(d[r * n + i]) * static_cast<double>(v[j * n + i]);
      const double d_s = p[j] * (d_p - pull) * static_cast<double>(scale);
      for (std::size_t i = 0; i < n; ++i) {
        d_v[j * n + i] += p[j] * static_cast<double>(d[r * n + i]);
        d_q[r * n + i] += d_s * static_cast<double>(k[j * n + i]);
        d_k[j * n + i] += d_s * static_cast<double>(q[r * n + i]);
      }
    }
  }

  const Attention& shape_;

 public:
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<float> d;
  float scale = 0;
  std::vector<double> out;
  std::vector<double> lse;
  std::vector<double> d_q;
  std::vector<double> d_k;
  std::vector<double> d_v;
};

TEST_P(KernelsTest, AttentionAndItsDerivatives) {
  for (const auto& shape : kAttentions) {
    const std::size_t n = shape.head_dim;
    const std::size_t rows = shape.limits.size();
    const AttentionCase given(shape,
                              rounded(some(rows * n, 1)),
                              rounded(some(shape.keys * n, 2)),
                              rounded(some(shape.keys * n, 3)),
                              rounded(some(rows * n, 4)));
    const std::size_t blocks = (shape.keys + kKeyBlock - 1) / kKeyBlock;
    const std::size_t width = round_up(n, kLanes);
    const std::size_t group = tested().group;
    const std::size_t depth = round_up(n, tested().step);
    // What lies behind the last key must not matter.
    const float nothing = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> key_values(blocks * depth * kKeyBlock, nothing);
    std::vector<float> value_values(blocks * kKeyBlock * width, nothing);
    for (std::size_t j = 0; j < shape.keys; ++j) {
      const std::size_t slot = j % kKeyBlock;
      float* block = key_values.data() + j / kKeyBlock * depth * kKeyBlock;
      for (std::size_t i = 0; i < depth; ++i) {
        block[i / group * kKeyBlock * group + slot * group + i % group] =
            i < n ? given.k[j * n + i] : 0.0F;
      }
      for (std::size_t i = 0; i < width; ++i) {
        value_values[j / group * group * width + i * group + j % group] =
            i < n ? given.v[j * n + i] : 0.0F;
      }
    }
    const auto keys = elements(key_values);
    const auto values = elements(value_values);
    const auto q = elements(given.q);
    const auto d = elements(given.d);
    const std::size_t bytes = tested().element_bytes;
    std::vector<const void*> key_blocks;
    std::vector<const void*> value_blocks;
    for (std::size_t block = 0; block < blocks; ++block) {
      key_blocks.push_back(keys.data() + block * depth * kKeyBlock * bytes);
      value_blocks.push_back(values.data() + block * kKeyBlock * width * bytes);
    }
    const auto run = [&](const Kernels& kernels) {
      std::vector<std::byte> out(rows * n * bytes + 64);
      std::vector<float> lse(rows);
      std::vector<QueryRow> queries;
      for (std::size_t r = 0; r < rows; ++r) {
        queries.push_back({.q = q.data() + r * n * bytes,
                           .out = out.data() + r * n * bytes,
                           .lse = &lse[r],
                           .limit = shape.limits[r]});
      }
      const Floats scratch(
          std::max(attention_scratch(n), attention_backward_scratch(n, shape.keys)));
      kernels.attention({.rows = queries.data(),
                         .row_count = rows,
                         .key_blocks = key_blocks.data(),
                         .value_blocks = value_blocks.data(),
                         .head_dim = n,
                         .value_stride = width,
                         .scale = given.scale,
                         .scratch = scratch.data()});
      std::vector<float> d_q(rows * n);
      std::vector<float> d_k(shape.keys * n);
      std::vector<float> d_v(shape.keys * n);
      std::vector<BackwardRow> back;
      for (std::size_t r = 0; r < rows; ++r) {
        back.push_back({.q = queries[r].q,
                        .out = queries[r].out,
                        .d_out = d.data() + r * n * bytes,
                        .d_q = d_q.data() + r * n,
                        .lse = lse[r],
                        .limit = shape.limits[r]});
      }
      kernels.attention_backward({.rows = back.data(),
                                  .row_count = rows,
                                  .key_blocks = key_blocks.data(),
                                  .value_blocks = value_blocks.data(),
                                  .keys = shape.keys,
                                  .d_k = d_k.data(),
                                  .d_v = d_v.data(),
                                  .d_kv_stride = n,
                                  .head_dim = n,
                                  .value_stride = width,
                                  .scale = given.scale,
                                  .scratch = scratch.data()});
      return std::vector{floats(out, rows * n), lse, d_q, d_k, d_v};
    };

    const auto got = run(tested());

    SCOPED_TRACE("head of " + std::to_string(n) + ", " + std::to_string(shape.keys) + " keys");
    const double tolerance = is_f32() ? 1e-5 : 1e-2;
    expect_near(got[0], given.out, tolerance);
    expect_near(got[1], given.lse, 1e-5);
    expect_near(got[2], given.d_q, tolerance);
    expect_near(got[3], given.d_k, tolerance);
    expect_near(got[4], given.d_v, tolerance);
    if (has_tiles()) continue;
    const auto theirs = run(scalar());
    for (std::size_t i = 0; i < got.size(); ++i) expect_same_bits(got[i], theirs[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths,
                         KernelsTest,
                         ::testing::ValuesIn(all_cases()),
                         [](const auto& test) {
                           return std::string(to_string(test.param.path)) +
                                  (test.param.precision == Precision::f32 ? "_f32" : "_bf16");
                         });

}  // namespace
}  // namespace tinker::engine::kernels_test
