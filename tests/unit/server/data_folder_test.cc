#include "server/data_folder.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <unistd.h>

#include "support/temporary_folder.h"
#include "support/unprivileged.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::data_folder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

TEST(DataFolder, MakesAFolderForItsOwnerAlone) {
  const testing::TemporaryFolder folder;
  const auto data = DataFolder::open(folder.path("a/b")).value();

  EXPECT_EQ(data.path(), folder.path("a/b"));
  EXPECT_TRUE(fs::is_directory(data.checkpoints()));
  EXPECT_EQ(fs::status(data.path()).permissions(), fs::perms::owner_all);
}

TEST(DataFolder, LeavesThePermissionsOfAFolderThatWasThere) {
  const testing::TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0750));
  const auto data = DataFolder::open(folder.path()).value();

  EXPECT_EQ(fs::status(data.path()).permissions(), fs::perms(0750));
}

TEST(DataFolder, KeepsOthersOutOfWhatIsInAFolderThatWasThere) {
  const testing::TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  fs::create_directories(folder.path("checkpoints/old"));
  fs::create_directory(folder.path("journal"));
  for (const auto* name : {"checkpoints", "journal"}) {
    fs::permissions(folder.path(name), fs::perms(0755));
  }
  for (const auto* name : {"lock", "catalogue.db", "catalogue.db-wal"}) {
    folder.write(name, "");
    fs::permissions(folder.path(name), fs::perms(0644));
  }

  const auto data = DataFolder::open(folder.path()).value();

  for (const auto* name : {"checkpoints", "journal"}) {
    EXPECT_EQ(fs::status(folder.path(name)).permissions(), fs::perms(0700)) << name;
  }
  for (const auto* name : {"secret", "catalogue.db", "catalogue.db-wal"}) {
    EXPECT_EQ(fs::status(folder.path(name)).permissions(), fs::perms(0600)) << name;
  }
}

TEST(DataFolder, IsOpenOnceAtATime) {
  const testing::TemporaryFolder folder;
  {
    const auto data = DataFolder::open(folder.path()).value();
    EXPECT_THAT(DataFolder::open(folder.path()),
                IsError(ErrorCode::invalid_argument,
                        AllOf(HasSubstr(folder.path()), HasSubstr(std::to_string(::getpid())))));
  }
  EXPECT_THAT(DataFolder::open(folder.path()), IsOk());
}

TEST(DataFolder, IsRecognisedByAnotherName) {
  const testing::TemporaryFolder folder;
  const auto data = DataFolder::open(folder.path("a")).value();
  fs::create_directory_symlink("a", folder.path("b"));

  EXPECT_THAT(DataFolder::open(folder.path("b")),
              IsError(ErrorCode::invalid_argument, HasSubstr(folder.path("b"))));
}

TEST(DataFolder, TakesTheLockOfAProcessThatIsGone) {
  const testing::TemporaryFolder folder;
  folder.write("lock", "123456789012\n");
  const auto data = DataFolder::open(folder.path()).value();

  EXPECT_EQ(folder.read("lock"), std::to_string(::getpid()) + "\n");
}

TEST(DataFolder, RefusesAFolderThatItsHolderHasNotYetSigned) {
  const testing::TemporaryFolder folder;
  const auto data = DataFolder::open(folder.path()).value();
  folder.write("lock", "");

  EXPECT_THAT(DataFolder::open(folder.path()),
              IsError(ErrorCode::invalid_argument, HasSubstr("has just started")));
}

TEST(DataFolder, KeepsItsSecret) {
  const testing::TemporaryFolder folder;
  std::string secret;
  {
    const auto data = DataFolder::open(folder.path("a")).value();
    secret = data.secret();
  }
  const auto again = DataFolder::open(folder.path("a")).value();
  const auto other = DataFolder::open(folder.path("b")).value();

  EXPECT_THAT(secret, SizeIs(32));
  EXPECT_EQ(again.secret(), secret);
  EXPECT_NE(other.secret(), secret);
}

TEST(DataFolder, HidesItsSecretFromOthers) {
  const testing::TemporaryFolder folder;
  const auto data = DataFolder::open(folder.path()).value();

  EXPECT_EQ(fs::status(folder.path("secret")).permissions(), fs::perms(0600));
}

