// Members of requests that nobody knows: strict as the official models, or lenient for a server
// that meets newer clients.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"
#include "tinker/types/custom_loss.h"
#include "tinker/types/model.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/sample.h"
#include "tinker/types/session.h"
#include "tinker/types/session_search.h"
#include "tinker/types/telemetry.h"
#include "tinker/types/weights.h"
#include "wire/json.h"

namespace tinker::wire::json_policy_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using tinker::testing::IsError;
using tinker::testing::IsOk;
using tinker::testing::IsOkAndHolds;

/// A document read by a lenient server, and what it was told about it.
template <typename T>
struct Lenient {
  explicit Lenient(std::string_view text)
      : result(decode_json<T>(text,
                              {.policy = Policy::lenient, .unknown_members = &unknown_members})) {}

  std::vector<std::string> unknown_members;
  Result<T> result;
};

// ---- Strict (PROTOCOL 4.2)

TEST(StrictPolicy, RefusesUnknownMembers) {
  EXPECT_THAT(
      decode_json<GetInfoRequest>(R"({"model_id":"m","zz":1})"),
      IsError(ErrorCode::invalid_argument, "zz: unknown member, expected one of model_id, type"));
}

TEST(StrictPolicy, NamesUnknownMembersOfNestedObjects) {
  EXPECT_THAT(decode_json<SampleRequest>(
                  R"({"prompt":{"chunks":[{"tokens":[1],"type":"encoded_text","zz":1}]},)"
                  R"("sampling_params":{}})"),
              IsError(ErrorCode::invalid_argument, StartsWith("prompt.chunks[0].zz: unknown")));
  EXPECT_THAT(
      decode_json<CreateModelRequest>(R"({"session_id":"s","model_seq_id":0,"base_model":"b",)"
                                      R"("lora_config":{"rank":1,"alpha":2}})"),
      IsError(ErrorCode::invalid_argument, StartsWith("lora_config.alpha: unknown")));
}

TEST(StrictPolicy,
     PassesOverUnknownSamplingParameters) {  // PROTOCOL 4.2: SamplingParams is lenient
  std::vector<std::string> unknown;
  EXPECT_THAT(decode_json<SamplingParams>(R"({"temprature":0.5})", {.unknown_members = &unknown}),
              IsOkAndHolds(SamplingParams{}));
  EXPECT_THAT(unknown, ElementsAre("temprature"));
}

TEST(StrictPolicy, PassesOverUnknownMembersOfTelemetryEvents) {  // WIRE_TOOL
  EXPECT_THAT(
      decode_json<TelemetrySendRequest>(
          R"({"events":[{"event":"SESSION_START","event_id":"e","event_session_index":0,)"
          R"("severity":"INFO","timestamp":"2026-01-02T03:04:05Z","zz":1}],"platform":"Linux",)"
          R"("sdk_version":"v","session_id":"s","process_uuid":"u"})"),
      IsOk());
  EXPECT_THAT(decode_json<TelemetrySendRequest>(
                  R"({"events":[],"platform":"Linux","sdk_version":"v","session_id":"s",)"
                  R"("process_uuid":"u","zz":1})"),
              IsError(ErrorCode::invalid_argument, StartsWith("zz: unknown member")));
}

TEST(StrictPolicy, PassesOverUnknownMembersOfASearchCursor) {  // WIRE_TOOL
  EXPECT_THAT(
      decode_json<SessionSearchRequest>(R"({"cursor":{"last_created_at":"2026-01-01T00:00:00Z",)"
                                        R"("last_session_id":"s","zz":1}})"),
      IsOk());
}

TEST(StrictPolicy, NeedsUserMetadataOfASession) {
  EXPECT_THAT(decode_json<CreateSessionRequest>(R"({"tags":[],"sdk_version":"v"})"),
              IsError(ErrorCode::invalid_argument, StartsWith("user_metadata: expected")));
  EXPECT_THAT(
      decode_json<CreateSessionRequest>(R"({"tags":[],"user_metadata":null,"sdk_version":"v"})"),
      IsOkAndHolds(CreateSessionRequest{.user_metadata = {}, .sdk_version = "v"}));
}

