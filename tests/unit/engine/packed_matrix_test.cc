#include "engine/packed_matrix.h"

#include <array>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "base/half.h"
#include "engine/counter_random.h"

namespace tinker::engine::packed_matrix_test {
namespace {

using ::testing::Each;

constexpr std::array kPrecisions = {Precision::f32, Precision::bf16};
// Around lanes, panels and pairs.
constexpr std::array<std::size_t, 9> kSizes = {1, 2, 15, 16, 17, 47, 48, 49, 107};

const Kernels& kernels(Precision precision) {
  return kernels_of(CpuPath::scalar, precision);
}

float element(std::size_t row, std::size_t column) {
  return 2 * uniform(1, row, column) - 1;
}

float rounded(Precision precision, float value) {
  return precision == Precision::f32 ? value : base::from_bf16(base::to_bf16(value));
}

template <typename F>
PackedMatrix packed_from(Precision precision, std::size_t n, std::size_t k, F element_at) {
  PackedMatrix out(kernels(precision), n, k);
  std::vector<float> row(k);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < k; ++j) row[j] = element_at(i, j);
    out.set_row(i, row);
  }
  return out;
}
PackedMatrix matrix(Precision precision, std::size_t n, std::size_t k) {
  return packed_from(precision, n, k, element);
}
/// Columns of such a matrix as rows, each from the row `first` on.
PackedMatrix transposed(Precision precision, std::size_t n, std::size_t k, std::size_t first = 0) {
  return packed_from(
      precision, n, k, [&](std::size_t i, std::size_t j) { return element(first + j, i); });
}

/// All of it, with what fills the panels.
std::string_view bytes_of(const PackedMatrix& matrix) {
  return {reinterpret_cast<const char*>(matrix.panel(0).data), matrix.bytes()};
}

TEST(PackedMatrix, GivesItsRowsBack) {
  for (const auto precision : kPrecisions) {
    for (const auto n : kSizes) {
      for (const auto k : kSizes) {
        const auto packed = matrix(precision, n, k);
        std::vector<float> row(k);
        for (std::size_t i = 0; i < n; ++i) {
          packed.read_row(i, row);
          for (std::size_t j = 0; j < k; ++j)
            ASSERT_EQ(row[j], rounded(precision, element(i, j))) << n << " x " << k;
        }
      }
    }
  }
}

TEST(PackedMatrix, IsZeroAtFirst) {
  const PackedMatrix packed(kernels(Precision::bf16), 49, 7);

  EXPECT_THAT(bytes_of(packed), Each('\0'));
}

TEST(PackedMatrix, HasPanelsOfUpTo48Columns) {
  const PackedMatrix packed(kernels(Precision::f32), 48 + 48 + 17, 5);
  ASSERT_EQ(packed.panels(), 3);

  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(packed.panel(i).first, 48 * i);
    EXPECT_EQ(packed.panel(i).columns, 48);
    EXPECT_EQ(packed.panel(i).width, 48);
  }
  EXPECT_EQ(packed.panel(2).first, 96);
  EXPECT_EQ(packed.panel(2).columns, 17);
  EXPECT_EQ(packed.panel(2).width, 32);
}

TEST(PackedMatrix, RoundsTheLastPanelUpToLanes) {
  for (const auto& [n, width] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 16}, {16, 16}, {17, 32}, {32, 32}, {33, 48}, {48, 48}, {49, 16}}) {
    const PackedMatrix packed(kernels(Precision::f32), n, 5);

    EXPECT_EQ(packed.panel(packed.panels() - 1).width, width) << n;
  }
}

TEST(PackedMatrix, FillsTheLastGroupOfColumns) {
  const PackedMatrix floats(kernels(Precision::f32), 20, 7);
  const PackedMatrix pairs(kernels(Precision::bf16), 20, 7);

  EXPECT_EQ(floats.padded_k(), 7);
  EXPECT_EQ(floats.bytes(), 32 * 7 * 4);
  EXPECT_EQ(pairs.padded_k(), 8);
  EXPECT_EQ(pairs.bytes(), 32 * 8 * 2);
}

TEST(PackedMatrix, KeepsTheColumnOfAPanelTogether) {
  const auto packed = matrix(Precision::f32, 50, 3);
  const auto* second = reinterpret_cast<const float*>(packed.panel(1).data);

  EXPECT_EQ(second[0], element(48, 0));
  EXPECT_EQ(second[1], element(49, 0));
  EXPECT_EQ(second[16], element(48, 1));
}

TEST(PackedMatrix, KeepsPairsTogether) {
  const auto packed = matrix(Precision::bf16, 50, 3);
  const auto* second = reinterpret_cast<const std::uint16_t*>(packed.panel(1).data);

  EXPECT_EQ(second[0], base::to_bf16(element(48, 0)));
  EXPECT_EQ(second[1], base::to_bf16(element(48, 1)));
  EXPECT_EQ(second[2], base::to_bf16(element(49, 0)));
  EXPECT_EQ(second[32], base::to_bf16(element(48, 2)));
  EXPECT_EQ(second[33], 0);
}

TEST(PackedMatrix, IsTransposedAsIfPackedTheOtherWay) {
  for (const auto precision : kPrecisions) {
    for (const auto n : kSizes) {
      for (const auto k : kSizes) {
        const auto from = matrix(precision, k, n);
        PackedMatrix found(kernels(precision), n, k);

        for (std::size_t i = 0; i < found.panels(); ++i)
          found.set_transposed_panel(kernels(precision), i, from);

        EXPECT_EQ(bytes_of(found), bytes_of(transposed(precision, n, k))) << n << " x " << k;
      }
    }
  }
}

TEST(PackedMatrix, IsTransposedFromALaterPanelOn) {
  for (const auto precision : kPrecisions) {
    // Up to the end of the other one, or not that far.
    for (const std::size_t k : {1U, 16U, 47U, 48U, 49U, 59U}) {
      const auto from = matrix(precision, 107, 35);
      PackedMatrix found(kernels(precision), 35, k);

      found.set_transposed_panel(kernels(precision), 0, from, 1);

      EXPECT_EQ(bytes_of(found), bytes_of(transposed(precision, 35, k, 48))) << k;
    }
  }
}

TEST(PackedMatrix, IsTransposedOnePanelAtATime) {
  const auto from = matrix(Precision::f32, 20, 100);
  PackedMatrix found(kernels(Precision::f32), 100, 20);

  found.set_transposed_panel(kernels(Precision::f32), 1, from);

  std::vector<float> row(20);
  found.read_row(47, row);
  EXPECT_THAT(row, Each(0));
  found.read_row(48, row);
  EXPECT_EQ(row[7], element(7, 48));
  found.read_row(96, row);
  EXPECT_THAT(row, Each(0));
}

}  // namespace
}  // namespace tinker::engine::packed_matrix_test
