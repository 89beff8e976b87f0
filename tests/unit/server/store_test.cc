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

namespace tinker::server {
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
  reopen();
  EXPECT_THAT(store_->find_checkpoint(kept.path()), IsOkAndHolds(kept));
  EXPECT_THAT(folders(), ElementsAre(kept.folder));
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

// ---- What happened

class StoreEvents : public testing::StoreTest {
 protected:
  std::vector<std::string> events(std::string_view owner,
                                  std::chrono::seconds from,
                                  std::chrono::seconds to,
                                  std::string_view prefix = {}) {
    std::vector<std::string> names;
    for (const auto& entry : store_->audit(owner, start_ + from, start_ + to, prefix).value()) {
      names.push_back(entry.event);
    }
    return names;
  }
  void add(std::chrono::seconds at, const std::string& event, const std::string& owner = "ada") {
    store_->add_audit({.at = start_ + at, .owner = owner, .event = event}).value();
  }

  const Instant start_ = now();
};

TEST_F(StoreEvents, KeepAllThatAnAuditWantsToKnow) {
  const AuditRecord entry = {
      .at = now() + 1us, .owner = "ada", .event = "a_b", .details = {{"path", "tinker://'"}}};
  store_->add_audit(entry).value();
  reopen();

  EXPECT_THAT(store_->audit("ada", now(), now() + 1s, ""), IsOkAndHolds(ElementsAre(entry)));
}

// PROTOCOL 9.35: from midnight to midnight.
TEST_F(StoreEvents, AreFoundByTime) {
  add(2s, "second");
  add(1s, "first");
  add(3s, "third");

  EXPECT_THAT(events("ada", 0s, 9s), ElementsAre("first", "second", "third"));
  EXPECT_THAT(events("ada", 1s, 3s), ElementsAre("first", "second"));
  EXPECT_THAT(events("ada", 4s, 9s), IsEmpty());
}

TEST_F(StoreEvents, AreFoundByOwnerAndByTheBeginningOfTheirNames) {
  add(1s, "checkpoint_read");
  add(2s, "project_set");
  add(3s, "checkpoint_read", "bob");

  EXPECT_THAT(events("ada", 0s, 9s, "checkpoint_"), ElementsAre("checkpoint_read"));
  EXPECT_THAT(events("ada", 0s, 9s, "%"), IsEmpty());
  EXPECT_THAT(events("bob", 0s, 9s), ElementsAre("checkpoint_read"));
}

// PROTOCOL 9.36
TEST_F(StoreEvents, SumUsageByHour) {
  using Kind = UsageRecord::Kind;
  const UsageRecord first = {
      .hour = start_ + 5min, .owner = "ada", .session_id = "s", .base_model = "m", .count = 3};
  auto same_hour = first;
  same_hour.hour = start_ + 59min;
  auto next_hour = first;
  next_hour.hour = start_ + 60min;
  auto other_kind = first;
  other_kind.kind = Kind::sampling_prefill_cached;
  store_->add_usage(std::vector{first, other_kind}).value();
  store_->add_usage(std::vector{same_hour, next_hour}).value();
  reopen();

  auto summed = first;
  summed.hour = start_;
  summed.count = 6;
  next_hour.hour = start_ + 1h;
  other_kind.hour = start_;
  EXPECT_THAT(store_->usage("ada", start_, start_ + 2h),
              IsOkAndHolds(ElementsAre(other_kind, summed, next_hour)));
  EXPECT_THAT(store_->usage("ada", start_ + 1h, start_ + 2h), IsOkAndHolds(ElementsAre(next_hour)));
  EXPECT_THAT(store_->usage("bob", start_, start_ + 2h), IsOkAndHolds(IsEmpty()));
}

TEST_F(StoreEvents, KeepUsageOfEveryKind) {
  using Kind = UsageRecord::Kind;
  for (const auto kind : {Kind::training,
                          Kind::sampling_prefill,
                          Kind::sampling_prefill_cached,
                          Kind::sampling_sample,
                          Kind::checkpoint}) {
    const UsageRecord usage = {.hour = start_, .owner = "ada", .kind = kind, .count = 1};
    store_->add_usage({&usage, 1}).value();
    EXPECT_THAT(store_->usage("ada", start_, start_ + 1h),
                IsOkAndHolds(::testing::Contains(usage)));
  }
}

}  // namespace
}  // namespace tinker::server
