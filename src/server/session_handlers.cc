#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/logging.h"
#include "base/strings.h"
#include "server/checkpoint_path.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/metadata.h"
#include "server/service.h"

namespace tinker::server {

namespace {

constexpr std::int64_t kMaxPage = 1000;

Result<PageRange> page_of(std::int64_t limit, std::int64_t offset) {
  if (limit < 0 || offset < 0) {
    return bad_request(
        base::concat("limit and offset: expected 0 or more, found ", limit, " and ", offset));
  }
  return PageRange{.limit = std::min(limit, kMaxPage), .offset = offset};
}

ClientSessionFinishReason reason_of(SessionFinishReason reason) {
  switch (reason) {
    case SessionFinishReason::success: return ClientSessionFinishSuccess();
    case SessionFinishReason::errored: return ClientSessionFinishErrored();
    case SessionFinishReason::interrupted: return ClientSessionFinishInterrupted();
  }
  return ClientSessionFinishErrored();
}

SessionStatus status_of_session(const SessionRecord& record) {
  if (record.finish_reason) {
    return ClientSessionFinished{.reason = reason_of(*record.finish_reason),
                                 .detail = record.finish_detail};
  }
  if (record.has_expired) return SessionCancelled{.detail = "its heartbeats stopped"};
  return SessionActive();
}

/// Sessions end, if only because their heartbeats stop: clients try again.
Result<void> check_new_session(const Service& service, const std::string& owner) {
  const std::size_t most = service.options().limits.sessions;
  if (service.sessions.kept_of(owner) < most) return {};
  return Error{.code = ErrorCode::rate_limited,
               .message = base::concat("you have ",
                                       most,
                                       " sessions, or had them a moment ago; try again when "
                                       "there are fewer")};
}

}  // namespace

async::Task<Reply> client_config(Call call) {
  TINKER_CO_TRY(std::string json, encode_client_config(call.service->options().flags));
  co_return Reply{.body = std::move(json)};
}

async::Task<ClientDynamicConfigResponse> dynamic_config(Call call) {
  co_return call.service->options().flags.dynamic;
}

async::Task<HealthResponse> healthz(Call call) {
  if (call.service->is_draining()) {
    co_return Error{.code = ErrorCode::closed, .message = "the server is shutting down"};
  }
  co_return HealthResponse();
}

async::Task<GetServerCapabilitiesResponse> capabilities(Call call) {
  co_return GetServerCapabilitiesResponse{.supported_models = call.service->models->capabilities()};
}

async::Task<TelemetryResponse> telemetry(Call call) {
  (void)call;  // what clients tell of themselves is not kept
  co_return TelemetryResponse();
}

async::Task<CreateSessionResponse> create_session(Call call, CreateSessionRequest request) {
  auto& known = call.service->created_sessions;
  SessionRecord record = {.session_id = call.service->random_id(),
                          .owner = call.caller.owner,
                          .tags = std::move(request.tags),
                          .user_metadata = to_texts(request.user_metadata),
                          .sdk_version = std::move(request.sdk_version),
                          .project_id = std::move(request.project_id).value_or(std::string()),
                          .display_name = std::move(request.display_name),
                          .created_at = call.service->now()};
  // The only thing that a repeat has in common with the first try (PROTOCOL 10, rule 2).
  std::string key(call.header("x-idempotency-key"));
  if (!key.empty()) {
    key = short_hash(base::concat(call.caller.owner, "\n", key));
    if (const auto* id = known.find(key)) {
      auto search = call.service->sessions.find(*id, call.caller.owner);
      TINKER_CO_TRY(const auto session, co_await std::move(search));
      co_return CreateSessionResponse{.session_id = session->record.session_id};
    }
  }
  TINKER_CO_TRY(check_new_session(*call.service, call.caller.owner));
  if (!key.empty()) known.put(key, record.session_id);
  // To its end, also when the client has gone: the repeat shall find it.
  auto creating = call.service->sessions.create(std::move(record));
  auto created = async::until(call.service->apart(std::move(creating)));
  auto session = co_await created;
  if (!session.ok()) {
    known.take(key);
    co_return session.error();
  }
  TINKER_LOG(call.service->options().logger,
             info,
             "session ",
             (*session)->record.session_id,
             " begins, of ",
             call.caller.name);
  co_return CreateSessionResponse{.session_id = (*session)->record.session_id};
}

async::Task<SessionHeartbeatResponse> heartbeat(Call call, SessionHeartbeatRequest request) {
  auto search = call.service->sessions.find_open(request.session_id, call.caller.owner);
  TINKER_CO_TRY(co_await std::move(search));
  co_return SessionHeartbeatResponse();
}

async::Task<> finish_session(Call call, FinishSessionRequest request) {
  auto search = call.service->sessions.find(call.args[0], call.caller.owner);
  TINKER_CO_TRY(auto session, co_await std::move(search));
  auto finishing = call.service->sessions.finish(session, request.reason, request.detail);
  co_return co_await std::move(finishing);
}

async::Task<ListSessionsResponse> list_sessions(Call call, ListSessionsQuery query) {
  TINKER_CO_TRY(const auto range, page_of(query.limit, query.offset));
  auto stored = call.service->disk.run([owner = call.caller.owner, range](Store& store) {
    return store.list_sessions(owner, range);
  });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(const auto page, co_await wait);
  ListSessionsResponse out;
  for (const auto& session : page.items) out.sessions.push_back(session.session_id);
  co_return out;
}

async::Task<GetSessionResponse> get_session(Call call, AccessQuery query) {
  (void)query;
  auto search = call.service->sessions.find(call.args[0], call.caller.owner);
  TINKER_CO_TRY(const auto session, co_await std::move(search));
  auto stored =
      call.service->disk.run([id = call.args[0]](Store& store) -> Result<GetSessionResponse> {
        GetSessionResponse out;
        TINKER_TRY(out.training_run_ids, store.run_ids_of_session(id));
        TINKER_TRY(out.sampler_ids, store.sampler_ids_of_session(id));
        return out;
      });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto out, co_await wait);
  for (const auto& [number, id] : session->samplers) {  // also those without a record
    if (std::ranges::find(out.sampler_ids, id) == out.sampler_ids.end())
      out.sampler_ids.push_back(id);
  }
  out.user_metadata = session->record.user_metadata;
  out.display_name = session->record.display_name;
  co_return out;
}

