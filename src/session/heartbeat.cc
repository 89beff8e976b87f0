#include "session/heartbeat.h"

#include <algorithm>

#include "base/logging.h"
#include "session/json_call.h"
#include "tinker/types/session.h"
#include "tinker/version.h"

namespace tinker::session {

using async::Task;
using std::chrono::seconds;

namespace {
constexpr seconds kBeat{10};
constexpr seconds kLost{120};
constexpr seconds kShortestRefresh{10};

bool is_end(const Error& error) noexcept {
  return error.code == ErrorCode::cancelled || error.code == ErrorCode::closed;
}
}  // namespace

Task<> heartbeat(std::shared_ptr<SessionCore> session) {
  TINKER_CO_TRY(const auto body,
                json_body(SessionHeartbeatRequest{.session_id = session->session_id}));
  async::TimePoint last_success = session->now();
  while (true) {
    auto pause = async::sleep_for(kBeat);
    TINKER_CO_TRY(co_await pause);
    auto beat = session->api->call({.path = "/api/v1/session_heartbeat",
                                    .body = body,
                                    .pool = api::PoolKind::session,
                                    .timeout = seconds(10),
                                    .max_retries = 0,
                                    .is_guarded = false},
                                   session->tokens);
    const auto answer = co_await std::move(beat);
    const async::TimePoint now = session->now();
    if (answer.ok()) {
      last_success = now;
      continue;
    }
    if (is_end(answer.error())) co_return answer.error();
    if (answer.error().http_status == 410) {
      TINKER_LOG(session->logger(),
                 info,
                 "session ",
                 session->session_id,
                 " is finished; no more heartbeats");
      co_return Result<void>();
    }
    session->runtime->events().publish({.name = "heartbeat.missed",
                                        .level = LogLevel::debug,
                                        .session_id = session->session_id,
                                        .http_status = answer.error().http_status,
                                        .error = answer.error().code,
                                        .elapsed = now - last_success});
    if (now - last_success > kLost) {
      const auto lost = std::chrono::duration_cast<seconds>(now - last_success).count();
      TINKER_LOG(session->logger(),
                 warn,
                 "no heartbeat of session ",
                 session->session_id,
                 " got through for ",
                 lost,
                 " s: ",
                 answer.error().to_string());
    }
  }
}

Task<ClientDynamicConfigResponse> fetch_dynamic_config(
    std::shared_ptr<SessionCore> session, std::weak_ptr<api::AttemptObserver> observer) {
  TINKER_CO_TRY(const auto body,
                json_body(ClientConfigRequest{.sdk_version = std::string(protocol_version())}));
  auto answer = call_json<ClientDynamicConfigResponse>(session,
                                                       {.path = "/api/v1/client/dynamic_config",
                                                        .body = body,
                                                        .pool = api::PoolKind::session,
                                                        .timeout = seconds(10),
                                                        .max_retries = 0,
                                                        .is_guarded = false,
                                                        .observer = std::move(observer)});
  co_return co_await std::move(answer);
}

Task<> refresh_dynamic_config(std::shared_ptr<SessionCore> session) {
  while (true) {
    const seconds interval(session->dynamic_config.refresh_interval_sec);
    auto pause = async::sleep_for(std::max(interval, kShortestRefresh));
    TINKER_CO_TRY(co_await pause);
    auto fetch = fetch_dynamic_config(session, {});
    auto answer = co_await std::move(fetch);
    if (answer.ok()) {
      session->dynamic_config = *std::move(answer);
    } else if (is_end(answer.error())) {
      co_return answer.error();
    } else {
      TINKER_LOG(session->logger(),
                 debug,
                 "the configuration could not be refreshed: ",
                 answer.error().to_string());
    }
  }
}

}  // namespace tinker::session
