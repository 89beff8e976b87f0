#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "tinker/result.h"

struct sqlite3_stmt;

/// SQLite, wrapped once. Errors name the file; a broken constraint is a `conflict`, everything else
/// an `io_error`.
namespace tinker::server {

/// A parameter of a statement. A text must live until the call that takes it returns.
class SqlValue {
 public:
  using Value = std::variant<std::monostate, std::int64_t, std::string_view>;

  // NOLINTBEGIN(google-explicit-constructor): arguments of a statement convert to values.
  SqlValue(std::nullopt_t) {}
  SqlValue(std::integral auto number) : value_(static_cast<std::int64_t>(number)) {}
  SqlValue(std::chrono::sys_time<std::chrono::microseconds> instant)
      : value_(std::int64_t{instant.time_since_epoch().count()}) {}
  SqlValue(std::string_view text) : value_(text) {}
  SqlValue(const std::string& text) : value_(std::string_view(text)) {}
  SqlValue(const char* text) : value_(std::string_view(text)) {}
  template <typename T>
  SqlValue(const std::optional<T>& value) {
    if (value) value_ = SqlValue(*value).value_;
  }
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const Value& value() const noexcept { return value_; }

 private:
  Value value_ = {};
};

/// A statement that is being executed. It must die before its database.
class Query {
 public:
  Query(Query&&) noexcept = default;
  Query& operator=(Query&&) = delete;
  ~Query();

  /// Goes to the next row. Not to be called again once there is none.
  [[nodiscard]] Result<bool> next();

  // Columns of the current row, counted from 0.
  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::string text(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;
  struct Home;  // where the statement goes when it is no longer needed

  Query(Statement statement, Home* home) : statement_(std::move(statement)), home_(home) {}

  Statement statement_;
  Home* home_;
};

/// A database file in WAL mode. What a finished statement or transaction wrote is on the disk.
/// Statements are compiled once. Thread-compatible.
class Database {
 public:
  /// Opens the file, or makes it.
  static Result<Database> open(const std::filesystem::path& file);
  Database(Database&&) noexcept;
  Database& operator=(Database&&) = delete;
  ~Database();

  /// Begins a statement that has rows. All values go by parameters, never by text.
  Result<Query> query(std::string_view sql, std::initializer_list<SqlValue> values = {});
  /// Executes a statement without rows; yields how many rows it changed.
  Result<std::int64_t> run(std::string_view sql, std::initializer_list<SqlValue> values = {});
  /// Executes constant statements, separated by semicolons.
  Result<void> execute(const char* script);
  /// Reads the whole file and fails if it is damaged.
  Result<void> check();
  /// An `io_error` that names the file.
  [[nodiscard]] Error damaged(std::string_view what) const;

 private:
  friend class Transaction;
  friend class Query;
  struct Connection;

  explicit Database(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

/// All statements from its beginning to `commit`, or none of them.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  /// If it fails, the disk may have the changes or not; this process does not see them.
  Result<void> commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;  // null once it is committed or moved from
};

}  // namespace tinker::server
