#include "server/store.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/database.h"
#include "support/store_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::store_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;

class StoreFolder : public testing::StoreTest {
 protected:
  [[nodiscard]] Result<std::unique_ptr<Store>> try_open() const {
    return Store::open(folder_.path("data"), clock_);
  }
  void change_catalogue(const char* sql) {
    store_.reset();
    Database::open(folder_.path("data/catalogue.db")).value().execute(sql).value();
  }
  std::string catalogue() const { return folder_.path("data/catalogue.db"); }
};

TEST_F(StoreFolder, IsOpenOnceAtATime) {
  EXPECT_THAT(try_open(),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr(folder_.path("data")), HasSubstr(std::to_string(getpid())))));
}

TEST_F(StoreFolder, KeepsItsSecret) {
  const auto secret = store_->secret();
  reopen();

  EXPECT_EQ(store_->secret(), secret);
}

TEST_F(StoreFolder, IsTemporaryWithoutAName) {
  auto store = Store::open({}, clock_).value();
  const auto path = store->folder();
  ASSERT_TRUE(fs::exists(path / "catalogue.db"));
  store.reset();

  EXPECT_FALSE(fs::exists(path));
}

TEST_F(StoreFolder, DoesNotDisturbAnother) {
  const auto other = Store::open(folder_.path("other"), clock_).value();
  save("a");

  EXPECT_THAT(other->find_checkpoint({.training_run_id = "r", .name = "a"}),
              IsOkAndHolds(std::nullopt));
  EXPECT_NE(other->secret(), store_->secret());
}

TEST_F(StoreFolder, LosesWhatWasNotCommittedBeforeACrash) {
  const auto kept = save("a");
  fill();
  reopen();

  EXPECT_THAT(folders(), ElementsAre(kept.folder));
  EXPECT_THAT(store_->find_checkpoint(kept.path()), IsOkAndHolds(kept));
}

TEST_F(StoreFolder, OfANewerServerIsRefusedAndLeftAlone) {
  save("a");
  change_catalogue("PRAGMA user_version = 2");

  EXPECT_THAT(
      try_open(),
      IsError(ErrorCode::invalid_argument, AllOf(HasSubstr(catalogue()), HasSubstr("version 2"))));
  EXPECT_THAT(folders(), ::testing::SizeIs(1));
}

TEST_F(StoreFolder, WithoutItsCatalogueKeepsItsCheckpoints) {
  save("a");
  store_.reset();
  for (const std::string suffix : {"", "-wal", "-shm"}) fs::remove(catalogue() + suffix);

  EXPECT_THAT(try_open(),
              IsError(ErrorCode::io_error,
                      AllOf(HasSubstr(catalogue()), HasSubstr(folder_.path("data/checkpoints")))));
  EXPECT_THAT(folders(), ::testing::SizeIs(1));
}

TEST_F(StoreFolder, WithACatalogueThatWasCutKeepsItsCheckpoints) {
  save("a");
  store_.reset();
  const auto size = fs::file_size(catalogue());
  for (const auto left : {size - 4096, size / 2, std::uintmax_t{1000}, std::uintmax_t{0}}) {
    fs::resize_file(catalogue(), left);
    EXPECT_THAT(try_open(), IsError(ErrorCode::io_error, HasSubstr(catalogue()))) << left;
    EXPECT_THAT(folders(), ::testing::SizeIs(1)) << left;
  }
}

TEST_F(StoreFolder, WithAnotherFileAsItsCatalogueIsRefused) {
  store_.reset();
  folder_.write("data/catalogue.db", std::string(5000, 'x'));

  EXPECT_THAT(try_open(), IsError(ErrorCode::io_error, HasSubstr(catalogue())));
}

