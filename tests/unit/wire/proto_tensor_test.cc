// Tensor messages: of requests (PROTOBUF 3.1) and of answers (4.1).

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/proto_bytes.h"
#include "tinker/testing/matchers.h"
#include "wire/proto.h"

namespace tinker::wire::proto_tensor_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using namespace tinker::testing;  // NOLINT(google-build-using-namespace): the byte builders
using Shape = TensorData::Shape;

/// PROTOBUF 3.3: 3 × 4, 1.0 at (0, 1) and 2.0 at (2, 3); 70 bytes.
constexpr std::string_view kSparseExample =
    "123e0a080000803f00000040122000000000000000000100000000000000010000000000000002000000000000001a"
    "1001000000000000000300000000000000180122020304";

TensorData sparse_example() {
  return {Buffer<float>(std::vector<float>{1.0F, 2.0F}),
          Shape{3, 4},
          {.crow = std::vector<std::int64_t>{0, 1, 1, 2}, .col = std::vector<std::int64_t>{1, 3}}};
}

std::string encoded(const TensorData& tensor) {
  return to_hex(encode_proto(tensor).value());
}

/// Read as part of a request.
Result<TensorData> decoded(std::string_view message) {
  return decode_proto<TensorData>(std::string(message));
}

/// Read as part of an answer.
Result<TensorData> answered(std::string_view message) {
  TINKER_TRY(SampleResponse response, decode_proto<SampleResponse>(field(5, message)));
  return *std::move(response.target_prompt_logprobs);
}

TensorData without_shape(TensorData::Values values) {
  return {std::move(values), std::nullopt};
}

// ---- Writing (3.1)

TEST(TensorProto, WritesBothTypes) {  // PROTOBUF 3.1.1
  EXPECT_EQ(encoded(std::vector<float>{0.0F, 1.0F}), "0a08000000000000803f1801220102");
  EXPECT_EQ(encoded(std::vector<std::int64_t>{11, 12}),
            "0a100b000000000000000c000000000000001802220102");
}

TEST(TensorProto, WritesAShapeOnlyWhenThereIsOne) {  // PROTOBUF 3.1.2
  EXPECT_EQ(encoded(without_shape(Buffer<float>(std::vector<float>{1.0F, 2.0F}))),
            "0a080000803f000000401801");
}

TEST(TensorProto, WritesManyDimensionsPacked) {  // PROTOBUF 1: packed
  EXPECT_EQ(encoded({Buffer<float>(std::vector<float>(300)), Shape{150, 2, 1}}),
            to_hex(field(1, std::string(1200, '\0')) + int_field(3, 1) + hex("2204 96010201")));
}

TEST(TensorProto, WritesAnEmptyDense) {  // PROTOBUF 3.1.2, 3.1.3, 3.3: 0a 00 18 01 22 01 00
  EXPECT_EQ(encoded(std::vector<float>{}), "0a001801220100");
}

TEST(TensorProto, WritesAScalarWithoutAShape) {  // PROTOBUF 3.1.5
  EXPECT_EQ(encoded({Buffer<float>(std::vector<float>{0.5F}), Shape{}}), "0a040000003f1801");
}

TEST(TensorProto, WritesTheSparseExample) {  // PROTOBUF 3.1.4, 3.3
  EXPECT_EQ(encoded(sparse_example()), kSparseExample);
  EXPECT_EQ(encode_proto(sparse_example())->size(), 70U);
}

TEST(TensorProto, WritesASparseTensorThatListsNothing) {  // PROTOBUF 3.1.4: `dense` is absent
  const TensorData empty = {
      Buffer<float>(std::vector<float>{}), Shape{1, 4}, {.crow = std::vector<std::int64_t>{0, 0}}};
  EXPECT_EQ(encoded(empty),
            to_hex(field(2, field(2, raw<std::int64_t>({0, 0}))) + hex("1801 22020104")));
  EXPECT_THAT(decoded(encode_proto(empty).value()), IsOkAndHolds(empty));
}

TEST(TensorProto, RefusesAShapeThatDoesNotFit) {
  EXPECT_THAT(
      encode_proto(
          Datum{.loss_fn_inputs = {{"weights", {Buffer<float>(std::vector<float>(3)), Shape{4}}}}}),
      IsError(ErrorCode::invalid_argument,
              "loss_fn_inputs.weights.shape: expected 4 values for shape [4], found 3"));
}

// ---- Reading a request (3.1)

TEST(TensorProto, ReadsWhatItWrites) {
  for (const TensorData& tensor : {TensorData(std::vector<float>{1.5F, -2.0F}),
                                   TensorData(std::vector<std::int64_t>{-1}),
                                   TensorData(std::vector<float>{}),
                                   TensorData(Buffer<float>(std::vector<float>(6)), Shape{2, 3}),
                                   sparse_example()}) {
    EXPECT_THAT(decoded(encode_proto(tensor).value()), IsOkAndHolds(tensor));
  }
}

