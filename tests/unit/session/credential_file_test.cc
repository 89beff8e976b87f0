#include "session/credential_file.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::session::credential_file_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::Not;
using testing::TemporaryFolder;

// The texts below were written by the official package 0.36.0: its store with these keys added,
// alpha made the default, and after all keys were deleted. It reads back what we write because the
// bytes are the same.
constexpr const char* kOfficial = R"({
  "version": 1,
  "default": "alpha",
  "keys": {
    "zeta": {
      "type": "manual",
      "key": "tml-1",
      "name": "laptop"
    },
    "alpha": {
      "type": "manual",
      "key": "tml-2",
      "name": "né \"q\" \\ / \n\t\b\f\u0001)"
                                  "\x7f \u2028"
                                  R"( 😀",
      "note": "",
      "details": {
        "org_details": {
          "name": "Lab"
        },
        "user_details": {
          "email": "ada@example.com"
        }
      }
    },
    "old": {
      "type": "generated",
      "key": "tml-3",
      "name": "cli",
      "details": {
        "org_details": {
          "name": "Lab"
        },
        "user_details": {
          "email": "ada@example.com"
        }
      }
    }
  }
})";
constexpr const char* kOfficialWithoutKeys = "{\n  \"version\": 1,\n  \"keys\": {}\n}";

CredentialFile sample_file() {
  const ApiKeyDetails details = {.org_details = {.name = "Lab"},
                                 .user_details = {.email = "ada@example.com"}};
  CredentialFile file;
  file.set("zeta", {.key = Secret("tml-1"), .name = "laptop"});
  file.set("alpha",
           {.key = Secret("tml-2"),
            .name = "n\u00e9 \"q\" \\ / \n\t\b\f\x01\x7f \u2028 \U0001F600",
            .note = "",
            .details = details});
  file.set("old",
           {.type = KeyRecord::Type::generated,
            .key = Secret("tml-3"),
            .name = "cli",
            .details = details});
  file.default_id = "alpha";
  return file;
}

TEST(CredentialFile, IsWrittenAsTheOfficialOne) {  // R3.13
  EXPECT_THAT(print_credentials(sample_file()), IsOkAndHolds(std::string(kOfficial)));
  EXPECT_THAT(print_credentials({}), IsOkAndHolds(std::string(kOfficialWithoutKeys)));
}

TEST(CredentialFile, ReadsTheOfficialOne) {  // R3.13
  const auto file = parse_credentials(kOfficial);
  ASSERT_THAT(file, IsOk());
  EXPECT_TRUE(*file == sample_file());
  const auto empty = parse_credentials(kOfficialWithoutKeys);
  ASSERT_THAT(empty, IsOk());
  EXPECT_TRUE(*empty == CredentialFile());
}

TEST(CredentialFile, DropsUnknownMembersAtTheNextWrite) {  // R3.13
  const auto file = parse_credentials(
      R"({"keys":{"a":{"type":"manual","key":"k","name":"n","note":null,"details":null,"more":[1]}},"x":2})");
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(print_credentials(*file),
              IsOkAndHolds(std::string("{\n  \"version\": 1,\n  \"keys\": {\n    \"a\": {\n"
                                       "      \"type\": \"manual\",\n      \"key\": \"k\",\n"
                                       "      \"name\": \"n\"\n    }\n  }\n}")));
}

TEST(CredentialFile, HasNoDefaultWhenItNamesNoStoredKey) {  // R3.15
  auto file = sample_file();
  EXPECT_EQ(file.default_key()->key, Secret("tml-2"));
  file.default_id = "gone";
  EXPECT_EQ(file.default_key(), nullptr);
  file.default_id.reset();
  EXPECT_EQ(file.default_key(), nullptr);
}

TEST(CredentialFile, ForgetsTheDefaultWithItsKey) {
  auto file = sample_file();
  EXPECT_FALSE(file.erase("gone"));
  EXPECT_TRUE(file.erase("zeta"));
  EXPECT_EQ(file.default_id, "alpha");
  EXPECT_TRUE(file.erase("alpha"));
  EXPECT_EQ(file.default_id, std::nullopt);
  EXPECT_EQ(file.keys.size(), 1U);
}

