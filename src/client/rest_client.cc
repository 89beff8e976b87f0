#include "tinker/rest_client.h"

#include <utility>

#include "base/logging.h"
#include "base/strings.h"
#include "client/download.h"
#include "client/rest.h"
#include "client/weights.h"
#include "http/url.h"
#include "session/jwt.h"
#include "tinker/types/tinker_path.h"

namespace tinker {

using async::Task;
using client::RestState;
using http::Method;

namespace {

constexpr auto kTracePause = std::chrono::seconds(5);

api::Call run_call(std::string_view training_run_id) {
  return {
      .path = base::concat("/api/v1/training_runs/", http::encode_path_segment(training_run_id)),
      .endpoint = "/api/v1/training_runs/{id}"};
}

api::Call session_call(std::string_view session_id, std::string_view tail) {
  return {.path = base::concat("/api/v1/sessions/", http::encode_path_segment(session_id), tail),
          .endpoint = base::concat("/api/v1/sessions/{id}", tail)};
}

/// A call about one checkpoint; the error of a path that is none comes before any request (R11.1).
template <typename Answer>
Future<Answer> start_for_checkpoint(const RestState& state,
                                    const CallOptions& options,
                                    std::string_view tinker_path,
                                    std::string_view tail,
                                    client::RestCall rest) {
  const auto path = TinkerPath::parse(tinker_path);
  if (!path) return Future<Answer>::ready(path.error());
  client::address(rest.call, path->training_run_id, path->checkpoint_id(), tail);
  return client::start_rest<Answer>(state, options, std::move(rest));
}

/// Asks until the trace is there (R11.7).
Task<std::string> wait_for_trace(RestState::Source source, client::RestCall rest) {
  for (bool is_first = true;; is_first = false) {
    auto asking = client::run_rest<SessionTraceExportPollResponse>(source, rest);
    TINKER_CO_TRY(auto answer, co_await std::move(asking));
    if (answer.status == TraceExportStatus::ready && answer.url) co_return *std::move(answer.url);
    if (answer.status != TraceExportStatus::pending) {
      co_return Error{.code = ErrorCode::request_failed,
                      .message = base::concat("the trace could not be exported: ",
                                              answer.error.value_or("the server gives no URL"))};
    }
    if (is_first) {
      TINKER_LOG(source.runtime->logger(), warn, "the trace is being exported; this may take long");
    }
    auto pause = async::sleep_for(kTracePause);
    TINKER_CO_TRY(co_await pause);
  }
}

Task<WhoamiResponse> read_identity(RestState::Source source) {
  auto opening = client::rest_holder(std::move(source));
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  auto asking = holder->identity_token();
  TINKER_CO_TRY(const auto token, co_await std::move(asking));
  if (!holder->core()->config.pjwt_auth_enabled && !session::is_identity_jwt(token)) {
    co_return Error{.code = ErrorCode::invalid_argument,
                    .message =
                        "the credential does not say whose it is: this server exchanges "
                        "no tokens, and the key is none"};
  }
  co_return session::whoami(token);
}

}  // namespace

Result<RestClient> RestClient::connect() {
  return connect(RestOptions());
}

Result<RestClient> RestClient::connect(RestOptions options) {
  TINKER_TRY(auto state, client::connect_rest(std::move(options), session::Environment()));
  return RestClient(std::move(state));
}

RestClient RestClient::with(CallOptions options) const {
  RestClient copy = *this;
  copy.options_ = std::move(options);
  return copy;
}

Future<TrainingRun> RestClient::get_training_run(std::string training_run_id) const {
  return get_training_run(std::move(training_run_id), AccessScope::owned);
}

Future<TrainingRun> RestClient::get_training_run(std::string training_run_id,
                                                 AccessScope scope) const {
  return client::start_get<TrainingRun>(
      *state_,
      options_,
      {.method = "get_training_run", .call = run_call(training_run_id)},
      AccessQuery{.access_scope = scope});
}

Future<TrainingRun> RestClient::get_training_run_by_tinker_path(std::string tinker_path) const {
  return get_training_run_by_tinker_path(std::move(tinker_path), AccessScope::owned);
}

Future<TrainingRun> RestClient::get_training_run_by_tinker_path(std::string tinker_path,
                                                                AccessScope scope) const {
  const auto path = TinkerPath::parse(tinker_path);
  if (!path) return Future<TrainingRun>::ready(path.error());
  return client::start_get<TrainingRun>(
      *state_,
      options_,
      {.method = "get_training_run_by_tinker_path", .call = run_call(path->training_run_id)},
      AccessQuery{.access_scope = scope});
}

Future<TrainingRunsResponse> RestClient::list_training_runs() const {
  return list_training_runs(ListTrainingRunsQuery());
}

Future<TrainingRunsResponse> RestClient::list_training_runs(ListTrainingRunsQuery query) const {
  return client::start_get<TrainingRunsResponse>(
      *state_,
      options_,
      {.method = "list_training_runs", .call = {.path = "/api/v1/training_runs"}},
      query);
}

Future<CheckpointsListResponse> RestClient::list_checkpoints(std::string training_run_id) const {
  if (training_run_id.empty()) {
    return Future<CheckpointsListResponse>::ready(
        Error{.code = ErrorCode::invalid_argument,
              .message = "training_run_id: expected one, found \"\""});
  }
  auto call = run_call(training_run_id);
  call.method = Method::get;
  call.path += "/checkpoints";
  call.endpoint += "/checkpoints";
  return client::start_rest<CheckpointsListResponse>(
      *state_, options_, {.method = "list_checkpoints", .call = std::move(call)});
}

Future<CheckpointsListResponse> RestClient::list_user_checkpoints() const {
  return list_user_checkpoints(ListCheckpointsQuery());
}

Future<CheckpointsListResponse> RestClient::list_user_checkpoints(
    ListCheckpointsQuery query) const {
  return client::start_get<CheckpointsListResponse>(
      *state_,
      options_,
      {.method = "list_user_checkpoints", .call = {.path = "/api/v1/checkpoints"}},
      query);
}

Future<WeightsInfoResponse> RestClient::get_weights_info_by_tinker_path(
    std::string tinker_path) const {
  auto body = session::json_body(WeightsInfoRequest{.tinker_path = std::move(tinker_path)});
  if (!body) return Future<WeightsInfoResponse>::ready(std::move(body).error());
  return client::start_rest<WeightsInfoResponse>(
      *state_,
      options_,
      {.method = "get_weights_info_by_tinker_path",
       .call = {.path = "/api/v1/weights_info", .body = *std::move(body)}});
}

Future<ExternalWeightsUrlsResponse> RestClient::get_external_weights_urls(
    std::string tinker_path) const {
  const auto path = TinkerPath::parse(tinker_path);
  if (path && path->kind != CheckpointType::external) {  // R11.13
    return Future<ExternalWeightsUrlsResponse>::ready(Error{
        .code = ErrorCode::invalid_argument,
        .message =
            base::concat("expected a path of kind external_weights, found \"", tinker_path, "\"")});
  }
  return start_for_checkpoint<ExternalWeightsUrlsResponse>(
      *state_,
      options_,
      tinker_path,
      "/external_weights_urls",
      {.method = "get_external_weights_urls", .call = {.method = Method::get}});
}

Future<CheckpointArchiveUrlResponse> RestClient::get_checkpoint_archive_url(
    std::string tinker_path) const {
  auto path = TinkerPath::parse(tinker_path);
  if (!path) return Future<CheckpointArchiveUrlResponse>::ready(std::move(path).error());
  return client::start(
      *state_, options_, client::find_archive(state_->source(), *std::move(path), options_.trace));
}

Future<DownloadedCheckpoint> RestClient::download_checkpoint(std::string tinker_path,
                                                             std::string folder) const {
  return download_checkpoint(std::move(tinker_path), std::move(folder), DownloadOptions());
}

Future<DownloadedCheckpoint> RestClient::download_checkpoint(std::string tinker_path,
                                                             std::string folder,
                                                             DownloadOptions options) const {
  auto path = TinkerPath::parse(tinker_path);
  if (!path) return Future<DownloadedCheckpoint>::ready(std::move(path).error());
  if (auto checked = client::check_download(options); !checked.ok()) {
    return Future<DownloadedCheckpoint>::ready(checked.error());
  }
  return client::start(*state_,
                       options_,
                       client::download_checkpoint(state_->source(),
                                                   {.path = *std::move(path),
                                                    .folder = std::move(folder),
                                                    .options = std::move(options),
                                                    .trace = options_.trace}));
}

Future<std::string> RestClient::copy_weights(std::string tinker_path) const {
  return copy_weights(std::move(tinker_path), CopyOptions());
}

Future<std::string> RestClient::copy_weights(std::string tinker_path, CopyOptions options) const {
  auto copy = client::prepare_copy(*state_, std::move(tinker_path), std::move(options));
  if (!copy) return Future<std::string>::ready(std::move(copy).error());
  copy->call.trace = options_.trace;
  return client::start(*state_, options_, client::run_copy(state_->source(), *std::move(copy)));
}

Future<void> RestClient::delete_checkpoint(std::string training_run_id,
                                           std::string checkpoint_id) const {
  client::RestCall rest = {.method = "delete_checkpoint", .call = {.method = Method::delete_}};
  client::address(rest.call, training_run_id, checkpoint_id, "");
  return client::start_rest<void>(*state_, options_, std::move(rest));
}

Future<void> RestClient::delete_checkpoint_from_tinker_path(std::string tinker_path) const {
  return start_for_checkpoint<void>(
      *state_,
      options_,
      tinker_path,
      "",
      {.method = "delete_checkpoint_from_tinker_path", .call = {.method = Method::delete_}});
}

Future<void> RestClient::publish_checkpoint_from_tinker_path(std::string tinker_path) const {
  return start_for_checkpoint<void>(*state_,
                                    options_,
                                    tinker_path,
                                    "/publish",
                                    {.method = "publish_checkpoint_from_tinker_path"});
}

Future<void> RestClient::unpublish_checkpoint_from_tinker_path(std::string tinker_path) const {
  return start_for_checkpoint<void>(
      *state_,
      options_,
      tinker_path,
      "/publish",
      {.method = "unpublish_checkpoint_from_tinker_path", .call = {.method = Method::delete_}});
}

Future<void> RestClient::set_checkpoint_ttl_from_tinker_path(
    std::string tinker_path, std::optional<std::int64_t> ttl_seconds) const {
  auto body = session::json_body(SetTtlRequest{.ttl_seconds = ttl_seconds});
  if (!body) return Future<void>::ready(std::move(body).error());
  return start_for_checkpoint<void>(*state_,
                                    options_,
                                    tinker_path,
                                    "/ttl",
                                    {.method = "set_checkpoint_ttl_from_tinker_path",
                                     .call = {.method = Method::put, .body = *std::move(body)}});
}

Future<GetSessionResponse> RestClient::get_session(std::string session_id) const {
  return get_session(std::move(session_id), AccessScope::owned);
}

Future<GetSessionResponse> RestClient::get_session(std::string session_id,
                                                   AccessScope scope) const {
  return client::start_get<GetSessionResponse>(
      *state_,
      options_,
      {.method = "get_session", .call = session_call(session_id, "")},
      AccessQuery{.access_scope = scope});
}

Future<ListSessionsResponse> RestClient::list_sessions() const {
  return list_sessions(ListSessionsQuery());
}

Future<ListSessionsResponse> RestClient::list_sessions(ListSessionsQuery query) const {
  return client::start_get<ListSessionsResponse>(
      *state_, options_, {.method = "list_sessions", .call = {.path = "/api/v1/sessions"}}, query);
}

Future<SessionSearchResponse> RestClient::search_sessions(SessionSearchRequest request) const {
  auto body = session::json_body(request);
  if (!body) return Future<SessionSearchResponse>::ready(std::move(body).error());
  return client::start_rest<SessionSearchResponse>(
      *state_,
      options_,
      {.method = "search_sessions",
       .call = {.path = "/api/v1/sessions/search", .body = *std::move(body)}});
}

Future<void> RestClient::assign_session_project(std::string session_id,
                                                std::string project_id) const {
  auto body = session::json_body(SetProjectRequest{.project_id = std::move(project_id)});
  if (!body) return Future<void>::ready(std::move(body).error());
  auto call = session_call(session_id, "/project");
  call.method = Method::put;
  call.body = *std::move(body);
  return client::start_rest<void>(
      *state_, options_, {.method = "assign_session_project", .call = std::move(call)});
}

Future<std::string> RestClient::export_session_trace(std::string session_id) const {
  auto call = session_call(session_id, "/trace_export");
  call.method = Method::get;
  call.trace = options_.trace;
  return client::start(*state_,
                       options_,
                       wait_for_trace(state_->source(),
                                      {.method = "export_session_trace", .call = std::move(call)}));
}

Future<WhoamiResponse> RestClient::whoami() const {
  return client::start(*state_, options_, read_identity(state_->source()));
}

Future<GetSamplerResponse> RestClient::get_sampler(std::string sampler_id) const {
  return client::start_rest<GetSamplerResponse>(
      *state_,
      options_,
      {.method = "get_sampler",
       .call = {.method = Method::get,
                .path = base::concat("/api/v1/samplers/", http::encode_path_segment(sampler_id)),
                .endpoint = "/api/v1/samplers/{id}"}});
}

}  // namespace tinker