TEST(TensorProto, ReadsAMissingShapeOfARequestAsNone) {  // PROTOBUF 3.1.5: a missing shape is 1-D
  const auto tensor = decoded(hex("0a040000003f1801"));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->shape(), std::nullopt);
  EXPECT_THAT(tensor->floats(), ElementsAre(0.5F));
}

TEST(TensorProto, ReadsShapesPackedAndUnpacked) {  // PROTOBUF 1: MUST accept unpacked too
  const std::string data = field(1, raw<float>({1.0F, 2.0F})) + int_field(3, 1);
  EXPECT_EQ(decoded(data + hex("22020201")).value().shape(), (Shape{2, 1}));
  EXPECT_EQ(decoded(data + hex("2002 2001")).value().shape(), (Shape{2, 1}));
  EXPECT_EQ(decoded(hex("2002") + data + hex("220101")).value().shape(), (Shape{2, 1}));
  EXPECT_EQ(decoded(data + hex("2200 2002")).value().shape(), (Shape{2}));
}

TEST(TensorProto, TakesTheLastArm) {  // oneof
  const std::string dense = field(1, raw<float>({7.0F, 8.0F}));
  const std::string sparse = hex(kSparseExample).substr(0, 64);
  const std::string dtype = int_field(3, 1);

  const auto ends_dense = decoded(sparse + dense + dtype + hex("2002"));
  const auto ends_sparse = decoded(dense + sparse + dtype + hex("22020304"));

  EXPECT_THAT(ends_dense, IsOkAndHolds(TensorData(std::vector<float>{7.0F, 8.0F})));
  EXPECT_THAT(ends_sparse, IsOkAndHolds(sparse_example()));
}

TEST(TensorProto, ForgetsTheDenseValuesBehindASparseArm) {
  const std::string body = field(1, raw<float>({7.0F})) + field(2, "") + int_field(3, 1);
  const auto tensor = decoded(body);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_TRUE(tensor->is_sparse());
  EXPECT_THAT(tensor->floats(), IsEmpty());
}

TEST(TensorProto, RefusesAnInputWithoutAValue) {
  EXPECT_THAT(decode_proto<Datum>(field(2, field(1, "weights"))),
              IsError(ErrorCode::invalid_argument, StartsWith("loss_fn_inputs.weights: expected")));
}

TEST(TensorProto, NamesTheInputThatIsWrong) {
  const std::string bad = field(1, raw<float>({1.0F})) + int_field(3, 1) + hex("220102");
  EXPECT_THAT(
      decode_proto<ForwardBackwardRequest>(field(3, "") + field(3, entry(2, "weights", bad))),
      IsError(ErrorCode::invalid_argument,
              "data[1].loss_fn_inputs.weights.shape: expected 2 values for shape [2], found 1"));
}

TEST(TensorProto, RefusesUnknownFieldsOfARequestWhateverThePolicy) {
  const std::string body = hex("0a0018012201003001");
  EXPECT_THAT(decoded(body), IsError(ErrorCode::invalid_argument, StartsWith("#6: ")));
  EXPECT_THAT(decode_proto<TensorData>(body, {.policy = Policy::lenient}),
              IsError(ErrorCode::invalid_argument, StartsWith("#6: ")));
}

// ---- 4.1, row by row

TEST(AnsweredTensor, ReadsFloat32) {
  const auto tensor = answered(field(1, raw<float>({-3.0F})) + hex("1801 22020101"));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->floats(), ElementsAre(-3.0F));
  EXPECT_EQ(tensor->shape(), (Shape{1, 1}));
}

TEST(AnsweredTensor, ReadsInt64) {
  const auto tensor = answered(field(1, raw<std::int64_t>({-1, 1})) + hex("1802 2002"));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->ints(), ElementsAre(-1, 1));
}

TEST(AnsweredTensor, WidensInt32) {  // sign-extended
  const auto tensor =
      answered(field(1, raw<std::int32_t>({-1, std::numeric_limits<std::int32_t>::min(), 7})) +
               hex("1803 2003"));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->ints(), ElementsAre(-1, -2147483648LL, 7));
}

TEST(AnsweredTensor, WidensBfloat16) {  // a C++ client SHOULD widen it as in 5.3
  const auto tensor = answered(field(1, raw<std::uint16_t>({0x3f80, 0xc000})) + hex("1804 2002"));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->floats(), ElementsAre(1.0F, -2.0F));
}