TEST_F(StoreFolder, NamesTheCatalogueWhenARecordMakesNoSense) {
  store_->add_session({.session_id = "s", .owner = "ada"}).value();
  change_catalogue("UPDATE sessions SET tags = '[1'");
  store_ = open();
  EXPECT_THAT(
      store_->find_session("s"),
      IsError(ErrorCode::io_error, AllOf(HasSubstr(catalogue()), HasSubstr("damaged record"))));

  change_catalogue("UPDATE sessions SET tags = '[]', finish_reason = 'boredom'");
  store_ = open();
  EXPECT_THAT(store_->list_sessions("ada", {}),
              IsError(ErrorCode::io_error, AllOf(HasSubstr(catalogue()), HasSubstr("'boredom'"))));
}

/// While it lives, no file can grow beyond `bytes`: a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit full = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &full);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }

 private:
  rlimit before_ = {};
  void (*signal_)(int);
};

TEST_F(StoreFolder, OnAFullDiskKeepsWhatItHas) {
  const auto kept = save("a");
  const auto place = fill();
  {
    const FullDisk full(100);
    EXPECT_THAT(store_->add_session({.session_id = "s"}),
                IsError(ErrorCode::io_error, HasSubstr(catalogue())));
    EXPECT_THAT(store_->commit_checkpoint({.run_id = "r", .name = "a"}, place, true),
                IsError(ErrorCode::io_error, HasSubstr(catalogue())));
    EXPECT_THAT(store_->delete_checkpoint(kept.path()),
                IsError(ErrorCode::io_error, HasSubstr(catalogue())));
    EXPECT_THAT(store_->find_checkpoint(kept.path()), IsOkAndHolds(kept));
  }
  EXPECT_THAT(store_->add_session({.session_id = "s"}), IsOk());
  EXPECT_THAT(store_->sweep(), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(folders(), ElementsAre(kept.folder));
  reopen();
  EXPECT_THAT(store_->find_checkpoint(kept.path()), IsOkAndHolds(kept));
}

TEST_F(StoreFolder, CannotBeMadeOnAFullDisk) {
  const FullDisk full(100);
  EXPECT_THAT(Store::open(folder_.path("other"), clock_),
              IsError(ErrorCode::io_error, HasSubstr(folder_.path("other"))));
}

// ---- kill -9

class StoreKilled : public StoreFolder {
 protected:
  /// Overwrites the checkpoints "0" to "4" over and over, and tells `pipe` of each that is stored.
  [[noreturn]] void save_until_killed(int pipe) {
    for (unsigned i = 0;; ++i) {
      const auto name = std::to_string(i % 5);
      put({.run_id = "r", .name = name, .user_metadata = {{{"round", std::to_string(i)}}}}, true);
      if (::write(pipe, name.data(), 1) != 1) std::abort();
    }
  }
};

TEST_F(StoreKilled, KeepsEveryCheckpointThatItAcknowledged) {
  for (const int acknowledged : {5, 12, 18}) {
    store_.reset();
    std::array<int, 2> pipe = {};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      store_ = open();
      save_until_killed(pipe[1]);
    }
    ::close(pipe[1]);
    char ignored = 0;
    for (int i = 0; i < acknowledged; ++i) ASSERT_EQ(::read(pipe[0], &ignored, 1), 1);
    ::kill(child, SIGKILL);
    int rest = 0;
    while (::read(pipe[0], &ignored, 1) == 1) ++rest;
    ::waitpid(child, nullptr, 0);
    ::close(pipe[0]);

    store_ = open();

    const auto found = store_->checkpoints_of_run("r").value();
    ASSERT_THAT(found, ::testing::SizeIs(5));
    EXPECT_GE(std::stoi(found.back().user_metadata->at("round")), acknowledged + rest - 1);
    for (const auto& record : found) {
      EXPECT_EQ(fs::file_size(store_->folder_of(record) / "weights"), 10);
    }
    EXPECT_THAT(folders(), ::testing::SizeIs(5));
  }
}

}  // namespace
}  // namespace tinker::server::store_test
