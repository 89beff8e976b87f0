#include "base/atomic_folder.h"

#include <filesystem>
#include <utility>

#include <gmock/gmock.h>

#include "base/files.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::base::atomic_folder_test {
namespace {

using ::testing::HasSubstr;
using ::tinker::testing::IsError;

std::ptrdiff_t entries_in(const testing::TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

TEST(AtomicFolder, HasItsNameOnceItIsComplete) {
  const testing::TemporaryFolder folder;
  auto made = AtomicFolder::create(folder.path("new")).value();
  made.write("a", "1").value();
  EXPECT_FALSE(std::filesystem::exists(folder.path("new")));

  made.commit().value();

  EXPECT_EQ(folder.read("new/a"), "1");
  EXPECT_EQ(entries_in(folder), 1);
}

TEST(AtomicFolder, TakesThePlaceOfAnother) {
  const testing::TemporaryFolder folder;
  folder.write("some/a", "before");
  folder.write("some/b", "before");
  auto made = AtomicFolder::create(folder.path("some/")).value();
  made.write("a", "after").value();
  EXPECT_EQ(folder.read("some/a"), "before");

  made.commit().value();

  EXPECT_EQ(folder.read("some/a"), "after");
  EXPECT_FALSE(std::filesystem::exists(folder.path("some/b")));
  EXPECT_EQ(entries_in(folder), 1);
}

TEST(AtomicFolder, TakesThePlaceOfALinkAndLeavesWhatItLedTo) {
  const testing::TemporaryFolder folder;
  folder.write("first/a", "first");
  std::filesystem::create_directory_symlink(folder.path("first"), folder.path("latest"));
  auto made = AtomicFolder::create(folder.path("latest")).value();
  made.write("a", "second").value();

  made.commit().value();

  EXPECT_EQ(folder.read("latest/a"), "second");
  EXPECT_EQ(folder.read("first/a"), "first");
}

TEST(AtomicFolder, IsRemovedUnlessItIsCommitted) {
  const testing::TemporaryFolder folder;
  folder.write("some/a", "before");
  {
    auto made = AtomicFolder::create(folder.path("some")).value();
    made.write("a", "after").value();
    const auto moved = std::move(made);
    EXPECT_EQ(entries_in(folder), 2);
  }
  EXPECT_EQ(entries_in(folder), 1);
  EXPECT_EQ(folder.read("some/a"), "before");
}

TEST(AtomicFolder, MakesTheFoldersAboveIt) {
  const testing::TemporaryFolder folder;
  auto made = AtomicFolder::create(folder.path("a/b/c")).value();

  made.commit().value();

  EXPECT_TRUE(std::filesystem::is_directory(folder.path("a/b/c")));
}

TEST(AtomicFolder, SaysWhatItCannotMake) {
  const testing::TemporaryFolder folder;
  folder.write("file", "");

  EXPECT_THAT(AtomicFolder::create(""), IsError(ErrorCode::invalid_argument, HasSubstr("''")));
  EXPECT_THAT(AtomicFolder::create("/"), IsError(ErrorCode::invalid_argument, HasSubstr("'/'")));
  EXPECT_THAT(AtomicFolder::create(folder.path("file/a")),
              IsError(ErrorCode::io_error, HasSubstr("file")));
}

TEST(SwapNames, SwapsInStepsWhatCannotBeSwappedAtOnce) {
  const testing::TemporaryFolder folder;
  folder.write("new/a", "new");
  folder.write("some/a", "old");

  swap_names_in_steps(folder.path("new"), folder.path("some")).value();

  EXPECT_EQ(folder.read("some/a"), "new");
  EXPECT_EQ(folder.read("new/a"), "old");
  EXPECT_EQ(entries_in(folder), 2);
}

TEST(SwapNames, LeavesEverythingAsItWasIfAStepFails) {
  const testing::TemporaryFolder folder;
  folder.write("some/a", "old");

  EXPECT_THAT(swap_names_in_steps(folder.path("none"), folder.path("some")),
              IsError(ErrorCode::io_error, HasSubstr("some")));

  EXPECT_EQ(folder.read("some/a"), "old");
  EXPECT_EQ(entries_in(folder), 1);
}

TEST(MoveToNewName, RefusesANameThatIsTaken) {
  const testing::TemporaryFolder folder;
  folder.write("from", "from");
  folder.write("to", "to");

  EXPECT_THAT(move_to_new_name(folder.path("from"), folder.path("to")),
              IsError(ErrorCode::io_error, HasSubstr("to")));
  EXPECT_EQ(folder.read("to"), "to");
}

}  // namespace
}  // namespace tinker::base::atomic_folder_test
