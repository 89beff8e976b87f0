#include <algorithm>
#include <system_error>

#include "base/files.h"
#include "base/strings.h"
#include "server/store_parts.h"

// Checkpoints: a row in the catalogue for each, and a folder that the rows of copies share. A row
// is inserted after its folder is on the disk, and a folder is removed after its last row, so a
// crash can leave folders without rows but never the reverse.
//
// A checkpoint that has expired keeps its row until the next sweep or until its name is used again;
// nothing here shows it.
namespace tinker::server {
namespace {

using base::concat;

constexpr Instant kNever = Instant::max();

std::optional<Instant> read_expiry(Row& row) {
  const auto at = row.instant();
  return at == kNever ? std::nullopt : std::optional(at);
}

CheckpointRecord read_checkpoint(Row& row) {
  return {.run_id = row.text(),
          .kind = row.name<CheckpointType>(),
          .name = row.text(),
          .owner = row.text(),
          .base_model = row.text(),
          .lora = row.json<LoraConfig>(),
          .optimizer = row.json<OptimizerConfig>(),
          .has_optimizer_state = row.boolean(),
          .created_at = row.instant(),
          .size_bytes = row.integer(),
          .is_public = row.boolean(),
          .user_metadata = row.optional_json<StringMap>(),
          .expires_at = read_expiry(row),
          .folder = row.text()};
}

ProjectStorage read_storage(Row& row) {
  return {.project_id = row.text(), .storage = {.count = row.integer(), .bytes = row.integer()}};
}

struct FoundCheckpoint {
  CheckpointRecord record;
  std::string project_id;
};
FoundCheckpoint read_found(Row& row) {
  auto record = read_checkpoint(row);
  return {.record = std::move(record), .project_id = row.text()};
}

bool is_one_of(const std::optional<std::vector<std::string>>& wanted, std::string_view found) {
  return !wanted || std::ranges::find(*wanted, found) != wanted->end();
}

bool fits(const FoundCheckpoint& found, const CheckpointQuery& query) {
  const auto& record = found.record;
  if (query.kind && record.kind != *query.kind) return false;
  if (!is_one_of(query.owners, record.owner) || !is_one_of(query.base_models, record.base_model)) {
    return false;
  }
  if (!query.project_ids && query.user_metadata.empty()) return true;
  if (record.owner != query.caller || !is_one_of(query.project_ids, found.project_id)) return false;
  const StringMap metadata = record.user_metadata.value_or(StringMap());
  return std::ranges::all_of(query.user_metadata, [&](const auto& pair) {
    const auto there = metadata.find(pair.first);
    return there != metadata.end() && there->second == pair.second;
  });
}

struct Expired {
  TinkerPath path;
  std::string folder;
};
Expired read_expired(Row& row) {
  return {.path = {.training_run_id = row.text(),
                   .kind = row.name<CheckpointType>(),
                   .name = row.text()},
          .folder = row.text()};
}

}  // namespace

// ---- What the calls below are made of

Result<void> Store::Parts::insert_checkpoint(const CheckpointRecord& record) {
  TINKER_TRY(const auto lora, wire::encode_json(record.lora));
  TINKER_TRY(const auto optimizer, wire::encode_json(record.optimizer));
  std::optional<std::string> metadata;
  if (record.user_metadata) {
    TINKER_TRY(metadata, wire::encode_json(*record.user_metadata));
  }
  TINKER_TRY(
      database.run("INSERT INTO checkpoints "
                   "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                   {record.run_id,
                    to_string(record.kind),
                    record.name,
                    record.owner,
                    record.base_model,
                    lora,
                    optimizer,
                    record.has_optimizer_state,
                    record.created_at,
                    record.size_bytes,
                    record.is_public,
                    metadata,
                    record.expires_at.value_or(kNever),
                    record.folder}));
  return {};
}

Result<std::optional<std::string>> Store::Parts::remove_record(const TinkerPath& path) {
  TINKER_TRY(auto folder,
             read_one(database,
                      database.query("DELETE FROM checkpoints "
                                     "WHERE run_id = ? AND kind = ? AND name = ? RETURNING folder",
                                     {path.training_run_id, to_string(path.kind), path.name}),
                      read_text));
  return folder;
}

Result<void> Store::Parts::change_checkpoint(const TinkerPath& path,
                                             std::string_view sql,
                                             const SqlValue& value) {
  TINKER_TRY(
      const auto changed,
      database.run(sql, {path.training_run_id, to_string(path.kind), path.name, now(), value}));
  if (changed == 0) return not_found("checkpoint", path.to_string());
  return {};
}

void Store::Parts::release_folder(const std::string& folder) {
  const auto user =
      read_one(database,
               database.query("SELECT folder FROM checkpoints WHERE folder = ? LIMIT 1", {folder}),
               read_text);
  if (!user.ok() || *user) return;
  const auto held = holds.find(folder);
  if (held == holds.end() || held->second.expired()) return data.remove_checkpoint(folder);
  kept_folders.push_back(folder);
}