TEST(CredentialFile, KeepsThePlaceOfAReplacedKey) {
  auto file = sample_file();
  file.set("zeta", {.key = Secret("tml-9"), .name = "desk"});
  ASSERT_EQ(file.keys.size(), 3U);
  EXPECT_EQ(file.keys[0].first, "zeta");
  EXPECT_EQ(file.find("zeta")->name, "desk");
}

// What the official package accepts; `version` may also be a boolean there.
TEST(CredentialFile, AcceptsWhatTheOfficialOneDoes) {
  for (const char* text : {"{}",
                           " \n{}\n",
                           R"({"version":1.0})",
                           R"({"default":null})",
                           R"({"default":"gone"})",
                           R"({"keys":{"":{"type":"manual","key":"","name":""}},"default":""})",
                           R"({"keys":{"a":{"type":"generated","key":"k","name":"n","note":"x",
                               "details":{"org_details":{"name":"o","x":1},"user_details":{"email":"e"}}}}})"}) {
    EXPECT_THAT(parse_credentials(text), IsOk()) << text;
  }
  const auto repeated = parse_credentials(
      R"({"keys":{"a":{"type":"manual","key":"1","name":"n"},"b":{"type":"manual","key":"2","name":"n"},
          "a":{"type":"manual","key":"3","name":"n"}}})");
  ASSERT_THAT(repeated, IsOk());
  EXPECT_EQ(repeated->keys[0].second.key, Secret("3"));
  EXPECT_EQ(repeated->keys.size(), 2U);
}

TEST(CredentialFile, RefusesWhatTheOfficialOneDoesWithoutItsContents) {  // R3.15, D7
  const std::string record = R"({"type":"manual","key":"tml-hush","name":"n"})";
  for (const std::string& text : {
           std::string(),
           std::string("null"),
           std::string("[]"),
           std::string("{} x"),
           std::string("\xef\xbb\xbf{}"),
           std::string("{\"default\":\"tml-hush\xff\"}"),
           std::string(R"({"default":"\ud800"})"),
           std::string(R"({"version":"tml-hush"})"),
           std::string(R"({"version":2})"),
           std::string(R"({"version":null})"),
           std::string(R"({"default":["tml-hush"]})"),
           std::string(R"({"keys":null})"),
           std::string(R"({"keys":["tml-hush"]})"),
           std::string(R"({"keys":{"tml-hush":null}})"),
           std::string(R"({"keys":{"tml-hush":{"key":"tml-hush","name":"n"}}})"),
           std::string(R"({"keys":{"a":{"type":"tml-hush","key":"tml-hush","name":"n"}}})"),
           std::string(R"({"keys":{"a":{"type":"manual","key":"tml-hush"}}})"),
           std::string(R"({"keys":{"a":{"type":"manual","name":"tml-hush"}}})"),
           std::string(R"({"keys":{"a":{"type":"manual","key":1,"name":"tml-hush"}}})"),
           std::string(R"({"keys":{"a":{"type":"manual","key":"tml-hush","name":null}}})"),
           std::string(R"({"keys":{"a":{"type":"manual","key":"tml-hush","name":"n","note":3}}})"),
           std::string(
               R"({"keys":{"a":{"type":"manual","key":"tml-hush","name":"n","details":{}}}})"),
           std::string(R"({"keys":{"a":{"type":"generated","key":"tml-hush","name":"n"}}})"),
           std::string(
               R"({"keys":{"a":{"type":"generated","key":"tml-hush","name":"n","details":null}}})"),
           R"({"keys":{"tml-hush":)" + record + R"(,"tml-hush" tml-hush)",
           R"({"keys":{"a":)" + record + "}",
       }) {
    EXPECT_THAT(parse_credentials(text),
                IsError(ErrorCode::invalid_argument, Not(HasSubstr("hush"))))
        << text;
  }
}

TEST(CredentialFile, TellsTheRecordAtFaultByItsNumber) {
  EXPECT_THAT(parse_credentials(R"({"keys":{"a":{"type":"manual","key":"k","name":"n"},
                                            "b":{"type":"manual","key":"k"}}})"),
              IsError(ErrorCode::invalid_argument,
                      HasSubstr("record 2 of 'keys': expected a text as 'name'")));
  EXPECT_THAT(parse_credentials(R"({"version":2})"),
              IsError(ErrorCode::invalid_argument, HasSubstr("'version': expected 1, found 2")));
}

