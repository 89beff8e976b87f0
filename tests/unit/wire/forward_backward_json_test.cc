// Training data and its results as JSON: the forms of SDK 0.24 (PROTOCOL 11).

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/datum.h"
#include "tinker/types/forward_backward.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::wire::forward_backward_json_test {
namespace {

using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOk;
using tinker::testing::IsOkAndHolds;

constexpr std::string_view kDatum =
    R"({"loss_fn_inputs":{"target_tokens":{"data":[11,12],"dtype":"int64","shape":[2]},)"
    R"("weights":{"data":[0.0,1.0],"dtype":"float32","shape":[2]}},)"
    R"("model_input":{"chunks":[{"tokens":[10,11],"type":"encoded_text"}]}})";

std::string request(std::string_view member) {
  return base::concat(R"({")",
                      member,
                      R"(":{"data":[)",
                      kDatum,
                      R"(],"loss_fn":"ppo","loss_fn_config":{"clip_low_threshold":0.8}},)",
                      R"("model_id":"0f8fad5b:train:0","seq_id":7})");
}

auto is_refused(std::string_view message) {
  return IsError(ErrorCode::invalid_argument, std::string(message));
}

ForwardBackwardRequest decoded(const std::string& text) {
  return decode_json<ForwardBackwardRequest>(text).value();
}

TEST(ForwardBackwardJson, ReadsWhatTheProtobufFormSays) {
  ForwardBackwardRequest expected = {
      .model_id = "0f8fad5b:train:0",
      .seq_id = 7,
      .data = {{.model_input = ModelInput::from_tokens({10, 11}),
                .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{11, 12}},
                                   {"weights", std::vector<float>{0.0F, 1.0F}}}}},
      .loss_fn = LossFn::ppo,
      .loss_fn_config = {{"clip_low_threshold", 0.8}}};
  EXPECT_EQ(decoded(request("forward_backward_input")), expected);
}

TEST(ForwardBackwardJson, WritesWhatItReads) {
  const std::string text = request("forward_backward_input");
  EXPECT_THAT(echo<ForwardBackwardRequest>(text), IsOkAndHolds(text));
}

TEST(ForwardBackwardJson, TellsAForwardPassByItsMember) {
  const std::string text = request("forward_input");
  EXPECT_TRUE(decoded(text).forward_only);
  EXPECT_THAT(echo<ForwardBackwardRequest>(text), IsOkAndHolds(text));
}

TEST(ForwardBackwardJson, ReadsTextsAmongTheSettings) {
  const auto read =
      decoded(R"({"forward_backward_input":{"data":[],"loss_fn":"custom","loss_fn_config":)"
              R"({"loss_id":"s:loss:0","beta":1}},"model_id":"m","seq_id":1})");
  const LossFnConfig expected = {{"loss_id", "s:loss:0"}, {"beta", 1.0}};
  EXPECT_EQ(read.loss_fn_config, expected);
}

TEST(ForwardBackwardJson, TakesAnAbsentAndANullConfigForAnEmptyOne) {
  for (const char* config : {"", R"(,"loss_fn_config":null)"}) {
    const auto text =
        base::concat(R"({"forward_backward_input":{"data":[],"loss_fn":"cross_entropy")",
                     config,
                     R"(},"model_id":"m","seq_id":1})");
    EXPECT_TRUE(decoded(text).loss_fn_config.empty()) << text;
  }
}

TEST(ForwardBackwardJson, NamesTheMemberAtFault) {
  const auto refused = [](std::string_view text) {
    return decode_json<ForwardBackwardRequest>(text);
  };
  EXPECT_THAT(refused(R"({"model_id":"m","seq_id":1})"),
              is_refused("forward_backward_input: expected either forward_backward_input or "
                         "forward_input, found neither"));
  EXPECT_THAT(refused(R"({"forward_input":{},"forward_backward_input":{}})"),
              is_refused("forward_backward_input: expected either forward_backward_input or "
                         "forward_input, found both"));
  EXPECT_THAT(refused(R"({"forward_input":7})"),
              is_refused("forward_input: expected an object, found an integer"));
  EXPECT_THAT(refused(R"({"forward_input":{"loss_fn":"ppo"},"model_id":"m","seq_id":1})"),
              is_refused("forward_input.data: expected an array, found no such member"));
  EXPECT_THAT(refused(R"({"forward_input":{"data":[],"loss_fn":"ppo"},"model_id":"m"})"),
              is_refused("seq_id: expected an integer of 64 bits, found no such member"));
  EXPECT_THAT(
      refused(R"({"forward_input":{"data":[],"loss_fn":"ppo","loss_fn_config":{"a":[]}}})"),
      is_refused("forward_input.loss_fn_config.a: expected a number or a string, found an array"));
}

TEST(DatumJson, HasNoFormForSpans) {
  Datum datum = {.model_input_spans = {{.sequence_id = "s", .length = 1}}};
  EXPECT_THAT(encode_json(datum),
              is_refused("model_input_spans: expected no spans, because they have no JSON form"));
}

// ---- Results

ForwardBackwardOutput output() {
  return {.loss_fn_output_type = "ArrayRecord",
          .loss_fn_outputs = {{{"logprobs", std::vector<float>{-0.5F, -2.0F}}},
                              {{"logprobs", std::vector<float>{-1.0F}}}},
          .metrics = {{"loss:sum", 3.5}}};
}

constexpr std::string_view kOutput =
    R"({"loss_fn_output_type":"ArrayRecord","loss_fn_outputs":[)"
    R"({"logprobs":{"data":[-0.5,-2.0],"dtype":"float32","shape":[2]}},)"
    R"({"logprobs":{"data":[-1.0],"dtype":"float32","shape":[1]}}],"metrics":{"loss:sum":3.5}})";

TEST(ForwardBackwardOutputJson, WritesWhatTheOlderClientReads) {
  EXPECT_THAT(encode_json(output()), IsOkAndHolds(std::string(kOutput)));
}

TEST(ForwardBackwardOutputJson, IsTheSameByWayOfProtobuf) {
  const auto read = decode_proto<ForwardBackwardOutput>(encode_proto(output()).value());
  ASSERT_THAT(read, IsOk());
  EXPECT_THAT(encode_json(*read), IsOkAndHolds(std::string(kOutput)));
}

TEST(ForwardBackwardOutputJson, ReadsWhatItWrites) {
  EXPECT_THAT(echo<ForwardBackwardOutput>(kOutput), IsOkAndHolds(std::string(kOutput)));
}

TEST(ForwardBackwardOutputJson, WritesMetricsThatAreNoNumbersAsTexts) {  // PROTOCOL 5
  const ForwardBackwardOutput undefined = {
      .loss_fn_output_type = "ArrayRecord",
      .metrics = {{"loss:sum", std::numeric_limits<double>::quiet_NaN()}}};
  EXPECT_THAT(encode_json(undefined),
              IsOkAndHolds(R"({"loss_fn_output_type":"ArrayRecord","loss_fn_outputs":[],)"
                           R"("metrics":{"loss:sum":"NaN"}})"));
}

}  // namespace
}  // namespace tinker::wire::forward_backward_json_test
