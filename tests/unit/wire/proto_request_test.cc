// ForwardBackwardRequest (PROTOBUF 3): the envelope and its loss config.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/proto_bytes.h"
#include "tinker/testing/matchers.h"
#include "wire/proto.h"

namespace tinker::wire::proto_request_test {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Not;
using ::testing::StartsWith;
using namespace tinker::testing;  // NOLINT(google-build-using-namespace): the byte builders

/// PROTOBUF 3.3: model s-1:train:0, sequence number 1, one datum, cross entropy; 116 bytes.
constexpr std::string_view kWorkedExample =
    "0a0b732d313a747261696e3a3010011a540a0c0a0a0a080a0000000b00000012280a0d7461726765745f746f6b656e"
    "7312170a100b000000000000000c000000000000001802220102121a0a0777656967687473120f0a08000000000000"
    "803f1801220102220d63726f73735f656e74726f7079";

ForwardBackwardRequest worked_example() {
  return {.model_id = "s-1:train:0",
          .seq_id = 1,
          .data = {{
              .model_input = ModelInput::from_tokens({10, 11}),
              .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>{11, 12}},
                                 {"weights", std::vector<float>{0.0F, 1.0F}}},
          }}};
}

std::string encoded(const ForwardBackwardRequest& request) {
  return to_hex(encode_proto(request).value());
}

ForwardBackwardRequest decoded(std::string body) {
  return decode_proto<ForwardBackwardRequest>(std::move(body)).value();
}

// ---- 3.3

TEST(ForwardBackwardRequestProto, WritesTheWorkedExample) {  // PROTOBUF 3.3
  EXPECT_EQ(encoded(worked_example()), kWorkedExample);
  EXPECT_EQ(encode_proto(worked_example())->size(), 116U);
}

TEST(ForwardBackwardRequestProto, ReadsTheWorkedExample) {  // PROTOBUF 3.3
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(hex(kWorkedExample)),
              IsOkAndHolds(worked_example()));
}

TEST(ForwardBackwardRequestProto, AppendsForwardOnly) {  // PROTOBUF 3.3: appends 30 01
  auto request = worked_example();
  request.forward_only = true;
  EXPECT_EQ(encoded(request), std::string(kWorkedExample) + "3001");
  EXPECT_EQ(decoded(hex(kWorkedExample) + hex("3001")), request);
}

TEST(ForwardBackwardRequestProto, ReadsAnExplicitFalse) {  // PROTOBUF 3: false leaves it off
  EXPECT_FALSE(decoded(hex("3000")).forward_only);
}

TEST(ForwardBackwardRequestProto, DoesNotDependOnTheOrderOfMapsAndFields) {  // PROTOBUF 3.1
  const std::string targets = entry(
      2, "target_tokens", field(1, raw<std::int64_t>({11, 12})) + int_field(3, 2) + field(4, "\2"));
  const std::string weights =
      entry(2, "weights", field(4, "\2") + int_field(3, 1) + field(1, raw<float>({0.0F, 1.0F})));
  const std::string input = field(1, field(1, field(1, raw<std::int32_t>({10, 11}))));

  const std::string body = field(4, "cross_entropy") + field(3, weights + targets + input) +
                           int_field(2, 1) + field(1, "s-1:train:0");

  EXPECT_EQ(decoded(body), worked_example());
}

TEST(ForwardBackwardRequestProto, ReadsAMapEntryWithItsValueFirst) {
  const std::string tensor = field(1, raw<float>({1.0F})) + int_field(3, 1);
  const auto request = decoded(field(3, field(2, field(2, tensor) + field(1, "weights"))));
  EXPECT_THAT(request.data.at(0).loss_fn_inputs.at("weights").floats(), ElementsAre(1.0F));
}

TEST(ForwardBackwardRequestProto, KeepsTheOrderOfDatums) {  // PROTOBUF 3: in order
  ForwardBackwardRequest request;
  for (std::int32_t i = 0; i < 5; ++i) {
    request.data.push_back({.model_input = ModelInput::from_tokens({i})});
  }
  EXPECT_EQ(decoded(encode_proto(request).value()), request);
}

// ---- Scalars

TEST(ForwardBackwardRequestProto, LeavesAMissingNumberOut) {  // PROTOBUF 3: written as 0
  EXPECT_EQ(encoded({.loss_fn = LossFn::ppo}), "220370706f");
  EXPECT_EQ(decoded(hex("220370706f")).seq_id, 0);
}

TEST(ForwardBackwardRequestProto, RefusesANumberBeyondThirtyTwoBits) {  // seq_id is int32
  EXPECT_THAT(encode_proto(ForwardBackwardRequest{.seq_id = 2147483647}), IsOk());
  EXPECT_THAT(encode_proto(ForwardBackwardRequest{.seq_id = 2147483648}),
              IsError(ErrorCode::invalid_argument,
                      "seq_id: expected an integer of 32 bits, found 2147483648"));
  EXPECT_THAT(encode_proto(ForwardBackwardRequest{.seq_id = -2147483649}), Not(IsOk()));
}

