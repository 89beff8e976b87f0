#include "server/store.h"

#include <algorithm>

#include "base/files.h"
#include "base/strings.h"
#include "server/store_parts.h"

namespace tinker::server {
namespace {

using base::concat;

constexpr std::int64_t kVersion = 1;
constexpr std::chrono::seconds kMinTtl = std::chrono::hours(1);
constexpr std::chrono::seconds kMaxTtl = std::chrono::years(10);
constexpr std::size_t kMaxNameBytes = 255;

// Instants are microseconds since the epoch, never is the largest of them; lists, maps and configs
// are JSON as on the wire.
constexpr const char* kSchema = R"sql(
CREATE TABLE sessions(
  session_id TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, tags TEXT NOT NULL,
  user_metadata TEXT NOT NULL, sdk_version TEXT NOT NULL, project_id TEXT NOT NULL,
  display_name TEXT, created_at INTEGER NOT NULL, finish_reason TEXT, finish_detail TEXT,
  has_expired INTEGER NOT NULL) STRICT;
CREATE INDEX sessions_of_owner ON sessions(owner, created_at, session_id);

CREATE TABLE runs(
  run_id TEXT NOT NULL PRIMARY KEY, session_id TEXT NOT NULL, owner TEXT NOT NULL,
  project_id TEXT NOT NULL, base_model TEXT NOT NULL, lora TEXT NOT NULL, optimizer TEXT NOT NULL,
  user_metadata TEXT NOT NULL, created_at INTEGER NOT NULL,
  last_request_at INTEGER NOT NULL) STRICT;
CREATE INDEX runs_of_owner ON runs(owner, created_at);
CREATE INDEX runs_of_session ON runs(session_id);

CREATE TABLE samplers(
  sampler_id TEXT NOT NULL PRIMARY KEY, session_id TEXT NOT NULL, owner TEXT NOT NULL,
  base_model TEXT NOT NULL, model_path TEXT) STRICT;
CREATE INDEX samplers_of_session ON samplers(session_id);

CREATE TABLE checkpoints(
  run_id TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL,
  base_model TEXT NOT NULL, lora TEXT NOT NULL, optimizer TEXT NOT NULL,
  has_optimizer_state INTEGER NOT NULL, created_at INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
  is_public INTEGER NOT NULL, user_metadata TEXT, expires_at INTEGER NOT NULL,
  folder TEXT NOT NULL,
  PRIMARY KEY(run_id, kind, name)) STRICT;
CREATE INDEX checkpoints_of_owner ON checkpoints(owner, created_at);
CREATE INDEX checkpoints_in_folder ON checkpoints(folder);
CREATE INDEX checkpoints_by_expiry ON checkpoints(expires_at);

CREATE TABLE audit(
  at INTEGER NOT NULL, owner TEXT NOT NULL, event TEXT NOT NULL, details TEXT NOT NULL) STRICT;
CREATE INDEX audit_of_owner ON audit(owner, at);

CREATE TABLE usage(
  hour INTEGER NOT NULL, owner TEXT NOT NULL, session_id TEXT NOT NULL, project_id TEXT NOT NULL,
  base_model TEXT NOT NULL, kind TEXT NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY(owner, hour, session_id, project_id, base_model, kind)) STRICT, WITHOUT ROWID;

PRAGMA user_version = 1;
)sql";

Result<std::int64_t> read_version(Database& database) {
  const auto read = [](Row& row) { return row.integer(); };
  TINKER_TRY(const auto version,
             read_one<std::int64_t>(database, database.query("PRAGMA user_version"), read));
  return version.value_or(0);
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::filesystem::path& folder,
                                           const Clock& clock) {
  TINKER_TRY(auto data, DataFolder::open(folder));
  TINKER_TRY(auto database, Database::open(data.catalogue()));
  auto parts = std::make_unique<Parts>(
      Parts{.data = std::move(data), .database = std::move(database), .clock = clock});
  TINKER_TRY(parts->make_catalogue());
  TINKER_TRY(parts->remove_orphans());
  return std::unique_ptr<Store>(new Store(std::move(parts)));
}

Store::Store(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Store::~Store() = default;

const std::filesystem::path& Store::folder() const noexcept {
  return parts_->data.path();
}
const std::string& Store::secret() const noexcept {
  return parts_->data.secret();
}

Result<void> Store::check_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  const bool is_short = name.size() <= kMaxNameBytes;
  if (!name.empty() && is_short && name != "." && name != ".." &&
      std::ranges::all_of(name, is_allowed)) {
    return {};
  }
  return Error{
      .code = ErrorCode::invalid_argument,
      .message = concat("expected a name of 1 to ",
                        kMaxNameBytes,
                        " letters, digits, '.', '_' and '-', found ",
                        is_short ? concat("'", name, "'") : concat(name.size(), " bytes"))};
}

Result<void> Store::check_ttl(std::int64_t seconds) {
  if (kMinTtl.count() <= seconds && seconds <= kMaxTtl.count()) return {};
  return Error{.code = ErrorCode::invalid_argument,
               .message = concat("expected ttl_seconds from ",
                                 kMinTtl.count(),
                                 " (1 hour) to ",
                                 kMaxTtl.count(),
                                 " (10 years), found ",
                                 seconds)};
}

/// Makes the tables of a new catalogue. An old one must be whole and of our version.
Result<void> Store::Parts::make_catalogue() {
  TINKER_TRY(const auto version, read_version(database));
  if (version == kVersion) return database.check();
  if (version != 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .message = concat("catalogue ",
                                   data.catalogue().string(),
                                   " has version ",
                                   version,
                                   ", made by a newer server: this one knows version ",
                                   kVersion)};
  }
  // A catalogue that somebody emptied must not take the checkpoints for orphans.
  TINKER_TRY(const auto folders, data.checkpoint_folders());
  if (!folders.empty()) {
    return database.damaged(concat("it is empty, but there are checkpoints in ",
                                   data.checkpoints().string(),
                                   ": restore the catalogue, or move them away"));
  }
  TINKER_TRY(auto transaction, Transaction::begin(database));
  TINKER_TRY(database.execute(kSchema));
  TINKER_TRY(transaction.commit());
  return base::sync_folder(data.path().string());
}

/// Removes what a crash left: folders that were never committed, or whose record was removed.
Result<void> Store::Parts::remove_orphans() {
  TINKER_TRY(const auto folders, data.checkpoint_folders());
  TINKER_TRY(auto known,
             read_all(database,
                      database.query("SELECT DISTINCT folder FROM checkpoints NOT INDEXED"),
                      read_text));
  std::ranges::sort(known);
  for (const auto& folder : folders) {
    if (!std::ranges::binary_search(known, folder)) data.remove_checkpoint(folder);
  }
  return {};
}

Result<void> check_range(PageRange range) {
  if (range.limit >= 0 && range.offset >= 0) return {};
  return Error{.code = ErrorCode::invalid_argument,
               .message = concat("expected a limit and an offset of at least 0, found limit ",
                                 range.limit,
                                 " and offset ",
                                 range.offset)};
}

Error not_found(std::string_view what, std::string_view id) {
  return {.code = ErrorCode::not_found, .message = concat("there is no ", what, " '", id, "'")};
}

}  // namespace tinker::server
