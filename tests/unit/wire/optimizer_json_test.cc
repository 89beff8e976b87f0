// Optimizers: which family a model has, and the parameters of one step (PROTOCOL 7.6, 7.12, 7.13).

#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/model.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/weights.h"
#include "wire/json.h"

namespace tinker::wire::optimizer_json_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOk;
using tinker::testing::IsOkAndHolds;

// ---- The family (7.12)

std::string create_model(std::string_view config) {
  return R"({"session_id":"s","model_seq_id":0,"base_model":"b",)" +
         (config.empty() ? "" : R"("optimizer_config":)" + std::string(config) + ",") +
         R"("type":"create_model"})";
}

OptimizerConfig config_of(std::string_view config) {
  return decode_json<CreateModelRequest>(create_model(config)).value().optimizer_config;
}

TEST(OptimizerConfigJson,
     IsAdamWhenAbsentOrEmpty) {  // 7.12, 9.9: absent from older clients = adamw
  EXPECT_EQ(config_of(""), OptimizerConfig(AdamOptimizerConfig{}));
  EXPECT_EQ(config_of("{}"), OptimizerConfig(AdamOptimizerConfig{}));
  EXPECT_EQ(config_of(R"({"type":"adamw"})"), OptimizerConfig(AdamOptimizerConfig{}));
}

TEST(OptimizerConfigJson, IsAlwaysSentWithAModel) {  // 9.9: always sent
  EXPECT_THAT(encode_json(CreateModelRequest{}),
              IsOkAndHolds(HasSubstr(R"("optimizer_config":{"type":"adamw"})")));
}

TEST(OptimizerConfigJson, IsOmittedFromALoadUnlessGiven) {  // 9.15
  constexpr std::string_view kBody =
      R"({"session_id":"s","model_seq_id":0,"path":"tinker://a/weights/b","optimizer":false,)"
      R"("optimizer_config":{"type":"dimuon","version":1},"type":"load_weights"})";
  EXPECT_THAT(encode_json(LoadWeightsRequest{.path = "p"}),
              IsOkAndHolds(R"({"path":"p","optimizer":false,"type":"load_weights"})"));
  EXPECT_THAT(echo<LoadWeightsRequest>(kBody), IsOkAndHolds(kBody));
}

TEST(OptimizerConfigJson, RefusesNull) {  // 7.12: null is invalid
  EXPECT_THAT(
      decode_json<WeightsInfoResponse>(
          R"({"base_model":"b","is_lora":true,"optimizer_config":null})"),
      IsError(ErrorCode::invalid_response, "optimizer_config: expected an object, found null"));
}

TEST(OptimizerConfigJson, IsAdamInAnAnswerThatLacksIt) {  // 7.12
  for (const char* body : {R"({"base_model":"b","is_lora":true})",
                           R"({"base_model":"b","is_lora":true,"optimizer_config":{}})"}) {
    EXPECT_EQ(decode_json<WeightsInfoResponse>(body).value().optimizer_config,
              OptimizerConfig(AdamOptimizerConfig{}));
  }
}

TEST(OptimizerConfigJson, SendsTheVersionOfDimuon) {  // 7.12: always sent
  EXPECT_THAT(echo<CreateModelRequest>(create_model(R"({"type":"dimuon"})")),
              IsOkAndHolds(create_model(R"({"type":"dimuon","version":1})")));
}

TEST(OptimizerConfigJson, KnowsOneVersionOfDimuon) {  // 7.12: only 1
  EXPECT_THAT(decode_json<DimuonOptimizerConfig>(R"({"type":"dimuon","version":2})"),
              IsError(ErrorCode::invalid_argument, "version: expected 1, found 2"));
  EXPECT_THAT(
      encode_json(CreateModelRequest{.optimizer_config = DimuonOptimizerConfig{2}}),
      IsError(ErrorCode::invalid_argument, "optimizer_config.version: expected 1, found 2"));
}

TEST(OptimizerConfigJson, KeepsOtherFamiliesUnchanged) {  // 7.12: kept and sent back unchanged
  const std::string body = create_model(
      R"({"type":"lion","z":1,"a":1.0,"nested":{"x":[null,true]},"big":18446744073709551615})");
  EXPECT_THAT(echo<CreateModelRequest>(body), IsOkAndHolds(body));
}

