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
  if (user.ok() && !*user) data.remove_checkpoint(folder);
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

Result<CheckpointRecord> Store::commit_checkpoint(CheckpointRecord record,
                                                  const CheckpointPlace& place,
                                                  bool overwrite) {
  auto transaction = Transaction::begin(parts_->database);
  auto replaced = transaction.ok() ? parts_->put_checkpoint(record, place, overwrite)
                                   : Result<std::optional<std::string>>(transaction.error());
  if (!replaced) {
    abandon_checkpoint(place);
    return std::move(replaced).error();
  }
  if (auto committed = transaction->commit(); !committed) {
    parts_->doubtful_folders.push_back(place.name);
    return committed.error();
  }
  if (*replaced) parts_->release_folder(**replaced);
  return record;
}

Result<CheckpointRecord> Store::copy_checkpoint(const TinkerPath& from,
                                                const RunRecord& to,
                                                std::optional<Instant> expires_at) {
  TINKER_TRY(auto transaction, Transaction::begin(parts_->database));
  TINKER_TRY(auto source, find_checkpoint(from));
  if (!source) return not_found("checkpoint", from.to_string());
  CheckpointRecord copy = *std::move(source);
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
  return parts_->find_checkpoint(path);
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
  TINKER_TRY(const auto found, find_checkpoint(path));
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
  std::vector<TinkerPath> paths;
  for (const auto& [path, folder] : expired) {
    parts_->release_folder(folder);
    paths.push_back(path);
  }
  return paths;
}

}  // namespace tinker::server
