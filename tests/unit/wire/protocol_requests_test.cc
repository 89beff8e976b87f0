// The request bodies shown in PROTOCOL.md: what we read there we send in the very same bytes.

#include <ostream>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/echo.h"
#include "tinker/testing/matchers.h"
#include "tinker/types/promise.h"
#include "tinker/types/session.h"
#include "tinker/types/weights.h"
#include "wire/registry.h"

namespace tinker::wire::protocol_requests_test {
namespace {

using tinker::testing::echo;
using tinker::testing::IsOkAndHolds;

struct Example {
  std::string_view name;
  std::string_view type;
  std::string_view document;
};

void PrintTo(const Example& example, std::ostream* out) {
  *out << example.document;
}

class ProtocolRequest : public ::testing::TestWithParam<Example> {};

TEST_P(ProtocolRequest, IsWrittenAsItWasRead) {
  const WireType* type = find_wire_type(GetParam().type);
  ASSERT_NE(type, nullptr);

  const auto written =
      type->transcode(std::string(GetParam().document), Encoding::json, Encoding::json, {});

  EXPECT_THAT(written, IsOkAndHolds(GetParam().document));
}

// The number in a name is the section.
INSTANTIATE_TEST_SUITE_P(
    Protocol,
    ProtocolRequest,
    ::testing::Values(
        Example{"s7_3_model_input",
                "model_input",
                R"({"chunks":[)"
                R"({"tokens":[9906,11],"type":"encoded_text"},)"
                R"({"data":"iVBORw==","format":"png","expected_tokens":64,"type":"image"},)"
                R"({"format":"jpeg","location":"https://assets.example/cat.jpg",)"
                R"("type":"image_asset_pointer"},)"
                R"({"dmel":"BAIBUA==","type":"dmel"}]})"},
        Example{"s7_12_adamw", "adam_optimizer_config", R"({"type":"adamw"})"},
        Example{"s7_12_dimuon", "dimuon_optimizer_config", R"({"type":"dimuon","version":1})"},
        Example{"s9_1_client_config", "client_config_request", R"({"sdk_version":"0.36.0"})"},
        Example{"s9_4_create_session",
                "create_session_request",
                R"({"tags":["nightly","lab"],"user_metadata":{"team":"nlp"},)"
                R"("sdk_version":"0.36.0","project_id":"proj-7","display_name":"Night run",)"
                R"("type":"create_session"})"},
        Example{"s9_5_session_heartbeat",
                "session_heartbeat_request",
                R"({"session_id":"0f8fad5b","type":"session_heartbeat"})"},
        Example{"s9_6_telemetry",
                "telemetry_send_request",
                R"({"events":[)"
                R"({"event":"SESSION_START","event_id":"7b0c…","event_session_index":0,)"
                R"("severity":"INFO","timestamp":"2026-03-01T10:00:00.000123Z"},)"
                R"({"event":"GENERIC_EVENT","event_id":"91aa…","event_name":"user_error",)"
                R"("event_session_index":1,"severity":"WARNING",)"
                R"("timestamp":"2026-03-01T10:00:09Z",)"
                R"("event_data":{"error_type":"BadRequestError","status_code":400}}],)"
                R"("platform":"Linux","sdk_version":"0.36.0","session_id":"0f8fad5b",)"
                R"("process_uuid":"d9428888-122b-11e1-b85c-61cd3cbb3210"})"},
        Example{"s9_9_create_model",
                "create_model_request",
                R"({"session_id":"0f8fad5b","model_seq_id":0,"base_model":"Qwen/Qwen3-8B",)"
                R"("lora_config":{"rank":32,"train_unembed":true,"train_mlp":true,)"
                R"("train_attn":true},"optimizer_config":{"type":"adamw"},)"
                R"("type":"create_model"})"},
        Example{"s9_10_get_info",
                "get_info_request",
                R"({"model_id":"0f8fad5b:train:0","type":"get_info"})"},
        Example{"s9_11_unload_model",
                "unload_model_request",
                R"({"model_id":"0f8fad5b:train:0","type":"unload_model"})"},
        Example{"s9_13_optim_step_adam",
                "optim_step_request",
                R"({"model_id":"0f8fad5b:train:0","seq_id":2,"type":"optim_step",)"
                R"("adam_params":{"learning_rate":0.0001,"beta1":0.9,"beta2":0.95,"eps":1e-12,)"
                R"("weight_decay":0.0,"grad_clip_norm":0.0}})"},
        Example{"s9_13_optim_step_dimuon",
                "optim_step_request",
                R"({"model_id":"0f8fad5b:train:0","seq_id":2,"type":"optim_step",)"
                R"("optimizer_params":{"type":"dimuon","learning_rate":1.0,)"
                R"("grad_clip_norm":0.0,"beta1":0.9}})"},
        Example{"s9_14_save_weights",
                "save_weights_request",
                R"({"model_id":"0f8fad5b:train:0","path":"step-10","seq_id":3,)"
                R"("ttl_seconds":86400,"overwrite":false,"type":"save_weights"})"},
        Example{"s9_15_load_weights_into_a_model",
                "load_weights_request",
                R"({"model_id":"0f8fad5b:train:1","seq_id":1,)"
                R"("path":"tinker://9a:train:0/weights/step-10","optimizer":true,)"
                R"("type":"load_weights"})"},
        Example{"s9_15_load_weights_creating_a_model",
                "load_weights_request",
                R"({"session_id":"0f8fad5b","model_seq_id":2,"user_metadata":{"run":"b"},)"
                R"("path":"tinker://9a:train:0/weights/step-10","optimizer":false,)"
                R"("type":"load_weights"})"},
        Example{"s9_16_save_weights_for_sampler_named",
                "save_weights_for_sampler_request",
                R"({"model_id":"0f8fad5b:train:0","path":"eval-3","seq_id":4,)"
                R"("type":"save_weights_for_sampler"})"},
        Example{"s9_16_save_weights_for_sampler_ephemeral",
                "save_weights_for_sampler_request",
                R"({"model_id":"0f8fad5b:train:0","sampling_session_seq_id":0,"seq_id":5,)"
                R"("type":"save_weights_for_sampler"})"},
        Example{"s9_17_create_sampling_session",
                "create_sampling_session_request",
                R"({"session_id":"0f8fad5b","sampling_session_seq_id":1,)"
                R"("base_model":"Qwen/Qwen3-8B","type":"create_sampling_session"})"},
        Example{"s9_18_asample",
                "sample_request",
                R"({"num_samples":2,)"
                R"("prompt":{"chunks":[{"tokens":[1,2,3],"type":"encoded_text"}]},)"
                R"("sampling_params":{"max_tokens":64,"stop":["\n"],"temperature":0.7,)"
                R"("top_k":-1,"top_p":1.0},"sampling_session_id":"0f8fad5b:sample:1",)"
                R"("seq_id":0,"prompt_logprobs":false,"topk_prompt_logprobs":0,)"
                R"("topk_sample_logprobs":0,"prompt_alt_tokens_k":0,)"
                R"("record_stability_info":false,"type":"sample"})"},
        Example{"s9_18_asample_with_every_newer_member",
                "sample_request",
                R"({"num_samples":1,)"
                R"("prompt":{"chunks":[{"tokens":[1,2,3],"type":"encoded_text"}]},)"
                R"("sampling_params":{"temperature":1.0,"top_k":-1,"top_p":1.0},)"
                R"("sampling_session_id":"0f8fad5b:sample:1","seq_id":0,)"
                R"("prompt_logprobs":true,"topk_prompt_logprobs":2,"topk_sample_logprobs":2,)"
                R"("target_prompt_logprobs":{"data":[9],"dtype":"int64","shape":[2,3],)"
                R"("sparse_crow_indices":[0,0,1],"sparse_col_indices":[0]},)"
                R"("prompt_alt_tokens_k":2,"prompt_logprobs_last_n":1,)"
                R"("record_stability_info":true,"type":"sample"})"},
        Example{"s9_19_retrieve_future",
                "future_retrieve_request",
                R"({"request_id":"r-106","allow_metadata_only":true})"},
        Example{"s9_38_retrieve_futures",
                "futures_retrieve_request",
                R"({"target":{"type":"sampling_session",)"
                R"("sampling_session_id":"0f8fad5b:sample:1","cloned_sampler_id":0},)"
                R"("prev_cursor":3,"retrieved_request_ids":["r-1","r-3"]})"},
        Example{"s9_40_create_custom_loss",
                "create_custom_loss_request",
                R"({"session_id":"0f8fad5b","custom_loss_seq_id":0,"name":"neg_ll",)"
                R"("inputs":[{"name":"logprobs","rank":1},{"name":"weights","rank":1}],)"
                R"("graph":{"format":1,"nodes":[)"
                R"({"op":"placeholder","name":"logprobs","target":"logprobs","args":[],)"
                R"("kwargs":{}},)"
                R"({"op":"placeholder","name":"weights","target":"weights","args":[],)"
                R"("kwargs":{}},)"
                R"({"op":"call_function","name":"mul","target":"operator.mul",)"
                R"("args":[{"ref":"logprobs"},{"ref":"weights"}],"kwargs":{}},)"
                R"({"op":"call_method","name":"sum_1","target":"sum","args":[{"ref":"mul"}],)"
                R"("kwargs":{}},)"
                R"({"op":"call_function","name":"neg","target":"operator.neg",)"
                R"("args":[{"ref":"sum_1"}],"kwargs":{}},)"
                R"({"op":"output","name":"output","target":"output","args":[{"tuple":[)"
                R"({"ref":"neg"},{"dict":{"custom/neg_ll:sum":{"ref":"neg"}}}]}],)"
                R"("kwargs":{}}]},"type":"create_custom_loss"})"},
        Example{"s9_41_join_sampling_session",
                "join_sampling_session_request",
                R"({"sampling_session_id":"0f8fad5b:sample:1","type":"join_sampling_session"})"},
        Example{"s9_43_copy_weights_into_a_project",
                "copy_weights_request",
                R"({"destination_project_id":"proj-7",)"
                R"("source_path":"tinker://9a:train:0/weights/step-10","ttl_seconds":86400})"},
        Example{"s9_43_copy_weights_into_a_session",
                "copy_weights_request",
                R"({"session_id":"0f8fad5b","model_seq_id":1,)"
                R"("source_path":"tinker://9a:train:0/weights/step-10",)"
                R"("weights_access_token":"tml-other"})"},
        Example{"s9_44_save_weights_external",
                "save_weights_external_request",
                R"({"model_id":"0f8fad5b:train:0","path":"final","seq_id":3,)"
                R"("ttl_seconds":3600,"type":"save_weights_external"})"},
        Example{"s9_46_session_search",
                "session_search_request",
                R"({"user_metadata":{"k":"v"},"display_name":"night","owner":{"type":"own"},)"
                R"("statuses":[{"type":"client_finished","reasons":["success"]},)"
                R"({"type":"active"}],"limit":50,)"
                R"("cursor":{"last_created_at":"2026-01-01T00:00:00Z",)"
                R"("last_session_id":"s"}})"}),
    [](const auto& test) { return std::string(test.param.name); });

// ---- Bodies that are written by hand in the official client (PROTOCOL 4.4)

TEST(HandWrittenBody, OfWeightsInfoIsThePath) {  // PROTOCOL 9.21
  constexpr std::string_view kBody = R"({"tinker_path":"tinker://9a:train:0/weights/step-10"})";
  EXPECT_THAT(echo<WeightsInfoRequest>(kBody), IsOkAndHolds(kBody));
}

TEST(HandWrittenBody, OfTtlIsTheNumberOfSeconds) {  // PROTOCOL 9.29
  EXPECT_THAT(echo<SetTtlRequest>(R"({"ttl_seconds":86400})"),
              IsOkAndHolds(R"({"ttl_seconds":86400})"));
}

TEST(HandWrittenBody, OfTtlReallySendsNull) {  // PROTOCOL 4.4, 9.29
  EXPECT_THAT(encode_json(SetTtlRequest{}), IsOkAndHolds(R"({"ttl_seconds":null})"));
  EXPECT_THAT(decode_json<SetTtlRequest>(R"({"ttl_seconds":null})"), IsOkAndHolds(SetTtlRequest{}));
}

TEST(HandWrittenBody, OfTtlMustSayWhichOfTheTwo) {  // PROTOCOL 9.29
  EXPECT_FALSE(decode_json<SetTtlRequest>("{}").ok());
}

TEST(HandWrittenBody, OfAProjectIsItsId) {  // PROTOCOL 9.33
  EXPECT_THAT(encode_json(SetProjectRequest{.project_id = "proj-7"}),
              IsOkAndHolds(R"({"project_id":"proj-7"})"));
}

TEST(HandWrittenBody, OfCancelFutureIsTheRequest) {  // PROTOCOL 9.39
  EXPECT_THAT(echo<CancelFutureRequest>(R"({"request_id":"r-106"})"),
              IsOkAndHolds(R"({"request_id":"r-106"})"));
}

TEST(HandWrittenBody, OfFinishReallySendsNull) {  // PROTOCOL 4.4, 9.42
  constexpr std::string_view kBody = R"({"reason":{"type":"success"},"detail":null})";
  EXPECT_THAT(encode_json(FinishSessionRequest{}), IsOkAndHolds(kBody));
  EXPECT_THAT(decode_json<FinishSessionRequest>(kBody), IsOkAndHolds(FinishSessionRequest{}));
}

TEST(HandWrittenBody, OfFinishCarriesReasonAndDetail) {  // PROTOCOL 7.1, 9.42
  const FinishSessionRequest request = {.reason = SessionFinishReason::errored, .detail = "oom"};
  constexpr std::string_view kBody = R"({"reason":{"type":"errored"},"detail":"oom"})";
  EXPECT_THAT(encode_json(request), IsOkAndHolds(kBody));
  EXPECT_THAT(decode_json<FinishSessionRequest>(kBody), IsOkAndHolds(request));
}

TEST(HandWrittenBody, OfFinishKnowsThreeReasons) {  // PROTOCOL 7.1
  EXPECT_THAT(echo<FinishSessionRequest>(R"({"reason":{"type":"interrupted"},"detail":null})"),
              IsOkAndHolds(R"({"reason":{"type":"interrupted"},"detail":null})"));
  EXPECT_FALSE(
      decode_json<FinishSessionRequest>(R"({"reason":{"type":"bored"},"detail":null})").ok());
}

}  // namespace
}  // namespace tinker::wire::protocol_requests_test
