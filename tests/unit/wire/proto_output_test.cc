// ForwardBackwardOutput: envelope, records and datums (PROTOBUF 5.1, 5.2, 5.5).

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/proto_bytes.h"
#include "tinker/testing/matchers.h"
#include "wire/proto.h"

namespace tinker::wire::proto_output_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;
using namespace tinker::testing;  // NOLINT(google-build-using-namespace): the byte builders

/// PROTOBUF 5.5: logprobs [-0.5, -1.0] and [-2.0], metric loss:sum 3.5; 115 bytes.
constexpr std::string_view kWorkedExample =
    "0a0f546f7263684c6f737352657475726e124b0a0f546f7263684c6f737352657475726e12360a086c6f6770726f62"
    "73122a0a0c000000bf000080bf000000c01218000000000000000008000000000000000c0000000000000018011802"
    "1a130a086c6f73733a73756d110000000000000c40";

ForwardBackwardOutput worked_example() {
  return {.loss_fn_output_type = "TorchLossReturn",
          .loss_fn_outputs = {{{"logprobs", std::vector<float>{-0.5F, -1.0F}}},
                              {{"logprobs", std::vector<float>{-2.0F}}}},
          .metrics = {{"loss:sum", 3.5}}};
}

Result<ForwardBackwardOutput> decoded(std::string body) {
  return decode_proto<ForwardBackwardOutput>(std::move(body));
}

/// A BatchedTensor of float32 datums, one per row.
std::string batched(const std::vector<std::vector<float>>& datums) {
  std::vector<float> data;
  std::vector<std::int64_t> offsets = {0};
  for (const auto& datum : datums) {
    data.insert(data.end(), datum.begin(), datum.end());
    offsets.push_back(static_cast<std::int64_t>(data.size() * sizeof(float)));
  }
  return field(1, raw(data)) + field(2, raw(offsets)) + int_field(3, 1);
}

/// One ArrayRecord in its place.
std::string record(std::string_view fields, std::int64_t num_datums) {
  return field(2, std::string(fields) + int_field(3, static_cast<std::uint64_t>(num_datums)));
}

// ---- 5.5

TEST(ForwardBackwardOutputProto, ReadsTheWorkedExample) {  // PROTOBUF 5.5: shapes [2] and [1]
  const std::string body = hex(kWorkedExample);
  ASSERT_EQ(body.size(), 115U);
  EXPECT_THAT(decoded(body), IsOkAndHolds(worked_example()));
}

TEST(ForwardBackwardOutputProto, WritesTheWorkedExample) {  // PROTOBUF 5.5
  EXPECT_EQ(to_hex(encode_proto(worked_example()).value()), kWorkedExample);
}

// ---- 5.1: the envelope

TEST(ForwardBackwardOutputProto, WithoutRecordsHasNoOutputs) {  // PROTOBUF 5.1, 5.6
  const auto output = decoded(field(3, field(1, "loss:sum") + double_field(2, 0.5)));
  ASSERT_THAT(output, IsOk());
  EXPECT_EQ(output->loss_fn_output_type, "ArrayRecord");
  EXPECT_THAT(output->loss_fn_outputs, IsEmpty());
  EXPECT_THAT(output->metrics, ElementsAre(Pair("loss:sum", 0.5)));
}

TEST(ForwardBackwardOutputProto, WithoutRecordsKeepsTheTypeInFull) {  // PROTOBUF 5.1
  EXPECT_EQ(decoded(field(1, "pkg.mod:ClassName"))->loss_fn_output_type, "pkg.mod:ClassName");
}

TEST(ForwardBackwardOutputProto, WithRecordsTakesTheTypeAfterTheLastColon) {  // PROTOBUF 5.1
  const auto type = [](std::string_view text) {
    return decoded(field(1, text) + field(2, "")).value().loss_fn_output_type;
  };
  EXPECT_EQ(type("pkg.mod:ClassName"), "ClassName");
  EXPECT_EQ(type("a:b:C"), "C");
  EXPECT_EQ(type("ClassName"), "ClassName");
  EXPECT_EQ(type("pkg:"), "");
  EXPECT_EQ(type(""), "");
}

TEST(ForwardBackwardOutputProto, DoesNotReadTheTypeOfRecords) {  // PROTOBUF 5.1: type_tag
  const auto output = decoded(field(1, "Outer") + field(2, field(1, "a:Inner")));
  EXPECT_EQ(output.value().loss_fn_output_type, "Outer");
}

TEST(ForwardBackwardOutputProto, CopiesMetrics) {  // PROTOBUF 5.1: string → double
  const ForwardBackwardOutput output = {.loss_fn_output_type = "T",
                                        .metrics = {{"a:sum", 0.0}, {"b:mean", -1.5}}};
  EXPECT_THAT(decoded(encode_proto(output).value()), IsOkAndHolds(output));
}

