#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/adapters/eigen.h"
#include "tinker/testing/matchers.h"

namespace tinker::adapters::eigen_adapter_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

TEST(FromEigen, WritesMatricesRowByRow) {
  Eigen::Matrix<double, 2, 3> matrix;  // column-major, as Eigen prefers
  matrix << 1, 2, 3, 4, 5, 6;

  const TensorData tensor = from_eigen(matrix);

  EXPECT_EQ(tensor.shape(), (TensorData::Shape{2, 3}));
  EXPECT_THAT(tensor.floats().to_vector(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(FromEigen, MakesVectorsOneDimensionalAndWidensIntegers) {
  const Eigen::VectorXi vector = Eigen::VectorXi::LinSpaced(3, -1, 1);

  const TensorData tensor = from_eigen(vector);

  EXPECT_EQ(tensor.shape(), (TensorData::Shape{3}));
  EXPECT_THAT(tensor.ints().to_vector(), ElementsAre(-1, 0, 1));
}

TEST(FromEigen, TakesExpressions) {
  const Eigen::Vector2f vector(1.0F, 2.0F);

  const TensorData tensor = from_eigen(vector * 2.0F);

  EXPECT_THAT(tensor.floats().to_vector(), ElementsAre(2, 4));
}

TEST(BorrowEigen, RefersToTheMatrix) {
  const RowMajorMatrix<float> matrix = RowMajorMatrix<float>::Random(2, 2);

  const TensorData tensor = borrow_eigen(matrix);

  EXPECT_EQ(tensor.floats().span()->data(), matrix.data());
  EXPECT_EQ(tensor.shape(), (TensorData::Shape{2, 2}));
}

TEST(ToEigen, GivesBackWhatWasPutIn) {
  RowMajorMatrix<std::int64_t> matrix(2, 2);
  matrix << 1, 2, 3, 4;

  const auto back = to_eigen<std::int64_t>(borrow_eigen(matrix));

  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(*back, matrix);
}

TEST(ToEigen, WritesSparseTensorsOutWithThePad) {
  const TensorData dense(
      Buffer<std::int64_t>(std::vector<std::int64_t>{-1, -1, -1, -1, 7, -1, -1, -1, -1}),
      TensorData::Shape{1, 9});
  const TensorData sparse = dense.to_sparse(-1);
  ASSERT_TRUE(sparse.is_sparse());

  const auto matrix = to_eigen<std::int64_t>(sparse, -1);

  ASSERT_THAT(matrix, IsOk());
  EXPECT_EQ((*matrix)(0, 0), -1);
  EXPECT_EQ((*matrix)(0, 4), 7);
}

TEST(ToEigen, RefusesOtherElementTypesAndRanks) {
  const TensorData floats = std::vector<float>{1.0F};
  const TensorData cube(Buffer<float>(std::vector<float>(8)), TensorData::Shape{2, 2, 2});

  EXPECT_THAT(to_eigen<std::int64_t>(floats),
              IsError(ErrorCode::invalid_argument, HasSubstr("element type")));
  EXPECT_THAT(to_eigen<float>(cube),
              IsError(ErrorCode::invalid_argument, HasSubstr("rank 1 or 2")));
}

}  // namespace
}  // namespace tinker::adapters::eigen_adapter_test
