// The answers shown in PROTOCOL.md about checkpoints, runs, sessions, billing, audit, credentials.

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/audit.h"
#include "tinker/types/auth.h"
#include "tinker/types/billing.h"
#include "tinker/types/checkpoint.h"
#include "tinker/types/session_search.h"
#include "tinker/types/telemetry.h"
#include "tinker/types/weights.h"
#include "wire/json.h"

namespace tinker::wire::account_answers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOk;
using tinker::testing::IsOkAndHolds;

DateTime at(std::string_view text) {
  return DateTime::parse(text).value();
}

// ---- 7.7 to 7.9, 9.22 to 9.25, 9.30: checkpoints and runs

TEST(CheckpointsListJson, ReadsTheExample) {  // PROTOCOL 9.24
  const auto answer = decode_json<CheckpointsListResponse>(
      R"({"checkpoints":[{"checkpoint_id":"weights/step-10","checkpoint_type":"training",)"
      R"("time":"2026-03-01T10:00:00Z","tinker_path":"tinker://9a:train:0/weights/step-10",)"
      R"("size_bytes":1048576,"public":false,"expires_at":null}]})");

  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->cursor, std::nullopt);
  EXPECT_THAT(answer->checkpoints,
              ElementsAre(Checkpoint{.checkpoint_id = "weights/step-10",
                                     .checkpoint_type = CheckpointType::training,
                                     .time = at("2026-03-01T10:00:00Z"),
                                     .tinker_path = "tinker://9a:train:0/weights/step-10",
                                     .size_bytes = 1048576}));
}

TEST(CheckpointsListJson, MayHaveACursor) {  // PROTOCOL 7.8, 9.30
  EXPECT_THAT(decode_json<CheckpointsListResponse>(
                  R"({"checkpoints":[],"cursor":{"offset":0,"limit":100,"total_count":0}})"),
              IsOkAndHolds(CheckpointsListResponse{.cursor = Cursor{.offset = 0, .limit = 100}}));
}

TEST(CursorJson, NeedsAllThreeNumbers) {  // PROTOCOL 7.8
  EXPECT_THAT(decode_json<Cursor>(R"({"offset":0,"limit":1})"),
              IsError(ErrorCode::invalid_response,
                      "total_count: expected an integer of 64 bits, found no such member"));
}

TEST(CheckpointJson, ReadsEveryMember) {  // PROTOCOL 7.7
  constexpr std::string_view kText =
      R"({"checkpoint_id":"external_weights/final","checkpoint_type":"external",)"
      R"("time":"2026-03-01T10:00:00.500000+02:00",)"
      R"("tinker_path":"tinker://9a:train:0/external_weights/final","size_bytes":0,)"
      R"("public":true,"user_metadata":{"k":"v"},"expires_at":"2027-01-01T00:00:00Z"})";

  const auto checkpoint = decode_json<Checkpoint>(kText);

  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ(checkpoint->checkpoint_type, CheckpointType::external);
  EXPECT_EQ(checkpoint->time.utc_offset(), std::chrono::hours(2));
  EXPECT_EQ(checkpoint->size_bytes, 0);
  EXPECT_TRUE(checkpoint->is_public);
  EXPECT_THAT(*checkpoint->user_metadata, ElementsAre(Pair("k", "v")));
  EXPECT_EQ(checkpoint->expires_at, at("2027-01-01T00:00:00Z"));
  EXPECT_THAT(encode_json(*checkpoint), IsOkAndHolds(kText));
}

TEST(CheckpointJson, KeepsTypesOfTheFuture) {  // WIRE_TOOL; PROTOCOL 7.7 has clients that do not
  constexpr std::string_view kText =
      R"({"checkpoint_id":"gguf/a","checkpoint_type":"gguf","time":"2026-03-01T10:00:00Z",)"
      R"("tinker_path":"tinker://9a/gguf/a","public":false})";

  const auto checkpoint = decode_json<Checkpoint>(kText);

  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_EQ(checkpoint->checkpoint_type.known(), std::nullopt);
  EXPECT_THAT(encode_json(*checkpoint), IsOkAndHolds(kText));
}

TEST(CheckpointJson, RefusesANullPublic) {  // PROTOCOL 7.7: not null
  EXPECT_THAT(
      decode_json<Checkpoint>(R"({"checkpoint_id":"weights/a","checkpoint_type":"training",)"
                              R"("time":"2026-03-01T10:00:00Z","tinker_path":"t","public":null})"),
      IsError(ErrorCode::invalid_response, "public: expected true or false, found null"));
}

