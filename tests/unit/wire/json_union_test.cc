// One of several types in one place: told apart by tags, or by members when a tag is missing.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/billing.h"
#include "tinker/types/model_input.h"
#include "tinker/types/session_search.h"
#include "tinker/types/telemetry.h"
#include "wire/json.h"

namespace tinker::wire::json_union_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::VariantWith;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOk;
using tinker::testing::IsOkAndHolds;

// ---- Chunks of a model input (PROTOCOL 7.3)

Result<ModelInputChunk> chunk(std::string_view json) {
  TINKER_TRY(ModelInput input,
             decode_json<ModelInput>(R"({"chunks":[)" + std::string(json) + "]}"));
  return input.chunks.at(0);
}

TEST(ChunkUnion, FollowsTheTag) {
  EXPECT_THAT(chunk(R"({"type":"encoded_text","tokens":[1]})"),
              IsOkAndHolds(VariantWith<EncodedTextChunk>(EncodedTextChunk{.tokens = {1}})));
  EXPECT_THAT(chunk(R"({"type":"image","data":"","format":"jpeg"})"),
              IsOkAndHolds(VariantWith<ImageChunk>(ImageChunk{.format = ImageFormat::jpeg})));
  EXPECT_THAT(
      chunk(R"({"type":"image_asset_pointer","format":"png","location":"u"})"),
      IsOkAndHolds(VariantWith<ImageAssetPointerChunk>(ImageAssetPointerChunk{.location = "u"})));
  EXPECT_THAT(chunk(R"({"type":"dmel","dmel":"BAIBUA=="})"),
              IsOkAndHolds(VariantWith<DmelChunk>(DmelChunk{.dmel = "\x04\x02\x01\x50"})));
}

TEST(ChunkUnion, ToleratesAMissingTag) {  // if exactly one variant fits
  EXPECT_THAT(chunk(R"({"tokens":[1]})"),
              IsOkAndHolds(VariantWith<EncodedTextChunk>(EncodedTextChunk{.tokens = {1}})));
  EXPECT_THAT(chunk(R"({"data":"","format":"png"})"),
              IsOkAndHolds(VariantWith<ImageChunk>(ImageChunk{})));
  EXPECT_THAT(chunk(R"({"format":"png","location":"u","expected_tokens":3})"),
              IsOkAndHolds(VariantWith<ImageAssetPointerChunk>(
                  ImageAssetPointerChunk{.location = "u", .expected_tokens = 3})));
  EXPECT_THAT(chunk(R"({"dmel":""})"), IsOkAndHolds(VariantWith<DmelChunk>(DmelChunk{})));
}

TEST(ChunkUnion, WritesTheTagThatWasMissing) {
  EXPECT_THAT(echo<ModelInput>(R"({"chunks":[{"tokens":[1]}]})"),
              IsOkAndHolds(R"({"chunks":[{"tokens":[1],"type":"encoded_text"}]})"));
}

TEST(ChunkUnion, RefusesUnknownTags) {
  EXPECT_THAT(chunk(R"({"type":"video","tokens":[1]})"),
              IsError(ErrorCode::invalid_argument,
                      "chunks[0].type: expected one of 'encoded_text', 'image_asset_pointer', "
                      "'image', 'dmel', found 'video'"));
  EXPECT_THAT(chunk(R"({"type":7,"tokens":[1]})"),
              IsError(ErrorCode::invalid_argument, HasSubstr("found an integer")));
}

TEST(ChunkUnion, DoesNotGuessAgainstTheTag) {
  EXPECT_THAT(chunk(R"({"type":"dmel","tokens":[1]})"),
              IsError(ErrorCode::invalid_argument, StartsWith("chunks[0].tokens: unknown member")));
}

TEST(ChunkUnion, RefusesWhatFitsNowhere) {
  EXPECT_THAT(chunk("{}"), IsError(ErrorCode::invalid_argument, StartsWith("chunks[0].")));
  EXPECT_THAT(chunk(R"({"tokens":[1],"dmel":""})"),
              IsError(ErrorCode::invalid_argument, StartsWith("chunks[0].dmel: unknown member")));
  EXPECT_THAT(chunk("null"),
              IsError(ErrorCode::invalid_argument, "chunks[0]: expected an object, found null"));
}

TEST(ChunkUnion, OmitsExpectedTokensWhenUnset) {  // PROTOCOL 7.3
  EXPECT_THAT(encode_json(ModelInput{.chunks = {ImageChunk{.data = "x"}}}),
              IsOkAndHolds(R"({"chunks":[{"data":"eA==","format":"png","type":"image"}]})"));
  EXPECT_THAT(encode_json(ModelInput{.chunks = {ImageChunk{.data = "x", .expected_tokens = 0}}}),
              IsOkAndHolds(HasSubstr(R"("expected_tokens":0)")));
}

