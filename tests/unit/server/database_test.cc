#include "server/database.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include <gmock/gmock.h>

#include "support/temporary_folder.h"
#include "support/unprivileged.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::database_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;

class DatabaseTest : public ::testing::Test {
 protected:
  DatabaseTest() : database_(open("a.db")) {
    database_.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, text TEXT) STRICT").value();
  }

  Database open(const std::string& name) { return Database::open(folder_.path(name)).value(); }
  std::int64_t number(const std::string& sql) {
    auto query = database_.query(sql).value();
    EXPECT_THAT(query.next(), IsOkAndHolds(true));
    return query.integer(0);
  }
  std::int64_t rows() { return number("SELECT count(*) FROM t"); }

  testing::TemporaryFolder folder_;
  Database database_;
};

TEST_F(DatabaseTest, WritesEveryCommitToTheDisk) {
  auto mode = database_.query("PRAGMA journal_mode").value();
  ASSERT_THAT(mode.next(), IsOkAndHolds(true));

  EXPECT_EQ(mode.text(0), "wal");
  EXPECT_EQ(number("PRAGMA synchronous"), 2);
}

TEST_F(DatabaseTest, KeepsWhatWasWritten) {
  database_.run("INSERT INTO t VALUES(1, 'a')").value();
  {
    const auto closed = std::move(database_);
  }

  auto reopened = open("a.db");
  auto query = reopened.query("SELECT text FROM t WHERE id = ?", {1}).value();

  EXPECT_THAT(query.next(), IsOkAndHolds(true));
  EXPECT_EQ(query.text(0), "a");
  EXPECT_THAT(query.next(), IsOkAndHolds(false));
}

TEST_F(DatabaseTest, PassesValuesUnchanged) {
  const std::string text("it's; \"\0DROP\" ?1", 16);
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  auto query = database_
                   .query("SELECT ?, ?, ?, ?, ?",
                          {text, kLeast, std::nullopt, std::optional<std::string>(), ""})
                   .value();
  ASSERT_THAT(query.next(), IsOkAndHolds(true));

  EXPECT_EQ(query.text(0), text);
  EXPECT_EQ(query.integer(1), kLeast);
  EXPECT_TRUE(query.is_null(2));
  EXPECT_TRUE(query.is_null(3));
  EXPECT_FALSE(query.is_null(4));
}

TEST_F(DatabaseTest, CountsTheRowsThatAStatementChanged) {
  database_.run("INSERT INTO t VALUES(1, 'a'), (2, 'a'), (3, 'b')").value();

  EXPECT_THAT(database_.run("UPDATE t SET text = 'c' WHERE text = ?", {"a"}), IsOkAndHolds(2));
}

TEST_F(DatabaseTest, RunsOneStatementTwiceAtOnce) {
  database_.run("INSERT INTO t VALUES(1, 'a'), (2, 'b')").value();
  const std::string sql = "SELECT text FROM t ORDER BY id";
  auto first = database_.query(sql).value();
  ASSERT_THAT(first.next(), IsOkAndHolds(true));

  auto second = database_.query(sql).value();
  ASSERT_THAT(second.next(), IsOkAndHolds(true));
  ASSERT_THAT(second.next(), IsOkAndHolds(true));

  EXPECT_EQ(first.text(0), "a");
  EXPECT_EQ(second.text(0), "b");
}

TEST_F(DatabaseTest, BeginsAStatementAnewEachTime) {
  database_.run("INSERT INTO t VALUES(1, 'a'), (2, 'b')").value();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(number("SELECT id FROM t ORDER BY id"), 1);
}

TEST_F(DatabaseTest, KeepsNothingOfATransactionThatWasNotCommitted) {
  {
    auto transaction = Transaction::begin(database_).value();
    database_.run("INSERT INTO t VALUES(1, 'a')").value();
  }
  EXPECT_EQ(rows(), 0);
}

TEST_F(DatabaseTest, KeepsAllOfATransactionThatWasCommitted) {
  auto transaction = Transaction::begin(database_).value();
  database_.run("INSERT INTO t VALUES(1, 'a')").value();
  database_.run("INSERT INTO t VALUES(2, 'b')").value();
  ASSERT_THAT(transaction.commit(), IsOk());

  EXPECT_EQ(rows(), 2);
}