TEST(DataFolder, MakesTheSecretOfAFolderWhereThatWasInterrupted) {
  const testing::TemporaryFolder folder;
  folder.write("secret.incomplete", "half");

  EXPECT_THAT(DataFolder::open(folder.path()).value().secret(), SizeIs(32));
}

TEST(DataFolder, RefusesASecretOfAnotherLength) {
  const testing::TemporaryFolder folder;
  for (const auto* secret : {"", "short", "much more than thirty-two bytes of text"}) {
    folder.write("secret", secret);
    EXPECT_THAT(DataFolder::open(folder.path()),
                IsError(ErrorCode::io_error,
                        AllOf(HasSubstr("32 bytes"), HasSubstr(folder.path("secret")))));
  }
}

TEST(DataFolder, NamesWhatIsInItsWay) {
  const testing::TemporaryFolder folder;
  folder.write("file", "");
  fs::create_directories(folder.path("a/lock"));
  fs::create_directories(folder.path("b/secret"));
  folder.write("c/checkpoints", "");

  EXPECT_THAT(DataFolder::open(folder.path("file")),
              IsError(ErrorCode::io_error, HasSubstr(folder.path("file"))));
  EXPECT_THAT(DataFolder::open(folder.path("file/below")),
              IsError(ErrorCode::io_error, HasSubstr(folder.path("file/below"))));
  EXPECT_THAT(DataFolder::open(folder.path("a")),
              IsError(ErrorCode::io_error, HasSubstr(folder.path("a/lock"))));
  EXPECT_THAT(DataFolder::open(folder.path("b")),
              IsError(ErrorCode::io_error, HasSubstr(folder.path("b/secret"))));
  EXPECT_THAT(DataFolder::open(folder.path("c")),
              IsError(ErrorCode::io_error, HasSubstr(folder.path("c/checkpoints"))));
}

TEST(DataFolder, NamesTheFileOfAFolderThatItCannotWrite) {
  const testing::TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0555));
  const testing::Unprivileged nobody;
  if (!nobody.succeeded()) GTEST_SKIP() << "cannot become another user";

  EXPECT_THAT(DataFolder::open(folder.path()),
              IsError(ErrorCode::io_error,
                      AllOf(HasSubstr(folder.path("lock")), HasSubstr("ermission denied"))));
  EXPECT_THAT(DataFolder::open(folder.path("below")),
              IsError(ErrorCode::io_error, HasSubstr(folder.path("below"))));
}

TEST(DataFolder, IsTemporaryWithoutAName) {
  fs::path path;
  {
    auto first = DataFolder::open({}).value();
    const auto second = DataFolder::open({}).value();
    const auto moved = std::move(first);
    path = moved.path();
    EXPECT_TRUE(fs::exists(path / "secret"));
    EXPECT_NE(path, second.path());
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(DataFolder, ListsAndRemovesCheckpoints) {
  const testing::TemporaryFolder folder;
  const auto data = DataFolder::open(folder.path()).value();
  folder.write("checkpoints/a/b/file", "text");
  folder.write("checkpoints/c", "text");
  EXPECT_THAT(data.checkpoint_folders(), IsOkAndHolds(UnorderedElementsAre("a", "c")));

  data.remove_checkpoint("a");
  data.remove_checkpoint("never was");
  data.remove_checkpoint("");

  EXPECT_THAT(data.checkpoint_folders(), IsOkAndHolds(UnorderedElementsAre("c")));
}

TEST(DataFolder, NamesTheFolderThatItCannotList) {
  const testing::TemporaryFolder folder;
  const auto data = DataFolder::open(folder.path()).value();
  fs::remove(data.checkpoints());

  EXPECT_THAT(data.checkpoint_folders(),
              IsError(ErrorCode::io_error, HasSubstr(folder.path("checkpoints"))));
}

TEST(SizeOfFolder, CountsRegularFilesAtAnyDepth) {
  const testing::TemporaryFolder folder;
  folder.write("a", "12345");
  folder.write("b/c/d", "123");
  fs::create_symlink("a", folder.path("link"));

  EXPECT_THAT(size_of_folder(folder.path()), IsOkAndHolds(8));
}

TEST(SizeOfFolder, NamesTheFolderThatIsNotThere) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(size_of_folder(folder.path("none")),
              IsError(ErrorCode::io_error, HasSubstr(folder.path("none"))));
}

}  // namespace
}  // namespace tinker::server::data_folder_test
