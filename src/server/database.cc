#include "server/database.h"

#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include <sqlite3.h>

#include "base/strings.h"
#include "tinker/check.h"

namespace tinker::server {

using base::concat;

/// The statements of one text that nobody uses just now.
struct Query::Home {
  Database::Connection* connection;
  std::vector<Statement> idle = {};
};

struct Database::Connection {
  struct Close {
    void operator()(sqlite3* opened) const noexcept { sqlite3_close(opened); }
  };

  std::string file;
  std::unique_ptr<sqlite3, Close> handle;
  std::map<std::string, Query::Home, std::less<>> statements = {};  // dies before the handle

  [[nodiscard]] Error error() const;
  [[nodiscard]] Result<void> bind(sqlite3_stmt* statement,
                                  std::initializer_list<SqlValue> values) const;
};

/// The last error of this connection.
Error Database::Connection::error() const {
  const int code = sqlite3_errcode(handle.get()) & 0xff;
  auto message = concat("catalogue ", file, ": ", sqlite3_errmsg(handle.get()));
  const int reason = sqlite3_system_errno(handle.get());
  if ((code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && reason != 0) {
    message += concat(": ", std::generic_category().message(reason));
  }
  return {.code = code == SQLITE_CONSTRAINT ? ErrorCode::conflict : ErrorCode::io_error,
          .message = std::move(message)};
}

Result<void> Database::Connection::bind(sqlite3_stmt* statement,
                                        std::initializer_list<SqlValue> values) const {
  TINKER_CHECK(std::cmp_equal(sqlite3_bind_parameter_count(statement), values.size()));
  int index = 0;
  for (const auto& parameter : values) {
    const auto& value = parameter.value();
    ++index;
    int code = SQLITE_OK;
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      code = sqlite3_bind_int64(statement, index, *number);
    } else if (const auto* text = std::get_if<std::string_view>(&value)) {
      code = sqlite3_bind_text64(statement,
                                 index,
                                 text->data() == nullptr ? "" : text->data(),
                                 text->size(),
                                 SQLITE_TRANSIENT,
                                 SQLITE_UTF8);
    }
    if (code != SQLITE_OK) return error();
  }
  return {};
}

// ---- Query

void Query::Finalize::operator()(sqlite3_stmt* statement) const noexcept {
  sqlite3_finalize(statement);
}

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  home_->idle.push_back(std::move(statement_));
}

Result<bool> Query::next() {
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW: return true;
    case SQLITE_DONE: return false;
    default: return home_->connection->error();
  }
}

bool Query::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::int64_t Query::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Query::text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return bytes == nullptr ? std::string() : std::string(bytes, size);
}

// ---- Database

Database::Database(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Database::Database(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::open(const std::filesystem::path& file) {
  constexpr int kFlags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  constexpr int kBusyMilliseconds = 5000;  // for people who look at it with tools
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(file.c_str(), &handle, kFlags, nullptr);
  auto connection = std::make_unique<Connection>();
  connection->file = file.string();
  connection->handle.reset(handle);
  if (code != SQLITE_OK) return connection->error();
  sqlite3_busy_timeout(handle, kBusyMilliseconds);

  Database database(std::move(connection));
  if (sqlite3_db_readonly(handle, "main") == 1) {
    return database.damaged("expected a file that can be written");
  }
  TINKER_TRY(database.execute("PRAGMA trusted_schema = OFF; PRAGMA synchronous = FULL"));
  {
    TINKER_TRY(auto mode, database.query("PRAGMA journal_mode = WAL"));
    TINKER_TRY(const bool is_known, mode.next());
    if (!is_known || mode.text(0) != "wal") {
      return database.damaged("this file system cannot hold a write-ahead log");
    }
  }
  return database;
}

Result<Query> Database::query(std::string_view sql, std::initializer_list<SqlValue> values) {
  auto found = connection_->statements.find(sql);
  if (found == connection_->statements.end()) {
    found = connection_->statements.try_emplace(std::string(sql), connection_.get()).first;
  }
  auto& home = found->second;
  Query::Statement statement;
  if (home.idle.empty()) {
    sqlite3_stmt* compiled = nullptr;
    const int code = sqlite3_prepare_v3(connection_->handle.get(),
                                        sql.data(),
                                        static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT,
                                        &compiled,
                                        nullptr);
    if (code != SQLITE_OK) return connection_->error();
    statement.reset(compiled);
  } else {
    statement = std::move(home.idle.back());
    home.idle.pop_back();
  }
  Query query(std::move(statement), &home);
  TINKER_TRY(connection_->bind(query.statement_.get(), values));
  return query;
}

Result<std::int64_t> Database::run(std::string_view sql, std::initializer_list<SqlValue> values) {
  TINKER_TRY(auto statement, query(sql, values));
  TINKER_TRY(const bool has_row, statement.next());
  TINKER_CHECK(!has_row);
  return std::int64_t{sqlite3_changes(connection_->handle.get())};
}

Result<void> Database::execute(const char* script) {
  const int code = sqlite3_exec(connection_->handle.get(), script, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return connection_->error();
  return {};
}

Result<void> Database::check() {
  TINKER_TRY(auto verdict, query("PRAGMA quick_check(1)"));
  TINKER_TRY(const bool has_row, verdict.next());
  if (!has_row || verdict.text(0) == "ok") return {};
  return damaged(concat("damaged: ", verdict.text(0)));
}

Error Database::damaged(std::string_view what) const {
  return {.code = ErrorCode::io_error,
          .message = concat("catalogue ", connection_->file, ": ", what)};
}

// ---- Transaction

Result<Transaction> Transaction::begin(Database& database) {
  TINKER_TRY(database.run("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction() {
  if (database_ == nullptr) return;
  // Some errors have rolled it back already.
  auto* handle = database_->connection_->handle.get();
  if (sqlite3_get_autocommit(handle) == 0) {
    sqlite3_exec(handle, "ROLLBACK", nullptr, nullptr, nullptr);
  }
}

Result<void> Transaction::commit() {
  TINKER_TRY(database_->run("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace tinker::server
