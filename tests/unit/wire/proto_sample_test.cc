// SampleResponse (PROTOBUF 4).

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/proto_bytes.h"
#include "tinker/testing/matchers.h"
#include "wire/proto.h"

namespace tinker::wire::proto_sample_test {
namespace {

using ::testing::ElementsAre;

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;
using ::testing::Pair;
using ::testing::StartsWith;
using namespace tinker::testing;  // NOLINT(google-build-using-namespace): the byte builders

/// PROTOBUF 4.2, first example; 62 bytes.
constexpr std::string_view kFirstExample =
    "0a160801120805000000060000001a08000000bf000080be12080000c07f000080bf1a180a08000000000700000012"
    "08804fc3c7000080bf180120022001";

/// PROTOBUF 4.2, second example; 86 bytes.
constexpr std::string_view kSecondExample =
    "0a2808011204050000001a04000000bf22180a0805000000090000001208000000bf000080bf180220012a0c0a0400"
    "0040c0180122020101321c0a0c0a0407000000180322020101120c0a04000000c0180122020101";

SampleResponse decoded(std::string body) {
  return decode_proto<SampleResponse>(std::move(body)).value();
}

Result<SampleResponse> sequence(std::string_view fields) {
  return decode_proto<SampleResponse>(field(1, fields));
}

// ---- 4.2

TEST(SampleResponseProto, ReadsTheFirstExample) {  // PROTOBUF 4.2
  const std::string body = hex(kFirstExample);
  ASSERT_EQ(body.size(), 62U);

  const auto response = decoded(body);

  ASSERT_EQ(response.sequences.size(), 1U);
  EXPECT_EQ(response.sequences[0].stop_reason, StopReason::length);
  EXPECT_THAT(response.sequences[0].tokens, ElementsAre(5, 6));
  EXPECT_THAT(response.sequences[0].logprobs, ElementsAre(-0.5F, -0.25F));
  EXPECT_EQ(response.sequences[0].topk_logprobs, std::nullopt);
  EXPECT_EQ(response.prompt_logprob(0), std::nullopt);
  EXPECT_EQ(response.prompt_logprob(1), -1.0F);
  ASSERT_TRUE(response.topk_prompt_logprobs.has_value());
  EXPECT_EQ(response.topk_prompt_logprobs->at(0), std::nullopt);
  EXPECT_THAT(response.topk_prompt_logprobs->at(1), Optional(ElementsAre(Pair(7, -1.0F))));
  EXPECT_EQ(response.prompt_cache_hit_tokens, 1);
  EXPECT_EQ(response.target_prompt_logprobs, std::nullopt);
  EXPECT_EQ(response.prompt_alt_tokens, std::nullopt);
}

TEST(SampleResponseProto, WritesTheFirstExample) {  // PROTOBUF 4.2
  const SampleResponse response = {
      .sequences = {{.stop_reason = StopReason::length,
                     .tokens = {5, 6},
                     .logprobs = {-0.5F, -0.25F}}},
      .prompt_logprobs = {std::numeric_limits<float>::quiet_NaN(), -1.0F},
      .topk_prompt_logprobs = TopkLogprobs{.token_ids = {0, 7},
                                           .logprobs = {TopkLogprobs::kMaskLogprob, -1.0F},
                                           .k = 1,
                                           .length = 2},
      .prompt_cache_hit_tokens = 1};
  EXPECT_EQ(to_hex(encode_proto(response).value()), kFirstExample);
}

TEST(SampleResponseProto, ReadsTheSecondExample) {  // PROTOBUF 4.2
  const std::string body = hex(kSecondExample);
  ASSERT_EQ(body.size(), 86U);

  const auto response = decoded(body);

  EXPECT_THAT(response.sequences.at(0).tokens, ElementsAre(5));
  EXPECT_THAT(response.sequences[0].topk_logprobs->at(0),
              Optional(ElementsAre(Pair(5, -0.5F), Pair(9, -1.0F))));
  ASSERT_TRUE(response.target_prompt_logprobs.has_value());
  EXPECT_THAT(response.target_prompt_logprobs->floats(), ElementsAre(-3.0F));
  EXPECT_EQ(response.target_prompt_logprobs->shape(), (TensorData::Shape{1, 1}));
  ASSERT_TRUE(response.prompt_alt_tokens.has_value());
  EXPECT_THAT(response.prompt_alt_tokens->tokens.ints(), ElementsAre(7));  // int32, widened
  EXPECT_THAT(response.prompt_alt_tokens->logprobs.floats(), ElementsAre(-2.0F));
}

TEST(SampleResponseProto, KeepsTheSecondExampleThroughARoundTrip) {  // PROTOBUF 4.2
  const auto response = decoded(hex(kSecondExample));
  const auto again = decoded(encode_proto(response).value());
  EXPECT_EQ(again.sequences, response.sequences);
  EXPECT_EQ(again.target_prompt_logprobs, response.target_prompt_logprobs);
  EXPECT_EQ(again.prompt_alt_tokens, response.prompt_alt_tokens);
}

TEST(SampleResponseProto, IsEmptyWhenTheMessageIs) {  // PROTOBUF 4: a valid response
  const auto response = decoded("");
  EXPECT_THAT(response.sequences, IsEmpty());
  EXPECT_THAT(response.prompt_logprobs, IsEmpty());
  EXPECT_EQ(response.prompt_cache_hit_tokens, 0);
  EXPECT_EQ(encode_proto(response).value(), "");
}

// ---- Sequences

TEST(SampleResponseProto, KnowsTwoStopReasons) {  // PROTOBUF 4: absent = 0 = stop
  EXPECT_EQ(sequence("").value().sequences.at(0).stop_reason, StopReason::stop);
  EXPECT_EQ(sequence(int_field(1, 0)).value().sequences.at(0).stop_reason, StopReason::stop);
  EXPECT_EQ(sequence(int_field(1, 1)).value().sequences.at(0).stop_reason, StopReason::length);
}

TEST(SampleResponseProto, KeepsOtherStopReasons) {  // docs/parity.md: a newer server
  for (const std::int64_t number : {2, 300, -1}) {
    const auto message = field(1, int_field(1, static_cast<std::uint64_t>(number)));
    const auto response = decoded(message);

    EXPECT_EQ(response.sequences.at(0).stop_reason.known(), std::nullopt);
    EXPECT_EQ(response.sequences.at(0).stop_reason.text(), std::to_string(number));
    EXPECT_EQ(encode_proto(response).value(), message);
  }
}

TEST(SampleResponseProto, RefusesToWriteAStopReasonThatIsNoNumber) {
  for (const char* const text : {"", "later", "2x", "4294967296"}) {
    const SampleResponse response = {
        .sequences = {{.stop_reason = OpenEnum<StopReason>::parse(text)}}};
    EXPECT_THAT(encode_proto(response),
                IsError(ErrorCode::invalid_argument,
                        "sequences[0].stop_reason: expected a stop reason or its number, found '" +
                            std::string(text) + "'"));
  }
}

TEST(SampleResponseProto, AcceptsASequenceWithoutTokens) {  // PROTOBUF 4: empty allowed
  const auto response = sequence(field(2, ""));
  EXPECT_THAT(response.value().sequences.at(0).tokens, IsEmpty());
}

TEST(SampleResponseProto, ReadsEmptyAndAbsentLogprobsAlike) {  // PROTOBUF 4: both mean "none"
  EXPECT_THAT(sequence(field(3, "")).value().sequences.at(0).logprobs, IsEmpty());
  EXPECT_THAT(sequence("").value().sequences.at(0).logprobs, IsEmpty());
  EXPECT_THAT(decoded(field(2, "")).prompt_logprobs, IsEmpty());
}

TEST(SampleResponseProto, LeavesAbsentLogprobsOut) {
  EXPECT_EQ(encode_proto(SampleResponse{.sequences = {{.tokens = {5}}}}).value(),
            field(1, field(2, raw<std::int32_t>({5}))));
}

TEST(SampleResponseProto, RefusesBrokenArrays) {  // PROTOBUF 4: not a multiple of the element size
  EXPECT_THAT(sequence(field(2, "12345")),
              IsError(ErrorCode::invalid_response,
                      "sequences[0].tokens: expected whole elements of 4 bytes, found 5 bytes"));
  EXPECT_THAT(sequence(field(3, "123")),
              IsError(ErrorCode::invalid_response, StartsWith("sequences[0].logprobs: ")));
  EXPECT_THAT(decode_proto<SampleResponse>(field(2, "1")),
              IsError(ErrorCode::invalid_response, StartsWith("prompt_logprobs: ")));
}

TEST(SampleResponseProto, KeepsTheOrderOfSequences) {
  const auto response = decoded(field(1, field(2, raw<std::int32_t>({1}))) + field(1, "") +
                                field(1, field(2, raw<std::int32_t>({3}))));
  ASSERT_EQ(response.sequences.size(), 3U);
  EXPECT_THAT(response.sequences[0].tokens, ElementsAre(1));
  EXPECT_THAT(response.sequences[2].tokens, ElementsAre(3));
}

TEST(SampleResponseProto, CarriesNoSequenceIds) {  // PROTOBUF 4: stamped from the submission
  const auto body = encode_proto(SampleResponse{.sequences = {{.sequence_id = "r-106:0"}}});
  EXPECT_EQ(body.value(), field(1, ""));
}

TEST(SampleResponseProto, DoesNotCountLogprobsAgainstTokens) {  // only 2 says "same as tokens"
  const auto response =
      sequence(field(2, raw<std::int32_t>({1})) + field(3, raw<float>({1.0F, 2.0F})));
  EXPECT_THAT(response, IsOk());
}

// ---- Prompt logprobs

TEST(SampleResponseProto, ReadsNanAsNoValue) {  // PROTOBUF 4, also for prompt_logprobs_last_n
  const auto response = decoded(field(2, raw<float>({NAN, NAN, -0.5F})));
  EXPECT_EQ(response.prompt_logprobs.size(), 3U);
  EXPECT_EQ(response.prompt_logprob(0), std::nullopt);
  EXPECT_EQ(response.prompt_logprob(1), std::nullopt);
  EXPECT_EQ(response.prompt_logprob(2), -0.5F);
}

// ---- Top-k

std::string topk(const std::vector<std::int32_t>& ids,
                 const std::vector<float>& logprobs,
                 std::uint64_t k,
                 std::uint64_t length) {
  return field(1, raw(ids)) + field(2, raw(logprobs)) + int_field(3, k) + int_field(4, length);
}

Result<SampleResponse> with_topk(std::string_view message) {
  return decode_proto<SampleResponse>(field(3, message));
}

TEST(TopkProto, ReadsTheListForm) {  // PROTOBUF 4: the example with k = 2
  constexpr float kMask = -99999.0F;
  const auto response =
      with_topk(topk({0, 0, 5, 0, 0, 7}, {kMask, kMask, -0.5F, kMask, -0.25F, -0.5F}, 2, 3));

  const auto& rows = *response.value().topk_prompt_logprobs;
  EXPECT_EQ(rows.at(0), std::nullopt);
  EXPECT_THAT(rows.at(1), Optional(ElementsAre(Pair(5, -0.5F))));
  EXPECT_THAT(rows.at(2), Optional(ElementsAre(Pair(0, -0.25F), Pair(7, -0.5F))));
}

TEST(TopkProto, KnowsTheMaskBitForBit) {  // PROTOBUF 4: 80 4f c3 c7
  EXPECT_EQ(raw<float>({TopkLogprobs::kMaskLogprob}), hex("804fc3c7"));
}

TEST(TopkProto, IsNoneWithoutRowsOrColumns) {  // PROTOBUF 4: k = 0 or length = 0
  EXPECT_EQ(with_topk("").value().topk_prompt_logprobs, std::nullopt);
  EXPECT_EQ(with_topk(topk({1}, {1.0F}, 0, 1)).value().topk_prompt_logprobs, std::nullopt);
  EXPECT_EQ(with_topk(topk({1}, {1.0F}, 1, 0)).value().topk_prompt_logprobs, std::nullopt);
}

TEST(TopkProto, IsAbsentWhenNotRequested) {
  EXPECT_EQ(decoded("").topk_prompt_logprobs, std::nullopt);
  EXPECT_EQ(sequence("").value().sequences.at(0).topk_logprobs, std::nullopt);
}

TEST(TopkProto, RefusesAShortBuffer) {  // PROTOBUF 4
  EXPECT_THAT(with_topk(topk({1, 2, 3}, {1.0F, 2.0F, 3.0F, 4.0F}, 2, 2)),
              IsError(ErrorCode::invalid_response,
                      "topk_prompt_logprobs: expected 2 rows of 2 cells, found 3 token ids and 4 "
                      "logprobs"));
  EXPECT_THAT(with_topk(topk({1, 2, 3, 4}, {1.0F}, 2, 2)), Not(IsOk()));
}

TEST(TopkProto, RefusesMoreCellsThanCanBe) {
  EXPECT_THAT(with_topk(topk({1}, {1.0F}, 0xffffffff, 0xffffffff)), Not(IsOk()));
}

TEST(TopkProto, CutsALongBuffer) {  // PROTOBUF 4
  const auto response = with_topk(topk({1, 2, 3}, {-1.0F, -2.0F, -3.0F}, 1, 2));
  EXPECT_THAT(response.value().topk_prompt_logprobs->token_ids, ElementsAre(1, 2));
  EXPECT_THAT(response.value().topk_prompt_logprobs->logprobs, ElementsAre(-1.0F, -2.0F));
}

TEST(TopkProto, CutsAPieceOfAnElementToo) {  // PROTOBUF 4: whole elements only for other arrays
  const std::string message = field(1, hex("01000000 ff")) + field(2, raw<float>({-1.0F})) +
                              int_field(3, 1) + int_field(4, 1);
  EXPECT_THAT(with_topk(message).value().topk_prompt_logprobs->token_ids, ElementsAre(1));
  EXPECT_EQ(with_topk(field(1, "1")).value().topk_prompt_logprobs, std::nullopt);
}

TEST(TopkProto, OfSampledTokensHasItsOwnRows) {  // PROTOBUF 4: not checked against tokens
  const auto response =
      sequence(field(2, raw<std::int32_t>({5})) + field(4, topk({1, 2}, {-1.0F, -2.0F}, 1, 2)));
  EXPECT_EQ(response.value().sequences.at(0).topk_logprobs->length, 2U);
}

TEST(TopkProto, IsCheckedBeforeSending) {
  EXPECT_THAT(encode_proto(SampleResponse{.topk_prompt_logprobs =
                                              TopkLogprobs{.token_ids = {1}, .k = 1, .length = 1}}),
              IsError(ErrorCode::invalid_argument,
                      "topk_prompt_logprobs: expected 1 cells, found 1 token ids and 0 logprobs"));
}

// ---- Targets and alternative tokens

TEST(SampleResponseProto, AnswersTargetsInTheRequestsLayout) {  // PROTOBUF 4: dense or CSR
  const TensorData sparse = {
      Buffer<float>(std::vector<float>{-0.5F}),
      TensorData::Shape{2, 3},
      {.crow = std::vector<std::int64_t>{0, 0, 1}, .col = std::vector<std::int64_t>{0}}};
  const auto again =
      decoded(encode_proto(SampleResponse{.target_prompt_logprobs = sparse}).value());
  EXPECT_EQ(again.target_prompt_logprobs, sparse);
}

TEST(SampleResponseProto, NeedsBothTensorsOfAlternativeTokens) {  // PROTOBUF 4: both must be there
  const std::string tensor = hex("0a00 1801 220100");
  EXPECT_THAT(decode_proto<SampleResponse>(field(6, field(1, tensor))),
              IsError(ErrorCode::invalid_response, StartsWith("prompt_alt_tokens")));
  EXPECT_THAT(decode_proto<SampleResponse>(field(6, field(2, tensor))), Not(IsOk()));
  EXPECT_THAT(decode_proto<SampleResponse>(field(6, "")), Not(IsOk()));
  EXPECT_THAT(decode_proto<SampleResponse>(field(6, field(1, tensor) + field(2, tensor))), IsOk());
}

TEST(SampleResponseProto, AcceptsAlternativeTokensOfEitherWidth) {  // PROTOBUF 2: int64 also
  for (const std::string& tokens : {field(1, raw<std::int32_t>({7})) + hex("1803 22020101"),
                                    field(1, raw<std::int64_t>({7})) + hex("1802 22020101")}) {
    const auto response = decoded(field(
        6, field(1, tokens) + field(2, field(1, raw<float>({-2.0F})) + hex("1801 22020101"))));
    EXPECT_THAT(response.prompt_alt_tokens->tokens.ints(), ElementsAre(7));
  }
}

TEST(SampleResponseProto, NamesTheTensorThatIsWrong) {
  const std::string good = hex("0a00 1801 220100");
  EXPECT_THAT(decode_proto<SampleResponse>(field(6, field(1, good) + field(2, "\x08\x01"))),
              IsError(ErrorCode::invalid_response, StartsWith("prompt_alt_tokens.logprobs")));
}

TEST(SampleResponseProto, CountsCacheHits) {
  EXPECT_EQ(decoded(int_field(4, 12)).prompt_cache_hit_tokens, 12);
  EXPECT_EQ(encode_proto(SampleResponse{.prompt_cache_hit_tokens = 12}).value(), int_field(4, 12));
}

}  // namespace
}  // namespace tinker::wire::proto_sample_test
