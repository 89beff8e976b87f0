#include <algorithm>

#include "base/strings.h"
#include "server/store_parts.h"

// Sessions, and the runs and samplers that belong to them. `SELECT *` yields the columns in the
// order of the schema.
namespace tinker::server {
namespace {

SessionRecord read_session(Row& row) {
  return {.session_id = row.text(),
          .owner = row.text(),
          .tags = row.json<std::vector<std::string>>(),
          .user_metadata = row.json<StringMap>(),
          .sdk_version = row.text(),
          .project_id = row.text(),
          .display_name = row.optional_text(),
          .created_at = row.instant(),
          .finish_reason = row.optional_name<SessionFinishReason>(),
          .finish_detail = row.optional_text(),
          .has_expired = row.boolean()};
}

RunRecord read_run(Row& row) {
  return {.run_id = row.text(),
          .session_id = row.text(),
          .owner = row.text(),
          .project_id = row.text(),
          .base_model = row.text(),
          .lora = row.json<LoraConfig>(),
          .optimizer = row.json<OptimizerConfig>(),
          .user_metadata = row.json<StringMap>(),
          .created_at = row.instant(),
          .last_request_at = row.instant()};
}

SamplerRecord read_sampler(Row& row) {
  return {.sampler_id = row.text(),
          .session_id = row.text(),
          .owner = row.text(),
          .base_model = row.text(),
          .model_path = row.optional_text()};
}

std::optional<std::string_view> reason_of(const SessionRecord& session) {
  if (!session.finish_reason) return std::nullopt;
  return to_string(*session.finish_reason);
}

char lower(char c) {
  return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool has_words(std::string_view name, std::string_view words) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  while (true) {
    words.remove_prefix(std::min(words.find_first_not_of(kSpace), words.size()));
    const auto word = words.substr(0, words.find_first_of(kSpace));
    if (word.empty()) return true;
    if (std::ranges::search(name, word, {}, lower, lower).empty()) return false;
    words.remove_prefix(word.size());
  }
}

bool has_status(const SessionRecord& session, const SessionStatusQuery& wanted) {
  if (std::holds_alternative<ActiveSessionStatusQuery>(wanted)) {
    return !session.finish_reason && !session.has_expired;
  }
  if (std::holds_alternative<CancelledSessionStatusQuery>(wanted)) return session.has_expired;
  const auto* finished = std::get_if<ClientFinishedSessionStatusQuery>(&wanted);
  if (finished == nullptr || !session.finish_reason) return false;
  return !finished->reasons || std::ranges::count(*finished->reasons, *session.finish_reason) > 0;
}

bool matches(const SessionRecord& session, const SessionQuery& query) {
  const bool is_named = session.session_id == query.session_id ||
                        (query.display_name && session.display_name &&
                         has_words(*session.display_name, *query.display_name));
  if ((query.session_id || query.display_name) && !is_named) return false;
  if (query.project_ids && std::ranges::count(*query.project_ids, session.project_id) == 0) {
    return false;
  }
  const auto is_status = [&](const auto& wanted) { return has_status(session, wanted); };
  if (query.statuses && std::ranges::none_of(*query.statuses, is_status)) return false;
  return std::ranges::all_of(query.user_metadata, [&](const auto& pair) {
    const auto found = session.user_metadata.find(pair.first);
    return found != session.user_metadata.end() && found->second == pair.second;
  });
}

}  // namespace

// ---- Sessions

Result<void> Store::add_session(const SessionRecord& session) {
  TINKER_TRY(const auto tags, wire::encode_json(session.tags));
  TINKER_TRY(const auto metadata, wire::encode_json(session.user_metadata));
  TINKER_TRY(parts_->database.run("INSERT INTO sessions VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                  {session.session_id,
                                   session.owner,
                                   tags,
                                   metadata,
                                   session.sdk_version,
                                   session.project_id,
                                   session.display_name,
                                   session.created_at,
                                   reason_of(session),
                                   session.finish_detail,
                                   session.has_expired}));
  return {};
}

Result<void> Store::update_session(const SessionRecord& session) {
  TINKER_TRY(const auto changed,
             parts_->database.run("UPDATE sessions SET project_id = ?, finish_reason = ?, "
                                  "finish_detail = ?, has_expired = ? WHERE session_id = ?",
                                  {session.project_id,
                                   reason_of(session),
                                   session.finish_detail,
                                   session.has_expired,
                                   session.session_id}));
  if (changed == 0) return not_found("session", session.session_id);
  return {};
}

Result<std::vector<SessionRecord>> Store::open_sessions() {
  auto& database = parts_->database;
  return read_all(
      database,
      database.query("SELECT * FROM sessions WHERE finish_reason IS NULL AND NOT has_expired"),
      read_session);
}

Result<std::optional<SessionRecord>> Store::find_session(std::string_view session_id) {
  auto& database = parts_->database;
  return read_one(database,
                  database.query("SELECT * FROM sessions WHERE session_id = ?", {session_id}),
                  read_session);
}