TEST(ForwardBackwardRequestProto, ReadsNegativeNumbers) {
  EXPECT_EQ(decoded(int_field(2, static_cast<std::uint64_t>(-5))).seq_id, -5);
}

TEST(ForwardBackwardRequestProto, KnowsEveryLoss) {  // PROTOCOL 7.1
  for (const char* name : {"cross_entropy",
                           "importance_sampling",
                           "ppo",
                           "cispo",
                           "dro",
                           "gspo",
                           "stable_reinforce",
                           "custom"}) {
    const auto request = decoded(field(4, name));
    EXPECT_TRUE(request.loss_fn.known().has_value()) << name;
    EXPECT_EQ(encode_proto(request).value(), field(4, name));
  }
}

TEST(ForwardBackwardRequestProto, KeepsALossNobodyKnows) {  // PROTOCOL 7.1: goes out as given
  const auto request = decoded(field(4, "moonshine"));
  EXPECT_EQ(request.loss_fn.known(), std::nullopt);
  EXPECT_EQ(encode_proto(request).value(), field(4, "moonshine"));
}

// proto3: an absent string is empty. A server that read a loss into it would train with it.
TEST(ForwardBackwardRequestProto, DoesNotInventALoss) {
  EXPECT_EQ(decoded(field(1, "m")).loss_fn.text(), "");
}

TEST(ForwardBackwardRequestProto, RefusesTextThatIsNotUtf8) {
  EXPECT_THAT(encode_proto(ForwardBackwardRequest{.model_id = "\xff"}),
              IsError(ErrorCode::invalid_argument, "model_id: expected UTF-8 text"));
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(field(1, "\xff")),
              IsError(ErrorCode::invalid_argument, "model_id: expected UTF-8 text"));
}

TEST(ForwardBackwardRequestProto, TakesTheLastOfRepeatedScalars) {
  const auto request = decoded(field(1, "a") + field(1, "b") + int_field(2, 1) + int_field(2, 2));
  EXPECT_EQ(request.model_id, "b");
  EXPECT_EQ(request.seq_id, 2);
}

TEST(ForwardBackwardRequestProto, IsNothingWhenEmpty) {
  const auto request = decoded("");
  EXPECT_EQ(request.model_id, "");
  EXPECT_TRUE(request.data.empty());
  EXPECT_TRUE(request.loss_fn_config.empty());
}

// ---- Loss config: loss_fn_config (5) and loss_fn_config_v2 (7)

std::string encoded_config(LossFnConfig config) {
  constexpr std::size_t kLossFn = 30;  // digits of field 4, "cross_entropy"
  return encoded({.loss_fn_config = std::move(config)}).substr(kLossFn);
}

TEST(LossConfigProto, WritesANumberTwice) {  // PROTOBUF 3.3: {"a": 1}
  EXPECT_EQ(encoded_config({{"a", 1.0}}),
            "2a0c0a016111000000000000f03f"
            "3a0e0a0161120909000000000000f03f");
}

TEST(LossConfigProto, WritesATextOnce) {  // PROTOBUF 3.3: {"b": "x"}
  EXPECT_EQ(encoded_config({{"b", "x"}}), "3a080a01621203120178");
}

TEST(LossConfigProto, WritesAnEmptyText) {  // PROTOBUF 3.3: {"a": ""}
  EXPECT_EQ(encoded_config({{"a", ""}}), "3a070a016112021200");
}

TEST(LossConfigProto, ReadsTheExamplesBack) {  // PROTOBUF 3.3
  EXPECT_EQ(
      decoded(hex("2a0c0a016111000000000000f03f 3a0e0a0161120909000000000000f03f")).loss_fn_config,
      (LossFnConfig{{"a", 1.0}}));
  EXPECT_EQ(decoded(hex("3a080a01621203120178")).loss_fn_config, (LossFnConfig{{"b", "x"}}));
  EXPECT_EQ(decoded(hex("3a070a016112021200")).loss_fn_config, (LossFnConfig{{"a", ""}}));
}

TEST(LossConfigProto, WritesZero) {  // PROTOBUF 3: 0 is written, oneof presence
  EXPECT_EQ(encoded_config({{"a", 0.0}}),
            "2a0c0a0161110000000000000000"
            "3a0e0a01611209090000000000000000");
}

TEST(LossConfigProto, MixesNumbersAndTexts) {
  const LossFnConfig config = {{"eps", 0.2}, {"mode", "token"}, {"zero", 0.0}};
  const auto body = encode_proto(ForwardBackwardRequest{.loss_fn_config = config}).value();
  EXPECT_EQ(decoded(body).loss_fn_config, config);
}

TEST(LossConfigProto, CarriesNan) {  // PROTOBUF 3: NaN allowed
  const auto body = encode_proto(ForwardBackwardRequest{
      .loss_fn_config = {{"nan", std::nan("")},
                         {"inf", -std::numeric_limits<double>::infinity()}}});
  ASSERT_THAT(body, IsOk());
  const auto config = decoded(*body).loss_fn_config;
  EXPECT_TRUE(std::isnan(std::get<double>(config.at("nan"))));
  EXPECT_EQ(std::get<double>(config.at("inf")), -std::numeric_limits<double>::infinity());
}

