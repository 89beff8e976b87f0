#include "server/key_file.h"

#include <string>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/strings.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::key_file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using ::testing::Not;
using testing::TemporaryFolder;

constexpr const char* kAda = "tml-0123456789abcdef";
constexpr const char* kBob = "tml-fedcba9876543210";

auto is_invalid(const char* why) {
  return IsError(ErrorCode::invalid_argument, AllOf(HasSubstr(why), Not(HasSubstr("0123456789"))));
}

TEST(KeyFile, HasAKeyALine) {
  const auto keys = parse_key_file("ada tml-0123456789abcdef\nbob\ttml-fedcba9876543210");
  ASSERT_THAT(keys, IsOk());
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ(keys->at(0).owner, "ada");
  EXPECT_EQ(keys->at(0).key.expose(), kAda);
  EXPECT_EQ(keys->at(1).owner, "bob");
  EXPECT_EQ(keys->at(1).key.expose(), kBob);
}

TEST(KeyFile, MayHaveCommentsEmptyLinesAndTheLineEndsOfOthers) {
  const auto keys = parse_key_file(
      "# who may\r\n\r\n  ada  tml-0123456789abcdef  # laptop\r\n \t\nada tml-fedcba9876543210 "
      "#\n");
  ASSERT_THAT(keys, IsOk());
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ(keys->at(0).key.expose(), kAda);
  EXPECT_EQ(keys->at(1).key.expose(), kBob);
}

TEST(KeyFile, DoesNotCutAKeyAtANumberSign) {
  EXPECT_THAT(parse_key_file("ada tml-0123456789abcdef#1"),
              is_invalid("line 1: the key has other characters"));
}

TEST(KeyFile, SaysWhichLineIsWrongAndNeverItsKey) {
  struct Case {
    const char* line;
    const char* why;
  };
  for (const Case& c :
       {Case{"tml-0123456789abcdef", "expected \"OWNER KEY\""},
        Case{"ada tml-0123456789abcdef more", "expected \"OWNER KEY\""},
        Case{"tml-0123456789abcdef ada", "the owner looks like a key"},
        Case{"a/0123456789 tml-0123456789abcdef", "an owner is 1 to 64"},
        Case{"\xc3\xa4 tml-0123456789abcdef", "an owner is 1 to 64"},
        Case{"ada key-0123456789abcdef", "the key does not begin with \"tml-\""},
        Case{"ada tml-0123456789abcde", "the key has 19 characters instead of 20 to 256"},
        Case{"ada tml-0123456789abcdef\xc3\xa4", "the key has other characters"}}) {
    const auto text = base::concat("bob ", kBob, "\n\n", c.line, "\n");
    EXPECT_THAT(parse_key_file(text), is_invalid(base::concat("line 3: ", c.why).c_str()))
        << c.line;
  }
}

TEST(KeyFile, RefusesNamesAndKeysThatAreTooLong) {
  EXPECT_THAT(parse_key_file(base::concat(std::string(65, 'a'), ' ', kAda)),
              is_invalid("an owner is 1 to 64"));
  EXPECT_THAT(parse_key_file("ada tml-" + std::string(253, 'a')), is_invalid("has 257 characters"));
}

TEST(KeyFile, RefusesAKeyThatIsThereTwice) {
  EXPECT_THAT(parse_key_file("ada tml-0123456789abcdef\nbob tml-0123456789abcdef"),
              is_invalid("line 2: the key is that of line 1"));
}

TEST(KeyFile, WithoutAKeyIsRefused) {
  EXPECT_THAT(parse_key_file(""), is_invalid("there is no key in it"));
  EXPECT_THAT(parse_key_file("# later\n"), is_invalid("there is no key in it"));
}

TEST(ReadKeyFile, ReadsAFileOfItsOwnerAlone) {
  const TemporaryFolder folder;
  folder.write("keys", "ada tml-0123456789abcdef\n");
  ::chmod(folder.path("keys").c_str(), 0400);
  EXPECT_THAT(read_key_file(folder.path("keys")), IsOk());
}

TEST(ReadKeyFile, RefusesAFileThatOthersCanReadOrWrite) {
  const TemporaryFolder folder;
  folder.write("keys", "ada tml-0123456789abcdef\n");
  for (const ::mode_t mode : {0640U, 0604U, 0620U, 0602U}) {
    ::chmod(folder.path("keys").c_str(), mode);
    EXPECT_THAT(read_key_file(folder.path("keys")),
                IsError(ErrorCode::invalid_argument, HasSubstr("; run: chmod 600 ")))
        << mode;
  }
  EXPECT_THAT(read_key_file(folder.path("keys")).error().message, HasSubstr("(mode 0602)"));
}

TEST(ReadKeyFile, NamesTheFileOfAWrongLine) {
  const TemporaryFolder folder;
  folder.write("keys", "ada\n");
  ::chmod(folder.path("keys").c_str(), 0600);
  EXPECT_THAT(read_key_file(folder.path("keys")),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("key file " + folder.path("keys")), HasSubstr("line 1: "))));
}

TEST(ReadKeyFile, RefusesAHugeFile) {
  const TemporaryFolder folder;
  folder.write("keys", std::string((std::size_t{1} << 20U) + 1, '#'));
  ::chmod(folder.path("keys").c_str(), 0600);
  EXPECT_THAT(read_key_file(folder.path("keys")),
              IsError(ErrorCode::invalid_argument, HasSubstr("more than 1048576 bytes")));
}

TEST(ReadKeyFile, FailsForAFileThatIsNotThereOrNoFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_key_file(folder.path("none")),
              IsError(ErrorCode::io_error, HasSubstr(folder.path("none"))));
  EXPECT_THAT(read_key_file(folder.path()),
              IsError(ErrorCode::invalid_argument, HasSubstr("not a regular file")));
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(read_key_file(folder.path("pipe")),
              IsError(ErrorCode::invalid_argument, HasSubstr("not a regular file")));
}

}  // namespace
}  // namespace tinker::server::key_file_test
