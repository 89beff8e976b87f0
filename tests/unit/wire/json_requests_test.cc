// What requests look like on the wire (PROTOCOL 4) and what a server refuses in them (WIRE_TOOL).

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/model.h"
#include "tinker/types/promise.h"
#include "tinker/types/sample.h"
#include "tinker/types/sampling_session.h"
#include "tinker/types/session.h"
#include "tinker/types/telemetry.h"
#include "tinker/types/weights.h"
#include "wire/json.h"

namespace tinker::wire::json_requests_test {
namespace {

using ::testing::StartsWith;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOkAndHolds;

auto is_refused(std::string_view message) {
  return IsError(ErrorCode::invalid_argument, std::string(message));
}

// ---- Nulls, defaults, order (PROTOCOL 4.2 to 4.6)

TEST(JsonRequest, OmitsNullsAndSendsDefaults) {  // PROTOCOL 4.2, 9.18
  EXPECT_THAT(encode_json(SampleRequest{}),
              IsOkAndHolds(R"({"num_samples":1,"prompt":{"chunks":[]},)"
                           R"("sampling_params":{"temperature":1.0,"top_k":-1,"top_p":1.0},)"
                           R"("topk_prompt_logprobs":0,"topk_sample_logprobs":0,)"
                           R"("prompt_alt_tokens_k":0,"type":"sample"})"));
}

TEST(JsonRequest, FillsInAbsentDefaults) {  // PROTOCOL 7.4, 9.18; WIRE_TOOL
  EXPECT_THAT(decode_json<SampleRequest>(R"({"prompt":{"chunks":[]},"sampling_params":{}})"),
              IsOkAndHolds(SampleRequest{}));
}

TEST(JsonRequest, AcceptsNullForAnyOptional) {  // WIRE_TOOL: accepted and omitted on output
  EXPECT_THAT(echo<SampleRequest>(
                  R"({"prompt":{"chunks":[]},"sampling_params":{"max_tokens":null,"seed":null,)"
                  R"("stop":null},"base_model":null,"model_path":null,"sampling_session_id":null,)"
                  R"("seq_id":null,"prompt_logprobs":null,"target_prompt_logprobs":null,)"
                  R"("prompt_logprobs_last_n":null,"record_stability_info":null})"),
              IsOkAndHolds(encode_json(SampleRequest{}).value()));
}

TEST(JsonRequest, RefusesNullForADefault) {
  EXPECT_THAT(decode_json<SamplingParams>(R"({"temperature":null})"),
              is_refused("temperature: expected a number, found null"));
}

TEST(JsonRequest, KeepsNullsInFreeFormDictionaries) {  // PROTOCOL 4.3
  constexpr std::string_view kBody =
      R"({"tags":[],"user_metadata":{"a":null,"b":{"c":[null,1,2.5,true,"x"]}},)"
      R"("sdk_version":"0.36.0","type":"create_session"})";
  EXPECT_THAT(echo<CreateSessionRequest>(kBody), IsOkAndHolds(kBody));
}

TEST(JsonRequest, KeepsNullsInTelemetryData) {  // PROTOCOL 4.3
  constexpr std::string_view kBody =
      R"({"event":"GENERIC_EVENT","event_id":"e","event_name":"n","event_session_index":0,)"
      R"("severity":"INFO","timestamp":"2026-01-02T03:04:05Z","event_data":{"k":null}})";
  EXPECT_THAT(echo<GenericEvent>(kBody), IsOkAndHolds(kBody));
}

TEST(JsonRequest, KeepsIntegersOfFreeFormDictionariesIntegers) {  // PROTOCOL 4.6
  constexpr std::string_view kBody =
      R"({"tags":[],"user_metadata":{"z":1,"a":1.0,"big":18446744073709551615,"neg":-3},)"
      R"("sdk_version":"v","type":"create_session"})";
  EXPECT_THAT(echo<CreateSessionRequest>(kBody), IsOkAndHolds(kBody));
}

TEST(JsonRequest, SendsEmptyMetadataByDefault) {  // PROTOCOL 9.4: {} when none was given
  EXPECT_THAT(encode_json(CreateSessionRequest{.sdk_version = "v"}),
              IsOkAndHolds(R"({"tags":[],"user_metadata":{},"sdk_version":"v",)"
                           R"("type":"create_session"})"));
}

TEST(JsonRequest, OmitsNullMetadata) {  // PROTOCOL 9.4: null would be omitted
  EXPECT_THAT(encode_json(CreateSessionRequest{.user_metadata = {}, .sdk_version = "v"}),
              IsOkAndHolds(R"({"tags":[],"sdk_version":"v","type":"create_session"})"));
}

TEST(JsonRequest, WritesIntegersGivenForFloatsAsFloats) {  // PROTOCOL 4.6
  EXPECT_THAT(echo<SamplingParams>(R"({"temperature":0,"top_p":1})"),
              IsOkAndHolds(R"({"temperature":0.0,"top_k":-1,"top_p":1.0})"));
}

TEST(JsonRequest, SendsZeroTokensUnchecked) {  // PROTOCOL 7.4: 0 goes out unchecked
  EXPECT_THAT(encode_json(SamplingParams{.max_tokens = 0}),
              IsOkAndHolds(R"({"max_tokens":0,"temperature":1.0,"top_k":-1,"top_p":1.0})"));
}

TEST(JsonRequest, TrainsEveryPartByDefault) {  // PROTOCOL 7.5
  EXPECT_THAT(echo<LoraConfig>(R"({"rank":32})"),
              IsOkAndHolds(R"({"rank":32,"train_unembed":true,"train_mlp":true,)"
                           R"("train_attn":true})"));
}

TEST(JsonRequest, DoesNotDependOnMemberOrder) {  // PROTOCOL 4.5
  EXPECT_THAT(decode_json<LoraConfig>(R"({"train_attn":false,"seed":7,"rank":8})"),
              IsOkAndHolds(LoraConfig{.rank = 8, .seed = Seed(7), .train_attn = false}));
}

TEST(JsonRequest, ReadsEscapedAndSpacedBodies) {  // PROTOCOL 4.1: a server must accept both
  EXPECT_THAT(
      decode_json<GetInfoRequest>("{ \"model_id\" : \"\\u00e9\",\n\"type\": \"get_info\" }"),
      IsOkAndHolds(GetInfoRequest{.model_id = "é"}));
}

TEST(JsonRequest, WritesNonAsciiUnescaped) {  // PROTOCOL 4.1
  EXPECT_THAT(encode_json(GetInfoRequest{.model_id = "é\"😀"}),
              IsOkAndHolds(R"({"model_id":"é\"😀","type":"get_info"})"));
}

TEST(JsonRequest, OmitsAnUnknownTraceback) {  // PROTOCOL 9.6: omitted when null
  constexpr std::string_view kBody =
      R"({"error_message":"boom","error_type":"E","event":"UNHANDLED_EXCEPTION","event_id":"e",)"
      R"("event_session_index":1,"severity":"ERROR","timestamp":"2026-01-02T03:04:05Z"})";
  EXPECT_THAT(echo<UnhandledExceptionEvent>(kBody), IsOkAndHolds(kBody));
}

TEST(JsonRequest, KeepsTheDurationTextOfASessionEnd) {  // PROTOCOL 9.6
  constexpr std::string_view kBody =
      R"({"duration":"1 day, 2:03:04","event":"SESSION_END","event_id":"e",)"
      R"("event_session_index":1,"severity":"INFO","timestamp":"2026-01-02T03:04:05Z"})";
  EXPECT_THAT(echo<SessionEndEvent>(kBody), IsOkAndHolds(kBody));
}

TEST(JsonRequest, CarriesRecipients) {  // PROTOCOL 9.44
  EXPECT_THAT(encode_json(SaveWeightsExternalRequest{
                  .model_id = "m",
                  .path = "p",
                  .age_encryption_recipients = std::vector<std::string>{"age1x"}}),
              IsOkAndHolds(R"({"model_id":"m","path":"p","age_encryption_recipients":["age1x"],)"
                           R"("type":"save_weights_external"})"));
}

TEST(JsonRequest, CarriesAWeightsAccessToken) {  // PROTOCOL 9.15
  constexpr std::string_view kBody =
      R"({"model_id":"m","path":"tinker://a/weights/b","optimizer":true,)"
      R"("weights_access_token":"tml-x","type":"load_weights"})";
  EXPECT_THAT(echo<LoadWeightsRequest>(kBody), IsOkAndHolds(kBody));
}

TEST(JsonRequest, DefaultsWhatAPollLeavesOut) {  // PROTOCOL 9.19, 9.38
  EXPECT_THAT(echo<FutureRetrieveRequest>(R"({"request_id":"r"})"),
              IsOkAndHolds(R"({"request_id":"r","allow_metadata_only":false})"));
  EXPECT_THAT(echo<FuturesRetrieveRequest>(R"({"target":{"sampling_session_id":"s"}})"),
              IsOkAndHolds(R"({"target":{"type":"sampling_session","sampling_session_id":"s",)"
                           R"("cloned_sampler_id":0},"prev_cursor":0,)"
                           R"("retrieved_request_ids":[]})"));
  EXPECT_THAT(
      echo<FuturesRetrieveRequest>(R"({"target":{"sampling_session_id":"s"},"timeout":30})"),
      IsOkAndHolds(R"({"target":{"type":"sampling_session","sampling_session_id":"s",)"
                   R"("cloned_sampler_id":0},"prev_cursor":0,"timeout":30.0,)"
                   R"("retrieved_request_ids":[]})"));
}

// ---- Refusals

TEST(JsonRequest, NamesTheMemberThatIsMissing) {
  EXPECT_THAT(decode_json<SampleRequest>(R"({"sampling_params":{}})"),
              is_refused("prompt: expected an object, found no such member"));
  EXPECT_THAT(decode_json<SampleRequest>(R"({"prompt":{},"sampling_params":{}})"),
              is_refused("prompt.chunks: expected an array, found no such member"));
}

TEST(JsonRequest, NamesTheElementThatIsWrong) {
  EXPECT_THAT(decode_json<SampleRequest>(
                  R"({"prompt":{"chunks":[{"tokens":[1],"type":"encoded_text"},)"
                  R"({"tokens":[1,2,"x"],"type":"encoded_text"}]},"sampling_params":{}})"),
              is_refused("prompt.chunks[1].tokens[2]: expected an integer of 32 bits"));
}

TEST(JsonRequest, RefusesWrongKinds) {
  EXPECT_THAT(decode_json<GetInfoRequest>(R"({"model_id":7})"),
              is_refused("model_id: expected a string, found an integer"));
  EXPECT_THAT(decode_json<LoraConfig>(R"({"rank":8,"train_mlp":1})"),
              is_refused("train_mlp: expected true or false, found an integer"));
  EXPECT_THAT(decode_json<LoraConfig>(R"({"rank":true})"),
              is_refused("rank: expected an integer of 64 bits, found true"));
}

TEST(JsonRequest, RefusesWhatIsNoObject) {  // WIRE_TOOL: non-objects are refused
  EXPECT_THAT(decode_json<GetInfoRequest>("[]"),
              is_refused("$: expected an object, found an array"));
  EXPECT_THAT(decode_json<GetInfoRequest>("null"), is_refused("$: expected an object, found null"));
}

TEST(JsonRequest, RefusesTrailingText) {  // WIRE_TOOL
  EXPECT_THAT(decode_json<GetInfoRequest>(R"({"model_id":"m"} x)"),
              is_refused("$: expected nothing after the document, found 'x'"));
}

TEST(JsonRequest, RefusesAWrongTag) {  // PROTOCOL 7.1: constants
  EXPECT_THAT(decode_json<GetInfoRequest>(R"({"model_id":"m","type":"unload_model"})"),
              is_refused("type: expected 'get_info', found 'unload_model'"));
  EXPECT_THAT(decode_json<GetInfoRequest>(R"({"model_id":"m","type":null})"),
              is_refused("type: expected 'get_info', found null"));
}

TEST(JsonRequest, AlwaysSendsItsTag) {  // PROTOCOL 7.1: always sent; optional on input
  EXPECT_THAT(echo<UnloadModelRequest>(R"({"model_id":"m"})"),
              IsOkAndHolds(R"({"model_id":"m","type":"unload_model"})"));
}

TEST(JsonRequest, SurvivesDeepNesting) {
  const std::string deep = std::string(900, '[') + std::string(900, ']');
  const std::string body = R"({"tags":[],"user_metadata":{"k":)" + deep +
                           R"(},"sdk_version":"v","type":"create_session"})";
  EXPECT_THAT(echo<CreateSessionRequest>(body), IsOkAndHolds(body));
}

TEST(JsonRequest, RefusesBottomlessNesting) {
  const std::string body = R"({"tags":[],"user_metadata":{"k":)" + std::string(5000, '[') +
                           std::string(5000, ']') + R"(},"sdk_version":"v"})";
  EXPECT_THAT(decode_json<CreateSessionRequest>(body),
              IsError(ErrorCode::invalid_argument, StartsWith("user_metadata.k[0]")));
}

// ---- Repeated members: as every common JSON reader, the last one counts

TEST(JsonRequest, TakesTheLastOfRepeatedMembers) {
  EXPECT_THAT(decode_json<GetInfoRequest>(R"({"model_id":"a","model_id":"b"})"),
              IsOkAndHolds(GetInfoRequest{.model_id = "b"}));
  EXPECT_THAT(decode_json<SamplingParams>(R"({"max_tokens":5,"max_tokens":null})"),
              IsOkAndHolds(SamplingParams{}));
}

TEST(JsonRequest, TakesTheLastOfRepeatedListsAndObjects) {
  EXPECT_THAT(decode_json<CreateSessionRequest>(
                  R"({"tags":["a"],"tags":["b"],"user_metadata":{"x":1},"user_metadata":{"y":2},)"
                  R"("sdk_version":"v"})"),
              IsOkAndHolds(CreateSessionRequest{
                  .tags = {"b"}, .user_metadata = JsonObject{{"y", 2}}, .sdk_version = "v"}));
}

TEST(JsonRequest, DoesNotMergeRepeatedObjects) {
  EXPECT_THAT(decode_json<SampleRequest>(
                  R"({"prompt":{"chunks":[]},"sampling_params":{"max_tokens":5,"top_k":3},)"
                  R"("sampling_params":{}})"),
              IsOkAndHolds(SampleRequest{}));
}

TEST(JsonRequest, TakesTheLastOfRepeatedFreeFormMembers) {
  EXPECT_THAT(echo<CreateSessionRequest>(
                  R"({"tags":[],"user_metadata":{"x":1,"y":2,"x":3},"sdk_version":"v"})"),
              IsOkAndHolds(R"({"tags":[],"user_metadata":{"x":3,"y":2},"sdk_version":"v",)"
                           R"("type":"create_session"})"));
}

}  // namespace
}  // namespace tinker::wire::json_requests_test