TEST(CredentialFile, CannotBeWrittenSoThatNobodyReadsIt) {
  CredentialFile bad_text;
  bad_text.set("a", {.key = Secret("tml-hush\xff"), .name = "n"});
  EXPECT_THAT(print_credentials(bad_text),
              IsError(ErrorCode::invalid_argument, Not(HasSubstr("hush"))));
  CredentialFile no_details;
  no_details.set("a", {.type = KeyRecord::Type::generated, .key = Secret("tml-hush"), .name = "n"});
  EXPECT_THAT(print_credentials(no_details),
              IsError(ErrorCode::invalid_argument, HasSubstr("details")));
}

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(CredentialStore, IsEmptyWithoutAFile) {  // R3.15
  const TemporaryFolder home;
  const auto file = read_credentials(credentials_path(home.path()));
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->keys, IsEmpty());
}

TEST(CredentialStore, WritesForItsOwnerOnly) {  // R3.14
  const TemporaryFolder home;
  const auto path = credentials_path(home.path());
  const mode_t umask_before = ::umask(0277);

  const auto written = write_credentials(path, sample_file());

  ::umask(umask_before);
  ASSERT_THAT(written, IsOk());
  EXPECT_EQ(home.read(".tinker/credentials.json"), kOfficial);
  EXPECT_EQ(mode_of(path), 0600U);
  EXPECT_EQ(mode_of(home.path(".tinker")), 0700U);
  EXPECT_THAT(names_in(home.path(".tinker")), ElementsAre("credentials.json"));
  const auto back = read_credentials(path);
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(*back == sample_file());
}

TEST(CredentialStore, LeavesAFolderThatExistsAsItIs) {  // R3.14
  const TemporaryFolder home;
  home.write(".tinker/credentials.json", "{}");
  std::filesystem::permissions(home.path(".tinker"), std::filesystem::perms{0755});
  std::filesystem::permissions(home.path(".tinker/credentials.json"), std::filesystem::perms{0644});

  ASSERT_THAT(write_credentials(credentials_path(home.path()), {}), IsOk());

  EXPECT_EQ(mode_of(home.path(".tinker")), 0755U);
  EXPECT_EQ(mode_of(home.path(".tinker/credentials.json")), 0600U);
}

TEST(CredentialStore, LeavesNothingBehindWhenItCannotWrite) {
  const TemporaryFolder home;
  std::filesystem::create_directories(home.path(".tinker/credentials.json/in_the_way"));

  const auto written = write_credentials(credentials_path(home.path()), sample_file());

  EXPECT_THAT(written, IsError(ErrorCode::io_error, Not(HasSubstr("tml-"))));
  EXPECT_THAT(names_in(home.path(".tinker")), ElementsAre("credentials.json"));
}

TEST(CredentialStore, SaysWhatIsWrongWithTheFile) {
  const TemporaryFolder home;
  std::filesystem::create_directories(home.path(".tinker/credentials.json"));
  EXPECT_THAT(read_credentials(credentials_path(home.path())),
              IsError(ErrorCode::io_error, HasSubstr("credentials.json")));
  home.write("file", "");
  EXPECT_THAT(read_credentials(home.path("file/credentials.json")),
              IsError(ErrorCode::io_error, HasSubstr("cannot read")));
  EXPECT_THAT(write_credentials(home.path("file/credentials.json"), {}),
              IsError(ErrorCode::io_error, HasSubstr("folder")));
  home.write("broken", R"({"keys":{"a":{"type":"manual","key":"tml-hush"}}})");
  EXPECT_THAT(read_credentials(home.path("broken")),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr(home.path("broken")), Not(HasSubstr("hush")))));
  home.write("large", std::string((1U << 20U) + 1, ' '));
  EXPECT_THAT(read_credentials(home.path("large")),
              IsError(ErrorCode::io_error, HasSubstr("longer than")));
}

}  // namespace
}  // namespace tinker::session::credential_file_test