FolderHold Store::Parts::hold(const std::string& folder) {
  auto& known = holds[folder];
  FolderHold out = {.token = known.lock()};
  if (!out.token) {
    out.token = std::make_shared<char>();
    known = out.token;
  }
  return out;
}

Result<std::optional<CheckpointRecord>> Store::Parts::find_checkpoint(const TinkerPath& path) {
  return read_one(database,
                  database.query("SELECT * FROM checkpoints "
                                 "WHERE run_id = ? AND kind = ? AND name = ? AND expires_at > ?",
                                 {path.training_run_id, to_string(path.kind), path.name, now()}),
                  read_checkpoint);
}

Result<std::optional<std::string>> Store::Parts::put_checkpoint(CheckpointRecord& record,
                                                                const CheckpointPlace& place,
                                                                bool overwrite) {
  TINKER_TRY(check_name(record.name));
  TINKER_TRY(const auto taken, find_checkpoint(record.path()));
  if (taken && !overwrite) {
    return Error{
        .code = ErrorCode::conflict,
        .message = concat("there is a checkpoint '", record.path().to_string(), "' already")};
  }
  record.created_at = now();
  record.folder = place.name;
  TINKER_TRY(record.size_bytes, size_of_folder(place.folder));
  TINKER_TRY(base::sync_folder(data.checkpoints().string()));
  TINKER_TRY(auto replaced, remove_record(record.path()));
  TINKER_TRY(insert_checkpoint(record));
  return replaced;
}

// ---- New ones

Result<CheckpointPlace> Store::begin_checkpoint() {
  CheckpointPlace place = {.name = parts_->rng.uuid4()};
  place.folder = parts_->data.checkpoints() / place.name;
  return place;
}

std::filesystem::path Store::folder_of(const CheckpointRecord& record) const {
  return parts_->data.checkpoints() / record.folder;
}

void Store::abandon_checkpoint(const CheckpointPlace& place) noexcept {
  parts_->data.remove_checkpoint(place.name);
}

Result<CheckpointRecord> Store::Parts::commit(CheckpointRecord record,
                                              const CheckpointPlace& place,
                                              bool overwrite,
                                              const RunRecord* run) {
  auto transaction = Transaction::begin(database);
  auto begun = transaction.ok() ? Result<void>() : Result<void>(transaction.error());
  if (begun.ok() && run != nullptr) begun = insert_run(*run);
  auto replaced = begun.ok() ? put_checkpoint(record, place, overwrite)
                             : Result<std::optional<std::string>>(begun.error());
  if (!replaced) {
    data.remove_checkpoint(place.name);
    return std::move(replaced).error();
  }
  if (auto committed = transaction->commit(); !committed) {
    doubtful_folders.push_back(place.name);
    return committed.error();
  }
  if (*replaced) release_folder(**replaced);
  return record;
}

Result<CheckpointRecord> Store::commit_checkpoint(CheckpointRecord record,
                                                  const CheckpointPlace& place,
                                                  bool overwrite) {
  return parts_->commit(std::move(record), place, overwrite, nullptr);
}

Result<CheckpointRecord> Store::commit_run(const RunRecord& run,
                                           CheckpointRecord record,
                                           const CheckpointPlace& place) {
  return parts_->commit(std::move(record), place, false, &run);
}

Result<CheckpointRecord> Store::copy_checkpoint(const CheckpointRecord& from,
                                                const RunRecord& to,
                                                std::optional<Instant> expires_at) {
  TINKER_TRY(auto transaction, Transaction::begin(parts_->database));
  TINKER_TRY(const auto source, parts_->find_checkpoint(from.path()));
  if (!source || source->folder != from.folder) {
    return not_found("checkpoint", from.path().to_string());
  }
  CheckpointRecord copy = from;
  copy.run_id = to.run_id;
  copy.owner = to.owner;
  copy.created_at = parts_->now();
  copy.is_public = false;
  copy.expires_at = expires_at;
  TINKER_TRY(parts_->insert_run(to));
  TINKER_TRY(parts_->insert_checkpoint(copy));
  TINKER_TRY(transaction.commit());
  return copy;
}

// ---- What there is

Result<std::optional<CheckpointRecord>> Store::find_checkpoint(const TinkerPath& path) {
  TINKER_TRY(auto found, parts_->find_checkpoint(path));
  if (found) found->hold = parts_->hold(found->folder);
  return found;
}

Result<std::vector<CheckpointRecord>> Store::checkpoints_of_run(std::string_view run_id) {
  auto& database = parts_->database;
  return read_all(database,
                  database.query("SELECT * FROM checkpoints WHERE run_id = ? AND expires_at > ? "
                                 "ORDER BY created_at, rowid",
                                 {run_id, parts_->now()}),
                  read_checkpoint);
}

Result<Page<CheckpointRecord>> Store::list_checkpoints(std::string_view owner, PageRange range) {
  TINKER_TRY(check_range(range));
  auto& database = parts_->database;
  const auto now = parts_->now();
  return read_page(
      database,
      database.query("SELECT count(*) FROM checkpoints WHERE owner = ? AND expires_at > ?",
                     {owner, now}),
      database.query("SELECT * FROM checkpoints WHERE owner = ? AND expires_at > ? "
                     "ORDER BY created_at DESC, rowid DESC LIMIT ? OFFSET ?",
                     {owner, now, range.limit, range.offset}),
      read_checkpoint);
}

