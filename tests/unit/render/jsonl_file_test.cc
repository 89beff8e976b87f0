#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"
#include "tinker/training_data.h"

namespace tinker::render::jsonl_file_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using ::tinker::testing::TemporaryFolder;

struct Opened {
  explicit Opened(const std::string& content) { folder.write("data.jsonl", content); }

  TemporaryFolder folder;
  std::string path = folder.path("data.jsonl");
};

std::vector<std::string> lines_of(const std::string& content) {
  const Opened f(content);
  const auto file = JsonlFile::open(f.path).value();
  std::vector<std::string> out;
  for (std::size_t i = 0; i < file.size(); ++i) out.push_back(file.line(i).value());
  return out;
}

using Lines = std::vector<std::string>;

TEST(JsonlFile, HasTheLinesOfAFile) {
  EXPECT_EQ(lines_of("a\nb\n"), Lines({"a", "b"}));
  EXPECT_EQ(lines_of("a\nb"), Lines({"a", "b"}));
  EXPECT_EQ(lines_of("a\r\nb\r\n"), Lines({"a", "b"}));
  EXPECT_EQ(lines_of(""), Lines());
}

TEST(JsonlFile, PassesOverBlankLines) {
  EXPECT_EQ(lines_of("\n\n a\n \t\r\n\nb\n\n"), Lines({" a", "b"}));
  EXPECT_EQ(lines_of("\n \n\r\n"), Lines());
}

TEST(JsonlFile, PassesOverAByteOrderMark) {
  EXPECT_EQ(lines_of("\xEF\xBB\xBF{}\n{}\n"), Lines({"{}", "{}"}));
  EXPECT_EQ(lines_of("\xEF\xBB\xBF\n{}"), Lines({"{}"}));
  EXPECT_EQ(lines_of("\xEF\xBB\xBF"), Lines());
  // Elsewhere it is content.
  EXPECT_EQ(lines_of("{}\n\xEF\xBB\xBF{}"), Lines({"{}", "\xEF\xBB\xBF{}"}));
}

TEST(JsonlFile, ReadsLinesLongerThanItsBuffer) {
  const std::string text(3U << 20U, 'x');

  const auto lines = lines_of("a\n" + text + "\n" + text.substr(5));

  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[1], text);
  EXPECT_EQ(lines[2].size(), text.size() - 5);
}

TEST(JsonlFile, SaysWhereALineIs) {
  const Opened f("\n{\"text\": \"a\"}\n\n{\"txt\": \"b\"}\n");
  const auto file = JsonlFile::open(f.path).value();

  EXPECT_THAT(file.place_of(0), EndsWith("data.jsonl:2"));
  EXPECT_THAT(file.row(0), IsOkAndHolds(DataRow(TextRow{"a"})));
  EXPECT_THAT(file.row(1),
              IsError(ErrorCode::invalid_argument, StartsWith(f.path + ":4: expected an object")));
}

TEST(JsonlFile, NoticesThatTheFileBecameShorter) {
  const Opened f("{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  const auto file = JsonlFile::open(f.path).value();

  std::filesystem::resize_file(f.path, 16);

  EXPECT_THAT(file.line(0), IsOk());
  EXPECT_THAT(file.row(1),
              IsError(ErrorCode::io_error, AllOf(HasSubstr(":2:"), HasSubstr("became shorter"))));
}

TEST(JsonlFile, OpensOnlyFiles) {
  const TemporaryFolder folder;

  EXPECT_THAT(JsonlFile::open(folder.path("none.jsonl")).error().message, HasSubstr("none.jsonl"));
  EXPECT_FALSE(JsonlFile::open(folder.path()).ok());
}

}  // namespace
}  // namespace tinker::render::jsonl_file_test
