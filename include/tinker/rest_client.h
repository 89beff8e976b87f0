#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tinker/call_options.h"
#include "tinker/circuit_breaker.h"
#include "tinker/download.h"
#include "tinker/future.h"
#include "tinker/http.h"
#include "tinker/runtime.h"
#include "tinker/secret.h"
#include "tinker/transport.h"
#include "tinker/types/audit.h"
#include "tinker/types/auth.h"
#include "tinker/types/billing.h"
#include "tinker/types/checkpoint.h"
#include "tinker/types/queries.h"
#include "tinker/types/sampling_session.h"
#include "tinker/types/session.h"
#include "tinker/types/session_search.h"
#include "tinker/types/weights.h"

namespace tinker {

namespace client {
struct RestState;
}

/// Which server, as whom.
struct RestOptions {
  /// Default: `TINKER_BASE_URL`, then the hosted service.
  std::string base_url = {};
  /// Default: `TINKER_API_KEY`, `TINKER_CREDENTIAL_CMD`, then the credential file.
  std::optional<Secret> api_key = {};
  http::TransportOptions transport_options = {};
  /// Default: the library's own, made with `transport_options`.
  std::shared_ptr<http::Transport> transport = {};
  /// Default: one of its own. Clients of one runtime with the same server and key share their
  /// connections and what they know of the server; the first one's transport and circuit breakers
  /// serve them all.
  std::optional<Runtime> runtime = {};
  /// As `ServiceOptions::circuit_breaker`.
  std::optional<CircuitBreakerOptions> circuit_breaker = {};
  /// As `ServiceOptions::start_timeout`.
  std::optional<std::chrono::nanoseconds> start_timeout = std::chrono::seconds(15);
};

/// Where a copy of a checkpoint goes.
struct CopyOptions {
  /// Default: `TINKER_PROJECT_ID`; of a service client, its own project.
  std::optional<std::string> destination_project_id = {};
  std::optional<std::int64_t> ttl_seconds = {};  ///< Default: never deleted.
  /// A credential of the account that owns the source. Default: that of the client.
  std::optional<Secret> weights_access_token = {};
};

/// Looks at and changes what is on the server: runs, checkpoints, sessions. Makes no session.
///
///     auto rest = RestClient::connect().value();
///     for (const Checkpoint& c : rest.list_checkpoints(run_id).get().value().checkpoints) …
///
/// Every call is repeated for up to five minutes while the server is unreachable or overloaded;
/// set a deadline with `with` where that is too long. Copies are the same client.
///
/// Thread-safe.
class RestClient {
 public:
  // NOLINTBEGIN(modernize-use-nodiscard): futures and results are so by themselves.
  static Result<RestClient> connect();
  static Result<RestClient> connect(RestOptions options);

  /// This client with other options for its calls, e.g. a deadline.
  [[nodiscard]] RestClient with(CallOptions options) const;

  Future<TrainingRun> get_training_run(std::string training_run_id) const;
  Future<TrainingRun> get_training_run(std::string training_run_id, AccessScope scope) const;
  Future<TrainingRun> get_training_run_by_tinker_path(std::string tinker_path) const;
  Future<TrainingRun> get_training_run_by_tinker_path(std::string tinker_path,
                                                      AccessScope scope) const;
  Future<TrainingRunsResponse> list_training_runs() const;
  Future<TrainingRunsResponse> list_training_runs(ListTrainingRunsQuery query) const;

  Future<CheckpointsListResponse> list_checkpoints(std::string training_run_id) const;
  Future<CheckpointsListResponse> list_user_checkpoints() const;
  Future<CheckpointsListResponse> list_user_checkpoints(ListCheckpointsQuery query) const;
  /// What a checkpoint holds; also of public ones of other accounts.
  Future<WeightsInfoResponse> get_weights_info_by_tinker_path(std::string tinker_path) const;
  /// Signed URLs for the files of a checkpoint made by `save_weights_external`.
  Future<ExternalWeightsUrlsResponse> get_external_weights_urls(std::string tinker_path) const;
  /// A signed URL for a checkpoint as one archive, of servers that still make them (before 0.36).
  /// Waits for the archive to be built, up to three minutes.
  Future<CheckpointArchiveUrlResponse> get_checkpoint_archive_url(std::string tinker_path) const;
  /// Brings a checkpoint onto this machine, as the new folder `folder`: the files that
  /// `save_weights_external` made, or of any other checkpoint its archive, unpacked, where the
  /// server still makes one.
  ///
  /// The folder appears when everything is there and checked, at once; until then it grows as
  /// `folder`.partial. A call that fails or is cancelled leaves that behind, and the next call for
  /// the same checkpoint goes on from there. Storage gets no credential of this client.
  /// Fails with `io_error` when something is at `folder` already, or the disk says no; with
  /// `invalid_response` for unsafe file names and damaged files.
  Future<DownloadedCheckpoint> download_checkpoint(std::string tinker_path,
                                                   std::string folder) const;
  Future<DownloadedCheckpoint> download_checkpoint(std::string tinker_path,
                                                   std::string folder,
                                                   DownloadOptions options) const;
  /// Copies a checkpoint into a project; the path of the copy. No bytes move.
  Future<std::string> copy_weights(std::string tinker_path) const;
  Future<std::string> copy_weights(std::string tinker_path, CopyOptions options) const;
  Future<void> delete_checkpoint(std::string training_run_id, std::string checkpoint_id) const;
  Future<void> delete_checkpoint_from_tinker_path(std::string tinker_path) const;
  /// Lets everyone read it.
  Future<void> publish_checkpoint_from_tinker_path(std::string tinker_path) const;
  Future<void> unpublish_checkpoint_from_tinker_path(std::string tinker_path) const;
  /// When the server may delete it, counted from now; nothing: never.
  Future<void> set_checkpoint_ttl_from_tinker_path(std::string tinker_path,
                                                   std::optional<std::int64_t> ttl_seconds) const;

  Future<GetSessionResponse> get_session(std::string session_id) const;
  Future<GetSessionResponse> get_session(std::string session_id, AccessScope scope) const;
  Future<ListSessionsResponse> list_sessions() const;
  Future<ListSessionsResponse> list_sessions(ListSessionsQuery query) const;
  /// Experimental on the server. For the next page, send `next_cursor` back.
  Future<SessionSearchResponse> search_sessions(SessionSearchRequest request) const;
  Future<void> assign_session_project(std::string session_id, std::string project_id) const;
  /// A signed URL for the trace of a session; waits until it is made, without a limit.
  Future<std::string> export_session_trace(std::string session_id) const;

  /// Who the credential belongs to. Needs a server with token exchange, or a token as the key.
  Future<WhoamiResponse> whoami() const;
  Future<GetSamplerResponse> get_sampler(std::string sampler_id) const;
  // NOLINTEND(modernize-use-nodiscard)

  /// For the library itself.
  explicit RestClient(std::shared_ptr<const client::RestState> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const client::RestState> state_;
  CallOptions options_ = {};
};

}  // namespace tinker
