#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/records.h"
#include "tinker/clock.h"
#include "tinker/result.h"

namespace tinker::server {

class Database;

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

struct SessionQuery {
  std::string owner = {};
  std::optional<std::string> session_id = {};    ///< Either this or the name may match.
  std::optional<std::string> display_name = {};  ///< Each word somewhere, whatever its case.
  StringMap user_metadata = {};                  ///< Every pair must match.
  std::optional<std::vector<std::string>> project_ids = {};
  std::int64_t limit = 50;
  std::optional<std::pair<Instant, std::string>> after =
      {};  ///< created_at and id of the last seen.
};

/// A place for a checkpoint that is being written. Nothing knows of it before `commit_checkpoint`;
/// what is left by a crash is removed when the store is opened.
struct CheckpointPlace {
  std::string name = {};              ///< Of the folder, as in `CheckpointRecord::folder`.
  std::filesystem::path folder = {};  ///< Does not exist yet.
};

/// The data folder of a server: a catalogue in SQLite, and checkpoints as folders.
///
/// A call that returns has what it did on the disk. Thread-compatible: the server has one thread
/// for it.
class Store {
 public:
  /// Opens or makes it. One process at a time: fails with `invalid_argument` and the other one's
  /// pid. Removes folders that no record names. An empty `folder` makes a temporary one that goes
  /// with the store.
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
  Result<std::optional<SessionRecord>> find_session(std::string_view session_id);
  Result<Page<SessionRecord>> list_sessions(std::string_view owner,
                                            PageRange range);  ///< Newest first.
  Result<std::vector<SessionRecord>> search_sessions(const SessionQuery& query);

  // ---- runs and samplers ----
  Result<void> add_run(const RunRecord& run);
  Result<void> touch_run(std::string_view run_id, Instant at);
  Result<std::optional<RunRecord>> find_run(std::string_view run_id);
  /// Newest first. An empty `project_id`: of all projects.
  Result<Page<RunRecord>> list_runs(std::string_view owner,
                                    std::string_view project_id,
                                    PageRange range);
  Result<std::vector<std::string>> run_ids_of_session(std::string_view session_id);
  Result<void> add_sampler(const SamplerRecord& sampler);
  Result<std::optional<SamplerRecord>> find_sampler(std::string_view sampler_id);
  Result<std::vector<std::string>> sampler_ids_of_session(std::string_view session_id);

  // ---- checkpoints ----
  /// Letters, digits, '.', '_', '-', 1 to 255 of them, not "." or "..". Fails with
  /// `invalid_argument`, naming the name.
  static Result<void> check_name(std::string_view name);
  /// 1 h to 10 years.
  static Result<void> check_ttl(std::int64_t seconds);
  Result<CheckpointPlace> begin_checkpoint();
  /// Takes a folder that is complete and on the disk into the catalogue, with its size. With
  /// `overwrite`, what had the name goes; without, fails with `conflict` if there is any (not
  /// expired) and removes the folder.
  Result<CheckpointRecord> commit_checkpoint(CheckpointRecord record,
                                             const CheckpointPlace& place,
                                             bool overwrite);
  void abandon_checkpoint(const CheckpointPlace& place) noexcept;
  [[nodiscard]] std::filesystem::path folder_of(const CheckpointRecord& record) const;
  /// Not one that has expired.
  Result<std::optional<CheckpointRecord>> find_checkpoint(const TinkerPath& path);
  Result<std::vector<CheckpointRecord>> checkpoints_of_run(
      std::string_view run_id);  ///< Oldest first.
  Result<Page<CheckpointRecord>> list_checkpoints(std::string_view owner,
                                                  PageRange range);  ///< Newest first.
  Result<void> set_public(const TinkerPath& path, bool is_public);
  Result<void> set_expiry(const TinkerPath& path, std::optional<Instant> expires_at);
  Result<void> delete_checkpoint(const TinkerPath& path);
  /// A record of its own for the same folder.
  Result<CheckpointRecord> copy_checkpoint(const TinkerPath& from,
                                           const RunRecord& to,
                                           std::optional<Instant> expires_at);
  /// Removes what has expired; yields the paths.
  Result<std::vector<TinkerPath>> sweep();

  // ---- what happened ----
  Result<void> add_audit(const AuditRecord& entry);
  Result<std::vector<AuditRecord>> audit(std::string_view owner,
                                         Instant from,
                                         Instant to,
                                         std::string_view event_prefix);
  Result<void> add_usage(std::span<const UsageRecord> counts);  ///< Adds to what the hour has.
  Result<std::vector<UsageRecord>> usage(std::string_view owner, Instant from, Instant to);

 private:
  struct Parts;
  explicit Store(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace tinker::server
