// The answers shown in PROTOCOL.md about futures: handles and polls.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/promise.h"
#include "wire/json.h"

namespace tinker::wire::promise_answers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOkAndHolds;

// ---- 7.2: future handles

TEST(UntypedApiFutureJson, NamesTheRequestAndItsModel) {  // PROTOCOL 7.2
  EXPECT_THAT(
      decode_json<UntypedApiFuture>(
          R"({"request_id": "f3c1:train:0:7", "model_id": "f3c1:train:0"})"),
      IsOkAndHolds(UntypedApiFuture{.request_id = "f3c1:train:0:7", .model_id = "f3c1:train:0"}));
}

TEST(UntypedApiFutureJson, ListsOneIdPerSample) {  // PROTOCOL 7.2
  const auto handle = decode_json<UntypedApiFuture>(
      R"({"request_id": "f3c1:sample:0:7",)"
      R"( "sample_sequence_ids": ["f3c1:sample:0:7:0", "f3c1:sample:0:7:1"]})");

  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(handle->model_id, std::nullopt);
  EXPECT_THAT(*handle->sample_sequence_ids, ElementsAre("f3c1:sample:0:7:0", "f3c1:sample:0:7:1"));
}

TEST(UntypedApiFutureJson, ReadsTheHandlesOfTheExamples) {  // PROTOCOL 9.9, 9.11, 9.12, 9.18
  EXPECT_THAT(
      decode_json<UntypedApiFuture>(R"({"request_id":"r-100","model_id":"0f8fad5b:train:0"})"),
      IsOkAndHolds(UntypedApiFuture{.request_id = "r-100", .model_id = "0f8fad5b:train:0"}));
  EXPECT_THAT(decode_json<UntypedApiFuture>(R"({"request_id":"r-150"})"),
              IsOkAndHolds(UntypedApiFuture{.request_id = "r-150"}));
  EXPECT_THAT(decode_json<UntypedApiFuture>(
                  R"({"request_id":"r-106","sample_sequence_ids":["r-106:0","r-106:1"]})"),
              IsOkAndHolds(UntypedApiFuture{
                  .request_id = "r-106",
                  .sample_sequence_ids = std::vector<std::string>{"r-106:0", "r-106:1"}}));
}

TEST(UntypedApiFutureJson, ToleratesAServerWithoutSequenceIds) {  // PROTOCOL 7.2, 0.25.0
  const auto handle =
      decode_json<UntypedApiFuture>(R"({"request_id":"r-106","sample_sequence_ids":null})");
  EXPECT_THAT(handle, IsOkAndHolds(UntypedApiFuture{.request_id = "r-106"}));
}

// ---- 9.19, 9.38: polling

TEST(TryAgainResponseJson, CarriesTheQueueState) {  // PROTOCOL 9.19
  EXPECT_THAT(decode_json<TryAgainResponse>(
                  R"({"type":"try_again","request_id":"r-106","queue_state":"paused_capacity",)"
                  R"("queue_state_reason":"waiting for GPUs"})"),
              IsOkAndHolds(TryAgainResponse{.request_id = "r-106",
                                            .queue_state = QueueState::paused_capacity,
                                            .queue_state_reason = "waiting for GPUs"}));
  EXPECT_THAT(
      decode_json<TryAgainResponse>(
          R"({"type":"try_again","request_id":"r-106","queue_state":"active"})"),
      IsOkAndHolds(TryAgainResponse{.request_id = "r-106", .queue_state = QueueState::active}));
}

TEST(TryAgainResponseJson, KnowsThreeQueueStates) {  // PROTOCOL 7.1
  const auto state = [](std::string_view name) {
    return decode_json<TryAgainResponse>(R"({"request_id":"r","queue_state":")" +
                                         std::string(name) + R"("})")
        .value()
        .queue_state.known();
  };
  EXPECT_EQ(state("active"), QueueState::active);
  EXPECT_EQ(state("paused_capacity"), QueueState::paused_capacity);
  EXPECT_EQ(state("paused_rate_limit"), QueueState::paused_rate_limit);
}

TEST(TryAgainResponseJson, KeepsQueueStatesOfTheFuture) {  // PROTOCOL 7.1: read as "unknown"
  const auto answer =
      decode_json<TryAgainResponse>(R"({"request_id":"r","queue_state":"paused_lunch"})");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->queue_state.known(), std::nullopt);
  EXPECT_EQ(answer->queue_state.text(), "paused_lunch");
}