TEST_F(DatabaseTest, TellsABrokenConstraintFromABrokenDisk) {
  database_.run("INSERT INTO t VALUES(1, 'a')").value();

  EXPECT_THAT(database_.run("INSERT INTO t VALUES(1, 'b')"),
              IsError(ErrorCode::conflict, HasSubstr("UNIQUE constraint failed: t.id")));
}

TEST_F(DatabaseTest, NamesTheFileInTheErrorOfABadStatement) {
  EXPECT_THAT(database_.query("SELECT * FROM nowhere"),
              IsError(ErrorCode::io_error,
                      AllOf(HasSubstr(folder_.path("a.db")), HasSubstr("no such table"))));
}

TEST_F(DatabaseTest, FailsWhenThereIsNoSpaceAndWorksAgainWhenThereIs) {
  database_.execute("PRAGMA max_page_count = 2").value();
  EXPECT_THAT(
      database_.run("INSERT INTO t VALUES(1, ?)", {std::string(100'000, 'x')}),
      IsError(ErrorCode::io_error, AllOf(HasSubstr(folder_.path("a.db")), HasSubstr("full"))));
  EXPECT_EQ(rows(), 0);

  database_.execute("PRAGMA max_page_count = 1000").value();
  EXPECT_THAT(database_.run("INSERT INTO t VALUES(1, ?)", {std::string(100'000, 'x')}), IsOk());
}

TEST_F(DatabaseTest, RefusesAFileThatIsNoDatabase) {
  folder_.write("b.db", std::string(10'000, 'x'));

  EXPECT_THAT(Database::open(folder_.path("b.db")),
              IsError(ErrorCode::io_error,
                      AllOf(HasSubstr(folder_.path("b.db")), HasSubstr("not a database"))));
}

TEST_F(DatabaseTest, FindsAFileThatWasCut) {
  database_.run("INSERT INTO t VALUES(1, ?)", {std::string(100'000, 'x')}).value();
  {
    const auto closed = std::move(database_);
  }
  std::filesystem::resize_file(folder_.path("a.db"), 20'000);

  auto cut = Database::open(folder_.path("a.db"));

  EXPECT_THAT(
      cut.ok() ? cut->check() : Result<void>(cut.error()),
      IsError(ErrorCode::io_error, AllOf(HasSubstr(folder_.path("a.db")), HasSubstr("malformed"))));
}

TEST_F(DatabaseTest, FindsAPageThatWasOverwritten) {
  for (int i = 0; i < 20; ++i) {
    database_.run("INSERT INTO t VALUES(?, ?)", {i, std::string(1000, 'x')}).value();
  }
  EXPECT_THAT(database_.check(), IsOk());
  {
    const auto closed = std::move(database_);
  }
  auto bytes = folder_.read("a.db");
  bytes.replace(std::size_t{3} * 4096, 4096, 4096, '\x55');
  folder_.write("a.db", bytes);

  auto damaged = open("a.db");

  EXPECT_THAT(damaged.check(), IsError(ErrorCode::io_error, HasSubstr(folder_.path("a.db"))));
}

TEST_F(DatabaseTest, SaysWhyAFileCannotBeOpened) {
  EXPECT_THAT(
      Database::open(folder_.path("none/a.db")),
      IsError(ErrorCode::io_error,
              AllOf(HasSubstr(folder_.path("none/a.db")), HasSubstr("No such file or directory"))));
}

TEST_F(DatabaseTest, RefusesAFileThatItCannotWrite) {
  {
    const auto closed = std::move(database_);
  }
  namespace fs = std::filesystem;
  fs::permissions(folder_.path(), fs::perms(0755));
  fs::permissions(folder_.path("a.db"), fs::perms(0444));
  const testing::Unprivileged nobody;
  if (!nobody.succeeded()) GTEST_SKIP() << "cannot become another user";

  EXPECT_THAT(Database::open(folder_.path("a.db")),
              IsError(ErrorCode::io_error,
                      AllOf(HasSubstr(folder_.path("a.db")), HasSubstr("that can be written"))));
}

TEST_F(DatabaseTest, RefusesWhatCannotHoldALog) {
  EXPECT_THAT(Database::open(":memory:"),
              IsError(ErrorCode::io_error, HasSubstr("write-ahead log")));
}

}  // namespace
}  // namespace tinker::server::database_test