// ---- Telemetry events: no tag, the members tell (PROTOCOL 9.6)

Result<TelemetryEvent> event(std::string_view members) {
  TINKER_TRY(
      TelemetrySendRequest request,
      decode_json<TelemetrySendRequest>(
          R"({"events":[{"event_id":"e","event_session_index":1,"severity":"INFO",)"
          R"("timestamp":"2026-01-02T03:04:05Z",)" +
          std::string(members) +
          R"(}],"platform":"Linux","sdk_version":"v","session_id":"s","process_uuid":"u"})"));
  return request.events.at(0);
}

template <typename T>
auto holds() {
  return IsOkAndHolds(VariantWith<T>(::testing::_));
}

TEST(TelemetryUnion, ChoosesTheEventThatKnowsMostMembers) {
  EXPECT_THAT(event(R"("event":"SESSION_START")"), holds<SessionStartEvent>());
  EXPECT_THAT(event(R"("event":"SESSION_END","duration":"0:00:12.500000")"),
              holds<SessionEndEvent>());
  EXPECT_THAT(event(R"("event":"UNHANDLED_EXCEPTION","error_message":"m","error_type":"t")"),
              holds<UnhandledExceptionEvent>());
  EXPECT_THAT(event(R"("event":"GENERIC_EVENT","event_name":"n")"), holds<GenericEvent>());
  EXPECT_THAT(event(R"("event":"GENERIC_EVENT","event_name":"n","event_data":{"a":1})"),
              holds<GenericEvent>());
}

TEST(TelemetryUnion, RefusesUnknownEventsAndSeverities) {  // PROTOCOL 7.1
  EXPECT_THAT(event(R"("event":"COFFEE")"),
              IsError(ErrorCode::invalid_argument, StartsWith("events[0].event: expected one of")));
  EXPECT_THAT(event(R"("event":"SESSION_START","severity":"info")"),
              IsError(ErrorCode::invalid_argument, StartsWith("events[0].severity: expected")));
}

TEST(TelemetryUnion, SendsAnEmptyEventData) {  // PROTOCOL 9.6: event_data (object)
  EXPECT_THAT(encode_json(GenericEvent{.event_id = "e", .event_name = "n"}),
              IsOkAndHolds(HasSubstr(R"("event_data":{})")));
}

// ---- Owners and statuses of a search (PROTOCOL 9.46)

TEST(SearchUnion, ChoosesOwnersByTag) {
  EXPECT_EQ(decode_json<SessionSearchRequest>("{}").value().owner, SearchOwner(OwnSearchOwner{}));
  EXPECT_EQ(decode_json<SessionSearchRequest>(R"({"owner":{"type":"accessible"}})").value().owner,
            SearchOwner(AccessibleSearchOwner{}));
  EXPECT_EQ(decode_json<SessionSearchRequest>(R"({"owner":{"type":"user","owner_urns":["u"]}})")
                .value()
                .owner,
            SearchOwner(UserSearchOwner{.owner_urns = {"u"}}));
}

TEST(SearchUnion, RefusesUnknownOwnersAndStatuses) {
  EXPECT_THAT(decode_json<SessionSearchRequest>(R"({"owner":{"type":"everyone"}})"),
              IsError(ErrorCode::invalid_argument, StartsWith("owner.type: expected one of")));
  EXPECT_THAT(decode_json<SessionSearchRequest>(R"({"statuses":[{"type":"asleep"}]})"),
              IsError(ErrorCode::invalid_argument, StartsWith("statuses[0].type: expected")));
}

TEST(SearchUnion, WritesEveryStatus) {
  constexpr std::string_view kStatuses =
      R"("statuses":[{"type":"active"},{"type":"cancelled"},{"type":"failed"},)"
      R"({"type":"client_finished"}])";
  EXPECT_THAT(echo<SessionSearchRequest>("{" + std::string(kStatuses) + "}"),
              IsOkAndHolds(HasSubstr(kStatuses)));
}

// ---- Statuses of an answer, open to the future (PROTOCOL 9.46; WIRE_TOOL: unknown values are
// kept)

Result<std::optional<SessionStatus>> status(std::string_view json) {
  TINKER_TRY(const SessionSummary summary,
             decode_json<SessionSummary>(
                 R"({"session_id":"s","created_at":"2026-01-01T00:00:00Z","owner":"o",)"
                 R"("project_id":"","checkpoints_count":0,"status":)" +
                 std::string(json) + "}"));
  return summary.status;
}

