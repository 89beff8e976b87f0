// Datum: chunks (PROTOBUF 3) and provenance spans (3.4).

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/proto_bytes.h"
#include "tinker/testing/matchers.h"
#include "wire/proto.h"

namespace tinker::wire::proto_datum_test {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using namespace tinker::testing;  // NOLINT(google-build-using-namespace): the byte builders
using Source = ProvenanceSpan::Source;

std::string encoded(const Datum& datum) {
  return to_hex(encode_proto(datum).value());
}

std::string encoded_chunk(ModelInputChunk chunk) {
  return encoded({.model_input = {.chunks = {std::move(chunk)}}});
}

/// A datum of one Chunk message.
Result<Datum> datum_of(std::string_view chunk) {
  return decode_proto<Datum>(field(1, chunk));
}

ModelInputChunk chunk_of(std::string_view chunk) {
  return datum_of(chunk).value().model_input.chunks.at(0);
}

// ---- Text

TEST(ChunkProto, WritesTokens) {
  EXPECT_EQ(encoded_chunk(EncodedTextChunk{.tokens = {10, 11}}), "0a0c0a0a0a080a0000000b000000");
}

TEST(ChunkProto, SetsTheArmOfAnEmptyText) {  // PROTOBUF 3: `0a 00` inside the Chunk
  EXPECT_EQ(encoded_chunk(EncodedTextChunk{}), "0a020a00");
  EXPECT_EQ(chunk_of(hex("0a00")), ModelInputChunk(EncodedTextChunk{}));
}

TEST(ChunkProto, ReadsTokensOfEverySign) {  // PROTOBUF 2: int32
  EXPECT_EQ(chunk_of(field(1, field(1, hex("ffffff7f 00000080 ffffffff")))),
            ModelInputChunk(EncodedTextChunk{.tokens = {2147483647, -2147483647 - 1, -1}}));
}

TEST(ChunkProto, RefusesBrokenTokens) {
  EXPECT_THAT(datum_of(field(1, field(1, "\1\2\3\4\5"))),
              IsError(ErrorCode::invalid_argument,
                      "model_input[0].tokens: expected whole elements of 4 bytes, found 5 bytes"));
}

// ---- Images

TEST(ChunkProto, WritesAnImage) {  // PROTOBUF 3.3: expected_tokens 0 is written
  const ImageChunk image = {.data = "\x89PNG", .expected_tokens = 0};
  EXPECT_EQ(encoded_chunk(image),
            "0a0f"
            "120d0a0489504e471203706e671800");
  EXPECT_EQ(chunk_of(hex("120d0a0489504e471203706e671800")), ModelInputChunk(image));
}

TEST(ChunkProto, WritesExpectedTokensOnlyWhenKnown) {  // PROTOBUF 3
  EXPECT_EQ(encoded_chunk(ImageChunk{.data = "x", .format = ImageFormat::jpeg}),
            to_hex(field(1, field(2, field(1, "x") + field(2, "jpeg")))));
  EXPECT_EQ(std::get<ImageChunk>(chunk_of(field(2, field(2, "jpeg")))).expected_tokens,
            std::nullopt);
}

TEST(ChunkProto, RefusesExpectedTokensBeyondThirtyTwoBits) {
  EXPECT_THAT(
      encode_proto(Datum{
          .model_input = {.chunks = {ImageChunk{.expected_tokens = std::int64_t{1} << 31U}}}}),
      IsError(ErrorCode::invalid_argument,
              "model_input[0].expected_tokens: expected an integer of 32 bits, found "
              "2147483648"));
}

TEST(ChunkProto, RefusesOtherFormats) {  // PROTOCOL 7.1: png, jpeg
  EXPECT_THAT(datum_of(field(2, field(1, "x") + field(2, "gif"))),
              IsError(ErrorCode::invalid_argument,
                      "model_input[0].format: expected 'png' or 'jpeg', found 'gif'"));
}

// proto3: an absent format is the empty string, which is neither of the two.
TEST(ChunkProto, DoesNotInventAFormat) {
  EXPECT_THAT(datum_of(field(2, field(1, "x"))),
              IsError(ErrorCode::invalid_argument, StartsWith("model_input[0].format: expected")));
}

TEST(ChunkProto, DoesNotQuoteAFormatThatIsNoText) {
  EXPECT_THAT(datum_of(field(2, field(1, "x") + field(2, "\xff\xfe"))),
              IsError(ErrorCode::invalid_argument, "model_input[0].format: expected UTF-8 text"));
}

TEST(ChunkProto, MergesAnImageThatComesInTwoParts) {
  const auto chunk = std::get<ImageChunk>(
      chunk_of(field(2, field(1, "x") + field(2, "jpeg")) + field(2, int_field(3, 4))));

  EXPECT_EQ(chunk, (ImageChunk{.data = "x", .format = ImageFormat::jpeg, .expected_tokens = 4}));
}

TEST(ChunkProto, AcceptsOverriddenDimensions) {  // PROTOBUF 1: a server SHOULD accept it
  const std::string image =
      field(1, "x") + field(2, "png") + field(4, int_field(1, 640) + int_field(2, 480));

  const auto chunk = std::get<ImageChunk>(chunk_of(field(2, image)));

  EXPECT_EQ(chunk.override_dimensions, (ImageDimensions{.width = 640, .height = 480}));
  EXPECT_EQ(encoded_chunk(chunk), to_hex(field(1, field(2, image))));
}

// ---- Audio

TEST(ChunkProto, CopiesDmelThrough) {  // PROTOBUF 3
  const DmelChunk dmel = {.dmel = hex("04020150 00ff")};
  EXPECT_EQ(encoded_chunk(dmel), to_hex(field(1, field(3, field(1, dmel.dmel)))));
  EXPECT_EQ(chunk_of(field(3, field(1, dmel.dmel))), ModelInputChunk(dmel));
}

// ---- The oneof

TEST(ChunkProto, RefusesImageAssetPointers) {  // PROTOBUF 3: not supported, a local error
  const Datum datum = {
      .model_input = {.chunks = {EncodedTextChunk{}, ImageAssetPointerChunk{.location = "u"}}}};
  EXPECT_THAT(encode_proto(datum),
              IsError(ErrorCode::invalid_argument, StartsWith("model_input[1]: expected text")));
}

TEST(ChunkProto, NamesTheDatumOfARefusal) {
  const ForwardBackwardRequest request = {
      .data = {{}, {.model_input = {.chunks = {ImageAssetPointerChunk{}}}}}};
  EXPECT_THAT(encode_proto(request),
              IsError(ErrorCode::invalid_argument, StartsWith("data[1].model_input[0]: ")));
}

TEST(ChunkProto, RefusesNeitherArm) {
  EXPECT_THAT(datum_of(""),
              IsError(ErrorCode::invalid_argument,
                      "model_input[0]: expected encoded_text, image or dmel, found none of them"));
}

TEST(ChunkProto, TakesTheLastArm) {
  const std::string text = field(1, field(1, raw<std::int32_t>({1})));
  const std::string dmel = field(3, field(1, "d"));
  EXPECT_EQ(chunk_of(text + dmel), ModelInputChunk(DmelChunk{.dmel = "d"}));
  EXPECT_EQ(chunk_of(dmel + text), ModelInputChunk(EncodedTextChunk{.tokens = {1}}));
}

TEST(ChunkProto, MergesARepeatedArm) {  // protobuf: a message field that comes twice is merged
  const std::string first = field(2, field(1, "x") + field(2, "jpeg"));
  const std::string second = field(2, field(2, "jpeg") + int_field(3, 7));
  EXPECT_EQ(
      chunk_of(first + second),
      ModelInputChunk(ImageChunk{.data = "x", .format = ImageFormat::jpeg, .expected_tokens = 7}));
}

TEST(ChunkProto, KeepsTheOrderOfChunks) {  // PROTOBUF 3: same order
  const Datum datum = {.model_input = {.chunks = {EncodedTextChunk{.tokens = {1}},
                                                  DmelChunk{.dmel = "d"},
                                                  ImageChunk{.data = "i"},
                                                  EncodedTextChunk{}}}};
  EXPECT_THAT(decode_proto<Datum>(encode_proto(datum).value()), IsOkAndHolds(datum));
}

// ---- Spans (3.4)

std::string encoded_span(ProvenanceSpan span) {
  return encoded({.model_input_spans = {std::move(span)}});
}

TEST(SpanProto, WritesTheExamples) {  // PROTOBUF 3.4
  EXPECT_EQ(encoded_span({.source = Source::prompt_tokens, .sequence_id = "q0", .length = 1}),
            "1a08"
            "0a060a0271301801");
  EXPECT_EQ(encoded_span(
                {.source = Source::sampled_tokens, .sequence_id = "q0", .offset = 3, .length = 2}),
            "1a0a"
            "12080a02713010031802");
  EXPECT_EQ(encoded_span({.source = Source::prompt_tokens, .sequence_id = "q"}),
            "1a05"
            "0a030a0171");
}

TEST(SpanProto, ReadsTheExamples) {  // PROTOBUF 3.4: zero-length spans are legal
  const auto datum =
      decode_proto<Datum>(field(3, hex("0a060a0271301801")) +
                          field(3, hex("12080a02713010031802")) + field(3, hex("0a030a0171")));
  ASSERT_THAT(datum, IsOk());
  EXPECT_THAT(
      datum->model_input_spans,
      ElementsAre(
          ProvenanceSpan{.source = Source::prompt_tokens, .sequence_id = "q0", .length = 1},
          ProvenanceSpan{
              .source = Source::sampled_tokens, .sequence_id = "q0", .offset = 3, .length = 2},
          ProvenanceSpan{.source = Source::prompt_tokens, .sequence_id = "q"}));
}

TEST(SpanProto, KeepsTheTwoListsApart) {  // fields 3 and 4
  const Datum datum = {.model_input_spans = {{.sequence_id = "a", .length = 1}},
                       .loss_fn_input_spans = {{.sequence_id = "b", .length = 2}}};
  EXPECT_EQ(encoded(datum),
            to_hex(field(3, field(2, field(1, "a") + int_field(3, 1))) +
                   field(4, field(2, field(1, "b") + int_field(3, 2)))));
  EXPECT_THAT(decode_proto<Datum>(encode_proto(datum).value()), IsOkAndHolds(datum));
}

TEST(SpanProto, MayComeInOneListAlone) {  // PROTOBUF 3.4: a server MUST accept one being empty
  const auto datum = decode_proto<Datum>(field(4, hex("0a060a0271301801")));
  ASSERT_THAT(datum, IsOk());
  EXPECT_TRUE(datum->model_input_spans.empty());
  EXPECT_EQ(datum->loss_fn_input_spans.size(), 1U);
}

TEST(SpanProto, RefusesNeitherArm) {
  EXPECT_THAT(decode_proto<Datum>(field(3, "")),
              IsError(ErrorCode::invalid_argument,
                      "model_input_spans[0]: expected prompt_tokens or sampled_tokens, found "
                      "neither"));
}

TEST(SpanProto, TakesTheLastArm) {
  const auto datum = decode_proto<Datum>(
      field(3, field(1, field(1, "a") + int_field(2, 5)) + field(2, field(1, "b"))));
  ASSERT_THAT(datum, IsOk());
  EXPECT_THAT(datum->model_input_spans, ElementsAre(ProvenanceSpan{.sequence_id = "b"}));
}

TEST(SpanProto, CarriesSixtyFourBits) {
  const Datum datum = {.model_input_spans = {{.sequence_id = "a",
                                              .offset = std::int64_t{1} << 40U,
                                              .length = std::int64_t{1} << 41U}}};
  EXPECT_THAT(decode_proto<Datum>(encode_proto(datum).value()), IsOkAndHolds(datum));
}

}  // namespace
}  // namespace tinker::wire::proto_datum_test
