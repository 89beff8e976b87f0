// Traced losses (PROTOCOL 7.14, 9.40).

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/custom_loss.h"
#include "wire/json.h"

namespace tinker::wire::custom_loss_json_test {
namespace {

using ::testing::StartsWith;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOkAndHolds;

std::string node_with(std::string_view args, std::string_view kwargs) {
  return R"({"op":"call_function","name":"n","target":"t","args":)" + std::string(args) +
         R"(,"kwargs":)" + std::string(kwargs) + "}";
}

TEST(CustomLossJson, AlwaysSendsAllFiveMembersOfANode) {  // 7.14
  EXPECT_THAT(
      echo<CustomLossNode>(R"({"op":"placeholder","name":"x","target":"x"})"),
      IsOkAndHolds(R"({"op":"placeholder","name":"x","target":"x","args":[],"kwargs":{}})"));
}

TEST(CustomLossJson, KeepsEveryEncodedArgument) {  // 7.14: both tables
  const std::string body = node_with(
      R"([null,true,-3,0.5,"text",[1,[2]],{"ref":"mul"},{"tuple":[{"ref":"a"},1]},)"
      R"({"dict":{"k":{"ref":"b"}}},{"slice":[1,null,{"ref":"c"}]},{"ellipsis":true},)"
      R"({"float":"inf"},{"float":"-inf"},{"float":"nan"},{"dtype":"float32"},)"
      R"({"device":"cpu"},{"layout":"strided"},{"memory_format":"contiguous_format"},"cpu"])",
      "{}");
  EXPECT_THAT(echo<CustomLossNode>(body), IsOkAndHolds(body));
}

TEST(CustomLossJson, KeepsNullsInArguments) {  // PROTOCOL 4.4
  const std::string body = node_with(R"([{"slice":[1,null,null]}])", R"({"dim":null})");
  EXPECT_THAT(echo<CustomLossNode>(body), IsOkAndHolds(body));
}

TEST(CustomLossJson, KeepsNumbersAsTheyWere) {  // 4.6
  const std::string body = node_with("[1,1.0,1e-12]", R"({"_stacklevel":3,"p":2.0})");
  EXPECT_THAT(echo<CustomLossNode>(body), IsOkAndHolds(body));
}

TEST(CustomLossJson, KnowsEveryOperation) {  // 7.1
  for (const char* op :
       {"placeholder", "get_attr", "call_function", "call_method", "call_module", "output"}) {
    const std::string body =
        R"({"op":")" + std::string(op) + R"(","name":"n","target":"t","args":[],"kwargs":{}})";
    EXPECT_THAT(echo<CustomLossNode>(body), IsOkAndHolds(body));
  }
  EXPECT_THAT(decode_json<CustomLossNode>(R"({"op":"jump","name":"n","target":"t"})"),
              IsError(ErrorCode::invalid_argument, StartsWith("op: expected one of")));
}

TEST(CustomLossJson, KnowsOneFormat) {  // 7.14: "format":1
  EXPECT_THAT(echo<CustomLossGraph>(R"({"nodes":[]})"), IsOkAndHolds(R"({"format":1,"nodes":[]})"));
  EXPECT_THAT(decode_json<CustomLossGraph>(R"({"format":2,"nodes":[]})"),
              IsError(ErrorCode::invalid_argument, StartsWith("format: expected 1")));
}

TEST(CustomLossJson, KnowsThreeRanks) {  // 7.1
  for (const char* rank : {"0", "1", "2"}) {
    const std::string body = R"({"name":"x","rank":)" + std::string(rank) + "}";
    EXPECT_THAT(echo<CustomLossInput>(body), IsOkAndHolds(body));
  }
  EXPECT_THAT(decode_json<CustomLossInput>(R"({"name":"x","rank":3})"),
              IsError(ErrorCode::invalid_argument, "rank: expected 0, 1 or 2, found 3"));
  EXPECT_THAT(decode_json<CustomLossInput>(R"({"name":"x","rank":-1})"),
              IsError(ErrorCode::invalid_argument, "rank: expected 0, 1 or 2, found -1"));
  EXPECT_THAT(encode_json(CreateCustomLossRequest{.inputs = {{.name = "x", .rank = 3}}}),
              IsError(ErrorCode::invalid_argument, "inputs[0].rank: expected 0, 1 or 2, found 3"));
}

TEST(CustomLossJson, RefusesArgumentsOfAnotherShape) {
  EXPECT_THAT(decode_json<CustomLossNode>(node_with("{}", "{}")),
              IsError(ErrorCode::invalid_argument, "args: expected an array, found an object"));
  EXPECT_THAT(decode_json<CustomLossNode>(node_with("[]", "[]")),
              IsError(ErrorCode::invalid_argument, "kwargs: expected an object, found an array"));
}

TEST(CustomLossJson, AcceptsTheNameOfALambda) {  // 9.40
  constexpr std::string_view kBody =
      R"({"session_id":"s","custom_loss_seq_id":0,"name":"<lambda>","inputs":[],)"
      R"("graph":{"format":1,"nodes":[]},"type":"create_custom_loss"})";
  EXPECT_THAT(echo<CreateCustomLossRequest>(kBody), IsOkAndHolds(kBody));
}

}  // namespace
}  // namespace tinker::wire::custom_loss_json_test