Result<Page<SessionRecord>> Store::list_sessions(std::string_view owner, PageRange range) {
  TINKER_TRY(check_range(range));
  auto& database = parts_->database;
  return read_page(database,
                   database.query("SELECT count(*) FROM sessions WHERE owner = ?", {owner}),
                   database.query("SELECT * FROM sessions WHERE owner = ? "
                                  "ORDER BY created_at DESC, session_id DESC LIMIT ? OFFSET ?",
                                  {owner, range.limit, range.offset}),
                   read_session);
}

Result<std::vector<SessionRecord>> Store::search_sessions(const SessionQuery& query) {
  TINKER_TRY(check_range({.limit = query.limit}));
  const auto last = query.after.value_or(std::pair(Instant::max(), std::string()));
  auto& database = parts_->database;
  TINKER_TRY(auto rows,
             database.query("SELECT * FROM sessions WHERE owner = ? "
                            "AND (created_at, session_id) < (?, ?) "
                            "ORDER BY created_at DESC, session_id DESC",
                            {query.owner, last.first, last.second}));
  std::vector<SessionRecord> found;
  while (std::cmp_less(found.size(), query.limit)) {
    TINKER_TRY(auto session, read_next(database, rows, read_session));
    if (!session) break;
    if (matches(*session, query)) found.push_back(*std::move(session));
  }
  return found;
}

// ---- Runs and samplers

Result<void> Store::Parts::insert_run(const RunRecord& run) {
  TINKER_TRY(const auto lora, wire::encode_json(run.lora));
  TINKER_TRY(const auto optimizer, wire::encode_json(run.optimizer));
  TINKER_TRY(const auto metadata, wire::encode_json(run.user_metadata));
  TINKER_TRY(database.run("INSERT INTO runs VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                          {run.run_id,
                           run.session_id,
                           run.owner,
                           run.project_id,
                           run.base_model,
                           lora,
                           optimizer,
                           metadata,
                           run.created_at,
                           run.last_request_at}));
  return {};
}

Result<void> Store::add_run(const RunRecord& run) {
  return parts_->insert_run(run);
}

Result<void> Store::touch_run(std::string_view run_id, Instant at) {
  TINKER_TRY(
      const auto changed,
      parts_->database.run("UPDATE runs SET last_request_at = ? WHERE run_id = ?", {at, run_id}));
  if (changed == 0) return not_found("training run", run_id);
  return {};
}

Result<std::optional<RunRecord>> Store::find_run(std::string_view run_id) {
  auto& database = parts_->database;
  return read_one(
      database, database.query("SELECT * FROM runs WHERE run_id = ?", {run_id}), read_run);
}

Result<Page<RunRecord>> Store::list_runs(std::string_view owner,
                                         std::string_view project_id,
                                         PageRange range,
                                         AccessScope scope) {
  TINKER_TRY(check_range(range));
  const bool with_public = scope == AccessScope::accessible && project_id.empty();
  const Instant public_after = with_public ? parts_->now() : Instant::max();
  constexpr std::string_view kWhere =
      "WHERE rowid IN (SELECT rowid FROM runs WHERE owner = ?1 AND ?2 IN ('', project_id) "
      "UNION SELECT runs.rowid FROM checkpoints JOIN runs USING (run_id) "
      "WHERE is_public AND expires_at > ?3)";
  auto& database = parts_->database;
  return read_page(database,
                   database.query(base::concat("SELECT count(*) FROM runs ", kWhere),
                                  {owner, project_id, public_after}),
                   database.query(base::concat("SELECT * FROM runs ",
                                               kWhere,
                                               " ORDER BY created_at DESC, rowid DESC "
                                               "LIMIT ?4 OFFSET ?5"),
                                  {owner, project_id, public_after, range.limit, range.offset}),
                   read_run);
}

Result<std::vector<std::string>> Store::run_ids_of_session(std::string_view session_id) {
  auto& database = parts_->database;
  return read_all(
      database,
      database.query("SELECT run_id FROM runs WHERE session_id = ? ORDER BY rowid", {session_id}),
      read_text);
}

Result<void> Store::add_sampler(const SamplerRecord& sampler) {
  TINKER_TRY(parts_->database.run("INSERT INTO samplers VALUES(?, ?, ?, ?, ?)",
                                  {sampler.sampler_id,
                                   sampler.session_id,
                                   sampler.owner,
                                   sampler.base_model,
                                   sampler.model_path}));
  return {};
}

Result<std::optional<SamplerRecord>> Store::find_sampler(std::string_view sampler_id) {
  auto& database = parts_->database;
  return read_one(database,
                  database.query("SELECT * FROM samplers WHERE sampler_id = ?", {sampler_id}),
                  read_sampler);
}

Result<std::vector<std::string>> Store::sampler_ids_of_session(std::string_view session_id) {
  auto& database = parts_->database;
  return read_all(database,
                  database.query("SELECT sampler_id FROM samplers WHERE session_id = ? "
                                 "ORDER BY rowid",
                                 {session_id}),
                  read_text);
}

}  // namespace tinker::server