TEST(TryAgainResponseJson, WritesTheReason) {  // WIRE_TOOL: keeps queue_state_reason
  constexpr std::string_view kBody =
      R"({"type":"try_again","request_id":"r","queue_state":"active","queue_state_reason":"x"})";
  EXPECT_THAT(echo<TryAgainResponse>(kBody), IsOkAndHolds(kBody));
}

TEST(CompleteMetadataResponseJson, TellsTheSize) {  // PROTOCOL 9.19
  EXPECT_EQ(decode_json<CompleteMetadataResponse>(
                R"({"status":"complete_metadata","response_payload_size":7340032})")
                .value()
                .response_payload_size,
            7340032);
}

TEST(CompleteMetadataResponseJson, MayNotKnowTheSize) {  // PROTOCOL 9.19: null or absent reads as 0
  for (const std::string_view text : {
           R"({"status":"complete_metadata"})",
           R"({"status":"complete_metadata","response_payload_size":null})",
       }) {
    EXPECT_EQ(decode_json<CompleteMetadataResponse>(text).value().response_payload_size,
              std::nullopt);
  }
}

TEST(RequestFailedResponseJson, NamesErrorAndCategory) {  // PROTOCOL 7.1, 9.19
  EXPECT_THAT(
      decode_json<RequestFailedResponse>(R"({"error":"sequence too long","category":"user"})"),
      IsOkAndHolds(RequestFailedResponse{.error = "sequence too long",
                                         .category = RequestErrorCategory::user}));
}

TEST(RequestFailedResponseJson, KnowsThreeCategories) {  // PROTOCOL 7.1: lower case on the wire
  const auto category = [](std::string_view name) {
    return decode_json<RequestFailedResponse>(R"({"error":"e","category":")" + std::string(name) +
                                              R"("})")
        .value()
        .category.known();
  };
  EXPECT_EQ(category("unknown"), RequestErrorCategory::unknown);
  EXPECT_EQ(category("server"), RequestErrorCategory::server);
  EXPECT_EQ(category("user"), RequestErrorCategory::user);
}

TEST(RequestFailedResponseJson, KeepsCategoriesOfTheFuture) {  // PROTOCOL 9.19: reads as unknown
  for (const std::string_view category : {"weather", "User", ""}) {
    const auto answer = decode_json<RequestFailedResponse>(R"({"error":"e","category":")" +
                                                           std::string(category) + R"("})");
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->category.known(), std::nullopt);
    EXPECT_EQ(answer->category.text(), category);
  }
}

TEST(ErrorResponseJson, CarriesTheDetail) {  // PROTOCOL 6.1, 9.19
  EXPECT_EQ(decode_json<ErrorResponse>(R"({"detail":"promise expired"})").value().detail,
            "promise expired");
}

TEST(FuturesRetrieveResponseJson, ListsCompletions) {  // PROTOCOL 9.38
  const auto answer = decode_json<FuturesRetrieveResponse>(
      R"({"completions":[{"state":"finished","request_id":"r-106",)"
      R"("response_payload_uncompressed_size":7340},)"
      R"({"state":"failed","request_id":"r-107","new_member":1}],"cursor":5})");

  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->cursor, 5);
  EXPECT_THAT(answer->completions,
              ElementsAre(FutureCompletion(FutureFinished{
                              .request_id = "r-106", .response_payload_uncompressed_size = 7340}),
                          FutureCompletion(FutureFailed{.request_id = "r-107"})));
}

TEST(FuturesRetrieveResponseJson, MayBeEmpty) {  // PROTOCOL 9.38
  EXPECT_THAT(decode_json<FuturesRetrieveResponse>(R"({"completions":[],"cursor":5})"),
              IsOkAndHolds(FuturesRetrieveResponse{.cursor = 5}));
}

TEST(FuturesRetrieveResponseJson, NeedsAState) {  // PROTOCOL 9.38: `state` required
  EXPECT_THAT(decode_json<FuturesRetrieveResponse>(
                  R"({"completions":[{"request_id":"r-106"}],"cursor":5})"),
              IsError(ErrorCode::invalid_response, StartsWith("completions[0].state: expected")));
}

TEST(FuturesRetrieveResponseJson, KeepsStatesOfTheFuture) {  // WIRE_TOOL: unknown values are kept
  constexpr std::string_view kBody =
      R"({"completions":[{"state":"paused","request_id":"r-1","until":null}],"cursor":1})";
  const auto answer = decode_json<FuturesRetrieveResponse>(kBody);
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(std::holds_alternative<UnknownVariant>(answer->completions.at(0)));
  EXPECT_THAT(encode_json(*answer), IsOkAndHolds(kBody));
}

}  // namespace
}  // namespace tinker::wire::promise_answers_test
