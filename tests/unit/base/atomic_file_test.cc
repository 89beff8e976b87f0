#include "base/atomic_file.h"

#include <filesystem>
#include <utility>

#include <gmock/gmock.h>

#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::base::atomic_file_test {
namespace {

using ::testing::HasSubstr;
using ::tinker::testing::IsError;

std::ptrdiff_t files_in(const testing::TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), {});
}

TEST(AtomicFile, HasItsNameOnceItIsComplete) {
  const testing::TemporaryFolder folder;
  folder.write("some", "before");
  auto file = AtomicFile::create(folder.path("some")).value();
  file.write("af").value();
  file.write("ter").value();
  EXPECT_EQ(folder.read("some"), "before");

  file.commit().value();

  EXPECT_EQ(folder.read("some"), "after");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(AtomicFile, IsRemovedUnlessItIsCommitted) {
  const testing::TemporaryFolder folder;
  {
    auto file = AtomicFile::create(folder.path("some")).value();
    const auto moved = std::move(file);
    EXPECT_EQ(files_in(folder), 1);
  }
  EXPECT_EQ(files_in(folder), 0);
}

TEST(AtomicFile, TwoOfOneNameAreTwo) {
  const testing::TemporaryFolder folder;
  auto first = AtomicFile::create(folder.path("some")).value();
  auto second = AtomicFile::create(folder.path("some")).value();
  first.write("first").value();
  second.write("second").value();

  second.commit().value();
  EXPECT_EQ(folder.read("some"), "second");
  first.commit().value();
  EXPECT_EQ(folder.read("some"), "first");
}

TEST(AtomicFile, SaysWhatItCannotMake) {
  const testing::TemporaryFolder folder;
  folder.write("taken/some", "");

  EXPECT_THAT(AtomicFile::create(folder.path("none/some")),
              IsError(ErrorCode::io_error, HasSubstr("/none/some")));
  EXPECT_THAT(AtomicFile::create(folder.path("taken")).value().commit(),
              IsError(ErrorCode::io_error, HasSubstr("make ")));
}

}  // namespace
}  // namespace tinker::base::atomic_file_test
