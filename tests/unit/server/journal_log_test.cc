#include "server/journal_log.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/virtual_loop.h"
#include "server/journals.h"
#include "support/manual_executor.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::journal_log_test {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using tinker::testing::IsError;
using tinker::testing::IsOk;

class JournalLogTest : public ::testing::Test {
 protected:
  void append(std::int64_t number) { log_->append({.number = number}); }
  /// Where the outcome will be.
  std::shared_ptr<std::optional<Result<void>>> sync() {
    auto out = std::make_shared<std::optional<Result<void>>>();
    (void)log_->sync().then([out](const Result<void>& outcome) { *out = outcome; });
    return out;
  }
  void run() {
    for (int i = 0; i < 4; ++i) {
      thread_->run();
      loop_->run_ready();
    }
  }
  [[nodiscard]] std::vector<std::int64_t> stored() const {
    std::vector<std::int64_t> out;
    for (const auto& record : JournalFile::open(path()).value().records) {
      out.push_back(record.number);
    }
    return out;
  }
  [[nodiscard]] std::string path() const { return folder_.path("run/log"); }

  const testing::TemporaryFolder folder_;
  std::shared_ptr<support::ManualExecutor> thread_ = std::make_shared<support::ManualExecutor>();
  std::shared_ptr<async::VirtualLoop> loop_ = std::make_shared<async::VirtualLoop>();
  std::shared_ptr<JournalLog> log_ = std::make_shared<JournalLog>(thread_, loop_, path());
};

TEST_F(JournalLogTest, EndsAWaitWhenTheRecordIsOnTheDisk) {
  append(1);
  const auto waited = sync();
  loop_->run_ready();
  EXPECT_FALSE(*waited);

  run();

  ASSERT_TRUE(*waited);
  EXPECT_THAT(**waited, IsOk());
  EXPECT_THAT(stored(), ElementsAre(1));
}

TEST_F(JournalLogTest, WritesTogetherWhatComesWhileItWrites) {
  for (int i = 1; i <= 5; ++i) append(i);
  const auto first = sync();

  run();

  EXPECT_TRUE(*first);
  EXPECT_EQ(thread_->posts(), 2);  // the first one, then four at once
  EXPECT_THAT(stored(), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(JournalLogTest, WaitsForNothingWhenAllIsOnTheDisk) {
  append(1);
  run();

  const auto waited = sync();
  loop_->run_ready();

  EXPECT_TRUE(*waited);
}

TEST_F(JournalLogTest, WaitsForWhatIsBeingWritten) {
  append(1);
  const auto waited = sync();

  loop_->run_ready();
  EXPECT_FALSE(*waited);
  run();

  EXPECT_TRUE(*waited);
}

TEST_F(JournalLogTest, WritesLaterWhatTheDiskHadNoRoomFor) {
  folder_.write("run", "a file where the folder shall be");
  append(1);
  const auto failed = sync();
  run();
  ASSERT_TRUE(*failed);
  EXPECT_THAT(**failed, IsError(ErrorCode::io_error, _));
  EXPECT_TRUE(log_->is_failing());
  std::filesystem::remove(folder_.path("run"));

  append(2);
  const auto waited = sync();
  run();

  ASSERT_TRUE(*waited);
  EXPECT_THAT(**waited, IsOk());
  EXPECT_FALSE(log_->is_failing());
  EXPECT_THAT(stored(), ElementsAre(1, 2));
}

TEST_F(JournalLogTest, TriesAgainForOneWhoWaitsAgain) {
  folder_.write("run", "a file where the folder shall be");
  append(1);
  run();
  std::filesystem::remove(folder_.path("run"));

  const auto waited = sync();
  run();

  EXPECT_TRUE(*waited);
  EXPECT_THAT(stored(), ElementsAre(1));
}

TEST_F(JournalLogTest, KeepsTheRestWhenItIsRewritten) {
  for (int i = 1; i <= 4; ++i) append(i);
  run();

  auto rewritten = log_->rewrite({{.number = 100}},
                                 [](const JournalRecord& record) { return record.number > 2; });
  append(5);
  run();

  EXPECT_THAT(rewritten.get(), IsOk());
  EXPECT_THAT(stored(), ElementsAre(100, 3, 4, 5));
}

TEST_F(JournalLogTest, TakesNothingMoreOnceItIsDiscarded) {
  append(1);
  run();

  log_->discard(folder_.path("run"));
  append(2);
  const auto waited = sync();
  run();

  EXPECT_TRUE(*waited);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("run")));
}

TEST(Journals, AreClosedAfterTheLastWrite) {
  constexpr std::int64_t kRecords = 2000;
  const testing::TemporaryFolder folder;
  const auto loop = std::make_shared<async::VirtualLoop>();
  Journals journals(loop, {.folder = folder.path()}, Logger());
  const auto log = journals.session_log("s");
  log->append({.number = 0});
  for (std::int64_t i = 1; i < kRecords; ++i) log->append({.number = i});  // the next batch
  journals.close();
  loop->run_ready();
  std::atomic<std::int64_t> kept = 0;
  (void)log->rewrite({}, [&kept](const JournalRecord&) { return ++kept > 0; });

  journals.close();

  EXPECT_EQ(kept, kRecords);
  EXPECT_EQ(JournalFile::open(folder.path("s/session")).value().records.size(), kRecords);
}

}  // namespace
}  // namespace tinker::server::journal_log_test