TEST(ForwardBackwardOutputProto, ReadsAMetricWithoutAValueAsZero) {
  EXPECT_THAT(decoded(field(3, field(1, "a:sum"))).value().metrics,
              ElementsAre(Pair("a:sum", 0.0)));
}

TEST(ForwardBackwardOutputProto, KeepsMetricNamesOfAnyShape) {  // PROTOBUF 5.4: the client's check
  const auto output = decoded(field(3, field(1, "no colon") + double_field(2, 1.0)));
  EXPECT_THAT(output.value().metrics, ElementsAre(Pair("no colon", 1.0)));
}

// ---- 5.2: records, fields, datums

TEST(ForwardBackwardOutputProto, JoinsRecordsInOrder) {
  const auto output = decoded(record(entry(2, "logprobs", batched({{1.0F}, {2.0F, 3.0F}})), 2) +
                              record(entry(2, "logprobs", batched({{4.0F}})), 1));
  ASSERT_THAT(output, IsOk());
  ASSERT_THAT(output->loss_fn_outputs, SizeIs(3));
  EXPECT_THAT(output->loss_fn_outputs[0].at("logprobs").floats(), ElementsAre(1.0F));
  EXPECT_THAT(output->loss_fn_outputs[1].at("logprobs").floats(), ElementsAre(2.0F, 3.0F));
  EXPECT_THAT(output->loss_fn_outputs[2].at("logprobs").floats(), ElementsAre(4.0F));
}

TEST(ForwardBackwardOutputProto, PassesOtherFieldsThrough) {  // PROTOBUF 5.2: passed through unread
  const auto output = decoded(record(
      entry(2, "logprobs", batched({{1.0F}})) + entry(2, "elementwise/loss", batched({{2.0F}})),
      1));
  EXPECT_THAT(output.value().loss_fn_outputs.at(0),
              ElementsAre(Pair("elementwise/loss", TensorData(std::vector<float>{2.0F})),
                          Pair("logprobs", TensorData(std::vector<float>{1.0F}))));
}

TEST(ForwardBackwardOutputProto, MayHaveNoLogprobs) {  // PROTOBUF 5.2: accepted by the plain calls
  EXPECT_THAT(decoded(record(entry(2, "loss", batched({{1.0F}})), 1)), IsOk());
}

