// Checkpoints, runs, billing, audit, telemetry, client config, credentials. Wire order is
// declaration order.

#include "tinker/types/audit.h"
#include "tinker/types/auth.h"
#include "tinker/types/billing.h"
#include "tinker/types/checkpoint.h"
#include "tinker/types/client_config.h"
#include "tinker/types/queries.h"
#include "tinker/types/telemetry.h"
#include "wire/json_codec.h"

namespace tinker::wire {

template <>
const Schema& schema_of<Cursor>() {
  using T = Cursor;
  static constexpr std::array kFields = {
      required<&T::offset>("offset"),
      required<&T::limit>("limit"),
      required<&T::total_count>("total_count"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<Checkpoint>() {
  using T = Checkpoint;
  static constexpr std::array kFields = {
      required<&T::checkpoint_id>("checkpoint_id"),
      required<&T::checkpoint_type>("checkpoint_type"),
      required<&T::time>("time"),
      required<&T::tinker_path>("tinker_path"),
      nullable<&T::size_bytes>("size_bytes"),
      defaulted<&T::is_public>("public"),
      nullable<&T::user_metadata>("user_metadata"),
      nullable<&T::expires_at>("expires_at"),
      nullable<&T::base_model>("base_model"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<CheckpointsListResponse>() {
  using T = CheckpointsListResponse;
  static constexpr std::array kFields = {
      required<&T::checkpoints>("checkpoints"),
      nullable<&T::cursor>("cursor"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<TrainingRun>() {
  using T = TrainingRun;
  static constexpr std::array kFields = {
      required<&T::training_run_id>("training_run_id"),
      required<&T::base_model>("base_model"),
      required<&T::model_owner>("model_owner"),
      required<&T::is_lora>("is_lora"),
      defaulted<&T::corrupted>("corrupted"),
      nullable<&T::lora_rank>("lora_rank"),
      required<&T::last_request_time>("last_request_time"),
      nullable<&T::last_checkpoint>("last_checkpoint"),
      nullable<&T::last_sampler_checkpoint>("last_sampler_checkpoint"),
      nullable<&T::user_metadata>("user_metadata"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<TrainingRunsResponse>() {
  using T = TrainingRunsResponse;
  static constexpr std::array kFields = {
      required<&T::training_runs>("training_runs"),
      required<&T::cursor>("cursor"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<GetBillingUsageRequest>() {
  using T = GetBillingUsageRequest;
  static constexpr std::array kFields = {
      required<&T::starting_on>("starting_on"),
      required<&T::ending_before>("ending_before"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<TrainingBillingEvent>() {
  using T = TrainingBillingEvent;
  static constexpr std::array kFields = {
      tag<"training">(),
      required<&T::token_count>("token_count"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "training"};
  return kSchema;
}

template <>
const Schema& schema_of<SamplingPrefillBillingEvent>() {
  using T = SamplingPrefillBillingEvent;
  static constexpr std::array kFields = {
      tag<"sampling_prefill">(),
      required<&T::cached>("cached"),
      required<&T::token_count>("token_count"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "sampling_prefill"};
  return kSchema;
}

template <>
const Schema& schema_of<SamplingSampleBillingEvent>() {
  using T = SamplingSampleBillingEvent;
  static constexpr std::array kFields = {
      tag<"sampling_sample">(),
      required<&T::token_count>("token_count"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "sampling_sample"};
  return kSchema;
}

template <>
const Schema& schema_of<CheckpointBillingEvent>() {
  using T = CheckpointBillingEvent;
  static constexpr std::array kFields = {
      tag<"checkpoint">(),
      required<&T::count>("count"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "checkpoint"};
  return kSchema;
}

template <>
const Schema& schema_of<StorageBillingEvent>() {
  using T = StorageBillingEvent;
  static constexpr std::array kFields = {
      tag<"storage">(),
      required<&T::gigabyte_hours>("gigabyte_hours"),
  };
  static constexpr Schema kSchema = {
      .fields = kFields, .members = Members::open, .tag_name = "type", .tag = "storage"};
  return kSchema;
}

template <>
const Schema& schema_of<BillingUsageEvent>() {
  using T = BillingUsageEvent;
  static constexpr std::array kFields = {
      required<&T::bucket_start>("bucket_start"),
      required<&T::bucket_end>("bucket_end"),
      nullable<&T::base_model>("base_model"),
      nullable<&T::user_id>("user_id"),
      nullable<&T::user_name>("user_name"),
      nullable<&T::session_id>("session_id"),
      nullable<&T::project_id>("project_id"),
      nullable<&T::estimated_cost_usd>("estimated_cost_usd"),
      nullable<&T::effective_rate_usd_per_million_tokens>("effective_rate_usd_per_million_tokens"),
      nullable<&T::effective_rate_usd_per_gigabyte_month>("effective_rate_usd_per_gigabyte_month"),
      required<&T::event_info>("event_info"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<BillingUsageSession>() {
  using T = BillingUsageSession;
  static constexpr std::array kFields = {nullable<&T::user_metadata>("user_metadata")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<BillingUsageResponse>() {
  using T = BillingUsageResponse;
  static constexpr std::array kFields = {
      required<&T::data>("data"),
      defaulted<&T::sessions>("sessions"),
      nullable<&T::cost_data_through>("cost_data_through"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<GetCurrentCheckpointStorageUsageRequest>() {
  using T = GetCurrentCheckpointStorageUsageRequest;
  static constexpr std::array kFields = {nullable<&T::project_id>("project_id")};
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<CurrentCheckpointStorageUsageItem>() {
  using T = CurrentCheckpointStorageUsageItem;
  static constexpr std::array kFields = {
      nullable<&T::project_id>("project_id"),
      nullable<&T::org_user_urn>("org_user_urn"),
      nullable<&T::user_email>("user_email"),
      nullable<&T::user_name>("user_name"),
      required<&T::checkpoint_count>("checkpoint_count"),
      required<&T::size_bytes>("size_bytes"),
      required<&T::size_gigabytes>("size_gigabytes"),
      nullable<&T::estimated_monthly_cost_usd>("estimated_monthly_cost_usd"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<CurrentCheckpointStorageUsageResponse>() {
  using T = CurrentCheckpointStorageUsageResponse;
  static constexpr std::array kFields = {
      nullable<&T::effective_rate_usd_per_gigabyte_month>("effective_rate_usd_per_gigabyte_month"),
      required<&T::data>("data"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<AuditLogEntry>() {
  using T = AuditLogEntry;
  static constexpr std::array kFields = {
      required<&T::timestamp>("timestamp"),
      required<&T::event>("event"),
      defaulted<&T::event_details>("event_details"),
      nullable<&T::model_id>("model_id"),
      nullable<&T::tinker_path>("tinker_path"),
      nullable<&T::purpose>("purpose"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<AuditLogResponse>() {
  using T = AuditLogResponse;
  static constexpr std::array kFields = {required<&T::entries>("entries")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SessionStartEvent>() {
  using T = SessionStartEvent;
  static constexpr std::array kFields = {
      required<&T::event>("event"),
      required<&T::event_id>("event_id"),
      required<&T::event_session_index>("event_session_index"),
      required<&T::severity>("severity"),
      required<&T::timestamp>("timestamp"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SessionEndEvent>() {
  using T = SessionEndEvent;
  static constexpr std::array kFields = {
      required<&T::duration>("duration"),
      required<&T::event>("event"),
      required<&T::event_id>("event_id"),
      required<&T::event_session_index>("event_session_index"),
      required<&T::severity>("severity"),
      required<&T::timestamp>("timestamp"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<UnhandledExceptionEvent>() {
  using T = UnhandledExceptionEvent;
  static constexpr std::array kFields = {
      required<&T::error_message>("error_message"),
      required<&T::error_type>("error_type"),
      required<&T::event>("event"),
      required<&T::event_id>("event_id"),
      required<&T::event_session_index>("event_session_index"),
      required<&T::severity>("severity"),
      required<&T::timestamp>("timestamp"),
      nullable<&T::traceback>("traceback"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<GenericEvent>() {
  using T = GenericEvent;
  static constexpr std::array kFields = {
      required<&T::event>("event"),
      required<&T::event_id>("event_id"),
      required<&T::event_name>("event_name"),
      required<&T::event_session_index>("event_session_index"),
      required<&T::severity>("severity"),
      required<&T::timestamp>("timestamp"),
      defaulted<&T::event_data>("event_data"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<TelemetrySendRequest>() {
  using T = TelemetrySendRequest;
  static constexpr std::array kFields = {
      required<&T::events>("events"),
      required<&T::platform>("platform"),
      required<&T::sdk_version>("sdk_version"),
      required<&T::session_id>("session_id"),
      required<&T::process_uuid>("process_uuid"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<TelemetryResponse>() {
  static constexpr std::array kFields = {constant<"accepted">("status")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<ClientConfigRequest>() {
  using T = ClientConfigRequest;
  static constexpr std::array kFields = {required<&T::sdk_version>("sdk_version")};
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<ClientConfigResponse>() {
  using T = ClientConfigResponse;
  static constexpr std::array kFields = {
      defaulted<&T::pjwt_auth_enabled>("pjwt_auth_enabled"),
      defaulted<&T::credential_default_source>("credential_default_source"),
      defaulted<&T::sample_dispatch_bytes_semaphore_size>("sample_dispatch_bytes_semaphore_size"),
      defaulted<&T::inflight_response_bytes_semaphore_size>(
          "inflight_response_bytes_semaphore_size"),
      defaulted<&T::parallel_fwdbwd_chunks>("parallel_fwdbwd_chunks"),
      defaulted<&T::proto_compress_fwdbwd>("proto_compress_fwdbwd"),
      defaulted<&T::fwdbwd_max_chunk_len>("fwdbwd_max_chunk_len"),
      defaulted<&T::fwdbwd_max_chunk_bytes_count>("fwdbwd_max_chunk_bytes_count"),
      defaulted<&T::fwdbwd_dispatch_bytes_semaphore_size>("fwdbwd_dispatch_bytes_semaphore_size"),
      defaulted<&T::billing_exception_max_pause_duration_sec>(
          "billing_exception_max_pause_duration_sec"),
      defaulted<&T::sample_no_retries>("sample_no_retries"),
      defaulted<&T::sample_enable_stuck_detection>("sample_enable_stuck_detection"),
      defaulted<&T::sample_max_concurrent_requests>("sample_max_concurrent_requests"),
      defaulted<&T::use_pyqwest_transport>("use_pyqwest_transport"),
      defaulted<&T::create_model_via_load_weights>("create_model_via_load_weights"),
      defaulted<&T::sample_use_retrieve_futures>("sample_use_retrieve_futures"),
      defaulted<&T::custom_loss_server_side>("custom_loss_server_side"),
      defaulted<&T::sample_join_sampling_session>("sample_join_sampling_session"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<ClientDynamicConfigResponse>() {
  using T = ClientDynamicConfigResponse;
  static constexpr std::array kFields = {
      defaulted<&T::refresh_interval_sec>("refresh_interval_sec"),
      defaulted<&T::sample_cancel_enabled>("sample_cancel_enabled"),
      defaulted<&T::sample_cancel_max_batch_size>("sample_cancel_max_batch_size"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SupportedModel>() {
  using T = SupportedModel;
  static constexpr std::array kFields = {
      nullable<&T::model_name>("model_name"),
      nullable<&T::max_context_length>("max_context_length"),
      nullable<&T::trainable>("trainable"),
      nullable<&T::sampleable>("sampleable"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<GetServerCapabilitiesResponse>() {
  using T = GetServerCapabilitiesResponse;
  static constexpr std::array kFields = {required<&T::supported_models>("supported_models")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<HealthResponse>() {
  static constexpr std::array kFields = {constant<"ok">("status")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<AuthTokenResponse>() {
  using T = AuthTokenResponse;
  static constexpr std::array kFields = {required<&T::jwt>("jwt")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<ApiKeyOrgDetails>() {
  using T = ApiKeyOrgDetails;
  static constexpr std::array kFields = {required<&T::name>("name")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<ApiKeyUserDetails>() {
  using T = ApiKeyUserDetails;
  static constexpr std::array kFields = {required<&T::email>("email")};
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<ApiKeyDetails>() {
  using T = ApiKeyDetails;
  static constexpr std::array kFields = {
      required<&T::org_details>("org_details"),
      required<&T::user_details>("user_details"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<SelfApiKeyResponse>() {
  using T = SelfApiKeyResponse;
  static constexpr std::array kFields = {
      required<&T::key_id>("key_id"),
      required<&T::name>("name"),
      required<&T::note>("note"),
      required<&T::details>("details"),
  };
  static constexpr Schema kSchema = {.fields = kFields, .members = Members::open};
  return kSchema;
}

template <>
const Schema& schema_of<ListTrainingRunsQuery>() {
  using T = ListTrainingRunsQuery;
  static constexpr std::array kFields = {
      defaulted<&T::limit>("limit"),
      defaulted<&T::offset>("offset"),
      defaulted<&T::access_scope>("access_scope"),
      nullable<&T::project_id>("project_id"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<AccessQuery>() {
  using T = AccessQuery;
  static constexpr std::array kFields = {
      defaulted<&T::access_scope>("access_scope"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<ListCheckpointsQuery>() {
  using T = ListCheckpointsQuery;
  static constexpr std::array kFields = {
      defaulted<&T::limit>("limit"),
      defaulted<&T::offset>("offset"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<ListSessionsQuery>() {
  using T = ListSessionsQuery;
  static constexpr std::array kFields = {
      defaulted<&T::limit>("limit"),
      defaulted<&T::offset>("offset"),
      defaulted<&T::access_scope>("access_scope"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

template <>
const Schema& schema_of<AuditLogQuery>() {
  using T = AuditLogQuery;
  static constexpr std::array kFields = {
      defaulted<&T::event_type>("event_type"),
      nullable<&T::day>("day"),
  };
  static constexpr Schema kSchema = {.fields = kFields};
  return kSchema;
}

}  // namespace tinker::wire
