// Messages that are damaged, from the future, or made to hurt.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/proto_bytes.h"
#include "tinker/testing/matchers.h"
#include "wire/proto.h"

namespace tinker::wire::proto_malformed_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using namespace tinker::testing;  // NOLINT(google-build-using-namespace): the byte builders

/// A request with everything in it.
std::string rich_request() {
  return encode_proto(
             ForwardBackwardRequest{
                 .model_id = "m",
                 .seq_id = 300,
                 .data = {{.model_input = {.chunks = {EncodedTextChunk{.tokens = {1, 2}},
                                                      ImageChunk{.data = "x", .expected_tokens = 1},
                                                      DmelChunk{.dmel = "d"}}},
                           .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{1}},
                                              {"weights", std::vector<float>{1.0F}}},
                           .model_input_spans = {{.sequence_id = "q", .length = 1}},
                           .loss_fn_input_spans = {{.sequence_id = "q", .length = 1}}}},
                 .loss_fn_config = {{"a", 1.0}, {"b", "x"}},
                 .forward_only = true})
      .value();
}

/// PROTOBUF 4.2 and 5.5.
const std::string kSampleResponse = hex(
    "0a2808011204050000001a04000000bf22180a0805000000090000001208000000bf000080bf180220012a0c0a0400"
    "0040c0180122020101321c0a0c0a0407000000180322020101120c0a04000000c0180122020101");
const std::string kOutput = hex(
    "0a0f546f7263684c6f737352657475726e124b0a0f546f7263684c6f737352657475726e12360a086c6f6770726f62"
    "73122a0a0c000000bf000080bf000000c01218000000000000000008000000000000000c0000000000000018011802"
    "1a130a086c6f73733a73756d110000000000000c40");

/// Cuts a message everywhere: a cut between two fields of the message may be a shorter message, any
/// other one is an error, none is a crash.
template <typename T>
std::size_t count_readable_prefixes(const std::string& body) {
  std::size_t readable = 0;
  for (std::size_t size = 0; size < body.size(); ++size) {
    const auto result = decode_proto<T>(body.substr(0, size));
    if (result.ok()) {
      ++readable;
    } else {
      EXPECT_THAT(result.error().message, HasSubstr("expected"));
    }
  }
  return readable;
}

TEST(MalformedProto, RefusesEveryCutInsideAField) {
  // Readable are the cuts before each field of the top level, the empty message included.
  EXPECT_EQ(count_readable_prefixes<SampleResponse>(kSampleResponse), 3U);
  EXPECT_EQ(count_readable_prefixes<ForwardBackwardOutput>(kOutput), 3U);
  EXPECT_EQ(count_readable_prefixes<ForwardBackwardRequest>(rich_request()), 8U);
}

TEST(MalformedProto, SaysThatAMessageIsMalformed) {
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(hex("0a05 61")),
              IsError(ErrorCode::invalid_argument,
                      StartsWith("$: expected a protobuf message, found a malformed one")));
  EXPECT_THAT(decode_proto<SampleResponse>(hex("0a05 61")),
              IsError(ErrorCode::invalid_response, HasSubstr("malformed")));
}

TEST(MalformedProto, RefusesLengthsBeyondTheMessage) {
  EXPECT_THAT(decode_proto<SampleResponse>(hex("0a ffffffff0f")), Not(IsOk()));
  EXPECT_THAT(decode_proto<SampleResponse>(hex("0a ffffffffffffffffff01")), Not(IsOk()));
}

TEST(MalformedProto, RefusesEndlessVarints) {
  EXPECT_THAT(decode_proto<SampleResponse>(hex("20 ffffffffffffffffffff01")), Not(IsOk()));
  EXPECT_THAT(decode_proto<SampleResponse>(std::string(64, '\xff')), Not(IsOk()));
}

TEST(MalformedProto, RefusesFieldZeroAndWireTypesThatDoNotExist) {
  EXPECT_THAT(decode_proto<SampleResponse>(hex("00 00")), Not(IsOk()));
  EXPECT_THAT(decode_proto<SampleResponse>(hex("0e")), Not(IsOk()));
  EXPECT_THAT(decode_proto<SampleResponse>(hex("0f")), Not(IsOk()));
}

TEST(MalformedProto, RefusesBrokenPackedShapes) {
  EXPECT_THAT(decode_proto<TensorData>(hex("0a00 1801 2201 80")), Not(IsOk()));
}

/// What reads must be writable again: nothing half-read leaves a decoder.
template <typename T>
void expect_refused_or_writable(const std::string& body) {
  const auto value = decode_proto<T>(body);
  if (!value.ok()) return;
  const auto again = encode_proto(*value);
  EXPECT_THAT(again, IsOk()) << to_hex(body);
}

