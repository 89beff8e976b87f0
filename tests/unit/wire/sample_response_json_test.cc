// SampleResponse as JSON, for clients that do not read protobuf (PROTOCOL 11).

#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/sample.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::wire::sample_response_json_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::Pair;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOk;
using tinker::testing::IsOkAndHolds;

constexpr std::string_view kFull =
    R"({"sequences":[{"stop_reason":"length","tokens":[5,6],"logprobs":[-0.5,-0.25],)"
    R"("topk_sampled_logprobs":[[[5,-0.5],[9,-1.0]],[[6,-0.25]]]}],"type":"sample",)"
    R"("prompt_logprobs":[null,-1.0],"topk_prompt_logprobs":[null,[[7,-1.0],[8,-2.0]]],)"
    R"("prompt_cache_hit_tokens":32,)"
    R"("target_prompt_logprobs":{"data":[-1.5],"dtype":"float32","shape":[1,1]},)"
    R"("prompt_alt_tokens":{"tokens":{"data":[4],"dtype":"int64","shape":[1,1]},)"
    R"("logprobs":{"data":[-3.0],"dtype":"float32","shape":[1,1]}}})";

auto is_refused(std::string_view message) {
  return IsError(ErrorCode::invalid_response, std::string(message));
}

Result<SampleResponse> read_prompt(std::string_view name, std::string_view value) {
  return decode_json<SampleResponse>(
      base::concat(R"({"sequences":[],")", name, R"(":)", value, "}"));
}

TEST(SampleResponseJson, WritesWhatItReads) {
  EXPECT_THAT(echo<SampleResponse>(kFull), IsOkAndHolds(std::string(kFull)));
}

TEST(SampleResponseJson, LosesNothingByWayOfProtobuf) {
  const auto read = decode_json<SampleResponse>(kFull);
  ASSERT_THAT(read, IsOk());
  const auto again = decode_proto<SampleResponse>(encode_proto(*read).value());
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(encode_json(*again), IsOkAndHolds(std::string(kFull)));
}

TEST(SampleResponseJson, OmitsWhatWasNotAskedFor) {
  const SampleResponse response = {.sequences = {{.tokens = {1}}}};
  EXPECT_THAT(encode_json(response),
              IsOkAndHolds(R"({"sequences":[{"stop_reason":"stop","tokens":[1]}],)"
                           R"("type":"sample","prompt_cache_hit_tokens":0})"));
}

TEST(SampleResponseJson, ReadsNullAsNotComputed) {
  const auto read = read_prompt("prompt_logprobs", "[null,-1]");
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->prompt_logprob(0), std::nullopt);
  EXPECT_EQ(read->prompt_logprob(1), -1.0F);
}

TEST(SampleResponseJson, ReadsNullInPlaceOfAListAsNone) {
  const auto read = read_prompt("prompt_logprobs", "null");
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(read->prompt_logprobs.empty());
}

TEST(SampleResponseJson, WritesNullForALogprobThatIsNaN) {
  const SampleResponse response = {.prompt_logprobs = {std::nanf(""), -1.0F}};
  EXPECT_THAT(encode_json(response),
              IsOkAndHolds(R"({"sequences":[],"type":"sample","prompt_logprobs":[null,-1.0],)"
                           R"("prompt_cache_hit_tokens":0})"));
}

TEST(SampleResponseJson, PadsShortRowsOfTheMostLikelyTokens) {
  const auto read = read_prompt("topk_prompt_logprobs", "[null,[[7,-1]],[[8,-2],[9,-3]]]");
  ASSERT_THAT(read, IsOk());
  const auto& topk = read->topk_prompt_logprobs.value();
  EXPECT_EQ(topk.k, 2U);
  EXPECT_EQ(topk.at(0), std::nullopt);
  EXPECT_THAT(topk.at(1), Optional(ElementsAre(Pair(7, -1.0F))));
  EXPECT_THAT(topk.at(2), Optional(ElementsAre(Pair(8, -2.0F), Pair(9, -3.0F))));
}

TEST(SampleResponseJson, NamesTheLogprobAtFault) {
  EXPECT_THAT(read_prompt("prompt_logprobs", "[-1,true]"),
              is_refused("prompt_logprobs[1]: expected a number, found true"));
  EXPECT_THAT(read_prompt("prompt_logprobs", "7"),
              is_refused("prompt_logprobs: expected an array of numbers, found an integer"));
  EXPECT_THAT(read_prompt("prompt_logprobs", "[1e39]"),
              is_refused("prompt_logprobs[0]: expected a number of 32-bit float range"));
}

TEST(SampleResponseJson, NamesTheCellAtFault) {
  constexpr std::string_view kPair = "expected a pair of a token and a logprob";
  const auto refused = [](std::string_view rows) {
    return read_prompt("topk_prompt_logprobs", rows);
  };
  for (const char* cell : {"7", "[]", "[1]", "[1,-1,2]"}) {
    EXPECT_THAT(refused(base::concat("[[[1,-1],", cell, "]]")),
                is_refused(base::concat("topk_prompt_logprobs[0][1]: ", kPair)))
        << cell;
  }
  EXPECT_THAT(
      refused("[[[2147483648,-1]]]"),
      is_refused(
          "topk_prompt_logprobs[0][0][0]: expected an integer of 32 bits, found an integer"));
  EXPECT_THAT(refused("[7]"),
              is_refused("topk_prompt_logprobs[0]: expected an array of pairs, found an integer"));
}

TEST(SampleResponseJson, RefusesToWriteMatricesThatAreCutShort) {
  const SampleResponse response = {
      .topk_prompt_logprobs = TopkLogprobs{.token_ids = {1}, .logprobs = {}, .k = 1, .length = 1}};
  EXPECT_FALSE(encode_json(response).ok());
}

}  // namespace
}  // namespace tinker::wire::sample_response_json_test
