// Tensors in JSON requests (PROTOCOL 7.15, 11).

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/tensor_data.h"
#include "wire/json.h"

namespace tinker::wire::tensor_json_test {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOk;
using tinker::testing::IsOkAndHolds;

TEST(TensorJson, ReadsIntegers) {
  const auto tensor =
      decode_json<TensorData>(R"({"data":[9007199254740993,-1],"dtype":"int64","shape":[2]})");
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->ints(), ElementsAre(9007199254740993, -1));
  EXPECT_EQ(tensor->shape(), (TensorData::Shape{2}));
  EXPECT_FALSE(tensor->is_sparse());
}

TEST(TensorJson, ReadsFloats) {
  const auto tensor =
      decode_json<TensorData>(R"({"data":[0.1,2,-0.5],"dtype":"float32","shape":[3]})");
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->floats(), ElementsAre(0.1F, 2.0F, -0.5F));
}

TEST(TensorJson, WritesFloatsAsFloats) {  // PROTOCOL 4.6
  EXPECT_THAT(encode_json(TensorData(std::vector<float>{0.0F, 1.0F, 0.1F})),
              IsOkAndHolds(R"({"data":[0.0,1.0,0.1],"dtype":"float32","shape":[3]})"));
}

TEST(TensorJson, ReadsEveryFloatItWrites) {
  const TensorData tensor = std::vector<float>{std::numeric_limits<float>::max(),
                                               std::numeric_limits<float>::lowest(),
                                               std::numeric_limits<float>::min(),
                                               std::numeric_limits<float>::denorm_min(),
                                               -0.0F};
  EXPECT_THAT(decode_json<TensorData>(encode_json(tensor).value()), IsOkAndHolds(tensor));
}

TEST(TensorJson, OmitsNullMembers) {  // PROTOCOL 7.15: null members are omitted
  EXPECT_THAT(echo<TensorData>(R"({"data":[1],"dtype":"int64","shape":null,)"
                               R"("sparse_crow_indices":null,"sparse_col_indices":null})"),
              IsOkAndHolds(R"({"data":[1],"dtype":"int64"})"));
}

TEST(TensorJson, KeepsAnEmptyShapeApartFromNone) {  // PROTOBUF 3.1.5: a scalar has shape []
  EXPECT_THAT(echo<TensorData>(R"({"data":[0.5],"dtype":"float32","shape":[]})"),
              IsOkAndHolds(R"({"data":[0.5],"dtype":"float32","shape":[]})"));
}

TEST(TensorJson, KeepsSparseOnesSparse) {  // PROTOCOL 7.15, 9.18
  constexpr std::string_view kBody =
      R"({"data":[9],"dtype":"int64","shape":[2,3],"sparse_crow_indices":[0,0,1],)"
      R"("sparse_col_indices":[0]})";

  const auto tensor = decode_json<TensorData>(kBody);

  ASSERT_THAT(tensor, IsOk());
  ASSERT_TRUE(tensor->is_sparse());
  EXPECT_THAT(tensor->indices()->crow, ElementsAre(0, 0, 1));
  EXPECT_THAT(tensor->indices()->col, ElementsAre(0));
  EXPECT_THAT(encode_json(*tensor), IsOkAndHolds(kBody));
}

TEST(TensorJson, NeedsBothKindsOfIndices) {  // PROTOBUF 3.1.4: crow without col is an error
  EXPECT_THAT(decode_json<TensorData>(
                  R"({"data":[],"dtype":"int64","shape":[1,1],"sparse_crow_indices":[0,0]})"),
              IsError(ErrorCode::invalid_argument,
                      "sparse_col_indices: expected both sparse_crow_indices and "
                      "sparse_col_indices, or neither"));
  EXPECT_THAT(decode_json<TensorData>(
                  R"({"data":[],"dtype":"int64","shape":[1,1],"sparse_col_indices":[]})"),
              IsError(ErrorCode::invalid_argument, StartsWith("sparse_crow_indices: expected")));
}

TEST(TensorJson, KnowsTwoTypes) {  // PROTOCOL 7.1
  for (const char* dtype : {"int32", "bfloat16", "Float32", ""}) {
    EXPECT_THAT(decode_json<TensorData>(R"({"data":[],"dtype":")" + std::string(dtype) + R"("})"),
                IsError(ErrorCode::invalid_argument,
                        StartsWith("dtype: expected one of 'int64', 'float32', found")));
  }
}

TEST(TensorJson, NeedsDataAndType) {
  EXPECT_THAT(decode_json<TensorData>(R"({"dtype":"int64"})"),
              IsError(ErrorCode::invalid_argument, StartsWith("data: expected")));
  EXPECT_THAT(decode_json<TensorData>(R"({"data":[]})"),
              IsError(ErrorCode::invalid_argument, StartsWith("dtype: expected")));
}

TEST(TensorJson, RefusesOtherMembers) {  // PROTOCOL 11: strict
  EXPECT_THAT(decode_json<TensorData>(R"({"data":[],"dtype":"int64","zz":1})"),
              IsError(ErrorCode::invalid_argument, StartsWith("zz: unknown member")));
}

TEST(TensorJson, NamesTheNumberThatDoesNotFit) {
  EXPECT_THAT(decode_json<TensorData>(R"({"data":[1,1.5],"dtype":"int64"})"),
              IsError(ErrorCode::invalid_argument, "data[1]: expected an integer of 64 bits"));
  EXPECT_THAT(
      decode_json<TensorData>(R"({"data":[1,"NaN"],"dtype":"float32"})"),
      IsError(ErrorCode::invalid_argument, "data[1]: expected a number of 32-bit float range"));
  EXPECT_THAT(
      decode_json<TensorData>(R"({"data":[1e39],"dtype":"float32"})"),
      IsError(ErrorCode::invalid_argument, "data[0]: expected a number of 32-bit float range"));
  EXPECT_THAT(decode_json<TensorData>(R"({"data":[[1]],"dtype":"int64"})"),
              IsError(ErrorCode::invalid_argument, StartsWith("data[0]: ")));
}

TEST(TensorJson, ReadsTheTypeWhereverItStands) {
  EXPECT_THAT(echo<TensorData>(R"({"shape":[1],"dtype":"float32","data":[1]})"),
              IsOkAndHolds(R"({"data":[1.0],"dtype":"float32","shape":[1]})"));
}

}  // namespace
}  // namespace tinker::wire::tensor_json_test