TEST(MalformedProto, SurvivesDamageToEveryByte) {
  for (const std::string& body : {kSampleResponse, kOutput, rich_request()}) {
    for (std::size_t at = 0; at < body.size(); ++at) {
      for (const char damage : {'\x00', '\x01', '\x7f', '\x80', '\xff'}) {
        std::string damaged = body;
        damaged[at] = damage;
        expect_refused_or_writable<SampleResponse>(damaged);
        expect_refused_or_writable<ForwardBackwardOutput>(damaged);
        expect_refused_or_writable<ForwardBackwardRequest>(damaged);
      }
    }
  }
}

// ---- Unknown fields

TEST(UnknownProtoField, IsIgnoredInAnswers) {  // PROTOCOL 4.2; PROTOBUF 8: skipped as unknown
  std::vector<std::string> unknown;
  const std::string extra =
      int_field(100, 1) + field(101, "x") + double_field(102, 1.0) + fixed32_field(103, 1);
  const auto response = decode_proto<SampleResponse>(
      field(1, extra + field(2, raw<std::int32_t>({5})) + extra) + extra,
      {.unknown_members = &unknown});
  ASSERT_THAT(response, IsOk());
  EXPECT_THAT(response->sequences.at(0).tokens, ElementsAre(5));
  EXPECT_THAT(unknown, IsEmpty());
}

TEST(UnknownProtoField, IsRefusedInStrictRequests) {
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(int_field(9, 1)),
              IsError(ErrorCode::invalid_argument, "#9: expected no such field in this message"));
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(field(3, "") + field(3, field(9, "x"))),
              IsError(ErrorCode::invalid_argument, StartsWith("data[1].#9: ")));
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(field(3, field(1, field(1, int_field(9, 1))))),
              IsError(ErrorCode::invalid_argument, StartsWith("data[0].model_input[0].#9: ")));
}

TEST(UnknownProtoField, IsReportedInLenientRequests) {
  std::vector<std::string> unknown;
  const std::string body = field(1, "m") + int_field(9, 1) + field(4, "ppo") +
                           field(3, field(9, "x") + field(1, field(1, "") + int_field(8, 1))) +
                           double_field(10, 1.0);

  const auto request = decode_proto<ForwardBackwardRequest>(
      body, {.policy = Policy::lenient, .unknown_members = &unknown});

  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->model_id, "m");
  EXPECT_EQ(request->loss_fn, LossFn::ppo);
  EXPECT_THAT(unknown, ElementsAre("#9", "data[0].#9", "data[0].model_input[0].#8", "#10"));
}

TEST(UnknownProtoField, OfATensorIsRefusedWhateverThePolicy) {  // it would change the arithmetic
  const std::string tensor = hex("0a00 1801 220100") + int_field(5, 1);
  const auto request = decode_proto<ForwardBackwardRequest>(field(3, entry(2, "weights", tensor)),
                                                            {.policy = Policy::lenient});
  EXPECT_THAT(
      request,
      IsError(ErrorCode::invalid_argument, StartsWith("data[0].loss_fn_inputs.weights.#5: ")));
}

TEST(UnknownProtoField, CannotBeTheOnlyArmOfAChunk) {
  std::vector<std::string> unknown;
  EXPECT_THAT(decode_proto<Datum>(field(1, field(4, "video")),
                                  {.policy = Policy::lenient, .unknown_members = &unknown}),
              IsError(ErrorCode::invalid_argument, StartsWith("model_input[0]: expected")));
}

// ---- Wire types: protobuf takes a known number of another wire type for an unknown field

TEST(WrongWireType, IsIgnoredInAnswers) {
  const auto response =
      decode_proto<SampleResponse>(int_field(1, 7) + field(4, "x") + fixed32_field(2, 1) +
                                   int_field(6, 1) + field(1, field(1, "x") + int_field(2, 3)));
  ASSERT_THAT(response, IsOk());
  EXPECT_EQ(response->sequences.size(), 1U);
  EXPECT_THAT(response->sequences[0].tokens, IsEmpty());
  EXPECT_EQ(response->prompt_cache_hit_tokens, 0);
}

TEST(WrongWireType, IsIgnoredInOutputs) {
  const auto output = decode_proto<ForwardBackwardOutput>(
      int_field(1, 1) + int_field(2, 1) + double_field(3, 1.0) +
      field(2,
            int_field(2, 1) + field(3, "x") +
                entry(2, "x", int_field(1, 1) + int_field(2, 1) + int_field(3, 1))));
  ASSERT_THAT(output, IsOk());
  EXPECT_THAT(output->metrics, IsEmpty());
  EXPECT_THAT(output->loss_fn_outputs, IsEmpty());
}

TEST(WrongWireType, IsRefusedInRequests) {
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(int_field(1, 7)),
              IsError(ErrorCode::invalid_argument, StartsWith("#1: ")));
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(field(2, "1")),
              IsError(ErrorCode::invalid_argument, StartsWith("#2: ")));
  EXPECT_THAT(decode_proto<TensorData>(field(3, "1")), Not(IsOk()));
  EXPECT_THAT(decode_proto<TensorData>(hex("0a00 1801") + double_field(4, 1.0)), Not(IsOk()));
}

}  // namespace
}  // namespace tinker::wire::proto_malformed_test
