// Sparse tensors: PROTOBUF 3.2, from "CSR rule" to the end.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/rng.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/tensor_data.h"

namespace tinker::csr_test {
namespace {

using ::testing::ElementsAre;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::Optional;

using Ints = std::vector<std::int64_t>;
using Shape = TensorData::Shape;

TensorData matrix(std::int64_t rows, std::int64_t columns, std::vector<float> cells) {
  return {Buffer<float>(std::move(cells)), Shape{rows, columns}};
}

TensorData matrix(std::int64_t rows, std::int64_t columns, Ints cells) {
  return {Buffer<std::int64_t>(std::move(cells)), Shape{rows, columns}};
}

/// A float32 matrix of zeros with `count` ones in front.
TensorData with_nonzeros(std::int64_t rows, std::int64_t columns, std::size_t count) {
  std::vector<float> cells(static_cast<std::size_t>(rows * columns));
  std::fill_n(cells.begin(), count, 1.0F);
  return matrix(rows, columns, std::move(cells));
}

// ---- to_sparse -------------------------------------------------------------------------------

// The matrix of PROTOBUF 3.3: 1.0 at (0, 1) and 2.0 at (2, 3).
const TensorData kExample = matrix(3, 4, std::vector<float>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});

TEST(ToSparse, ListsTheCellsThatAreNotZero) {
  const TensorData sparse = kExample.to_sparse();

  ASSERT_TRUE(sparse.is_sparse());
  EXPECT_THAT(sparse.floats(), ElementsAre(1.0F, 2.0F));
  EXPECT_THAT(sparse.indices()->crow, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(sparse.indices()->col, ElementsAre(1, 3));
}

TEST(ToSparse, KeepsTheShapeOfTheDenseForm) {
  EXPECT_THAT(kExample.to_sparse().shape(), Optional(ElementsAre(3, 4)));
}

TEST(ToSparse, KeepsTheDtype) {
  const TensorData sparse = matrix(1, 9, Ints{0, 0, 7, 0, 0, 0, 0, 0, 0}).to_sparse();

  ASSERT_TRUE(sparse.is_sparse());
  EXPECT_THAT(sparse.ints(), ElementsAre(7));
}

TEST(ToSparse, GivesAValidTensor) {
  EXPECT_THAT(kExample.to_sparse().validate(), IsOk());
}

// CSR iff (R + 1) + 2 N < R C; for 3 x 4 that is 4 + 2 N < 12.
TEST(ToSparse, HappensJustBelowTheBoundary) {
  EXPECT_TRUE(with_nonzeros(3, 4, 3).to_sparse().is_sparse());
}

TEST(ToSparse, DoesNotHappenAtTheBoundary) {
  EXPECT_FALSE(with_nonzeros(3, 4, 4).to_sparse().is_sparse());
}

// For 1 x C: 2 + 2 N < C.
TEST(ToSparse, CountsOneRowCorrectly) {
  EXPECT_FALSE(with_nonzeros(1, 4, 1).to_sparse().is_sparse());
  EXPECT_TRUE(with_nonzeros(1, 5, 1).to_sparse().is_sparse());
}

TEST(ToSparse, DoesNotHappenToMatricesOfOneColumn) {
  EXPECT_FALSE(with_nonzeros(100, 1, 0).to_sparse().is_sparse());  // 101 numbers for 100 cells
}

TEST(ToSparse, ListsNothingOfAnAllZeroMatrix) {
  const TensorData sparse = with_nonzeros(2, 4, 0).to_sparse();

  ASSERT_TRUE(sparse.is_sparse());
  EXPECT_EQ(sparse.size(), 0U);
  EXPECT_THAT(sparse.indices()->crow, ElementsAre(0, 0, 0));
}

TEST(ToSparse, LeavesMatricesWithoutCellsDense) {
  EXPECT_FALSE(with_nonzeros(0, 4, 0).to_sparse().is_sparse());
  EXPECT_FALSE(with_nonzeros(4, 0, 0).to_sparse().is_sparse());
}

TEST(ToSparse, IsForTwoDimensionsOnly) {
  const Buffer<float> zeros = std::vector<float>(64);

  EXPECT_FALSE(TensorData(zeros, Shape{64}).to_sparse().is_sparse());
  EXPECT_FALSE(TensorData(zeros, Shape{4, 4, 4}).to_sparse().is_sparse());
  EXPECT_FALSE(TensorData(zeros, std::nullopt).to_sparse().is_sparse());
}

TEST(ToSparse, ReturnsADenseTensorWithItsMemory) {
  const TensorData dense = with_nonzeros(3, 4, 4);

  EXPECT_EQ(dense.to_sparse().floats().bytes().data(), dense.floats().bytes().data());
}

TEST(ToSparse, ReturnsASparseTensorUnchanged) {
  const TensorData sparse = kExample.to_sparse();

  EXPECT_EQ(sparse.to_sparse(), sparse);
}

TEST(ToSparse, ReturnsAnInvalidTensorUnchanged) {
  const TensorData invalid = matrix(3, 4, std::vector<float>(5));

  EXPECT_EQ(invalid.to_sparse(), invalid);
}

// "Non-zero means exactly != 0": NaN is, -0.0 is not.
TEST(ToSparse, ListsNan) {
  std::vector<float> cells(9);
  cells[4] = std::nanf("");

  const TensorData sparse = matrix(1, 9, std::move(cells)).to_sparse();

  ASSERT_TRUE(sparse.is_sparse());
  EXPECT_THAT(sparse.indices()->col, ElementsAre(4));
}

TEST(ToSparse, LeavesOutNegativeZero) {
  std::vector<float> cells(9);
  cells[4] = -0.0F;

  const TensorData sparse = matrix(1, 9, std::move(cells)).to_sparse();

  ASSERT_TRUE(sparse.is_sparse());
  EXPECT_EQ(sparse.size(), 0U);
}

// From 0.30: a pad value other than 0.
TEST(ToSparse, LeavesOutTheCellsEqualToThePadValue) {
  const TensorData sparse = matrix(1, 7, Ints{-1, -1, 0, -1, 5, -1, -1}).to_sparse(-1);

  ASSERT_TRUE(sparse.is_sparse());
  EXPECT_THAT(sparse.ints(), ElementsAre(0, 5));
  EXPECT_THAT(sparse.indices()->col, ElementsAre(2, 4));
}

TEST(ToSparse, CountsTheOthersAgainstTheSpaceRule) {
  const TensorData zeros = with_nonzeros(3, 4, 0);

  EXPECT_FALSE(zeros.to_sparse(-1).is_sparse());
}

// ---- to_dense --------------------------------------------------------------------------------

TEST(ToDense, PutsListedValuesIntoTheirCells) {
  EXPECT_THAT(kExample.to_sparse().to_dense(), IsOkAndHolds(kExample));
}

TEST(ToDense, PutsThePadValueIntoTheOthers) {
  const TensorData sparse(
      Buffer<std::int64_t>(Ints{9}), Shape{2, 3}, {.crow = Ints{0, 0, 1}, .col = Ints{0}});

  EXPECT_THAT(sparse.to_dense(-1), IsOkAndHolds(matrix(2, 3, Ints{-1, -1, -1, 9, -1, -1})));
}

TEST(ToDense, TurnsThePadValueIntoAFloat) {
  const TensorData sparse(
      Buffer<float>(std::vector{2.5F}), Shape{1, 3}, {.crow = Ints{0, 1}, .col = Ints{1}});

  EXPECT_THAT(sparse.to_dense(-1),
              IsOkAndHolds(matrix(1, 3, std::vector<float>{-1.0F, 2.5F, -1.0F})));
}

TEST(ToDense, ReturnsADenseTensorWithItsMemory) {
  const auto dense = kExample.to_dense();

  ASSERT_THAT(dense, IsOk());
  EXPECT_EQ(dense->floats().bytes().data(), kExample.floats().bytes().data());
}

TEST(ToDense, AcceptsAMatrixWithoutRows) {
  const TensorData sparse(
      Buffer<float>(std::vector<float>{}), Shape{0, 3}, {.crow = Ints{0}, .col = Ints{}});

  EXPECT_THAT(sparse.to_dense(), IsOkAndHolds(matrix(0, 3, std::vector<float>{})));
}

TEST(ToDense, RefusesADenseTensorThatIsNotValid) {
  EXPECT_THAT(matrix(2, 3, std::vector<float>(5)).to_dense(),
              IsError(ErrorCode::invalid_argument, "expected 6 values for shape [2, 3], found 5"));
}

// A peer may claim any number of columns in a few bytes; the library throws nothing (STYLE 4).
TEST(ToDense, RefusesAMatrixTooLargeForMemory) {
  const TensorData sparse(Buffer<float>(std::vector<float>{}),
                          Shape{1, std::int64_t{1} << 62U},
                          {.crow = Ints{0, 0}, .col = Ints{}});

  std::optional<Result<TensorData>> dense;
  EXPECT_NO_THROW(dense = sparse.to_dense());

  ASSERT_TRUE(dense.has_value());
  EXPECT_FALSE(dense->ok());
}

/// A matrix whose cells are mostly `pad`.
template <typename T>
TensorData random_matrix(Rng& rng, std::int64_t pad) {
  const auto rows = static_cast<std::int64_t>(rng.below(8));
  const auto columns = static_cast<std::int64_t>(rng.below(12));
  std::vector<T> cells(static_cast<std::size_t>(rows * columns), static_cast<T>(pad));
  for (T& cell : cells) {
    if (rng.below(4) == 0) cell = static_cast<T>(static_cast<std::int64_t>(rng.below(7)) - 3);
  }
  return matrix(rows, columns, std::move(cells));
}

template <typename T>
void expect_round_trips(std::int64_t pad) {
  Rng rng(1);
  int sparse_count = 0;
  for (int i = 0; i < 200; ++i) {
    const TensorData dense = random_matrix<T>(rng, pad);
    const TensorData sparse = dense.to_sparse(pad);
    sparse_count += sparse.is_sparse() ? 1 : 0;
    EXPECT_THAT(sparse.to_dense(pad), IsOkAndHolds(dense)) << "matrix " << i;
  }
  EXPECT_GT(sparse_count, 50) << "too few of the matrices became sparse to show anything";
}

TEST(SparseRoundTrip, ReturnsFloatsPaddedWithZero) {
  expect_round_trips<float>(0);
}

TEST(SparseRoundTrip, ReturnsFloatsPaddedWithMinusOne) {
  expect_round_trips<float>(-1);
}

TEST(SparseRoundTrip, ReturnsIntegersPaddedWithZero) {
  expect_round_trips<std::int64_t>(0);
}

TEST(SparseRoundTrip, ReturnsIntegersPaddedWithMinusOne) {
  expect_round_trips<std::int64_t>(-1);
}

// ---- the invariants, each broken once (checked from 0.30.2) ------------------------------------

struct BrokenCsr {
  const char* name;
  std::optional<Shape> shape;
  Ints crow;
  Ints col;
  const char* message;
  std::size_t value_count = 2;
};

class CsrInvariant : public ::testing::TestWithParam<BrokenCsr> {
 protected:
  static TensorData tensor() {
    const BrokenCsr& broken = GetParam();
    return {Buffer<float>(std::vector<float>(broken.value_count, 1.0F)),
            broken.shape,
            {.crow = broken.crow, .col = broken.col}};
  }
};

TEST_P(CsrInvariant, IsCheckedByValidate) {
  EXPECT_THAT(tensor().validate(), IsError(ErrorCode::invalid_argument, GetParam().message));
}

TEST_P(CsrInvariant, IsCheckedBeforeTheTensorIsRestored) {
  EXPECT_THAT(tensor().to_dense(), IsError(ErrorCode::invalid_argument, GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Protobuf32,
    CsrInvariant,
    ::testing::Values(
        BrokenCsr{"NoShape",
                  std::nullopt,
                  {0, 1, 2},
                  {0, 1},
                  "expected the shape of a matrix for a sparse tensor, found none"},
        BrokenCsr{"OneDimension",
                  Shape{2},
                  {0, 1, 2},
                  {0, 1},
                  "expected the shape of a matrix for a sparse tensor, found [2]"},
        BrokenCsr{"ThreeDimensions",
                  Shape{2, 3, 1},
                  {0, 1, 2},
                  {0, 1},
                  "expected the shape of a matrix for a sparse tensor, found [2, 3, 1]"},
        BrokenCsr{"NegativeDimension", Shape{-1, 3}, {0}, {}, "impossible shape [-1, 3]", 0},
        BrokenCsr{"TooFewCrow",
                  Shape{2, 3},
                  {0, 2},
                  {0, 1},
                  "expected 3 crow indices for 2 rows, found 2"},
        BrokenCsr{"TooManyCrow",
                  Shape{2, 3},
                  {0, 1, 2, 2},
                  {0, 1},
                  "expected 3 crow indices for 2 rows, found 4"},
        BrokenCsr{"NoCrow", Shape{0, 3}, {}, {}, "expected 1 crow indices for 0 rows, found 0", 0},
        BrokenCsr{"TooFewColumns",
                  Shape{2, 3},
                  {0, 1, 2},
                  {0},
                  "expected 2 col indices, one per value, found 1"},
        BrokenCsr{"TooManyColumns",
                  Shape{2, 3},
                  {0, 1, 2},
                  {0, 1, 2},
                  "expected 2 col indices, one per value, found 3"},
        BrokenCsr{"CrowStartsAboveZero",
                  Shape{2, 3},
                  {1, 1, 2},
                  {0, 1},
                  "expected crow indices from 0 to 2, found 1 to 2"},
        BrokenCsr{"CrowEndsBelowTheCount",
                  Shape{2, 3},
                  {0, 1, 1},
                  {0, 1},
                  "expected crow indices from 0 to 2, found 0 to 1"},
        BrokenCsr{"CrowEndsAboveTheCount",
                  Shape{2, 3},
                  {0, 1, 3},
                  {0, 1},
                  "expected crow indices from 0 to 2, found 0 to 3"},
        BrokenCsr{"CrowDecreases",
                  Shape{3, 3},
                  {0, 2, 1, 2},
                  {0, 1},
                  "crow indices do not ascend at row 1"},
        BrokenCsr{"CrowIsNegative",
                  Shape{2, 3},
                  {0, -1, 2},
                  {0, 1},
                  "crow indices do not ascend at row 0"},
        BrokenCsr{"CrowOvershootsAndComesBack",
                  Shape{2, 3},
                  {0, 1'000'000, 2},
                  {0, 1},
                  "crow indices do not ascend at row 0"},
        BrokenCsr{"ColumnIsNegative",
                  Shape{2, 3},
                  {0, 1, 2},
                  {0, -1},
                  "expected ascending columns below 3 in row 1, found -1"},
        BrokenCsr{"ColumnIsBeyondTheRow",
                  Shape{2, 3},
                  {0, 1, 2},
                  {0, 3},
                  "expected ascending columns below 3 in row 1, found 3"},
        BrokenCsr{"ColumnsDescend",
                  Shape{1, 3},
                  {0, 2},
                  {1, 0},
                  "expected ascending columns below 3 in row 0, found 0"},
        BrokenCsr{"ColumnsRepeat",
                  Shape{1, 3},
                  {0, 2},
                  {1, 1},
                  "expected ascending columns below 3 in row 0, found 1"}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace tinker::csr_test