TEST(ForwardBackwardOutputProto,
     CountsDatumsWithoutFields) {  // PROTOBUF 5.2, 5.6: three empty maps
  const auto output = decoded(record("", 3));
  ASSERT_THAT(output, IsOk());
  EXPECT_THAT(output->loss_fn_outputs, ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
}

TEST(ForwardBackwardOutputProto, AddsUpDatumsWithoutFields) {
  EXPECT_THAT(decoded(record("", 2) + record("", 1)).value().loss_fn_outputs, SizeIs(3));
}

TEST(ForwardBackwardOutputProto, CountsArraysOfOldEncoders) {  // PROTOBUF 5.2: the sum is 0
  const auto output = decoded(record(entry(2, "logprobs", batched({{1.0F}, {2.0F}})), 0) +
                              record(entry(2, "logprobs", batched({{3.0F}})), 0));
  ASSERT_THAT(output, IsOk());
  ASSERT_THAT(output->loss_fn_outputs, SizeIs(3));
  EXPECT_THAT(output->loss_fn_outputs[2].at("logprobs").floats(), ElementsAre(3.0F));
}

TEST(ForwardBackwardOutputProto, TrustsTheFirstFieldOfOldEncoders) {  // PROTOBUF 5.2
  const auto output = decoded(record(
      entry(2, "b", batched({{1.0F}, {2.0F}})) + entry(2, "a", batched({{3.0F}, {4.0F}, {5.0F}})),
      0));
  ASSERT_THAT(output, IsOk());
  EXPECT_THAT(output->loss_fn_outputs, ElementsAre(SizeIs(2), SizeIs(2)));
}

TEST(ForwardBackwardOutputProto, LetsARepeatedFieldNameReplaceTheFirst) {
  const auto output =
      decoded(record(entry(2, "a", batched({{1.0F}})) + entry(2, "b", batched({{2.0F}})) +
                         entry(2, "a", batched({{3.0F}})),
                     1));
  ASSERT_THAT(output, IsOk());
  EXPECT_THAT(output->loss_fn_outputs.at(0).at("a").floats().to_vector(), ElementsAre(3.0F));
}

TEST(ForwardBackwardOutputProto, DoesNotCopyALongTrailingShapeToEveryDatum) {
  const std::string many_ones(1000, '\x01');
  const std::string offsets = raw(std::vector<std::int64_t>(1000));
  const std::string bomb = field(2, offsets) + int_field(3, 1) + field(4, many_ones);
  EXPECT_THAT(decoded(record(entry(2, "logprobs", bomb), 999)),
              IsError(ErrorCode::invalid_response,
                      "loss_fn_outputs.logprobs: expected a trailing shape of at most 16 "
                      "dimensions, found 1000"));
}

TEST(ForwardBackwardOutputProto, IgnoresArraysBeyondTheNumberOfDatums) {
  const auto output = decoded(record(entry(2, "logprobs", batched({{1.0F}, {2.0F}})), 1));
  EXPECT_THAT(output.value().loss_fn_outputs, SizeIs(1));
}

TEST(ForwardBackwardOutputProto, RefusesAFieldMissingInARecord) {  // PROTOBUF 5.2: an index error
  EXPECT_THAT(
      decoded(
          record(entry(2, "logprobs", batched({{1.0F}})) + entry(2, "loss", batched({{2.0F}})), 1) +
          record(entry(2, "logprobs", batched({{3.0F}})), 1)),
      IsError(ErrorCode::invalid_response, "loss_fn_outputs.loss: expected 2 arrays, found 1"));
}

TEST(ForwardBackwardOutputProto, RefusesFewerArraysThanDatums) {
  EXPECT_THAT(decoded(record(entry(2, "logprobs", batched({{1.0F}})), 2)),
              IsError(ErrorCode::invalid_response, HasSubstr("loss_fn_outputs")));
}

TEST(ForwardBackwardOutputProto, RefusesAbsurdNumbersOfDatums) {
  for (const std::int64_t absurd :
       {std::int64_t{-1}, std::int64_t{1} << 40U, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_THAT(decoded(record("", absurd)),
                IsError(ErrorCode::invalid_response, StartsWith("loss_fn_outputs: expected")));
    EXPECT_THAT(decoded(record(entry(2, "logprobs", batched({{1.0F}})), absurd)), Not(IsOk()));
  }
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(decoded(record("", most) + record("", most)), Not(IsOk()));
}

TEST(ForwardBackwardOutputProto, TakesTheLastEntryOfAName) {
  const auto output = decoded(
      record(entry(2, "logprobs", batched({{1.0F}})) + entry(2, "logprobs", batched({{2.0F}})), 1));
  EXPECT_THAT(output.value().loss_fn_outputs.at(0).at("logprobs").floats(), ElementsAre(2.0F));
}

TEST(ForwardBackwardOutputProto, IgnoresUnknownFieldsEverywhere) {
  const std::string unknown =
      int_field(15, 1) + field(16, "x") + double_field(17, 1.0) + fixed32_field(18, 1);
  const auto output =
      decoded(unknown + record(unknown + entry(2, "logprobs", batched({{1.0F}}) + unknown), 1));
  ASSERT_THAT(output, IsOk());
  EXPECT_THAT(output->loss_fn_outputs.at(0).at("logprobs").floats(), ElementsAre(1.0F));
}

// ---- Writing

TEST(ForwardBackwardOutputProto, WritesEmptyDatums) {
  const ForwardBackwardOutput output = {.loss_fn_output_type = "T",
                                        .loss_fn_outputs = {{}, {}, {}}};
  EXPECT_EQ(encode_proto(output).value(),
            field(1, "T") + field(2, field(1, "T") + int_field(3, 3)));
  EXPECT_THAT(decoded(encode_proto(output).value()), IsOkAndHolds(output));
}

TEST(ForwardBackwardOutputProto, KeepsAnEmptyTypeApartFromArrayRecord) {  // PROTOBUF 5.1
  for (const char* type : {"", "ArrayRecord"}) {
    const ForwardBackwardOutput output = {.loss_fn_output_type = type};
    EXPECT_THAT(decoded(encode_proto(output).value()), IsOkAndHolds(output));
  }
}

TEST(ForwardBackwardOutputProto, RefusesDatumsWithDifferentNames) {
  EXPECT_THAT(encode_proto(ForwardBackwardOutput{
                  .loss_fn_outputs = {{{"a", TensorData()}}, {{"b", TensorData()}}}}),
              IsError(ErrorCode::invalid_argument,
                      "loss_fn_outputs[1]: expected the same outputs as for the first datum"));
}

TEST(ForwardBackwardOutputProto, RefusesSparseAndBrokenTensors) {
  const TensorData sparse = {Buffer<float>(std::vector<float>{}),
                             TensorData::Shape{1, 4},
                             {.crow = std::vector<std::int64_t>{0, 0}}};
  EXPECT_THAT(encode_proto(ForwardBackwardOutput{.loss_fn_outputs = {{{"a", sparse}}}}),
              IsError(ErrorCode::invalid_argument,
                      "loss_fn_outputs[0].a: expected a dense tensor, found a sparse one"));
  const TensorData broken = {Buffer<float>(std::vector<float>(3)), TensorData::Shape{2, 2}};
  EXPECT_THAT(encode_proto(ForwardBackwardOutput{.loss_fn_outputs = {{{"a", broken}}}}),
              IsError(ErrorCode::invalid_argument,
                      "loss_fn_outputs[0].a: expected 4 values for shape [2, 2], found 3"));
}

}  // namespace
}  // namespace tinker::wire::proto_output_test