TEST(TrainingRunJson, ReadsWhatIsRequired) {  // PROTOCOL 7.9, 9.23
  EXPECT_THAT(
      decode_json<TrainingRun>(R"({"training_run_id":"9a:train:0","base_model":"Qwen/Qwen3-8B",)"
                               R"("model_owner":"o","is_lora":true,)"
                               R"("last_request_time":"2026-03-01T10:00:00Z"})"),
      IsOkAndHolds(TrainingRun{.training_run_id = "9a:train:0",
                               .base_model = "Qwen/Qwen3-8B",
                               .model_owner = "o",
                               .is_lora = true,
                               .last_request_time = at("2026-03-01T10:00:00Z")}));
}

TEST(TrainingRunsJson, ReadsTheExample) {  // PROTOCOL 9.22
  const auto answer = decode_json<TrainingRunsResponse>(
      R"({"training_runs":[{"training_run_id":"9a:train:0","base_model":"Qwen/Qwen3-8B",)"
      R"("model_owner":"tml:organization_user:abc","is_lora":true,"corrupted":false,)"
      R"("lora_rank":32,"last_request_time":"2026-03-01T10:00:00Z","last_checkpoint":null,)"
      R"("last_sampler_checkpoint":null,"user_metadata":{"team":"nlp"}}],)"
      R"("cursor":{"offset":0,"limit":1,"total_count":37}})");

  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->cursor, (Cursor{.offset = 0, .limit = 1, .total_count = 37}));
  ASSERT_EQ(answer->training_runs.size(), 1U);
  EXPECT_EQ(answer->training_runs[0].lora_rank, 32);
  EXPECT_EQ(answer->training_runs[0].last_checkpoint, std::nullopt);
  EXPECT_THAT(*answer->training_runs[0].user_metadata, ElementsAre(Pair("team", "nlp")));
}

TEST(TrainingRunsJson, NamesTheOneRunThatIsWrong) {  // PROTOCOL 9.4: one number spoils a list
  EXPECT_THAT(decode_json<TrainingRunsResponse>(
                  R"({"training_runs":[{"training_run_id":"9a","base_model":"b",)"
                  R"("model_owner":"o","is_lora":true,"last_request_time":0,)"
                  R"("user_metadata":{"team":7}}],)"
                  R"("cursor":{"offset":0,"limit":1,"total_count":1}})"),
              IsError(ErrorCode::invalid_response,
                      "training_runs[0].user_metadata.team: expected a string, found an integer"));
}

TEST(ArchiveUrlJson, ReadsTheOldAnswer) {  // PROTOCOL 9.25
  const auto answer = decode_json<CheckpointArchiveUrlResponse>(
      R"({"url":"https://storage.example/a.tar?sig=…","expires":"2026-05-27T20:00:00+00:00"})");
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->url, "https://storage.example/a.tar?sig=…");
  EXPECT_EQ(answer->expires, at("2026-05-27T20:00:00Z"));
}

