#pragma once

#include <string>
#include <string_view>

#include "async/task.h"
#include "server/call.h"
#include "tinker/types/audit.h"
#include "tinker/types/auth.h"
#include "tinker/types/billing.h"
#include "tinker/types/checkpoint.h"
#include "tinker/types/checkpoint_search.h"
#include "tinker/types/client_config.h"
#include "tinker/types/custom_loss.h"
#include "tinker/types/forward_backward.h"
#include "tinker/types/json.h"
#include "tinker/types/model.h"
#include "tinker/types/promise.h"
#include "tinker/types/queries.h"
#include "tinker/types/sample.h"
#include "tinker/types/sampling_session.h"
#include "tinker/types/session.h"
#include "tinker/types/session_search.h"
#include "tinker/types/telemetry.h"
#include "tinker/types/weights.h"
#include "wire/request_number.h"

/// The endpoints' bodies, by the file that holds them. The table in endpoints.cc says which path
/// leads to which.
namespace tinker::server {

// session_handlers.cc
async::Task<Reply> client_config(Call call);
async::Task<ClientDynamicConfigResponse> dynamic_config(Call call);
async::Task<HealthResponse> healthz(Call call);
async::Task<GetServerCapabilitiesResponse> capabilities(Call call);
async::Task<TelemetryResponse> telemetry(Call call);
async::Task<CreateSessionResponse> create_session(Call call, CreateSessionRequest request);
async::Task<SessionHeartbeatResponse> heartbeat(Call call, SessionHeartbeatRequest request);
async::Task<> finish_session(Call call, FinishSessionRequest request);
async::Task<ListSessionsResponse> list_sessions(Call call, ListSessionsQuery query);
async::Task<GetSessionResponse> get_session(Call call, AccessQuery query);
async::Task<> set_project(Call call, SetProjectRequest request);
async::Task<SessionSearchResponse> search_sessions(Call call, SessionSearchRequest request);

// training_handlers.cc
async::Task<UntypedApiFuture> create_model(Call call, CreateModelRequest request);
async::Task<GetInfoResponse> get_info(Call call, GetInfoRequest request);
async::Task<UntypedApiFuture> unload_model(Call call, UnloadModelRequest request);
async::Task<UntypedApiFuture> forward_backward(Call call, ForwardBackwardRequest request);
async::Task<UntypedApiFuture> forward(Call call, ForwardBackwardRequest request);
async::Task<UntypedApiFuture> optim_step(Call call, OptimStepRequest request);
async::Task<UntypedApiFuture> create_custom_loss(Call call, CreateCustomLossRequest request);
/// For a request of kind `type` ("forward_backward") that makes no sense but says its number: that
/// is used up, and its future says why (PROTOCOL 10.17). Fails with `why` where there is no such
/// model.
async::Task<UntypedApiFuture> refuse_in_order(Call call,
                                              std::string_view type,
                                              wire::RequestNumber number,
                                              Error why);

// weights_handlers.cc
async::Task<UntypedApiFuture> save_weights(Call call, SaveWeightsRequest request);
async::Task<UntypedApiFuture> save_for_sampler(Call call, SaveWeightsForSamplerRequest request);
async::Task<UntypedApiFuture> save_external(Call call, SaveWeightsExternalRequest request);
async::Task<UntypedApiFuture> load_weights(Call call, LoadWeightsRequest request);

// sampling_handlers.cc
async::Task<CreateSamplingSessionResponse> create_sampling_session(
    Call call, CreateSamplingSessionRequest request);
async::Task<JoinSamplingSessionResponse> join_sampling_session(Call call,
                                                               JoinSamplingSessionRequest request);
async::Task<GetSamplerResponse> get_sampler(Call call);
async::Task<UntypedApiFuture> sample(Call call, SampleRequest request);

// future_handlers.cc
async::Task<Reply> retrieve_future(Call call, FutureRetrieveRequest request);
async::Task<FuturesRetrieveResponse> retrieve_futures(Call call, FuturesRetrieveRequest request);
async::Task<> cancel_future(Call call, CancelFutureRequest request);

// checkpoint_handlers.cc
async::Task<TrainingRunsResponse> list_training_runs(Call call, ListTrainingRunsQuery query);
async::Task<TrainingRun> get_training_run(Call call, AccessQuery query);
async::Task<CheckpointsListResponse> checkpoints_of_run(Call call, AccessQuery query);
async::Task<CheckpointsListResponse> list_checkpoints(Call call, ListCheckpointsQuery query);
async::Task<CheckpointSearchResponse> search_checkpoints(Call call,
                                                         CheckpointSearchRequest request);
async::Task<WeightsInfoResponse> weights_info(Call call, WeightsInfoRequest request);
async::Task<> delete_checkpoint(Call call);
async::Task<> publish_checkpoint(Call call);
async::Task<> unpublish_checkpoint(Call call);
async::Task<> set_ttl(Call call, SetTtlRequest request);
async::Task<CopyWeightsResponse> copy_weights(Call call, CopyWeightsRequest request);

// download_handlers.cc
async::Task<Reply> archive_link(Call call);
async::Task<Reply> archive(Call call);
async::Task<ExternalWeightsUrlsResponse> external_links(Call call);
async::Task<Reply> external_file(Call call);

// upload_handlers.cc
async::Task<ExternalWeightsUploadStartResponse> upload_start(
    Call call, ExternalWeightsUploadStartRequest request);
async::Task<> upload_file(Call call);
async::Task<ExternalWeightsUploadFinishResponse> upload_finish(
    Call call, ExternalWeightsUploadFinishRequest request);

// metrics_handlers.cc
async::Task<Reply> metrics(Call call);

// account_handlers.cc
async::Task<AuthTokenResponse> exchange_token(Call call);
async::Task<SelfApiKeyResponse> own_key(Call call);
async::Task<> revoke_own_key(Call call);
async::Task<AuditLogResponse> audit_log(Call call, AuditLogQuery query);
async::Task<BillingUsageResponse> billing_usage(Call call, GetBillingUsageRequest query);
async::Task<CurrentCheckpointStorageUsageResponse> storage_usage(
    Call call, GetCurrentCheckpointStorageUsageRequest query);
async::Task<SessionTraceExportPollResponse> trace_export(Call call);

}  // namespace tinker::server
