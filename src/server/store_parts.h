#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/data_folder.h"
#include "server/database.h"
#include "server/store.h"
#include "tinker/rng.h"
#include "tinker/types/open_enum.h"
#include "wire/json.h"

// What the files of the store share.
namespace tinker::server {

struct Store::Parts {
  DataFolder data;
  Database database;
  const Clock& clock;
  Rng rng = Rng::from_entropy();
  /// Of records whose commit failed: the log on the disk may have them all the same. The next
  /// commit overwrites that part of the log, then the folders can go.
  std::vector<std::string> doubtful_folders = {};

  /// Of folders that somebody may need; and those of them whose records have gone.
  std::unordered_map<std::string, std::weak_ptr<const void>> holds = {};
  std::vector<std::string> kept_folders = {};

  [[nodiscard]] Instant now() const {
    return std::chrono::floor<std::chrono::microseconds>(clock.wall_time());
  }
  Result<void> make_catalogue();
  Result<void> remove_orphans();
  Result<void> insert_run(const RunRecord& run);
  Result<std::optional<CheckpointRecord>> find_checkpoint(const TinkerPath& path);
  Result<void> insert_checkpoint(const CheckpointRecord& record);
  /// Completes and inserts the record; yields the folder of the one that it replaces.
  Result<std::optional<std::string>> put_checkpoint(CheckpointRecord& record,
                                                    const CheckpointPlace& place,
                                                    bool overwrite);
  Result<CheckpointRecord> commit(CheckpointRecord record,
                                  const CheckpointPlace& place,
                                  bool overwrite,
                                  const RunRecord* run);
  /// Removes whatever has the name, expired or not; yields its folder.
  Result<std::optional<std::string>> remove_record(const TinkerPath& path);
  /// Executes an update with the parameters run, kind, name, now and `value`. Fails with
  /// `not_found` if it changes nothing.
  Result<void> change_checkpoint(const TinkerPath& path,
                                 std::string_view sql,
                                 const SqlValue& value);
  FolderHold hold(const std::string& folder);
  /// Removes a folder unless a record has it, or somebody holds it. If that cannot be done, the
  /// next open does it.
  void release_folder(const std::string& folder);
};

Result<void> check_range(PageRange range);
Error not_found(std::string_view what, std::string_view id);

/// Reads the columns of one row from left to right. The first that makes no sense is remembered.
class Row {
 public:
  explicit Row(const Query& query) : query_(query) {}

  std::string text() { return query_.text(column_++); }
  std::int64_t integer() { return query_.integer(column_++); }
  bool boolean() { return integer() != 0; }
  Instant instant() { return Instant(std::chrono::microseconds(integer())); }
  std::optional<std::string> optional_text() {
    return skip_null() ? std::nullopt : std::optional(text());
  }
  template <typename T>
  T json() {
    auto value = wire::decode_json<T>(text());
    if (value.ok()) return *std::move(value);
    if (!error_) error_ = std::move(value).error();
    return {};
  }
  template <typename T>
  std::optional<T> optional_json() {
    return skip_null() ? std::nullopt : std::optional(json<T>());
  }
  template <WireEnum E>
  E name() {
    const auto found = text();
    const auto value = enum_from_string<E>(found);
    if (!value && !error_) error_ = Error{.message = "unknown name '" + found + "'"};
    return value.value_or(E());
  }
  template <WireEnum E>
  std::optional<E> optional_name() {
    return skip_null() ? std::nullopt : std::optional(name<E>());
  }

  /// What was wrong, if anything was.
  [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

 private:
  bool skip_null() {
    const bool is_null = query_.is_null(column_);
    if (is_null) ++column_;
    return is_null;
  }

  const Query& query_;
  int column_ = 0;
  std::optional<Error> error_;
};

/// The next record, read by `read(Row&)`; nothing at the end.
template <typename T>
Result<std::optional<T>> read_next(Database& database, Query& query, T (*read)(Row&)) {
  TINKER_TRY(const bool has_row, query.next());
  if (!has_row) return std::optional<T>();
  Row row(query);
  T record = read(row);
  if (row.error()) return database.damaged("damaged record: " + row.error()->message);
  return std::optional<T>(std::move(record));
}

/// The only record, or none.
template <typename T>
Result<std::optional<T>> read_one(Database& database, Result<Query> query, T (*read)(Row&)) {
  if (!query) return query.error();
  return read_next(database, *query, read);
}

template <typename T>
Result<std::vector<T>> read_all(Database& database, Result<Query> query, T (*read)(Row&)) {
  if (!query) return query.error();
  std::vector<T> records;
  while (true) {
    TINKER_TRY(auto record, read_next(database, *query, read));
    if (!record) return records;
    records.push_back(*std::move(record));
  }
}

/// A page and, from `count`, the length of the whole list.
template <typename T>
Result<Page<T>> read_page(Database& database,
                          Result<Query> count,
                          Result<Query> items,
                          T (*read)(Row&)) {
  const auto read_count = [](Row& row) { return row.integer(); };
  TINKER_TRY(const auto total, read_one<std::int64_t>(database, std::move(count), read_count));
  TINKER_TRY(auto page, read_all(database, std::move(items), read));
  return Page<T>{.items = std::move(page), .total = total.value_or(0)};
}

inline std::string read_text(Row& row) {
  return row.text();
}

}  // namespace tinker::server