TEST(CopyWeightsResponseJson, NamesTheCopy) {  // PROTOCOL 9.43
  EXPECT_EQ(
      decode_json<CopyWeightsResponse>(R"({"tinker_path":"tinker://77:train:0/weights/step-10"})")
          .value()
          .tinker_path,
      "tinker://77:train:0/weights/step-10");
}

TEST(SaveWeightsExternalResponseJson, HasAPathAndASize) {  // PROTOCOL 9.44
  EXPECT_THAT(
      decode_json<SaveWeightsExternalResponseInternal>(
          R"({"path":"tinker://0f8fad5b:train:0/external_weights/final","size_bytes":1048576})"),
      IsOkAndHolds(SaveWeightsExternalResponseInternal{
          .path = "tinker://0f8fad5b:train:0/external_weights/final",
          .size_bytes = 1048576,
          .has_type = false}));
}

TEST(ExternalWeightsUrlsJson, ListsSignedUrls) {  // PROTOCOL 9.45
  const auto answer = decode_json<ExternalWeightsUrlsResponse>(
      R"({"urls":{"adapter_config.json":"https://storage.example/…",)"
      R"("adapter_model.safetensors":"https://storage.example/…"},)"
      R"("expires":"2026-05-27T20:00:00Z"})");
  ASSERT_THAT(answer, IsOk());
  EXPECT_THAT(answer->urls,
              UnorderedElementsAre(Pair("adapter_config.json", "https://storage.example/…"),
                                   Pair("adapter_model.safetensors", "https://storage.example/…")));
  EXPECT_TRUE(answer->expires.utc_offset().has_value());
}

// ---- 9.31, 9.32, 9.34: sessions

TEST(SessionsJson, AreIds) {  // PROTOCOL 9.31
  EXPECT_THAT(decode_json<ListSessionsResponse>(R"({"sessions":["0f8fad5b"]})"),
              IsOkAndHolds(ListSessionsResponse{.sessions = {"0f8fad5b"}}));
}

TEST(SessionJson, ListsWhatItOwns) {  // PROTOCOL 9.32
  EXPECT_THAT(decode_json<GetSessionResponse>(
                  R"({"training_run_ids":["0f8fad5b:train:0"],)"
                  R"("sampler_ids":["0f8fad5b:sample:0"],"user_metadata":{"team":"nlp"},)"
                  R"("display_name":"Night run"})"),
              IsOkAndHolds(GetSessionResponse{.training_run_ids = {"0f8fad5b:train:0"},
                                              .sampler_ids = {"0f8fad5b:sample:0"},
                                              .user_metadata = StringMap{{"team", "nlp"}},
                                              .display_name = "Night run"}));
}

TEST(TraceExportJson, ReportsItsState) {  // PROTOCOL 7.1, 9.34
  EXPECT_THAT(decode_json<SessionTraceExportPollResponse>(R"({"status":"pending"})"),
              IsOkAndHolds(SessionTraceExportPollResponse{.status = TraceExportStatus::pending}));
  EXPECT_THAT(
      decode_json<SessionTraceExportPollResponse>(
          R"({"status":"ready","url":"https://storage.example/s.pftrace?sig=…"})"),
      IsOkAndHolds(SessionTraceExportPollResponse{
          .status = TraceExportStatus::ready, .url = "https://storage.example/s.pftrace?sig=…"}));
  EXPECT_THAT(
      decode_json<SessionTraceExportPollResponse>(R"({"status":"failed","error":"no events"})"),
      IsOkAndHolds(SessionTraceExportPollResponse{.status = TraceExportStatus::failed,
                                                  .error = "no events"}));
}

// ---- 9.35, 9.36, 9.47: audit and billing

TEST(AuditLogJson, ReadsTheExample) {  // PROTOCOL 9.35
  const auto answer = decode_json<AuditLogResponse>(
      R"({"entries":[{"timestamp":"2026-01-15T09:00:00Z","event":"checkpoint_read",)"
      R"("model_id":"9a:train:0","tinker_path":"tinker://9a:train:0/weights/step-10",)"
      R"("purpose":null}]})");

  ASSERT_THAT(answer, IsOk());
  EXPECT_THAT(answer->entries,
              ElementsAre(AuditLogEntry{.timestamp = at("2026-01-15T09:00:00Z"),
                                        .event = "checkpoint_read",
                                        .model_id = "9a:train:0",
                                        .tinker_path = "tinker://9a:train:0/weights/step-10"}));
}

TEST(AuditLogJson, KeepsDetailsAndRefusesNull) {  // PROTOCOL 9.35: default {}, not null
  constexpr std::string_view kText =
      R"({"timestamp":"2026-01-15T09:00:00Z","event":"e","event_details":{"a":[1,null]}})";
  EXPECT_THAT(echo<AuditLogEntry>(kText), IsOkAndHolds(kText));
  EXPECT_THAT(
      decode_json<AuditLogEntry>(R"({"timestamp":0,"event":"e","event_details":null})"),
      IsError(ErrorCode::invalid_response, "event_details: expected an object, found null"));
}

TEST(BillingUsageJson, ReadsTheExample) {  // PROTOCOL 9.36
  const auto answer = decode_json<BillingUsageResponse>(
      R"({"data":[{"bucket_start":"2026-07-13T05:00:00Z","bucket_end":"2026-07-13T06:00:00Z",)"
      R"("base_model":"Qwen/Qwen3-8B","user_id":"tml:organization_user:u1","user_name":"Ada",)"
      R"("session_id":"0f8fad5b","project_id":"proj-7",)"
      R"("event_info":{"type":"sampling_prefill","cached":true,"token_count":128}}],)"
      R"("sessions":{"0f8fad5b":{"user_metadata":{"team":"nlp"}}}})");

  ASSERT_THAT(answer, IsOk());
  ASSERT_EQ(answer->data.size(), 1U);
  EXPECT_EQ(answer->data[0].bucket_start, at("2026-07-13T05:00:00Z"));
  EXPECT_EQ(answer->data[0].user_name, "Ada");
  EXPECT_EQ(answer->data[0].event_info,
            BillingEventInfo(SamplingPrefillBillingEvent{.cached = true, .token_count = 128}));
  EXPECT_EQ(answer->sessions.at("0f8fad5b").user_metadata, (StringMap{{"team", "nlp"}}));
  EXPECT_EQ(answer->cost_data_through, std::nullopt);
}

TEST(BillingUsageJson, KeepsExtraMembersFromHurting) {  // PROTOCOL 4.2: lenient from 0.31
  EXPECT_THAT(
      decode_json<TrainingBillingEvent>(R"({"type":"training","token_count":5,"gpu":"h200"})"),
      IsOkAndHolds(TrainingBillingEvent{.token_count = 5}));
}

TEST(BillingUsageRequestJson, KeepsOffsets) {  // PROTOCOL 9.36: other offsets kept as given
  constexpr std::string_view kText =
      R"({"starting_on":"2026-07-13T00:00:00Z","ending_before":"2026-07-14T00:00:00-07:00"})";
  EXPECT_THAT(echo<GetBillingUsageRequest>(kText), IsOkAndHolds(kText));
}

TEST(StorageUsageJson, ReadsTheExample) {  // PROTOCOL 9.47
  const auto answer = decode_json<CurrentCheckpointStorageUsageResponse>(
      R"({"data":[{"project_id":"proj-7","checkpoint_count":1,"size_bytes":2000000000,)"
      R"("size_gigabytes":2.0}]})");
  ASSERT_THAT(answer, IsOk());
  EXPECT_THAT(answer->data,
              ElementsAre(CurrentCheckpointStorageUsageItem{.project_id = "proj-7",
                                                            .checkpoint_count = 1,
                                                            .size_bytes = 2000000000,
                                                            .size_gigabytes = 2.0}));
}

// ---- 9.3, 9.6, 9.48: credentials and telemetry

TEST(AuthTokenJson, HoldsTheJwt) {  // PROTOCOL 9.3
  constexpr std::string_view kJwt =
      "eyJhbGciOiJSUzI1NiJ9."
      "eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6InRtbDpvcmdhbml6YXRpb25fdXNlcjphYmMiLCJv"
      "cmdfaWQiOiJsYWIiLCJlbWFpbCI6ImFkYUBleGFtcGxlLmNvbSJ9.c2ln";
  const auto answer = decode_json<AuthTokenResponse>(R"({"jwt":")" + std::string(kJwt) + R"("})");
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->jwt.expose(), kJwt);
}

TEST(AuthTokenJson, NeedsTheJwt) {  // PROTOCOL 9.3: required
  EXPECT_THAT(decode_json<AuthTokenResponse>("{}"),
              IsError(ErrorCode::invalid_response, StartsWith("jwt: expected a string")));
}

TEST(AuthTokenJson, DoesNotRepeatAWrongValue) {  // STYLE 4: messages hold no secret
  EXPECT_THAT(decode_json<AuthTokenResponse>(R"({"jwt":["eyJsecret"]})"),
              IsError(ErrorCode::invalid_response, "jwt: expected a string, found an array"));
}

TEST(TelemetryResponseJson, MustSayAccepted) {  // PROTOCOL 9.6
  EXPECT_THAT(echo<TelemetryResponse>(R"({"status":"accepted"})"),
              IsOkAndHolds(R"({"status":"accepted"})"));
  EXPECT_THAT(decode_json<TelemetryResponse>(R"({"status":"dropped"})"),
              IsError(ErrorCode::invalid_response, StartsWith("status: expected 'accepted'")));
}

TEST(SelfApiKeyJson, SaysWhoTheKeyBelongsTo) {  // PROTOCOL 9.48
  const auto answer = decode_json<SelfApiKeyResponse>(
      R"({"key_id":12,"name":"laptop","note":"","details":{"org_details":{"name":"Lab"},)"
      R"("user_details":{"email":"ada@example.com"}}})");
  EXPECT_THAT(
      answer,
      IsOkAndHolds(SelfApiKeyResponse{
          .key_id = 12,
          .name = "laptop",
          .note = "",
          .details = {.org_details = {.name = "Lab"}, .user_details = {.email = "ada@example.com"}},
      }));
}

}  // namespace
}  // namespace tinker::wire::account_answers_test