TEST(StatusUnion, ReadsEveryType) {
  EXPECT_EQ(status(R"({"type":"active"})").value(), SessionStatus(SessionActive{}));
  EXPECT_EQ(status(R"({"type":"cancelled","detail":"d"})").value(),
            SessionStatus(SessionCancelled{.detail = "d"}));
  EXPECT_EQ(
      status(R"({"type":"client_finished","reason":{"type":"errored"},"detail":null})").value(),
      SessionStatus(ClientSessionFinished{.reason = ClientSessionFinishErrored{}}));
  EXPECT_EQ(status("null").value(), std::nullopt);
}

TEST(StatusUnion, ReadsEveryReasonOfAFailure) {
  const auto reason = [](std::string_view json) {
    const auto read = status(R"({"type":"failed","category":"user","message":"m","reason":)" +
                             std::string(json) + "}");
    return std::get<SessionFailed>(read.value().value()).reason;
  };
  EXPECT_EQ(
      reason(R"({"type":"request","request_id":"r","request_type":"t"})"),
      SessionFailedReason(SessionFailedRequestReason{.request_id = "r", .request_type = "t"}));
  EXPECT_EQ(reason(R"({"type":"training_run","training_run_id":"r"})"),
            SessionFailedReason(SessionFailedTrainingRunReason{.training_run_id = "r"}));
  EXPECT_EQ(reason(R"({"type":"sampling_session","sampling_session_id":"s"})"),
            SessionFailedReason(SessionFailedSamplingSessionReason{.sampling_session_id = "s"}));
}

TEST(StatusUnion, KeepsUnknownTypesCategoriesAndReasons) {
  constexpr std::string_view kText =
      R"({"session_id":"s","created_at":"2026-01-01T00:00:00Z","owner":"o","project_id":"p",)"
      R"("status":{"type":"failed","category":"weather",)"
      R"("reason":{"type":"moon","phase":[1,null]},"message":"m"},"checkpoints_count":2})";
  EXPECT_THAT(echo<SessionSummary>(kText), IsOkAndHolds(kText));
  constexpr std::string_view kAsleep = R"({"type":"asleep","since":1,"deep":true})";
  const auto asleep = status(kAsleep);
  ASSERT_THAT(asleep, IsOk());
  EXPECT_TRUE(std::holds_alternative<UnknownVariant>(asleep->value()));
}

TEST(StatusUnion, StillRefusesAKnownTypeThatIsWrong) {
  EXPECT_THAT(status(R"({"type":"failed","category":"user","message":"m"})"),
              IsError(ErrorCode::invalid_response, StartsWith("status.reason: expected")));
}

// ---- Billing events (PROTOCOL 7.1, 9.36)

Result<BillingEventInfo> billing(std::string_view json) {
  TINKER_TRY(const BillingUsageEvent usage,
             decode_json<BillingUsageEvent>(R"({"bucket_start":0,"bucket_end":3600,"event_info":)" +
                                            std::string(json) + "}"));
  return usage.event_info;
}

TEST(BillingUnion, ReadsEveryType) {
  EXPECT_EQ(billing(R"({"type":"training","token_count":5})").value(),
            BillingEventInfo(TrainingBillingEvent{.token_count = 5}));
  EXPECT_EQ(billing(R"({"type":"sampling_prefill","cached":false,"token_count":5})").value(),
            BillingEventInfo(SamplingPrefillBillingEvent{.cached = false, .token_count = 5}));
  EXPECT_EQ(billing(R"({"type":"sampling_sample","token_count":5})").value(),
            BillingEventInfo(SamplingSampleBillingEvent{.token_count = 5}));
  EXPECT_EQ(billing(R"({"type":"checkpoint","count":2})").value(),
            BillingEventInfo(CheckpointBillingEvent{.count = 2}));
  EXPECT_EQ(billing(R"({"type":"storage","gigabyte_hours":2})").value(),
            BillingEventInfo(StorageBillingEvent{.gigabyte_hours = 2.0}));
}

TEST(BillingUnion, KeepsUnknownTypes) {
  const auto info = billing(R"({"type":"coffee","cups":3})");
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(*info,
            BillingEventInfo(UnknownVariant{.value = JsonObject{{"type", "coffee"}, {"cups", 3}}}));
}

TEST(BillingUnion, NeedsEveryMember) {  // all required
  EXPECT_THAT(billing(R"({"type":"sampling_prefill","token_count":5})"),
              IsError(ErrorCode::invalid_response, StartsWith("event_info.cached: expected")));
  EXPECT_FALSE(billing("null").ok());
}

}  // namespace
}  // namespace tinker::wire::json_union_test
