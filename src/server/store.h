#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/records.h"
#include "tinker/clock.h"
#include "tinker/result.h"
#include "tinker/types/queries.h"
#include "tinker/types/session_search.h"

namespace tinker::server {

/// Part of a list, and how long the whole of it is.
template <typename T>
struct Page {
  std::vector<T> items = {};
  std::int64_t total = 0;
};

struct PageRange {
  std::int64_t limit = 20;
  std::int64_t offset = 0;
};

/// A search for sessions (PROTOCOL 9.46).
struct SessionQuery {
  std::string owner = {};
  std::optional<std::string> session_id = {};  ///< Either this or the name may match.
  /// Each word somewhere in the name, whatever the case of its ASCII letters.
  std::optional<std::string> display_name = {};
  StringMap user_metadata = {};  ///< Every pair must match.
  std::optional<std::vector<std::string>> project_ids = {};
  std::int64_t limit = 50;
  /// `created_at` and id of the last one seen.
  std::optional<std::pair<Instant, std::string>> after = {};
  /// One of them must match. Sessions are active, finished by the client, or cancelled: those whose
  /// heartbeats stopped.
  std::optional<std::vector<SessionStatusQuery>> statuses = {};
};

/// A search for checkpoints (PROTOCOL 14).
struct CheckpointQuery {
  std::string caller = {};
  bool with_public = false;  ///< Also those of others that are public.
  std::optional<std::vector<std::string>> owners = {};
  /// Projects and metadata are private: a search by either finds the caller's own checkpoints only.
  std::optional<std::vector<std::string>> project_ids = {};
  StringMap user_metadata = {};  ///< Every pair must match.
  std::optional<CheckpointType> kind = {};
  std::optional<std::vector<std::string>> base_models = {};
  std::int64_t limit = 50;
  /// `created_at` and path of the last one seen.
  std::optional<std::pair<Instant, std::string>> after = {};
};

/// What checkpoints take. Each copy counts in full.
struct Storage {
  std::int64_t count = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const Storage&, const Storage&) = default;
};
struct ProjectStorage {
  std::string project_id = {};  ///< Empty: of no project.
  Storage storage = {};

  friend bool operator==(const ProjectStorage&, const ProjectStorage&) = default;
};

/// A place for a checkpoint that is being written. Nothing knows of it before `commit_checkpoint`;
/// what is left by a crash is removed when the store is opened.
struct CheckpointPlace {
  std::string name = {};              ///< Of the folder, as in `CheckpointRecord::folder`.
  std::filesystem::path folder = {};  ///< Does not exist yet.
};

/// The data folder of a server: a catalogue in SQLite, and checkpoints as folders.
///
/// A call that returns has what it did on the disk. What is added must be new: an id or a run that
/// is there fails with `conflict`. Changes of what is not there fail with `not_found`. Files that
/// cannot be used are an `io_error` that names the file. Thread-compatible: the server has one
/// thread for it.
class Store {
 public:
  /// Opens or makes it. One store at a time: fails with `invalid_argument`, naming the process that
  /// has it open. Removes folders that no record names. An empty `folder` makes a temporary one
  /// that goes with the store. `clock` must outlive the store.
  static Result<std::unique_ptr<Store>> open(const std::filesystem::path& folder,
                                             const Clock& clock);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  [[nodiscard]] const std::filesystem::path& folder() const noexcept;
  /// 32 random bytes that this data folder keeps: keys for signatures are derived from it.
  [[nodiscard]] const std::string& secret() const noexcept;

  // ---- sessions ----
  Result<void> add_session(const SessionRecord& session);
  /// Replaces what can change: project, finish, expiry.
  Result<void> update_session(const SessionRecord& session);
  /// Those that have neither finished nor expired.
  Result<std::vector<SessionRecord>> open_sessions();
  Result<std::optional<SessionRecord>> find_session(std::string_view session_id);
  Result<Page<SessionRecord>> list_sessions(std::string_view owner,
                                            PageRange range);  ///< Newest first.
  Result<std::vector<SessionRecord>> search_sessions(const SessionQuery& query);

