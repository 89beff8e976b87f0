#include "tinker/types/tensor_data.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::tensor_data_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOk;
using ::testing::Optional;

using Shape = TensorData::Shape;

Buffer<float> floats(std::vector<float> values) {
  return {std::move(values)};
}

// ---- construction ----------------------------------------------------------------------------

TEST(TensorData, IsAnEmptyVectorOfFloatsByDefault) {
  const TensorData tensor;

  EXPECT_EQ(tensor.dtype(), TensorDtype::float32);
  EXPECT_THAT(tensor.floats(), IsEmpty());
  EXPECT_THAT(tensor.shape(), Optional(ElementsAre(0)));
}

TEST(TensorData, TakesAVectorOfFloatsAsOneDimension) {
  const TensorData tensor = std::vector<float>{0.0F, 1.0F};

  EXPECT_EQ(tensor.dtype(), TensorDtype::float32);
  EXPECT_THAT(tensor.floats(), ElementsAre(0.0F, 1.0F));
  EXPECT_THAT(tensor.shape(), Optional(ElementsAre(2)));
}

TEST(TensorData, TakesAVectorOfIntegersAsOneDimension) {
  const TensorData tensor = std::vector<std::int64_t>{11, 12, 13};

  EXPECT_EQ(tensor.dtype(), TensorDtype::int64);
  EXPECT_THAT(tensor.ints(), ElementsAre(11, 12, 13));
  EXPECT_THAT(tensor.shape(), Optional(ElementsAre(3)));
}

TEST(TensorData, WidensShorterIntegers) {
  const TensorData tensor = std::vector<std::int32_t>{11, -12};

  EXPECT_EQ(tensor, TensorData(std::vector<std::int64_t>{11, -12}));
}

TEST(TensorData, RoundsDoubles) {
  const TensorData tensor = std::vector<double>{0.5, 0.1};

  EXPECT_EQ(tensor, TensorData(std::vector<float>{0.5F, 0.1F}));
}

TEST(TensorData, DoesNotCopyTheVectorItTakes) {
  std::vector<std::int64_t> values = {11, 12};
  const std::byte* memory = std::as_bytes(std::span(values)).data();

  const TensorData tensor = std::move(values);

  EXPECT_EQ(tensor.ints().bytes().data(), memory);
}

TEST(TensorData, BorrowsFloatsInPlace) {
  const std::vector<float> values(6);

  const auto tensor = TensorData::borrow(std::span(values), {2, 3});

  EXPECT_EQ(tensor.floats().bytes().data(), std::as_bytes(std::span(values)).data());
  EXPECT_THAT(tensor.shape(), Optional(ElementsAre(2, 3)));
}

TEST(TensorData, BorrowsIntegersInPlace) {
  const std::vector<std::int64_t> values(6);

  const auto tensor = TensorData::borrow(std::span(values), {3, 2});

  EXPECT_EQ(tensor.ints().bytes().data(), std::as_bytes(std::span(values)).data());
  EXPECT_THAT(tensor.shape(), Optional(ElementsAre(3, 2)));
}

TEST(TensorData, SharesItsNumbersWithCopies) {
  const TensorData tensor = std::vector<float>{0.0F, 1.0F};

  const TensorData copy = tensor;  // NOLINT(performance-unnecessary-copy-initialization)

  EXPECT_EQ(copy.floats().bytes().data(), tensor.floats().bytes().data());
}

TEST(TensorData, MayHaveNoShape) {
  const TensorData tensor(floats({1.0F, 2.0F}), std::nullopt);

  EXPECT_FALSE(tensor.shape().has_value());
  EXPECT_EQ(tensor.size(), 2U);
}

TEST(TensorData, IsDenseWithoutIndices) {
  const TensorData tensor = std::vector<float>{1.0F};

  EXPECT_FALSE(tensor.is_sparse());
  EXPECT_EQ(tensor.indices(), nullptr);
}

TEST(TensorDataDeathTest, DoesNotReadFloatsAsIntegers) {
  const TensorData tensor = std::vector<float>{1.0F};

  EXPECT_DEATH((void)tensor.ints(), "tinker check failed");
}

