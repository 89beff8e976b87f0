#include "formats/mapped_file.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::formats::mapped_file_test {
namespace {

using ::testing::HasSubstr;
using ::tinker::testing::IsError;

TEST(MappedFile, HasWhatIsInTheFile) {
  const testing::TemporaryFolder folder;
  const std::string text = std::string(10'000, 'a') + '\0' + "z";
  folder.write("some", text);
  folder.write("none", "");

  EXPECT_EQ(MappedFile::open(folder.path("some")).value().bytes(), text);
  EXPECT_EQ(MappedFile::open(folder.path("none")).value().bytes(), "");
}

TEST(MappedFile, MovesWithWhatItMapped) {
  const testing::TemporaryFolder folder;
  folder.write("a", "first");
  folder.write("b", "second");
  auto first = MappedFile::open(folder.path("a")).value();
  auto second = MappedFile::open(folder.path("b")).value();

  MappedFile moved = std::move(first);
  second = std::move(moved);

  EXPECT_EQ(second.bytes(), "first");
}

TEST(MappedFile, SaysWhatItCannotRead) {
  const testing::TemporaryFolder folder;

  EXPECT_THAT(MappedFile::open(folder.path("none")),
              IsError(ErrorCode::invalid_argument, HasSubstr("/none: No such file")));
  EXPECT_THAT(MappedFile::open(folder.path()),
              IsError(ErrorCode::invalid_argument, HasSubstr("it is no file")));
}

}  // namespace
}  // namespace tinker::formats::mapped_file_test