TEST(OptimizerConfigJson, KeepsVariantsOfKnownFamilies) {
  const std::string body = create_model(R"({"type":"dimuon","version":2})");
  EXPECT_THAT(echo<CreateModelRequest>(body), IsOkAndHolds(body));
}

TEST(OptimizerConfigJson, DropsNullsOfOtherFamiliesAtTheTopOnly) {  // 4.2, 7.13
  EXPECT_THAT(echo<CreateModelRequest>(create_model(R"({"type":"lion","a":null,"b":{"c":null}})")),
              IsOkAndHolds(create_model(R"({"type":"lion","b":{"c":null}})")));
}

TEST(OptimizerConfigJson, NeedsATypeWhenItHasMembers) {
  EXPECT_THAT(decode_json<CreateModelRequest>(create_model(R"({"version":1})")),
              IsError(ErrorCode::invalid_argument,
                      "optimizer_config.type: expected a string, found no such member"));
  EXPECT_THAT(decode_json<CreateModelRequest>(create_model(R"({"type":3})")),
              IsError(ErrorCode::invalid_argument,
                      "optimizer_config.type: expected a string, found an integer"));
}

TEST(OptimizerConfigJson, OfAdamHasNoOtherMember) {  // 7.12: strict when the caller builds it
  EXPECT_THAT(decode_json<AdamOptimizerConfig>(R"({"type":"adamw","x":1})"),
              IsError(ErrorCode::invalid_argument, StartsWith("x: unknown member")));
}

// ---- One step (7.6, 7.13)

std::string step(std::string_view member, std::string_view params) {
  return R"({"model_id":"m","seq_id":2,"type":"optim_step",")" + std::string(member) + R"(":)" +
         std::string(params) + "}";
}

TEST(OptimStepJson, SendsAllSixNumbersOfAdam) {  // 7.6
  EXPECT_THAT(encode_json(AdamParams{.learning_rate = 0.5}),
              IsOkAndHolds(R"({"learning_rate":0.5,"beta1":0.9,"beta2":0.95,"eps":1e-12,)"
                           R"("weight_decay":0.0,"grad_clip_norm":0.0})"));
}

TEST(OptimStepJson, HasTheDefaultsOfAdam) {  // 7.6
  EXPECT_THAT(decode_json<AdamParams>("{}"),
              IsOkAndHolds(AdamParams{.learning_rate = 0.0001,
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .eps = 1e-12,
                                      .weight_decay = 0.0,
                                      .grad_clip_norm = 0.0}));
}

TEST(OptimStepJson, ReadsTheOrderOfOldClients) {  // 9.13: 0.25.0 puts adam_params first
  const auto old_order = decode_json<OptimStepRequest>(
      R"({"adam_params":{"learning_rate":0.0001,"beta1":0.9,"beta2":0.95,"eps":1e-12,)"
      R"("weight_decay":0.0,"grad_clip_norm":0.0},"model_id":"0f8fad5b:train:0","seq_id":2,)"
      R"("type":"optim_step"})");

  EXPECT_THAT(old_order,
              IsOkAndHolds(OptimStepRequest{
                  .optim_params = AdamParams{}, .model_id = "0f8fad5b:train:0", .seq_id = 2}));
}

TEST(OptimStepJson, PutsTheParametersLast) {  // 4.5
  EXPECT_THAT(
      encode_json(OptimStepRequest{.optim_params = AdamParams{}, .model_id = "m", .seq_id = 1}),
      IsOkAndHolds(
          StartsWith(R"({"model_id":"m","seq_id":1,"type":"optim_step","adam_params":{)")));
}

TEST(OptimStepJson, OmitsAnUnknownNumber) {  // 9.13: omitted if null
  EXPECT_THAT(encode_json(OptimStepRequest{.model_id = "m"}),
              IsOkAndHolds(StartsWith(R"({"model_id":"m","type":"optim_step",)")));
}

TEST(OptimStepJson, HasParametersOfOneFamily) {  // 9.13: refuse both and neither
  EXPECT_THAT(decode_json<OptimStepRequest>(R"({"model_id":"m"})"),
              IsError(ErrorCode::invalid_argument,
                      "adam_params: expected either adam_params or optimizer_params, found "
                      "neither"));
  EXPECT_THAT(decode_json<OptimStepRequest>(
                  R"({"model_id":"m","adam_params":{},"optimizer_params":{"type":"x"}})"),
              IsError(ErrorCode::invalid_argument,
                      "optimizer_params: expected either adam_params or optimizer_params, found "
                      "both"));
}