TEST(AnsweredTensor, RefusesOtherTypes) {  // dtype 0 or unknown
  EXPECT_THAT(answered(field(1, "") + hex("2200 2000")),
              IsError(ErrorCode::invalid_response,
                      "target_prompt_logprobs.dtype: expected 1 (float32), 2 (int64), 3 (int32) "
                      "or 4 (bfloat16), found 0"));
  EXPECT_THAT(answered(field(1, "") + int_field(3, 5) + hex("2000")),
              IsError(ErrorCode::invalid_response, HasSubstr("found 5")));
  EXPECT_THAT(answered(""), Not(IsOk()));
}

TEST(AnsweredTensor, RefusesACountThatIsNotTheShapes) {
  EXPECT_THAT(answered(field(1, raw<float>({1.0F, 2.0F})) + hex("1801 22020202")),
              IsError(ErrorCode::invalid_response,
                      "target_prompt_logprobs.shape: expected 4 values for shape [2, 2], found 2"));
}

TEST(AnsweredTensor, WithoutAShapeIsAScalar) {  // an empty shape reads as a scalar
  const auto scalar = answered(field(1, raw<float>({1.0F})) + int_field(3, 1));
  ASSERT_THAT(scalar, IsOk());
  EXPECT_EQ(scalar->shape(), Shape{});
  EXPECT_THAT(answered(field(1, raw<float>({1.0F, 2.0F})) + int_field(3, 1)), Not(IsOk()));
}

TEST(AnsweredTensor, MayBeEmpty) {  // shape [0, 3], empty dense
  const auto tensor = answered(hex("0a00 1801 22020003"));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->shape(), (Shape{0, 3}));
  EXPECT_THAT(tensor->floats(), IsEmpty());
}

TEST(AnsweredTensor, WithNeitherArmIsAnEmptyDense) {
  const auto tensor = answered(hex("1801 220100"));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_FALSE(tensor->is_sparse());
  EXPECT_THAT(tensor->floats(), IsEmpty());
  EXPECT_THAT(answered(hex("1801 220101")), Not(IsOk()));
}

TEST(AnsweredTensor, KeepsSparseOnesSparse) {
  EXPECT_THAT(answered(hex(kSparseExample)), IsOkAndHolds(sparse_example()));
}

TEST(AnsweredTensor, DoesNotCheckIndicesYet) {  // not validated until restored
  const auto tensor =
      answered(field(2,
                     field(1, raw<float>({1.0F})) + field(2, raw<std::int64_t>({5, 0})) +
                         field(3, raw<std::int64_t>({-7}))) +
               hex("1801 22020101"));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->indices()->crow, ElementsAre(5, 0));
  EXPECT_THAT(tensor->to_dense(), Not(IsOk()));
}

TEST(AnsweredTensor, WidensSparseValuesToo) {  // values in `dtype`
  const auto tensor =
      answered(field(2,
                     field(1, raw<std::uint16_t>({0x3f80})) + field(2, raw<std::int64_t>({0, 1})) +
                         field(3, raw<std::int64_t>({0}))) +
               hex("1804 22020101"));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->floats(), ElementsAre(1.0F));
}

TEST(AnsweredTensor, RefusesBrokenElements) {  // length not a multiple of the element size
  EXPECT_THAT(answered(field(1, "\1\2\3") + hex("1801 2000")),
              IsError(ErrorCode::invalid_response,
                      "target_prompt_logprobs: expected whole elements of 4 bytes, found 3 bytes"));
  EXPECT_THAT(answered(field(1, "1234") + hex("1802 2000")), Not(IsOk()));
  EXPECT_THAT(answered(field(1, "123") + hex("1803 2000")), Not(IsOk()));
  EXPECT_THAT(answered(field(1, "1") + hex("1804 2000")), Not(IsOk()));
  EXPECT_THAT(answered(field(2, field(2, "1234567")) + hex("1801")), Not(IsOk()));
  EXPECT_THAT(answered(field(2, field(3, "123456789")) + hex("1801")), Not(IsOk()));
}

TEST(AnsweredTensor, RefusesImpossibleShapes) {
  const std::string negative = int_field(4, static_cast<std::uint64_t>(-1));
  EXPECT_THAT(answered(field(1, "") + int_field(3, 1) + negative),
              IsError(ErrorCode::invalid_response, HasSubstr("impossible shape [-1]")));
  const std::string huge = int_field(4, std::uint64_t{1} << 40U);
  EXPECT_THAT(answered(field(1, "") + int_field(3, 1) + huge + huge),
              IsError(ErrorCode::invalid_response, HasSubstr("impossible shape")));
}

TEST(AnsweredTensor, IgnoresUnknownFields) {
  EXPECT_THAT(answered(hex("0a00 1801 220100 3001")), IsOk());
  EXPECT_THAT(answered(field(2, field(2, raw<std::int64_t>({0})) + int_field(9, 1)) + hex("1801")),
              IsOk());
}

}  // namespace
}  // namespace tinker::wire::proto_tensor_test