TEST(TensorDataDeathTest, DoesNotReadIntegersAsFloats) {
  const TensorData tensor = std::vector<std::int64_t>{1};

  EXPECT_DEATH((void)tensor.floats(), "tinker check failed");
}

// ---- validate --------------------------------------------------------------------------------

TEST(TensorDataValidate, AcceptsAsManyValuesAsTheShapeHasCells) {
  EXPECT_THAT(TensorData(floats(std::vector<float>(6)), Shape{2, 3}).validate(), IsOk());
  EXPECT_THAT(TensorData(floats(std::vector<float>(24)), Shape{2, 3, 4}).validate(), IsOk());
}

// PROTOBUF 3.1, rule 2.
TEST(TensorDataValidate, AcceptsAnyCountWithoutAShape) {
  EXPECT_THAT(TensorData(floats({1.0F, 2.0F, 3.0F}), std::nullopt).validate(), IsOk());
}

// PROTOBUF 3.1, rule 5: rank 0.
TEST(TensorDataValidate, AcceptsOneValueForAScalar) {
  EXPECT_THAT(TensorData(floats({0.5F}), Shape{}).validate(), IsOk());
}

TEST(TensorDataValidate, RefusesTwoValuesForAScalar) {
  EXPECT_THAT(TensorData(floats({0.5F, 1.0F}), Shape{}).validate(),
              IsError(ErrorCode::invalid_argument, "expected 1 values for shape [], found 2"));
}

// PROTOBUF 4.1: shape [0, 3] is an empty tensor.
TEST(TensorDataValidate, AcceptsNoValuesWhenADimensionIsZero) {
  EXPECT_THAT(TensorData(floats({}), Shape{0, 3}).validate(), IsOk());
}

TEST(TensorDataValidate, SaysHowManyValuesTheShapeNeeds) {
  EXPECT_THAT(TensorData(floats(std::vector<float>(5)), Shape{2, 3}).validate(),
              IsError(ErrorCode::invalid_argument, "expected 6 values for shape [2, 3], found 5"));
}

TEST(TensorDataValidate, RefusesANegativeDimension) {
  EXPECT_THAT(TensorData(floats({1.0F, 2.0F}), Shape{-1, -2}).validate(),
              IsError(ErrorCode::invalid_argument, "impossible shape [-1, -2]"));
}

TEST(TensorDataValidate, RefusesMoreCellsThan64BitsCount) {
  constexpr auto kHuge = std::int64_t{1} << 62U;

  EXPECT_THAT(TensorData(floats({}), Shape{kHuge, 4}).validate(),
              IsError(ErrorCode::invalid_argument, "impossible shape [4611686018427387904, 4]"));
}

// ---- equality --------------------------------------------------------------------------------

TEST(TensorData, EqualsATensorOfTheSameNumbersElsewhere) {
  const std::vector<float> values = {1.0F, 2.0F};

  EXPECT_EQ(TensorData(values), TensorData::borrow(std::span(values), {2}));
}

TEST(TensorData, DiffersByItsNumbers) {
  EXPECT_NE(TensorData(std::vector<float>{1.0F}), TensorData(std::vector<float>{2.0F}));
}

TEST(TensorData, DiffersByItsDtype) {
  EXPECT_NE(TensorData(std::vector<float>{1.0F}), TensorData(std::vector<std::int64_t>{1}));
}

TEST(TensorData, DiffersByItsShape) {
  const auto values = floats({1.0F, 2.0F});

  EXPECT_NE(TensorData(values, Shape{2}), TensorData(values, Shape{2, 1}));
  EXPECT_NE(TensorData(values, Shape{2}), TensorData(values, std::nullopt));
}

TEST(TensorData, DiffersByItsIndices) {
  const auto values = floats({1.0F});
  const auto at_column = [&](std::int64_t column) {
    return TensorData(
        values,
        Shape{1, 9},
        {.crow = std::vector<std::int64_t>{0, 1}, .col = std::vector<std::int64_t>{column}});
  };

  EXPECT_EQ(at_column(3), at_column(3));
  EXPECT_NE(at_column(3), at_column(4));
  EXPECT_NE(at_column(3), TensorData(values, Shape{1, 9}));
}

}  // namespace
}  // namespace tinker::tensor_data_test
