// BatchedTensor: the tensors of many datums in one array (PROTOBUF 5.3, 5.6).

#include <bit>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/proto_bytes.h"
#include "tinker/testing/matchers.h"
#include "wire/proto.h"

namespace tinker::wire::batched_tensor_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using namespace tinker::testing;  // NOLINT(google-build-using-namespace): the byte builders
using Shape = TensorData::Shape;

struct Batched {
  std::string data = {};
  std::vector<std::int64_t> offsets = {};
  std::uint64_t dtype = 1;
  std::vector<std::int64_t> trailing = {};

  [[nodiscard]] std::string record() const {
    std::string shape;
    for (const auto size : trailing) shape += varint(static_cast<std::uint64_t>(size));
    const std::string tensor = field(1, data) + field(2, raw(offsets)) + int_field(3, dtype) +
                               (shape.empty() ? "" : field(4, shape));
    const auto datums = offsets.empty() ? 0 : offsets.size() - 1;
    return field(2, entry(2, "x", tensor) + int_field(3, datums));
  }
};

Result<std::vector<TensorData>> tensors_of(std::string body) {
  TINKER_TRY(const auto output, decode_proto<ForwardBackwardOutput>(std::move(body)));
  std::vector<TensorData> tensors;
  tensors.reserve(output.loss_fn_outputs.size());
  for (const auto& datum : output.loss_fn_outputs) tensors.push_back(datum.at("x"));
  return tensors;
}

TensorData one_of(const Batched& batched) {
  return tensors_of(batched.record()).value().at(0);
}

std::vector<std::uint32_t> bits_of(const TensorData& tensor) {
  std::vector<std::uint32_t> bits;
  for (const float value : tensor.floats()) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// ---- 5.3.1, 5.3.3: element types

TEST(BatchedTensorProto, RefusesOtherTypes) {  // PROTOBUF 5.3.1
  for (const std::uint64_t dtype : {0U, 5U, 255U}) {
    EXPECT_THAT(tensors_of(Batched{.offsets = {0, 0}, .dtype = dtype}.record()),
                IsError(ErrorCode::invalid_response, HasSubstr("loss_fn_outputs.x.dtype: ")));
  }
}

TEST(BatchedTensorProto, ReadsFloat32AndInt64AsTheyAre) {
  EXPECT_THAT(one_of({.data = raw<float>({1.5F}), .offsets = {0, 4}}).floats(), ElementsAre(1.5F));
  EXPECT_THAT(one_of({.data = raw<std::int64_t>({-9}), .offsets = {0, 8}, .dtype = 2}).ints(),
              ElementsAre(-9));
}

TEST(BatchedTensorProto, WidensBfloat16BitForBit) {  // PROTOBUF 5.3.3
  const std::vector<std::uint16_t> narrow = {
      0x0000,
      0x8000,  // zeros
      0x3f80,
      0xbf80,
      0x4049,  // 1, -1, about pi
      0x7f7f,
      0xff7f,  // largest
      0x7f80,
      0xff80,  // infinities
      0x0001,
      0x807f,  // subnormals
      0x7fc0,
      0x7fc1,
      0xffaa,  // quiet NaNs with payloads
      0x7f81,
      0xff81,  // signalling NaNs
  };

  const auto tensor = one_of({.data = raw(narrow),
                              .offsets = {0, static_cast<std::int64_t>(narrow.size() * 2)},
                              .dtype = 4});

  std::vector<std::uint32_t> expected;
  expected.reserve(narrow.size());
  for (const auto value : narrow) expected.push_back(std::uint32_t{value} << 16U);
  EXPECT_EQ(bits_of(tensor), expected);
}

TEST(BatchedTensorProto, WidensEveryBfloat16) {  // PROTOBUF 5.3.3
  std::vector<std::uint16_t> narrow(65536);
  for (std::size_t i = 0; i < narrow.size(); ++i) narrow[i] = static_cast<std::uint16_t>(i);

  const auto bits = bits_of(one_of({.data = raw(narrow), .offsets = {0, 131072}, .dtype = 4}));

  ASSERT_THAT(bits, SizeIs(65536));
  for (std::uint32_t i = 0; i < 65536; ++i) ASSERT_EQ(bits[i], i << 16U);
}

TEST(BatchedTensorProto, KeepsTheBitsOfFloat32) {
  const std::vector<std::uint32_t> bits = {0x7f800001, 0xffc12345, 0x00000001, 0x80000000};
  EXPECT_EQ(bits_of(one_of({.data = raw(bits), .offsets = {0, 16}})), bits);
}

TEST(BatchedTensorProto, ExtendsTheSignOfInt32) {  // PROTOBUF 5.3.3, 5.6: random int32 extremes
  std::vector<std::int32_t> narrow = {
      std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max(), -1, 0};
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) narrow.push_back(static_cast<std::int32_t>(random()));

  const auto tensor = one_of({.data = raw(narrow),
                              .offsets = {0, static_cast<std::int64_t>(narrow.size() * 4)},
                              .dtype = 3});

  ASSERT_EQ(tensor.dtype(), TensorDtype::int64);
  EXPECT_THAT(tensor.ints(), ::testing::ElementsAreArray(narrow));
}