  // ---- runs and samplers ----
  Result<void> add_run(const RunRecord& run);
  Result<void> touch_run(std::string_view run_id, Instant at);
  Result<std::optional<RunRecord>> find_run(std::string_view run_id);
  /// Newest first. An empty `project_id`: of all projects. `accessible`: also those of others that
  /// have a public checkpoint; they are in none of the owner's projects.
  Result<Page<RunRecord>> list_runs(std::string_view owner,
                                    std::string_view project_id,
                                    PageRange range,
                                    AccessScope scope = AccessScope::owned);
  Result<std::vector<std::string>> run_ids_of_session(std::string_view session_id);
  Result<void> add_sampler(const SamplerRecord& sampler);
  Result<std::optional<SamplerRecord>> find_sampler(std::string_view sampler_id);
  Result<std::vector<std::string>> sampler_ids_of_session(std::string_view session_id);

  // ---- checkpoints: one that has expired is nowhere to be seen ----
  /// ASCII letters, digits, '.', '_', '-', 1 to 255 of them, not "." or "..". Fails with
  /// `invalid_argument`, naming the name.
  static Result<void> check_name(std::string_view name);
  /// 1 hour to 10 years.
  static Result<void> check_ttl(std::int64_t seconds);
  Result<CheckpointPlace> begin_checkpoint();
  /// Takes a folder that is complete and on the disk into the catalogue. Sets the record's size,
  /// folder and `created_at`. With `overwrite`, what had the name goes; without, fails with
  /// `conflict` if there is any. If it fails, the folder is gone, or goes with the next sweep.
  Result<CheckpointRecord> commit_checkpoint(CheckpointRecord record,
                                             const CheckpointPlace& place,
                                             bool overwrite);
  /// The same, with the run that it is the first of.
  Result<CheckpointRecord> commit_run(const RunRecord& run,
                                      CheckpointRecord record,
                                      const CheckpointPlace& place);
  void abandon_checkpoint(const CheckpointPlace& place) noexcept;
  [[nodiscard]] std::filesystem::path folder_of(const CheckpointRecord& record) const;
  /// Whoever's it is. Its folder stays while the record or a copy of it lives.
  Result<std::optional<CheckpointRecord>> find_checkpoint(const TinkerPath& path);
  /// Oldest first.
  Result<std::vector<CheckpointRecord>> checkpoints_of_run(std::string_view run_id);
  /// Newest first.
  Result<Page<CheckpointRecord>> list_checkpoints(std::string_view owner, PageRange range);
  /// Newest first.
  Result<std::vector<CheckpointRecord>> search_checkpoints(const CheckpointQuery& query);
  Result<Storage> storage_of_session(std::string_view session_id);
  Result<std::vector<ProjectStorage>> storage_by_project(std::string_view owner);
  Result<void> set_public(const TinkerPath& path, bool is_public);
  Result<void> set_expiry(const TinkerPath& path, std::optional<Instant> expires_at);
  /// The folder goes with the last record that has it; one that is held, with the first sweep after
  /// that.
  Result<void> delete_checkpoint(const TinkerPath& path);
  /// Adds the run `to`, and for it a record of the same folder: private, of the run's owner, with
  /// the metadata that `from`, as its reader sees it, has. Fails with `not_found` where `from` was
  /// deleted or replaced meanwhile.
  Result<CheckpointRecord> copy_checkpoint(const CheckpointRecord& from,
                                           const RunRecord& to,
                                           std::optional<Instant> expires_at);
  /// Removes what has expired, what failed commits left, and what was held when its record went;
  /// yields the paths of the first.
  Result<std::vector<TinkerPath>> sweep();

  // ---- what happened ----
  Result<void> add_audit(const AuditRecord& entry);
  /// At or after `from` and before `to`, oldest first.
  Result<std::vector<AuditRecord>> audit(std::string_view owner,
                                         Instant from,
                                         Instant to,
                                         std::string_view event_prefix);
  /// Adds the counts to what their hours have, all of them or none. `hour` may be any time in it.
  Result<void> add_usage(std::span<const UsageRecord> counts);
  /// Hours that begin at or after `from` and before `to`, oldest first.
  Result<std::vector<UsageRecord>> usage(std::string_view owner, Instant from, Instant to);
  /// Removes what is over and older than `before`: audit and usage, runs without checkpoints that
  /// no open session has, and sessions without runs, with their samplers.
  Result<void> forget_before(Instant before);

 private:
  struct Parts;
  explicit Store(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tinker::server