async::Task<> set_project(Call call, SetProjectRequest request) {
  if (request.project_id.empty()) co_return bad_request("project_id: expected a name, found ''");
  auto search = call.service->sessions.find(call.args[0], call.caller.owner);
  TINKER_CO_TRY(auto session, co_await std::move(search));
  session->record.project_id = request.project_id;
  auto stored = call.service->disk.run(
      [record = session->record](Store& store) { return store.update_session(record); });
  auto wait = async::until(std::move(stored));
  co_return co_await wait;
}

async::Task<SessionSearchResponse> search_sessions(Call call, SessionSearchRequest request) {
  if (request.limit < 1 || request.limit > 200) {
    co_return bad_request(base::concat("limit: expected 1 to 200, found ", request.limit));
  }
  const auto* const users = std::get_if<UserSearchOwner>(&request.owner);
  if (users != nullptr &&
      std::ranges::find(users->owner_urns, call.caller.owner) == users->owner_urns.end()) {
    co_return SessionSearchResponse();  // others are hidden
  }
  SessionQuery query = {.owner = call.caller.owner,
                        .session_id = std::move(request.session_id),
                        .display_name = std::move(request.display_name),
                        .user_metadata = std::move(request.user_metadata),
                        .project_ids = std::move(request.project_ids),
                        .limit = request.limit,
                        .statuses = std::move(request.statuses)};
  if (request.cursor) {
    query.after = {request.cursor->last_created_at.instant(), request.cursor->last_session_id};
  }
  struct Found {
    std::vector<SessionRecord> sessions = {};
    std::vector<Storage> storage = {};
  };
  auto stored = call.service->disk.run([query](Store& store) mutable -> Result<Found> {
    ++query.limit;  // to see whether there are more
    Found out;
    TINKER_TRY(out.sessions, store.search_sessions(query));
    for (const auto& session : out.sessions) {
      TINKER_TRY(const auto storage, store.storage_of_session(session.session_id));
      out.storage.push_back(storage);
    }
    return out;
  });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto found, co_await wait);
  SessionSearchResponse out;
  const bool has_more = std::ssize(found.sessions) > request.limit;
  if (has_more) found.sessions.pop_back();
  for (std::size_t i = 0; i < found.sessions.size(); ++i) {
    const auto& record = found.sessions[i];
    out.sessions.push_back({.session_id = record.session_id,
                            .created_at = record.created_at,
                            .owner = record.owner,
                            .project_id = record.project_id,
                            .status = status_of_session(record),
                            .checkpoints_count = found.storage[i].count,
                            .display_name = record.display_name,
                            .user_metadata = record.user_metadata,
                            .checkpoint_storage_bytes = found.storage[i].bytes});
  }
  if (has_more) {
    const auto& last = found.sessions.back();
    out.next_cursor =
        SessionSearchCursor{.last_created_at = last.created_at, .last_session_id = last.session_id};
  }
  co_return out;
}

}  // namespace tinker::server
