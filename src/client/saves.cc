#include "client/saves.h"

#include <algorithm>

#include "base/strings.h"
#include "http/http_date.h"
#include "http/url.h"
#include "session/json_call.h"
#include "tinker/types/checkpoint.h"

namespace tinker::client {

using async::Task;
using std::chrono::system_clock;

namespace {

constexpr std::string_view kEndpoint = "a save";

/// What the server's clock showed so long ago, to the second; ours, if the answer has no date.
system_clock::time_point server_time(const http::Response& answer,
                                     system_clock::time_point ours,
                                     std::chrono::nanoseconds ago) {
  const auto date = http::parse_http_date(answer.headers.find("date").value_or(""));
  return (date ? system_clock::time_point(*date) : ours) -
         std::chrono::duration_cast<system_clock::duration>(ago);
}

Task<std::optional<Checkpoint>> find_checkpoint(std::shared_ptr<session::SessionCore> session,
                                                std::shared_ptr<SaveAttempts> attempts) {
  api::Call call = {
      .method = http::Method::get,
      .path = base::concat(
          "/api/v1/training_runs/", http::encode_path_segment(attempts->model_id), "/checkpoints"),
      .endpoint = "/api/v1/training_runs/{id}/checkpoints"};
  auto asking = session::call_json<CheckpointsListResponse>(session, std::move(call));
  TINKER_CO_TRY(auto list, co_await std::move(asking));
  const auto found =
      std::ranges::find(list.checkpoints, attempts->checkpoint_id, &Checkpoint::checkpoint_id);
  if (found == list.checkpoints.end()) co_return std::optional<Checkpoint>();
  co_return std::optional(std::move(*found));
}

}  // namespace

Task<UntypedApiFuture> save_round(std::shared_ptr<session::SessionCore> session,
                                  api::Call call,
                                  std::shared_ptr<SaveAttempts> attempts) {
  const auto began = session->now();
  auto asking = session->api->fetch(std::move(call), session->tokens);
  const auto answer = co_await std::move(asking);
  if (!answer.ok()) {
    const bool is_unanswered = answer.error().code == ErrorCode::connection_failed ||
                               answer.error().code == ErrorCode::timed_out;
    if (is_unanswered && !attempts->unanswered_since) attempts->unanswered_since = began;
    co_return answer.error();
  }
  if (answer->status >= 200 && answer->status < 300) {
    co_return session::read_answer<UntypedApiFuture>(
        *answer, std::string(kEndpoint), *session->api);
  }
  if (answer->status == 409 && attempts->unanswered_since) {
    // Not by two looks at the clock on the wall: somebody may set it between them.
    const auto earliest = server_time(*answer,
                                      session->runtime->clock().wall_time(),
                                      session->now() - *attempts->unanswered_since);
    auto looking = find_checkpoint(session, attempts);
    const auto checkpoint = co_await std::move(looking);
    if (checkpoint.ok() && *checkpoint && (*checkpoint)->time.instant() >= earliest) {
      attempts->saved_as = (*checkpoint)->tinker_path;
      co_return UntypedApiFuture();
    }
  }
  co_return session->api->status_error(*answer);
}

}  // namespace tinker::client
