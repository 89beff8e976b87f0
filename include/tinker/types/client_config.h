#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tinker {

/// POST client/config and client/dynamic_config (PROTOCOL 9.1, 9.2).
struct ClientConfigRequest {
  std::string sdk_version = {};

  friend bool operator==(const ClientConfigRequest&, const ClientConfigRequest&) = default;
};

/// What the server wants of its clients, read once (BEHAVIOUR section 2).
struct ClientConfigResponse {
  bool pjwt_auth_enabled = false;
  std::string credential_default_source = "api_key";
  std::int64_t sample_dispatch_bytes_semaphore_size = 10'485'760;
  std::int64_t inflight_response_bytes_semaphore_size = 52'428'800;
  bool parallel_fwdbwd_chunks = true;
  bool proto_compress_fwdbwd = false;
  std::int64_t fwdbwd_max_chunk_len = 1024;
  std::int64_t fwdbwd_max_chunk_bytes_count = 5'000'000;
  std::int64_t fwdbwd_dispatch_bytes_semaphore_size = 50'000'000;
  std::int64_t billing_exception_max_pause_duration_sec = 3600;
  bool sample_no_retries = false;
  bool sample_enable_stuck_detection = true;
  std::int64_t sample_max_concurrent_requests = 2000;
  bool use_pyqwest_transport = true;  ///< Of the Python SDK; means nothing here.
  bool create_model_via_load_weights = false;
  bool sample_use_retrieve_futures = false;
  bool custom_loss_server_side = false;
  bool sample_join_sampling_session = false;

  friend bool operator==(const ClientConfigResponse&, const ClientConfigResponse&) = default;
};

/// The part that is read again every `refresh_interval_sec`.
struct ClientDynamicConfigResponse {
  std::int64_t refresh_interval_sec = 300;
  bool sample_cancel_enabled = false;
  std::int64_t sample_cancel_max_batch_size = 64;

  friend bool operator==(const ClientDynamicConfigResponse&,
                         const ClientDynamicConfigResponse&) = default;
};

struct SupportedModel {
  std::optional<std::string> model_name = {};
  std::optional<std::int64_t> max_context_length = {};
  std::optional<bool> trainable = {};
  std::optional<bool> sampleable = {};

  friend bool operator==(const SupportedModel&, const SupportedModel&) = default;
};

/// GET get_server_capabilities (PROTOCOL 9.7).
struct GetServerCapabilitiesResponse {
  std::vector<SupportedModel> supported_models = {};

  friend bool operator==(const GetServerCapabilitiesResponse&,
                         const GetServerCapabilitiesResponse&) = default;
};

/// GET healthz: {"status": "ok"} (PROTOCOL 9.8).
struct HealthResponse {
  friend bool operator==(const HealthResponse&, const HealthResponse&) = default;
};

}  // namespace tinker