// ---- 5.3.2: offsets

TEST(BatchedTensorProto, CutsAtByteOffsetsBeforeWidening) {  // PROTOBUF 5.3.2
  const auto tensors = tensors_of(Batched{
      .data = raw<std::uint16_t>({0x3f80, 0x4000, 0x4040}), .offsets = {0, 2, 6}, .dtype = 4}
                                      .record());
  ASSERT_THAT(tensors, IsOk());
  EXPECT_THAT(tensors->at(0).floats(), ElementsAre(1.0F));
  EXPECT_THAT(tensors->at(1).floats(), ElementsAre(2.0F, 3.0F));
}

TEST(BatchedTensorProto, AllowsZeroLengthDatums) {  // PROTOBUF 5.3.4: equal neighbouring offsets
  const auto tensors =
      tensors_of(Batched{.data = raw<float>({1.0F}), .offsets = {0, 0, 4, 4}}.record());
  ASSERT_THAT(tensors, IsOk());
  EXPECT_EQ(tensors->at(0).shape(), Shape{0});
  EXPECT_EQ(tensors->at(1).shape(), Shape{1});
  EXPECT_EQ(tensors->at(2).shape(), Shape{0});
}

TEST(BatchedTensorProto, HasNoDatumWithFewerThanTwoOffsets) {
  EXPECT_THAT(tensors_of(Batched{.offsets = {}}.record()), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(tensors_of(Batched{.offsets = {0}}.record()), IsOkAndHolds(IsEmpty()));
}

TEST(BatchedTensorProto, MayStartAndEndInsideItsData) {
  const auto tensors =
      tensors_of(Batched{.data = raw<float>({1.0F, 2.0F, 3.0F}), .offsets = {4, 8}}.record());
  EXPECT_THAT(tensors.value().at(0).floats(), ElementsAre(2.0F));
}

TEST(BatchedTensorProto, RefusesBadOffsets) {
  const std::string data = raw<float>({1.0F, 2.0F});
  for (const std::vector<std::int64_t>& offsets : {
           std::vector<std::int64_t>{0, 12},  // beyond the data
           {8, 0},                            // descending
           {-4, 4},                           // before the data
           {0, 3},                            // inside an element
           {2, 6},
           {0, std::numeric_limits<std::int64_t>::max()},
           {std::numeric_limits<std::int64_t>::min(), 0},
       }) {
    EXPECT_THAT(tensors_of(Batched{.data = data, .offsets = offsets}.record()),
                IsError(ErrorCode::invalid_response, HasSubstr("expected ascending offsets")))
        << offsets[0] << ", " << offsets[1];
  }
}

TEST(BatchedTensorProto, RefusesBrokenOffsetsAndData) {
  const std::string offsets = field(2, entry(2, "x", field(2, "1234567") + int_field(3, 1)));
  EXPECT_THAT(tensors_of(offsets), IsError(ErrorCode::invalid_response, HasSubstr("offsets")));
  EXPECT_THAT(tensors_of(Batched{.data = "123", .offsets = {0, 0}}.record()),
              IsError(ErrorCode::invalid_response, HasSubstr("whole elements of 4 bytes")));
}

// ---- 5.3.4: shapes

TEST(BatchedTensorProto, DividesByTheTrailingShape) {
  const auto tensors = tensors_of(
      Batched{.data = raw(std::vector<float>(18)), .offsets = {0, 24, 72}, .trailing = {3, 2}}
          .record());
  ASSERT_THAT(tensors, IsOk());
  EXPECT_EQ(tensors->at(0).shape(), (Shape{1, 3, 2}));
  EXPECT_EQ(tensors->at(1).shape(), (Shape{2, 3, 2}));
}

TEST(BatchedTensorProto, HasNoRowsWhenTheTrailingProductIsZero) {
  EXPECT_EQ(one_of({.offsets = {0, 0}, .trailing = {3, 0}}).shape(), (Shape{0, 3, 0}));
}

TEST(BatchedTensorProto, RefusesPartsOfRows) {
  EXPECT_THAT(
      tensors_of(Batched{.data = raw<float>({1.0F}), .offsets = {0, 4}, .trailing = {2}}.record()),
      IsError(ErrorCode::invalid_response, HasSubstr("whole rows of the trailing shape")));
  EXPECT_THAT(
      tensors_of(Batched{.data = raw<float>({1.0F}), .offsets = {0, 4}, .trailing = {0}}.record()),
      Not(IsOk()));
}

TEST(BatchedTensorProto, RefusesImpossibleTrailingShapes) {
  EXPECT_THAT(tensors_of(Batched{.offsets = {0, 0}, .trailing = {-1}}.record()), Not(IsOk()));
  EXPECT_THAT(tensors_of(Batched{.offsets = {0, 0},
                                 .trailing = {std::int64_t{1} << 40U, std::int64_t{1} << 40U}}
                             .record()),
              Not(IsOk()));
}

TEST(BatchedTensorProto, ReadsTrailingShapesUnpacked) {  // PROTOBUF 1: MUST accept unpacked too
  const std::string tensor = field(1, raw<float>({1.0F, 2.0F})) +
                             field(2, raw<std::int64_t>({0, 8})) + int_field(3, 1) +
                             int_field(4, 1) + int_field(4, 2);
  const auto tensors = tensors_of(field(2, entry(2, "x", tensor) + int_field(3, 1)));
  EXPECT_EQ(tensors.value().at(0).shape(), (Shape{1, 1, 2}));
}

// ---- 5.6: the table, row by row (rows of the envelope stand in proto_output_test.cc)

/// Small integers, which are exact in all four types, as elements of one of them.
std::string elements(std::uint64_t dtype, const std::vector<int>& values) {
  std::string out;
  for (const int value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    out += dtype == 1   ? raw<std::uint32_t>({bits})
           : dtype == 2 ? raw<std::int64_t>({value})
           : dtype == 3 ? raw<std::int32_t>({value})
                        : raw<std::uint16_t>({static_cast<std::uint16_t>(bits >> 16U)});
  }
  return out;
}

bool is_float(std::uint64_t dtype) {
  return dtype == 1 || dtype == 4;
}

TensorData widened(std::uint64_t dtype, const std::vector<int>& values, Shape shape) {
  if (is_float(dtype)) {
    return {Buffer<float>(std::vector<float>(values.begin(), values.end())), std::move(shape)};
  }
  return {Buffer<std::int64_t>(std::vector<std::int64_t>(values.begin(), values.end())),
          std::move(shape)};
}

void expect_recovered(std::uint64_t dtype,
                      const std::vector<std::int64_t>& trailing,
                      std::size_t datums) {
  const std::int64_t row = trailing.empty() ? 1 : trailing[0];
  Batched batched = {.offsets = {0}, .dtype = dtype, .trailing = trailing};
  std::vector<TensorData> expected;
  for (std::size_t i = 0; i < datums; ++i) {
    const auto leading = static_cast<std::int64_t>((i * 5 + datums + dtype) % 6);
    std::vector<int> values(static_cast<std::size_t>(leading * row));
    std::iota(values.begin(), values.end(), static_cast<int>(10 * i) - 5);
    batched.data += elements(dtype, values);
    batched.offsets.push_back(std::ssize(batched.data));
    Shape shape = {leading};
    shape.insert(shape.end(), trailing.begin(), trailing.end());
    expected.push_back(widened(dtype, values, std::move(shape)));
  }

  EXPECT_THAT(tensors_of(batched.record()), IsOkAndHolds(expected))
      << "dtype " << dtype << ", row " << row << ", " << datums << " datums";
}

// First row: four types × trailing [] or [d] × leading 0 to 5 × 1 to 4 datums.
TEST(BatchedTensorProto, RecoversEveryCombination) {
  for (std::uint64_t dtype = 1; dtype <= 4; ++dtype) {
    for (const std::vector<std::int64_t>& trailing : {std::vector<std::int64_t>{}, {1}, {3}}) {
      for (std::size_t datums = 1; datums <= 4; ++datums) expect_recovered(dtype, trailing, datums);
    }
  }
}

TEST(BatchedTensorProto, KeepsTheShapeOfEachChunk) {  // 5.6: three chunks with trailing 2, 6, 2
  const auto chunk = [](std::int64_t trailing, float value) {
    return Batched{
        .data = raw(std::vector<float>(12, value)), .offsets = {0, 48}, .trailing = {trailing}}
        .record();
  };
  const auto tensors = tensors_of(chunk(2, 1.0F) + chunk(6, 2.0F) + chunk(2, 3.0F));
  ASSERT_THAT(tensors, IsOk());
  EXPECT_EQ(tensors->at(0).shape(), (Shape{6, 2}));
  EXPECT_EQ(tensors->at(1).shape(), (Shape{2, 6}));
  EXPECT_EQ(tensors->at(2).shape(), (Shape{6, 2}));
  EXPECT_EQ(tensors->at(1).floats()[0], 2.0F);
}

TEST(BatchedTensorProto, KeepsTheTypeOfEachChunk) {  // 5.6: chunks float32 then int64
  const auto tensors =
      tensors_of(Batched{.data = raw<float>({0.5F}), .offsets = {0, 4}}.record() +
                 Batched{.data = raw<std::int64_t>({7}), .offsets = {0, 8}, .dtype = 2}.record());
  ASSERT_THAT(tensors, IsOk());
  EXPECT_THAT(tensors->at(0).floats(), ElementsAre(0.5F));
  EXPECT_THAT(tensors->at(1).ints(), ElementsAre(7));
}

TEST(BatchedTensorProto, WritesRaggedOutputsAsRectangularChunks) {  // 5.2
  const auto matrix = [](std::int64_t rows, std::int64_t columns) {
    return TensorData(Buffer<float>(std::vector<float>(static_cast<std::size_t>(rows * columns))),
                      Shape{rows, columns});
  };
  const ForwardBackwardOutput output = {.loss_fn_output_type = "T",
                                        .loss_fn_outputs = {{{"x", matrix(6, 2)}},
                                                            {{"x", matrix(1, 2)}},
                                                            {{"x", matrix(2, 6)}},
                                                            {{"x", matrix(6, 2)}},
                                                            {{"x", std::vector<std::int64_t>{7}}},
                                                            {{"x", std::vector<float>{}}}}};
  EXPECT_THAT(decode_proto<ForwardBackwardOutput>(encode_proto(output).value()),
              IsOkAndHolds(output));
}

}  // namespace
}  // namespace tinker::wire::batched_tensor_test