TEST(OptimStepJson, FillsInTheDefaultsOfDimuon) {  // 7.13
  EXPECT_THAT(
      echo<OptimStepRequest>(step("optimizer_params", R"({"type":"dimuon","learning_rate":1})")),
      IsOkAndHolds(step("optimizer_params",
                        R"({"type":"dimuon","learning_rate":1.0,"grad_clip_norm":0.0,)"
                        R"("beta1":0.9})")));
}

TEST(OptimStepJson, ChecksDimuon) {  // 7.13: the column of local checks
  EXPECT_THAT(decode_json<DimuonParams>("{}"),
              IsError(ErrorCode::invalid_argument, StartsWith("learning_rate: expected")));
  EXPECT_THAT(
      decode_json<DimuonParams>(R"({"learning_rate":-0.1})"),
      IsError(ErrorCode::invalid_argument, "learning_rate: expected at least 0, found -0.1"));
  EXPECT_THAT(
      decode_json<DimuonParams>(R"({"learning_rate":1,"beta1":1})"),
      IsError(ErrorCode::invalid_argument, "beta1: expected at least 0 and below 1, found 1"));
  EXPECT_THAT(decode_json<DimuonParams>(R"({"learning_rate":1,"beta1":-0.5})"),
              IsError(ErrorCode::invalid_argument, StartsWith("beta1: ")));
  EXPECT_THAT(decode_json<DimuonParams>(R"({"learning_rate":0,"beta1":0,"grad_clip_norm":-1})"),
              IsOk());
}

TEST(OptimStepJson, ChecksDimuonBeforeSending) {  // 7.13: finite
  const auto encode = [](DimuonParams params) {
    return encode_json(OptimStepRequest{.optim_params = params, .model_id = "m"});
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(encode({.learning_rate = -1.0}),
              IsError(ErrorCode::invalid_argument,
                      "optimizer_params.learning_rate: expected at least 0, found -1"));
  EXPECT_THAT(encode({.learning_rate = kInfinity}),
              IsError(ErrorCode::invalid_argument, StartsWith("optimizer_params.learning_rate: ")));
  EXPECT_THAT(encode({.learning_rate = 1.0, .grad_clip_norm = kInfinity}),
              IsError(ErrorCode::invalid_argument, StartsWith("optimizer_params.grad_clip_norm")));
}

TEST(OptimStepJson, KeepsOtherFamiliesAsTyped) {  // 4.6: print as the caller typed them
  const std::string body =
      step("optimizer_params", R"({"type":"lion","lr":1,"decay":1.0,"groups":[{"k":null}]})");
  EXPECT_THAT(echo<OptimStepRequest>(body), IsOkAndHolds(body));
}

TEST(OptimStepJson, DropsNullsOfOtherFamilies) {  // 7.13: null members are dropped
  EXPECT_THAT(echo<OptimStepRequest>(step("optimizer_params", R"({"type":"lion","lr":null})")),
              IsOkAndHolds(step("optimizer_params", R"({"type":"lion"})")));
}

TEST(OptimStepJson, KeepsMembersOfDimuonThatWentAway) {  // 7.13: `damping`, 0.29.1 to 0.30.2 only
  const std::string body =
      step("optimizer_params", R"({"type":"dimuon","learning_rate":1.0,"damping":0.5})");
  EXPECT_THAT(echo<OptimStepRequest>(body), IsOkAndHolds(body));
}

TEST(OptimStepJson, RefusesUnknownParametersOfAdam) {
  EXPECT_THAT(decode_json<OptimStepRequest>(step("adam_params", R"({"lr":1.0})")),
              IsError(ErrorCode::invalid_argument, StartsWith("adam_params.lr: unknown member")));
}

TEST(OptimStepJson, NeedsATextForAType) {
  EXPECT_THAT(decode_json<OptimStepRequest>(step("optimizer_params", R"({"type":1})")),
              IsError(ErrorCode::invalid_argument,
                      "optimizer_params.type: expected a string, found an integer"));
}

}  // namespace
}  // namespace tinker::wire::optimizer_json_test
