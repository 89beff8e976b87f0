#include "wire/registry.h"

#include <algorithm>
#include <array>

#include "tinker/types/audit.h"
#include "tinker/types/auth.h"
#include "tinker/types/billing.h"
#include "tinker/types/checkpoint.h"
#include "tinker/types/client_config.h"
#include "tinker/types/custom_loss.h"
#include "tinker/types/model.h"
#include "tinker/types/promise.h"
#include "tinker/types/sample.h"
#include "tinker/types/sampling_session.h"
#include "tinker/types/session_search.h"
#include "tinker/types/telemetry.h"
#include "tinker/types/weights.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::wire {
namespace {

using Kind = WireType::Kind;

template <typename T, bool kJson, bool kProto>
Result<std::string> transcode(std::string input,
                              Encoding from,
                              Encoding to,
                              DecodeOptions options) {
  const auto decode = [&]() -> Result<T> {
    if constexpr (kJson) {
      if (from == Encoding::json) return decode_json<T>(input, options);
    }
    if constexpr (kProto) {
      if (from == Encoding::proto) return decode_proto<T>(std::move(input), options);
    }
    return Error{.code = ErrorCode::invalid_argument, .message = "no such encoding of this type"};
  };
  TINKER_TRY(const T value, decode());
  if constexpr (kJson) {
    if (to == Encoding::json) return encode_json(value);
  }
  if constexpr (kProto) {
    if (to == Encoding::proto) return encode_proto(value);
  }
  return Error{.code = ErrorCode::invalid_argument, .message = "no such encoding of this type"};
}

template <typename T>
constexpr WireType json(std::string_view name, Kind kind) {
  return {name, kind, true, false, transcode<T, true, false>};
}
template <typename T>
constexpr WireType proto(std::string_view name, Kind kind) {
  return {name, kind, false, true, transcode<T, false, true>};
}
template <typename T>
constexpr WireType both(std::string_view name, Kind kind) {
  return {name, kind, true, true, transcode<T, true, true>};
}

constexpr std::array kTypes = {
    json<ClientConfigRequest>("client_config_request", Kind::request),
    json<CopyWeightsRequest>("copy_weights_request", Kind::request),
    json<CreateCustomLossRequest>("create_custom_loss_request", Kind::request),
    json<CreateModelRequest>("create_model_request", Kind::request),
    json<CreateSamplingSessionRequest>("create_sampling_session_request", Kind::request),
    json<CreateSessionRequest>("create_session_request", Kind::request),
    proto<ForwardBackwardRequest>("forward_backward_request", Kind::request),
    json<FutureRetrieveRequest>("future_retrieve_request", Kind::request),
    json<FuturesRetrieveRequest>("futures_retrieve_request", Kind::request),
    json<GetBillingUsageRequest>("get_billing_usage_request", Kind::request),
    json<GetCurrentCheckpointStorageUsageRequest>("get_current_checkpoint_storage_usage_request",
                                                  Kind::request),
    json<GetInfoRequest>("get_info_request", Kind::request),
    json<JoinSamplingSessionRequest>("join_sampling_session_request", Kind::request),
    json<LoadWeightsRequest>("load_weights_request", Kind::request),
    json<OptimStepRequest>("optim_step_request", Kind::request),
    json<SampleRequest>("sample_request", Kind::request),
    json<SaveWeightsExternalRequest>("save_weights_external_request", Kind::request),
    json<SaveWeightsForSamplerRequest>("save_weights_for_sampler_request", Kind::request),
    json<SaveWeightsRequest>("save_weights_request", Kind::request),
    json<SessionHeartbeatRequest>("session_heartbeat_request", Kind::request),
    json<SessionSearchRequest>("session_search_request", Kind::request),
    json<TelemetrySendRequest>("telemetry_send_request", Kind::request),
    json<UnloadModelRequest>("unload_model_request", Kind::request),
    json<AuditLogResponse>("audit_log_response", Kind::response),
    json<AuthTokenResponse>("auth_token_response", Kind::response),
    json<BillingUsageResponse>("billing_usage_response", Kind::response),
    json<CheckpointsListResponse>("checkpoints_list_response", Kind::response),
    json<ClientConfigResponse>("client_config_response", Kind::response),
    json<ClientDynamicConfigResponse>("client_dynamic_config_response", Kind::response),
    json<CopyWeightsResponse>("copy_weights_response", Kind::response),
    json<CreateCustomLossResponse>("create_custom_loss_response", Kind::response),
    json<CreateModelResponse>("create_model_response", Kind::response),
    json<CreateSamplingSessionResponse>("create_sampling_session_response", Kind::response),
    json<CreateSessionResponse>("create_session_response", Kind::response),
    json<CurrentCheckpointStorageUsageResponse>("current_checkpoint_storage_usage_response",
                                                Kind::response),
    json<ExternalWeightsUrlsResponse>("external_weights_urls_response", Kind::response),
    proto<ForwardBackwardOutput>("forward_backward_output", Kind::response),
    json<FuturesRetrieveResponse>("futures_retrieve_response", Kind::response),
    json<GetInfoResponse>("get_info_response", Kind::response),
    json<GetSamplerResponse>("get_sampler_response", Kind::response),
    json<GetServerCapabilitiesResponse>("get_server_capabilities_response", Kind::response),
    json<GetSessionResponse>("get_session_response", Kind::response),
    json<HealthResponse>("health_response", Kind::response),
    json<JoinSamplingSessionResponse>("join_sampling_session_response", Kind::response),
    json<ListSessionsResponse>("list_sessions_response", Kind::response),
    json<LoadWeightsResponse>("load_weights_response", Kind::response),
    json<OptimStepResponse>("optim_step_response", Kind::response),
    json<RequestFailedResponse>("request_failed_response", Kind::response),
    proto<SampleResponse>("sample_response", Kind::response),
    json<SaveWeightsExternalResponse>("save_weights_external_response", Kind::response),
    json<SaveWeightsExternalResponseInternal>("save_weights_external_response_internal",
                                              Kind::response),
    json<SaveWeightsForSamplerResponse>("save_weights_for_sampler_response", Kind::response),
    json<SaveWeightsForSamplerResponseInternal>("save_weights_for_sampler_response_internal",
                                                Kind::response),
    json<SaveWeightsResponse>("save_weights_response", Kind::response),
    json<SelfApiKeyResponse>("self_api_key_response", Kind::response),
    json<SessionHeartbeatResponse>("session_heartbeat_response", Kind::response),
    json<SessionSearchResponse>("session_search_response", Kind::response),
    json<SessionTraceExportPollResponse>("session_trace_export_poll_response", Kind::response),
    json<TelemetryResponse>("telemetry_response", Kind::response),
    json<TrainingRun>("training_run", Kind::response),
    json<TrainingRunsResponse>("training_runs_response", Kind::response),
    json<TryAgainResponse>("try_again_response", Kind::response),
    json<UnloadModelResponse>("unload_model_response", Kind::response),
    json<UntypedApiFuture>("untyped_api_future", Kind::response),
    json<WeightsInfoResponse>("weights_info_response", Kind::response),
    json<AccessibleSearchOwner>("accessible_search_owner", Kind::value),
    json<ActiveSessionStatusQuery>("active_session_status_query", Kind::value),
    json<AdamOptimizerConfig>("adam_optimizer_config", Kind::value),
    json<AdamParams>("adam_params", Kind::value),
    json<AuditLogEntry>("audit_log_entry", Kind::value),
    json<BillingUsageEvent>("billing_usage_event", Kind::value),
    json<BillingUsageSession>("billing_usage_session", Kind::value),
    json<CancelledSessionStatusQuery>("cancelled_session_status_query", Kind::value),
    json<Checkpoint>("checkpoint", Kind::value),
    json<CheckpointBillingEvent>("checkpoint_billing_event", Kind::value),
    json<ClientFinishedSessionStatusQuery>("client_finished_session_status_query", Kind::value),
    json<ClientSessionFinishErrored>("client_session_finish_errored", Kind::value),
    json<ClientSessionFinishInterrupted>("client_session_finish_interrupted", Kind::value),
    json<ClientSessionFinishSuccess>("client_session_finish_success", Kind::value),
    json<ClientSessionFinished>("client_session_finished", Kind::value),
    json<CurrentCheckpointStorageUsageItem>("current_checkpoint_storage_usage_item", Kind::value),
    json<Cursor>("cursor", Kind::value),
    json<CustomLossGraph>("custom_loss_graph", Kind::value),
    json<CustomLossInput>("custom_loss_input", Kind::value),
    json<CustomLossNode>("custom_loss_node", Kind::value),
    proto<Datum>("datum", Kind::value),
    json<DimuonOptimizerConfig>("dimuon_optimizer_config", Kind::value),
    json<DimuonParams>("dimuon_params", Kind::value),
    json<DmelChunk>("dmel_chunk", Kind::value),
    json<EncodedTextChunk>("encoded_text_chunk", Kind::value),
    json<FailedSessionStatusQuery>("failed_session_status_query", Kind::value),
    json<FutureFailed>("future_failed", Kind::value),
    json<FutureFinished>("future_finished", Kind::value),
    json<GenericEvent>("generic_event", Kind::value),
    json<ImageAssetPointerChunk>("image_asset_pointer_chunk", Kind::value),
    json<ImageChunk>("image_chunk", Kind::value),
    json<LoraConfig>("lora_config", Kind::value),
    json<ModelData>("model_data", Kind::value),
    json<ModelInput>("model_input", Kind::value),
    json<OwnSearchOwner>("own_search_owner", Kind::value),
    json<SamplingParams>("sampling_params", Kind::value),
    json<SamplingPrefillBillingEvent>("sampling_prefill_billing_event", Kind::value),
    json<SamplingSampleBillingEvent>("sampling_sample_billing_event", Kind::value),
    json<SamplingSessionFuturesTarget>("sampling_session_futures_target", Kind::value),
    json<SessionActive>("session_active", Kind::value),
    json<SessionCancelled>("session_cancelled", Kind::value),
    json<SessionEndEvent>("session_end_event", Kind::value),
    json<SessionFailed>("session_failed", Kind::value),
    json<SessionFailedRequestReason>("session_failed_request_reason", Kind::value),
    json<SessionFailedSamplingSessionReason>("session_failed_sampling_session_reason", Kind::value),
    json<SessionFailedTrainingRunReason>("session_failed_training_run_reason", Kind::value),
    json<SessionSearchCursor>("session_search_cursor", Kind::value),
    json<SessionStartEvent>("session_start_event", Kind::value),
    json<SessionSummary>("session_summary", Kind::value),
    json<StorageBillingEvent>("storage_billing_event", Kind::value),
    json<SupportedModel>("supported_model", Kind::value),
    both<TensorData>("tensor_data", Kind::value),
    json<TrainingBillingEvent>("training_billing_event", Kind::value),
    json<UnhandledExceptionEvent>("unhandled_exception_event", Kind::value),
    json<UserSearchOwner>("user_search_owner", Kind::value),
};

}  // namespace

std::span<const WireType> wire_types() {
  return kTypes;
}

const WireType* find_wire_type(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &WireType::name);
  return found != kTypes.end() ? &*found : nullptr;
}

}  // namespace tinker::wire