Result<std::vector<CheckpointRecord>> Store::search_checkpoints(const CheckpointQuery& query) {
  TINKER_TRY(check_range({.limit = query.limit}));
  const auto last = query.after.value_or(std::pair(Instant::max(), std::string()));
  auto& database = parts_->database;
  TINKER_TRY(
      auto rows,
      database.query("SELECT checkpoints.*, ifnull(runs.project_id, ''), "
                     "'tinker://' || run_id || '/' || CASE kind WHEN 'training' THEN 'weights' "
                     "ELSE kind || '_weights' END || '/' || name AS path "
                     "FROM checkpoints LEFT JOIN runs USING (run_id) "
                     "WHERE (checkpoints.owner = ?1 OR (?2 AND is_public)) AND expires_at > ?3 "
                     "AND (checkpoints.created_at, path) < (?4, ?5) "
                     "ORDER BY checkpoints.created_at DESC, path DESC",
                     {query.caller, query.with_public, parts_->now(), last.first, last.second}));
  std::vector<CheckpointRecord> out;
  while (std::cmp_less(out.size(), query.limit)) {
    TINKER_TRY(auto found, read_next(database, rows, read_found));
    if (!found) break;
    if (fits(*found, query)) out.push_back(std::move(found->record));
  }
  return out;
}

Result<std::vector<ProjectStorage>> Store::storage_by_project(std::string_view owner) {
  auto& database = parts_->database;
  return read_all(
      database,
      database.query("SELECT ifnull(runs.project_id, ''), count(*), sum(size_bytes) "
                     "FROM checkpoints LEFT JOIN runs USING (run_id) "
                     "WHERE checkpoints.owner = ? AND expires_at > ? GROUP BY 1 ORDER BY 1",
                     {owner, parts_->now()}),
      read_storage);
}

Result<Storage> Store::storage_of_session(std::string_view session_id) {
  auto& database = parts_->database;
  TINKER_TRY(const auto total,
             read_one(database,
                      database.query("SELECT '', count(*), ifnull(sum(size_bytes), 0) "
                                     "FROM checkpoints JOIN runs USING (run_id) "
                                     "WHERE session_id = ? AND expires_at > ?",
                                     {session_id, parts_->now()}),
                      read_storage));
  return total ? total->storage : Storage();
}

// ---- Changes

Result<void> Store::set_public(const TinkerPath& path, bool is_public) {
  return parts_->change_checkpoint(
      path,
      "UPDATE checkpoints SET is_public = ?5 "
      "WHERE run_id = ?1 AND kind = ?2 AND name = ?3 AND expires_at > ?4",
      is_public);
}

Result<void> Store::set_expiry(const TinkerPath& path, std::optional<Instant> expires_at) {
  return parts_->change_checkpoint(
      path,
      "UPDATE checkpoints SET expires_at = ?5 "
      "WHERE run_id = ?1 AND kind = ?2 AND name = ?3 AND expires_at > ?4",
      expires_at.value_or(kNever));
}

Result<void> Store::delete_checkpoint(const TinkerPath& path) {
  TINKER_TRY(auto transaction, Transaction::begin(parts_->database));
  TINKER_TRY(const auto found, parts_->find_checkpoint(path));
  if (!found) return not_found("checkpoint", path.to_string());
  TINKER_TRY(parts_->remove_record(path));
  TINKER_TRY(transaction.commit());
  parts_->release_folder(found->folder);
  return {};
}

Result<std::vector<TinkerPath>> Store::sweep() {
  auto& database = parts_->database;
  const auto now = parts_->now();
  TINKER_TRY(auto transaction, Transaction::begin(database));
  TINKER_TRY(const auto expired,
             read_all(database,
                      database.query("SELECT run_id, kind, name, folder FROM checkpoints "
                                     "WHERE expires_at <= ? ORDER BY expires_at, rowid",
                                     {now}),
                      read_expired));
  TINKER_TRY(database.run("DELETE FROM checkpoints WHERE expires_at <= ?", {now}));
  const bool has_doubts = !parts_->doubtful_folders.empty();
  if (has_doubts) {
    TINKER_TRY(database.execute("PRAGMA user_version = 1"));  // something to write
  }
  TINKER_TRY(transaction.commit());
  for (const auto& folder : std::exchange(parts_->doubtful_folders, {})) {
    parts_->release_folder(folder);
  }
  std::erase_if(parts_->holds, [](const auto& hold) { return hold.second.expired(); });
  for (const auto& folder : std::exchange(parts_->kept_folders, {})) {
    parts_->release_folder(folder);
  }
  std::vector<TinkerPath> paths;
  for (const auto& [path, folder] : expired) {
    parts_->release_folder(folder);
    paths.push_back(path);
  }
  return paths;
}

}  // namespace tinker::server