// ---- Lenient

TEST(LenientPolicy, ReportsUnknownMembersWithTheirPaths) {
  const Lenient<SampleRequest> read(
      R"({"prompt":{"chunks":[{"tokens":[1],"type":"encoded_text","zz":1}],"yy":{}},)"
      R"("sampling_params":{},"xx":[1,2]})");

  EXPECT_THAT(read.result, IsOk());
  EXPECT_THAT(read.unknown_members, ElementsAre("prompt.chunks[0].zz", "prompt.yy", "xx"));
}

TEST(LenientPolicy, ReportsUnknownMembersOfAnUntaggedChunkOnce) {
  const Lenient<SampleRequest> read(
      R"({"prompt":{"chunks":[{"tokens":[1],"zz":1}]},"sampling_params":{}})");

  EXPECT_THAT(read.result, IsOk());
  EXPECT_THAT(read.unknown_members, ElementsAre("prompt.chunks[0].zz"));
}

TEST(LenientPolicy, NeedsNobodyToReportTo) {
  EXPECT_THAT(
      decode_json<GetInfoRequest>(R"({"model_id":"m","zz":1})", {.policy = Policy::lenient}),
      IsOkAndHolds(GetInfoRequest{.model_id = "m"}));
}

TEST(LenientPolicy, HasNothingToReportForAKnownDocument) {
  const Lenient<GetInfoRequest> read(R"({"model_id":"m","type":"get_info"})");
  EXPECT_THAT(read.result, IsOk());
  EXPECT_THAT(read.unknown_members, IsEmpty());
}

TEST(LenientPolicy, RefusesUnknownSamplingParameters) {  // they would change the arithmetic
  const Lenient<SampleRequest> read(R"({"prompt":{"chunks":[]},"sampling_params":{"min_p":0.1}})");
  EXPECT_THAT(read.result,
              IsError(ErrorCode::invalid_argument, StartsWith("sampling_params.min_p: unknown")));
}

TEST(LenientPolicy, RefusesUnknownOptimizerParameters) {
  const Lenient<OptimStepRequest> read(R"({"model_id":"m","adam_params":{"amsgrad":true}})");
  EXPECT_THAT(read.result,
              IsError(ErrorCode::invalid_argument, StartsWith("adam_params.amsgrad: unknown")));
}

TEST(LenientPolicy, RefusesUnknownLoraSettings) {
  const Lenient<CreateModelRequest> read(
      R"({"session_id":"s","model_seq_id":0,"base_model":"b","lora_config":{"rank":1,"alpha":2}})");
  EXPECT_THAT(read.result,
              IsError(ErrorCode::invalid_argument, StartsWith("lora_config.alpha: unknown")));
}

TEST(LenientPolicy, RefusesUnknownMembersOfACustomLoss) {
  const Lenient<CreateCustomLossRequest> read(
      R"({"session_id":"s","custom_loss_seq_id":0,"name":"n","inputs":[],)"
      R"("graph":{"nodes":[{"op":"output","name":"o","target":"output","zz":1}]}})");
  EXPECT_THAT(read.result,
              IsError(ErrorCode::invalid_argument, StartsWith("graph.nodes[0].zz: unknown")));
}

TEST(LenientPolicy, RefusesUnknownMembersOfATensor) {
  const Lenient<SampleRequest> read(
      R"({"prompt":{"chunks":[]},"sampling_params":{},)"
      R"("target_prompt_logprobs":{"data":[1],"dtype":"int64","scale":2.0}})");
  EXPECT_THAT(
      read.result,
      IsError(ErrorCode::invalid_argument, StartsWith("target_prompt_logprobs.scale: unknown")));
}

TEST(LenientPolicy, AcceptsASessionWithoutMetadata) {  // PROTOCOL 9.4: null would be omitted
  const Lenient<CreateSessionRequest> read(R"({"tags":[],"sdk_version":"v"})");
  EXPECT_THAT(read.result, IsOk());
}

