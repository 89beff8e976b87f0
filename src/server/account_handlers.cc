#include <chrono>
#include <map>
#include <utility>

#include "base/strings.h"
#include "server/errors.h"
#include "server/handlers.h"
#include "server/service.h"

namespace tinker::server {

namespace {

constexpr double kBytesOfGigabyte = 1e9;
constexpr auto kMaxUsageSpan = std::chrono::days(14);

BillingEventInfo info_of(const UsageRecord& usage) {
  switch (usage.kind) {
    case UsageRecord::Kind::training: return TrainingBillingEvent{.token_count = usage.count};
    case UsageRecord::Kind::sampling_prefill:
      return SamplingPrefillBillingEvent{.cached = false, .token_count = usage.count};
    case UsageRecord::Kind::sampling_prefill_cached:
      return SamplingPrefillBillingEvent{.cached = true, .token_count = usage.count};
    case UsageRecord::Kind::sampling_sample:
      return SamplingSampleBillingEvent{.token_count = usage.count};
    case UsageRecord::Kind::checkpoint: return CheckpointBillingEvent{.count = usage.count};
  }
  return TrainingBillingEvent();
}

std::optional<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

std::string_view prefix_of(AuditEventType type) {
  switch (type) {
    case AuditEventType::checkpoints: return "checkpoint_";
    case AuditEventType::projects: return "project_";
    case AuditEventType::teams: return "team_";
    case AuditEventType::organizations: return "organization_";
    case AuditEventType::all: return "";
  }
  return "";
}

/// Where there are no keys, nobody logs in.
void note_login(const Call& call) {
  if (!call.service->access.needs_key()) return;
  call.service->audit(call.caller, "organization_login", {{"name", call.caller.name}});
}

}  // namespace

async::Task<AuthTokenResponse> exchange_token(Call call) {
  const ServiceOptions& options = call.service->options();
  if (!options.flags.config.pjwt_auth_enabled) {
    co_return Error{.code = ErrorCode::not_found,
                    .message = "this server issues no tokens: its flag pjwt_auth_enabled is off"};
  }
  note_login(call);
  const Instant now = call.service->now();
  TINKER_CO_TRY(
      std::string token,
      call.service->access.issue_token(call.caller, now, now + options.limits.token_time));
  co_return AuthTokenResponse{.jwt = Secret(std::move(token))};
}

// Only a login asks for it (PROTOCOL 9.48).
async::Task<SelfApiKeyResponse> own_key(Call call) {
  note_login(call);
  co_return SelfApiKeyResponse{
      .key_id = call.caller.key_id,
      .name = call.caller.name,
      .note = "",
      .details = {.org_details = {.name = "local"}, .user_details = {.email = ""}}};
}

async::Task<> revoke_own_key(Call call) {
  if (!call.service->access.needs_key()) co_return Result<void>();  // there is none to revoke
  call.service->access.revoke(call.caller.key_id);
  call.service->audit(call.caller, "organization_logout", {{"name", call.caller.name}});
  co_return Result<void>();
}

async::Task<AuditLogResponse> audit_log(Call call, AuditLogQuery query) {
  Instant from = std::chrono::floor<std::chrono::days>(call.service->now());
  if (query.day) {
    TINKER_CO_TRY(const auto day, DateTime::parse(*query.day));
    from = std::chrono::floor<std::chrono::days>(day.instant());
  }
  auto stored = call.service->disk.run(
      [owner = call.caller.owner, from, prefix = prefix_of(query.event_type)](Store& store) {
        return store.audit(owner, from, from + std::chrono::days(1), prefix);
      });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(const auto entries, co_await wait);
  AuditLogResponse out;
  for (const auto& entry : entries) {
    AuditLogEntry line = {.timestamp = entry.at, .event = entry.event};
    for (const auto& [name, value] : entry.details) line.event_details.emplace_back(name, value);
    if (const auto path = entry.details.find("tinker_path"); path != entry.details.end())
      line.tinker_path = path->second;
    out.entries.push_back(std::move(line));
  }
  co_return out;
}

async::Task<BillingUsageResponse> billing_usage(Call call, GetBillingUsageRequest query) {
  const Instant from = query.starting_on.instant();
  const Instant to = query.ending_before.instant();
  if (to < from || to - from > kMaxUsageSpan) {
    co_return bad_request(
        base::concat("ending_before: expected 0 to 14 days after starting_on, found ",
                     query.ending_before.to_string()));
  }
  struct Found {
    std::vector<UsageRecord> usage = {};
    std::map<std::string, BillingUsageSession, std::less<>> sessions = {};
  };
  auto flushed = async::until(call.service->flush_usage());
  TINKER_CO_TRY(co_await flushed);
  auto stored =
      call.service->disk.run([owner = call.caller.owner, from, to](Store& store) -> Result<Found> {
        Found out;
        TINKER_TRY(out.usage, store.usage(owner, from, to));
        for (const auto& usage : out.usage) {
          if (usage.session_id.empty() || out.sessions.contains(usage.session_id)) continue;
          TINKER_TRY(const auto session, store.find_session(usage.session_id));
          if (session) out.sessions[usage.session_id] = {.user_metadata = session->user_metadata};
        }
        return out;
      });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(auto found, co_await wait);
  BillingUsageResponse out = {.sessions = std::move(found.sessions)};
  for (const auto& usage : found.usage) {
    out.data.push_back({.bucket_start = usage.hour,
                        .bucket_end = usage.hour + std::chrono::hours(1),
                        .base_model = unless_empty(usage.base_model),
                        .user_id = usage.owner,
                        .session_id = unless_empty(usage.session_id),
                        .project_id = unless_empty(usage.project_id),
                        .event_info = info_of(usage)});
  }
  co_return out;
}

async::Task<CurrentCheckpointStorageUsageResponse> storage_usage(
    Call call, GetCurrentCheckpointStorageUsageRequest query) {
  auto stored = call.service->disk.run(
      [owner = call.caller.owner](Store& store) { return store.storage_by_project(owner); });
  auto wait = async::until(std::move(stored));
  TINKER_CO_TRY(const auto projects, co_await wait);
  CurrentCheckpointStorageUsageResponse out;
  for (const auto& [project, storage] : projects) {
    if (query.project_id && *query.project_id != project) continue;
    out.data.push_back({.project_id = unless_empty(project),
                        .org_user_urn = call.caller.owner,
                        .user_name = call.caller.name,
                        .checkpoint_count = storage.count,
                        .size_bytes = storage.bytes,
                        .size_gigabytes = static_cast<double>(storage.bytes) / kBytesOfGigabyte});
  }
  co_return out;
}

async::Task<SessionTraceExportPollResponse> trace_export(Call call) {
  auto search = call.service->sessions.find(call.args[0], call.caller.owner);
  TINKER_CO_TRY(co_await std::move(search));
  co_return SessionTraceExportPollResponse{.status = TraceExportStatus::failed,
                                           .error = "this server records no traces"};
}

}  // namespace tinker::server
