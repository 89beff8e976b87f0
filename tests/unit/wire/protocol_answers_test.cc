// The answers shown in PROTOCOL.md about sessions, models and sampling, field by field.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/client_config.h"
#include "tinker/types/custom_loss.h"
#include "tinker/types/model.h"
#include "tinker/types/sampling_session.h"
#include "tinker/types/session.h"
#include "tinker/types/weights.h"
#include "wire/json.h"

namespace tinker::wire::protocol_answers_test {
namespace {

using ::testing::ElementsAre;
using tinker::testing::echo;
using tinker::testing::IsError;
using tinker::testing::IsOkAndHolds;

// ---- 9.1, 9.2: client config

TEST(ClientConfigJson, OfAnEmptyObjectIsAllDefaults) {  // PROTOCOL 9.1: every row of the table
  const auto config = decode_json<ClientConfigResponse>("{}");

  ASSERT_TRUE(config.ok());
  EXPECT_FALSE(config->pjwt_auth_enabled);
  EXPECT_EQ(config->credential_default_source, "api_key");
  EXPECT_EQ(config->sample_dispatch_bytes_semaphore_size, 10485760);
  EXPECT_EQ(config->inflight_response_bytes_semaphore_size, 52428800);
  EXPECT_TRUE(config->parallel_fwdbwd_chunks);
  EXPECT_FALSE(config->proto_compress_fwdbwd);
  EXPECT_EQ(config->fwdbwd_max_chunk_len, 1024);
  EXPECT_EQ(config->fwdbwd_max_chunk_bytes_count, 5000000);
  EXPECT_EQ(config->fwdbwd_dispatch_bytes_semaphore_size, 50000000);
  EXPECT_EQ(config->billing_exception_max_pause_duration_sec, 3600);
  EXPECT_FALSE(config->sample_no_retries);
  EXPECT_TRUE(config->sample_enable_stuck_detection);
  EXPECT_EQ(config->sample_max_concurrent_requests, 2000);
  EXPECT_TRUE(config->use_pyqwest_transport);
  EXPECT_FALSE(config->create_model_via_load_weights);
  EXPECT_FALSE(config->sample_use_retrieve_futures);
  EXPECT_FALSE(config->custom_loss_server_side);
  EXPECT_FALSE(config->sample_join_sampling_session);
}

TEST(ClientConfigJson, IgnoresFlagsOfTheFuture) {  // PROTOCOL 9.1
  ClientConfigResponse expected;
  expected.pjwt_auth_enabled = true;
  expected.proto_compress_fwdbwd = true;

  EXPECT_THAT(
      decode_json<ClientConfigResponse>(
          R"({"pjwt_auth_enabled":true,"proto_compress_fwdbwd":true,"some_future_flag":3})"),
      IsOkAndHolds(expected));
}

TEST(ClientConfigJson, RefusesNull) {  // PROTOCOL 9.1: null invalid
  EXPECT_THAT(decode_json<ClientConfigResponse>(R"({"sample_no_retries":null})"),
              IsError(ErrorCode::invalid_response,
                      "sample_no_retries: expected true or false, found null"));
}

TEST(ClientConfigJson, KeepsAnyCredentialSource) {  // PROTOCOL 7.1
  const auto config = decode_json<ClientConfigResponse>(R"({"credential_default_source":"vault"})");
  EXPECT_EQ(config.value().credential_default_source, "vault");
}

TEST(ClientDynamicConfigJson, ReadsFlagsAndDefaults) {  // PROTOCOL 9.2
  EXPECT_THAT(decode_json<ClientDynamicConfigResponse>("{}"),
              IsOkAndHolds(ClientDynamicConfigResponse{.refresh_interval_sec = 300,
                                                       .sample_cancel_enabled = false,
                                                       .sample_cancel_max_batch_size = 64}));
  EXPECT_THAT(decode_json<ClientDynamicConfigResponse>(
                  R"({"refresh_interval_sec":120,"sample_cancel_enabled":true})"),
              IsOkAndHolds(ClientDynamicConfigResponse{.refresh_interval_sec = 120,
                                                       .sample_cancel_enabled = true,
                                                       .sample_cancel_max_batch_size = 64}));
}

TEST(ServerCapabilitiesJson, ListsModels) {  // PROTOCOL 9.7
  const auto answer = decode_json<GetServerCapabilitiesResponse>(
      R"({"supported_models":[{"model_name":"Qwen/Qwen3-8B","max_context_length":32768,)"
      R"("trainable":true,"sampleable":true},{"model_name":null}]})");

  ASSERT_TRUE(answer.ok());
  EXPECT_THAT(answer->supported_models,
              ElementsAre(SupportedModel{.model_name = "Qwen/Qwen3-8B",
                                         .max_context_length = 32768,
                                         .trainable = true,
                                         .sampleable = true},
                          SupportedModel{}));
}

TEST(HealthJson, MustSayOk) {  // PROTOCOL 9.8
  EXPECT_THAT(echo<HealthResponse>(R"({"status":"ok"})"), IsOkAndHolds(R"({"status":"ok"})"));
  EXPECT_THAT(decode_json<HealthResponse>(R"({"status":"bad"})"),
              IsError(ErrorCode::invalid_response, "status: expected 'ok', found 'bad'"));
  EXPECT_FALSE(decode_json<HealthResponse>("{}").ok());
}

// ---- 9.4 to 9.11: sessions and models

TEST(CreateSessionResponseJson, CarriesMessages) {  // PROTOCOL 9.4
  EXPECT_THAT(
      decode_json<CreateSessionResponse>(
          R"({"type":"create_session","session_id":"0f8fad5b","info_message":"Welcome."})"),
      IsOkAndHolds(CreateSessionResponse{.info_message = "Welcome.", .session_id = "0f8fad5b"}));
}

TEST(CreateSessionResponseJson, NeedsNoTag) {  // PROTOCOL 7.1: tags are optional on input
  EXPECT_THAT(decode_json<CreateSessionResponse>(R"({"session_id":"s","error_message":null})"),
              IsOkAndHolds(CreateSessionResponse{.session_id = "s"}));
}

TEST(CreateSessionResponseJson, RefusesAnotherTag) {  // PROTOCOL 7.1: must equal the tag
  EXPECT_THAT(
      decode_json<CreateSessionResponse>(R"({"type":"session_heartbeat","session_id":"s"})"),
      IsError(ErrorCode::invalid_response,
              "type: expected 'create_session', found 'session_heartbeat'"));
}

TEST(SessionHeartbeatResponseJson, IsAnyObjectWithoutAWrongTag) {  // PROTOCOL 9.5
  EXPECT_THAT(echo<SessionHeartbeatResponse>("{}"),
              IsOkAndHolds(R"({"type":"session_heartbeat"})"));
  EXPECT_FALSE(decode_json<SessionHeartbeatResponse>(R"({"type":"x"})").ok());
  EXPECT_FALSE(decode_json<SessionHeartbeatResponse>("[]").ok());
}

TEST(CreateModelResponseJson, NamesTheModel) {  // PROTOCOL 9.9
  EXPECT_THAT(
      decode_json<CreateModelResponse>(R"({"model_id":"0f8fad5b:train:0","type":"create_model"})"),
      IsOkAndHolds(CreateModelResponse{.model_id = "0f8fad5b:train:0"}));
  EXPECT_THAT(
      decode_json<CreateModelResponse>("{}"),
      IsError(ErrorCode::invalid_response, "model_id: expected a string, found no such member"));
}

TEST(GetInfoResponseJson, DescribesTheModel) {  // PROTOCOL 9.10
  const auto info = decode_json<GetInfoResponse>(
      R"({"type":"get_info","model_data":{"arch":"qwen3","model_name":"Qwen/Qwen3-8B",)"
      R"("tokenizer_id":"Qwen/Qwen3-8B:rev1"},"model_id":"0f8fad5b:train:0","is_lora":true,)"
      R"("lora_rank":32})");

  EXPECT_THAT(info,
              IsOkAndHolds(GetInfoResponse{
                  .model_data = {.arch = "qwen3",
                                 .model_name = "Qwen/Qwen3-8B",
                                 .tokenizer_id = "Qwen/Qwen3-8B:rev1"},
                  .model_id = "0f8fad5b:train:0",
                  .optimizer_config = AdamOptimizerConfig{},
                  .is_lora = true,
                  .lora_rank = 32,
              }));
}

TEST(GetInfoResponseJson, MayHaveANullTag) {  // PROTOCOL 9.10: `get_info` or null
  const auto info = decode_json<GetInfoResponse>(R"({"type":null,"model_data":{},"model_id":"m"})");
  ASSERT_TRUE(info.ok());
  EXPECT_FALSE(info->has_type);
}

TEST(UnloadModelResponseJson, IsWrittenWithTheTagItCameWith) {  // PROTOCOL 9.11: tag or null
  constexpr std::string_view kTagged = R"({"model_id":"0f8fad5b:train:0","type":"unload_model"})";
  EXPECT_THAT(echo<UnloadModelResponse>(kTagged), IsOkAndHolds(kTagged));
  EXPECT_THAT(echo<UnloadModelResponse>(R"({"model_id":"m","type":null})"),
              IsOkAndHolds(R"({"model_id":"m"})"));
}

// ---- 9.13 to 9.17: results

TEST(OptimStepResponseJson, ReadsMetrics) {  // PROTOCOL 9.13
  const auto answer = decode_json<OptimStepResponse>(R"({"metrics":{"grad_norm":0.73}})");
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->metrics->at("grad_norm"), 0.73);
}

TEST(OptimStepResponseJson, MayHaveNoMetrics) {  // PROTOCOL 9.13: map or null
  EXPECT_THAT(decode_json<OptimStepResponse>("{}"), IsOkAndHolds(OptimStepResponse{}));
  EXPECT_THAT(decode_json<OptimStepResponse>(R"({"metrics":null})"),
              IsOkAndHolds(OptimStepResponse{}));
}

TEST(SaveWeightsResponseJson, NamesThePath) {  // PROTOCOL 9.14
  EXPECT_THAT(
      decode_json<SaveWeightsResponse>(
          R"({"path":"tinker://0f8fad5b:train:0/weights/step-10","type":"save_weights"})"),
      IsOkAndHolds(SaveWeightsResponse{.path = "tinker://0f8fad5b:train:0/weights/step-10"}));
}

TEST(LoadWeightsResponseJson, NamesThePathAndTheModel) {  // PROTOCOL 9.15
  EXPECT_THAT(
      decode_json<LoadWeightsResponse>(R"({"path":"tinker://9a:train:0/weights/step-10",)"
                                       R"("model_id":"0f8fad5b:train:1","type":"load_weights"})"),
      IsOkAndHolds(LoadWeightsResponse{.path = "tinker://9a:train:0/weights/step-10",
                                       .model_id = "0f8fad5b:train:1"}));
}

TEST(SaveWeightsForSamplerResponseJson, HasAPathOrASession) {  // PROTOCOL 9.16
  using Answer = SaveWeightsForSamplerResponseInternal;
  EXPECT_EQ(decode_json<Answer>(R"({"path":"tinker://0f8fad5b:train:0/sampler_weights/eval-3",)"
                                R"("type":"save_weights_for_sampler"})")
                .value()
                .path,
            "tinker://0f8fad5b:train:0/sampler_weights/eval-3");
  EXPECT_EQ(decode_json<Answer>(R"({"sampling_session_id":"0f8fad5b:sample:0"})")
                .value()
                .sampling_session_id,
            "0f8fad5b:sample:0");
}

TEST(CreateSamplingSessionResponseJson, NamesTheSession) {  // PROTOCOL 9.17
  EXPECT_EQ(decode_json<CreateSamplingSessionResponse>(
                R"({"type":"create_sampling_session","sampling_session_id":"0f8fad5b:sample:1"})")
                .value()
                .sampling_session_id,
            "0f8fad5b:sample:1");
}

TEST(GetSamplerResponseJson, MayHaveANullPath) {  // PROTOCOL 9.20
  EXPECT_THAT(decode_json<GetSamplerResponse>(R"({"sampler_id":"0f8fad5b:sample:1",)"
                                              R"("base_model":"Qwen/Qwen3-8B","model_path":null})"),
              IsOkAndHolds(GetSamplerResponse{.sampler_id = "0f8fad5b:sample:1",
                                              .base_model = "Qwen/Qwen3-8B"}));
}

TEST(WeightsInfoResponseJson, DescribesTheCheckpoint) {  // PROTOCOL 9.21
  EXPECT_THAT(
      decode_json<WeightsInfoResponse>(
          R"({"base_model":"Qwen/Qwen3-8B","optimizer_config":{"type":"adamw"},"is_lora":true,)"
          R"("lora_rank":32,"train_unembed":true,"train_mlp":true,"train_attn":true})"),
      IsOkAndHolds(WeightsInfoResponse{.base_model = "Qwen/Qwen3-8B",
                                       .is_lora = true,
                                       .lora_rank = 32,
                                       .train_unembed = true,
                                       .train_mlp = true,
                                       .train_attn = true}));
}

TEST(CreateCustomLossResponseJson, NamesTheLoss) {  // PROTOCOL 9.40
  EXPECT_EQ(
      decode_json<CreateCustomLossResponse>(R"({"loss_id":"loss-1","type":"create_custom_loss"})")
          .value()
          .loss_id,
      "loss-1");
}

TEST(JoinSamplingSessionResponseJson, CountsTheClients) {  // PROTOCOL 9.41
  EXPECT_EQ(decode_json<JoinSamplingSessionResponse>(
                R"({"type":"join_sampling_session","client_counter":7})")
                .value()
                .client_counter,
            7);
}

}  // namespace
}  // namespace tinker::wire::protocol_answers_test
