#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/api_client.h"
#include "async/runtime_core.h"
#include "async/scope.h"
#include "async/semaphore.h"
#include "session/billing_pause.h"
#include "telemetry/reporter.h"
#include "tinker/types/client_config.h"

namespace tinker::session {

class Backoff;
class RetryHandlers;

/// What the pieces of one holder share: the connection to its server, the configuration that came
/// from there, its limits. Loop thread only.
struct SessionCore {
  std::shared_ptr<async::RuntimeCore> runtime;
  std::shared_ptr<api::ApiClient> api;
  std::shared_ptr<api::TokenProvider> tokens;
  std::shared_ptr<telemetry::Reporter> telemetry;
  /// All tasks of the holder run below it; cancelled when it closes or goes away.
  std::shared_ptr<async::Scope> scope = std::make_shared<async::Scope>();

  ClientConfigResponse config = {};
  ClientDynamicConfigResponse dynamic_config = {};
  std::string session_id = {};  ///< Empty in a session-less holder.
  BillingPause billing = {};
  bool is_single_attempt = false;  ///< As `HolderOptions` says.

  // Dispatch limits (R10.4, R6.9); the byte limits come from the configuration.
  async::Semaphore sample_dispatch = async::Semaphore::counting(400);
  async::Semaphore throttled_sample_dispatch = async::Semaphore::counting(10);
  async::Semaphore sample_bytes =
      async::Semaphore::bytes(config.sample_dispatch_bytes_semaphore_size);
  async::Semaphore fwdbwd_bytes =
      async::Semaphore::bytes(config.fwdbwd_dispatch_bytes_semaphore_size);
  async::Semaphore inflight_response_bytes =
      async::Semaphore::bytes(config.inflight_response_bytes_semaphore_size);
  /// Shared by all holders of the same server and credential.
  std::shared_ptr<Backoff> backoff;
  /// Shared by the sampling clients of this holder.
  std::shared_ptr<RetryHandlers> retry_handlers;

  // Counters of R4.4.
  std::int64_t next_model_seq_id = 0;
  std::int64_t next_sampling_session_seq_id = 0;
  std::int64_t next_custom_loss_seq_id = 0;

  // Custom losses that the server knows, by key; one upload at a time.
  std::map<std::string, std::string> custom_losses = {};
  async::Semaphore custom_loss_upload = async::Semaphore::counting(1);

  [[nodiscard]] const Logger& logger() const noexcept { return runtime->logger(); }
  [[nodiscard]] async::TimePoint now() const { return runtime->loop()->now(); }
  /// Takes over what the server configured, limits included. Before first use only.
  void configure(ClientConfigResponse answer) {
    config = std::move(answer);
    sample_bytes = async::Semaphore::bytes(config.sample_dispatch_bytes_semaphore_size);
    fwdbwd_bytes = async::Semaphore::bytes(config.fwdbwd_dispatch_bytes_semaphore_size);
    inflight_response_bytes =
        async::Semaphore::bytes(config.inflight_response_bytes_semaphore_size);
  }
};

}  // namespace tinker::session