TEST(LenientPolicy, StillRefusesWhatIsWrong) {
  EXPECT_THAT(
      Lenient<GetInfoRequest>("{}").result,
      IsError(ErrorCode::invalid_argument, "model_id: expected a string, found no such member"));
  EXPECT_THAT(Lenient<GetInfoRequest>(R"({"model_id":"m","type":"x"})").result,
              IsError(ErrorCode::invalid_argument, "type: expected 'get_info', found 'x'"));
  EXPECT_THAT(Lenient<SampleRequest>(R"({"prompt":{"chunks":[{"type":"video"}]},)"
                                     R"("sampling_params":{}})")
                  .result,
              IsError(ErrorCode::invalid_argument, StartsWith("prompt.chunks[0].type: expected")));
}

// A server written from an older release must read every call of a newer client (PROTOCOL 10.11);
// this one stands for the release after ours.
TEST(LenientPolicy, ReadsTheCallsOfTomorrowsClient) {
  const Lenient<SaveWeightsRequest> read(
      R"({"model_id":"m","path":"p","seq_id":3,"overwrite":false,"shards":4,)"
      R"("type":"save_weights"})");
  EXPECT_THAT(read.result,
              IsOkAndHolds(SaveWeightsRequest{.model_id = "m", .path = "p", .seq_id = 3}));
  EXPECT_THAT(read.unknown_members, ElementsAre("shards"));
}

// ---- Answers (PROTOCOL 4.2, 5)

TEST(AnswerPolicy, IgnoresUnknownMembersSilently) {
  std::vector<std::string> unknown;
  EXPECT_THAT(decode_json<CreateModelResponse>(R"({"model_id":"m","zz":{"a":[1]}})",
                                               {.unknown_members = &unknown}),
              IsOkAndHolds(CreateModelResponse{.model_id = "m"}));
  EXPECT_THAT(unknown, IsEmpty());
}

TEST(AnswerPolicy, RefusesAMissingMemberAndANullOne) {  // WIRE_TOOL
  EXPECT_THAT(decode_json<CreateModelResponse>(R"({"type":"create_model"})"),
              IsError(ErrorCode::invalid_response, StartsWith("model_id: expected")));
  EXPECT_THAT(decode_json<CreateModelResponse>(R"({"model_id":null})"),
              IsError(ErrorCode::invalid_response, "model_id: expected a string, found null"));
}

TEST(AnswerPolicy, RefusesAWrongKind) {  // WIRE_TOOL
  EXPECT_THAT(decode_json<GetInfoResponse>(R"({"model_data":{},"model_id":"m","lora_rank":"32"})"),
              IsError(ErrorCode::invalid_response,
                      "lora_rank: expected an integer of 64 bits, found a string"));
  EXPECT_THAT(
      decode_json<GetInfoResponse>(R"({"model_data":{},"model_id":"m","is_lora":"true"})"),
      IsError(ErrorCode::invalid_response, "is_lora: expected true or false, found a string"));
  EXPECT_THAT(
      decode_json<GetInfoResponse>(R"({"model_data":[],"model_id":"m"})"),
      IsError(ErrorCode::invalid_response, "model_data: expected an object, found an array"));
}

TEST(AnswerPolicy, RefusesMalformedJsonAsAnInvalidAnswer) {
  EXPECT_THAT(decode_json<CreateModelResponse>("<html>"),
              IsError(ErrorCode::invalid_response, "$: expected a JSON value, found '<html>'"));
}

TEST(AnswerPolicy, AcceptsOnlyStringsInStringMaps) {  // PROTOCOL 5
  for (const char* value : {"1", "true", "null", "[]"}) {
    EXPECT_THAT(
        decode_json<GetSessionResponse>(
            R"({"training_run_ids":[],"sampler_ids":[],"user_metadata":{"k":)" +
            std::string(value) + "}}"),
        IsError(ErrorCode::invalid_response, StartsWith("user_metadata.k: expected a string")));
  }
}

}  // namespace
}  // namespace tinker::wire::json_policy_test
