#include "client/weights.h"

#include <chrono>
#include <utility>

#include "base/strings.h"
#include "http/http_date.h"
#include "http/retry_after.h"
#include "http/url.h"

namespace tinker::client {

using async::Task;

namespace {

constexpr int kArchiveRounds = 6;
constexpr auto kArchivePause = std::chrono::seconds(30);
constexpr auto kArchiveLifetime = std::chrono::minutes(15);  // where the server does not say

/// A redirect names the archive, or a JSON document does.
Result<CheckpointArchiveUrlResponse> read_archive(const session::SessionCore& session,
                                                  const http::Response& answer) {
  if (answer.status == 200) {
    return session::read_answer<CheckpointArchiveUrlResponse>(
        answer, "/api/v1/training_runs/{id}/checkpoints/{id}/archive", *session.api);
  }
  const auto location = answer.headers.find("location");
  if (answer.status != 302 || !location) {
    if (answer.status >= 400) return session.api->status_error(answer);
    return Error{
        .code = ErrorCode::unexpected_status,
        .message = base::concat("expected 302 with a location or 200, found ", answer.status),
        .http_status = answer.status};
  }
  const auto expires = http::parse_http_date(answer.headers.find("expires").value_or(""));
  const auto until = expires ? std::chrono::system_clock::time_point(*expires)
                             : session.runtime->clock().wall_time() + kArchiveLifetime;
  return CheckpointArchiveUrlResponse{
      .url = std::string(*location),
      .expires = std::chrono::time_point_cast<std::chrono::microseconds>(until)};
}

/// One answer, whatever it says, or an error worth another round.
Task<http::Response> ask_archive(std::shared_ptr<session::SessionCore> session, api::Call call) {
  auto asking = session->api->fetch(std::move(call), session->tokens);
  TINKER_CO_TRY(auto answer, co_await std::move(asking));
  const bool is_being_built = answer.status == 503;
  const Error failed = session->api->status_error(answer);
  if (!is_being_built && http::is_retryable(failed)) co_return failed;
  co_return answer;
}

}  // namespace

void address(api::Call& call,
             std::string_view training_run_id,
             std::string_view checkpoint_id,
             std::string_view tail) {
  call.path = base::concat("/api/v1/training_runs/",
                           http::encode_path_segment(training_run_id),
                           "/checkpoints/",
                           http::encode_checkpoint_id(checkpoint_id),
                           tail);
  call.endpoint = base::concat("/api/v1/training_runs/{id}/checkpoints/{id}", tail);
}

Result<RestCall> prepare_copy(const RestState& state, std::string path, CopyOptions options) {
  TINKER_TRY(TinkerPath::parse(path));
  auto project = std::move(options.destination_project_id);
  if (!project) project = state.options.project_id;
  if (!project || project->empty()) {
    project = session::variable(state.options.environment, "TINKER_PROJECT_ID");
  }
  if (!project) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message =
                     "no project to copy into: give destination_project_id or set "
                     "TINKER_PROJECT_ID"};
  }
  TINKER_TRY(auto body,
             session::json_body(CopyWeightsRequest{.destination_project_id = std::move(project),
                                                   .source_path = std::move(path),
                                                   .ttl_seconds = options.ttl_seconds}));
  RestCall copy = {.method = "copy_weights",
                   .call = {.path = "/api/v1/copy_weights",
                            .body = std::move(body),
                            .idempotency_key = state.runtime.core()->uuid4()}};
  if (options.weights_access_token) {
    copy.call.secret = *std::move(options.weights_access_token);
    copy.call.headers.add("X-Tinker-Weights-Access-Token", copy.call.secret.expose());
  }
  return copy;
}

Task<std::string> run_copy(RestState::Source source, RestCall copy) {
  auto calling = run_rest<CopyWeightsResponse>(std::move(source), std::move(copy));
  TINKER_CO_TRY(auto answer, co_await std::move(calling));
  co_return std::move(answer.tinker_path);
}

Task<CheckpointArchiveUrlResponse> find_archive(RestState::Source source,
                                                TinkerPath path,
                                                std::optional<TraceContext> trace) {
  auto opening = rest_holder(std::move(source));
  TINKER_CO_TRY(const auto holder, co_await std::move(opening));
  const auto session = holder->core();
  api::Call call = {.method = http::Method::get,
                    .pool = api::PoolKind::rest_support_redirect,
                    .trace = std::move(trace),
                    .follow_redirects = false};
  address(call, path.training_run_id, path.checkpoint_id(), "/archive");
  for (int round = 1;; ++round) {
    auto rounds = session::execute_with_retries<http::Response>(
        session,
        "get_checkpoint_archive_url",
        [session, call](const std::shared_ptr<session::Watch>& watch) {
          return ask_archive(session, session::watched(call, watch));
        });
    TINKER_CO_TRY(const auto answer, co_await std::move(rounds));
    if (answer.status != 503 || round == kArchiveRounds) {
      co_return read_archive(*session, answer);
    }
    auto pause = async::sleep_for(kArchivePause);
    TINKER_CO_TRY(co_await pause);
  }
}

}  // namespace tinker::client