TEST(LossConfigProto, IsTheSameWhenAbsentAndEmpty) {  // PROTOBUF 3
  EXPECT_EQ(encoded_config({}), "");
}

TEST(LossConfigProto, OfACustomLossIsOneText) {  // PROTOBUF 3: field 5 empty
  EXPECT_EQ(encode_proto(ForwardBackwardRequest{.loss_fn = LossFn::custom,
                                                .loss_fn_config = {{"loss_id", "loss-1"}}})
                .value(),
            field(4, "custom") + entry(7, "loss_id", field(2, "loss-1")));
}

TEST(LossConfigProto, FallsBackToTheOldField) {  // PROTOBUF 3: v2 when non-empty, else the old one
  const auto request = decoded(hex("2a0c0a016111000000000000f03f"));
  EXPECT_EQ(request.loss_fn_config, (LossFnConfig{{"a", 1.0}}));
  EXPECT_THAT(encoded(request), EndsWith("3a0e0a0161120909000000000000f03f"));  // WIRE_TOOL: both
}

TEST(LossConfigProto, ReadsTheNewFieldAloneWhicheverComesFirst) {  // PROTOBUF 3
  const std::string legacy = field(5, field(1, "a") + double_field(2, 1.0)) +
                             field(5, field(1, "gone") + double_field(2, 9.0));
  const std::string newer = entry(7, "a", double_field(1, 2.0)) + entry(7, "b", field(2, "x"));
  const LossFnConfig expected = {{"a", 2.0}, {"b", "x"}};

  EXPECT_EQ(decoded(legacy + newer).loss_fn_config, expected);
  EXPECT_EQ(decoded(newer + legacy).loss_fn_config, expected);
}

TEST(LossConfigProto, RefusesAValueWithNeitherArm) {  // PROTOBUF 3: reject
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(entry(7, "a", "")),
              IsError(ErrorCode::invalid_argument,
                      "loss_fn_config_v2.a: expected a number or a text, found neither"));
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(field(7, field(1, "a"))), Not(IsOk()));
}

TEST(LossConfigProto, TakesTheLastArm) {  // oneof
  const std::string number = double_field(1, 2.0);
  const std::string text = field(2, "x");
  EXPECT_EQ(decoded(entry(7, "a", number + text)).loss_fn_config, (LossFnConfig{{"a", "x"}}));
  EXPECT_EQ(decoded(entry(7, "a", text + number)).loss_fn_config, (LossFnConfig{{"a", 2.0}}));
}

TEST(LossConfigProto, TakesTheLastEntryOfAKey) {
  EXPECT_EQ(
      decoded(entry(7, "a", field(2, "x")) + entry(7, "a", double_field(1, 1.0))).loss_fn_config,
      (LossFnConfig{{"a", 1.0}}));
}

TEST(LossConfigProto, ReadsAnEntryOfTheOldFieldWithoutAValueAsZero) {  // proto3 default
  EXPECT_EQ(decoded(field(5, field(1, "a"))).loss_fn_config, (LossFnConfig{{"a", 0.0}}));
}

TEST(LossConfigProto, RefusesTextsThatAreNotUtf8) {
  EXPECT_THAT(encode_proto(ForwardBackwardRequest{.loss_fn_config = {{"a", "\xff"}}}),
              IsError(ErrorCode::invalid_argument, "loss_fn_config_v2.a: expected UTF-8 text"));
  EXPECT_THAT(decode_proto<ForwardBackwardRequest>(entry(7, "a", field(2, "\xff"))),
              IsError(ErrorCode::invalid_argument, "loss_fn_config_v2.a: expected UTF-8 text"));
}

TEST(LossConfigProto, RefusesAnUnknownArmWhateverThePolicy) {  // it would change the arithmetic
  for (const Policy policy : {Policy::strict, Policy::lenient}) {
    EXPECT_THAT(decode_proto<ForwardBackwardRequest>(
                    entry(7, "a", double_field(1, 1.0) + int_field(3, 1)), {.policy = policy}),
                IsError(ErrorCode::invalid_argument, StartsWith("loss_fn_config_v2.a.#3: ")));
  }
}

// A number of another wire type must not read as 0: it would change the loss.
TEST(LossConfigProto, RefusesAValueOfAnotherWireType) {
  const std::string entry_of_four_bytes = field(1, "kl_coeff") + fixed32_field(2, 1);
  for (const Policy policy : {Policy::strict, Policy::lenient}) {
    EXPECT_THAT(
        decode_proto<ForwardBackwardRequest>(field(5, entry_of_four_bytes), {.policy = policy}),
        IsError(ErrorCode::invalid_argument, StartsWith("loss_fn_config.kl_coeff.#2: ")));
  }
}

}  // namespace
}  // namespace tinker::wire::proto_request_test
