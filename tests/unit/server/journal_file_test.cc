#include "server/journal_file.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::journal_file_test {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tinker::testing::IsError;
using tinker::testing::IsOk;

JournalRecord request(std::int64_t number, std::string body) {
  return {.kind = JournalRecord::Kind::request,
          .number = number,
          .request_id = "run:" + std::to_string(number),
          .type = "optim_step",
          .payload_hash = std::string("\0\1", 2),
          .content_type = "application/json",
          .owner = "me",
          .note = "a note",
          .body = std::make_shared<const std::string>(std::move(body))};
}

std::vector<std::int64_t> numbers(const std::vector<JournalRecord>& records) {
  std::vector<std::int64_t> out;
  for (const auto& record : records) out.push_back(record.number);
  return out;
}

class JournalFileTest : public ::testing::Test {
 protected:
  JournalFile make(int records) const {
    std::vector<JournalRecord> all;
    for (int i = 1; i <= records; ++i) all.push_back(request(i, "body"));
    return JournalFile::create(path(), all).value();
  }
  [[nodiscard]] std::string path() const { return folder_.path("run/log"); }
  [[nodiscard]] std::string bytes() const { return folder_.read("run/log"); }
  void write(const std::string& text) const { folder_.write("run/log", text); }
  [[nodiscard]] Result<JournalFile::Opened> open() const { return JournalFile::open(path()); }

  const testing::TemporaryFolder folder_;
};

TEST_F(JournalFileTest, GivesBackEveryMember) {
  const JournalRecord record = request(7, std::string("{\"a\":1}\0", 8));
  JournalFile::create(path(), std::array{record}).value();

  const auto read = open().value().records;

  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].encode(), record.encode());
  EXPECT_EQ(read[0].content(), record.content());
  EXPECT_EQ(read[0].payload_hash, record.payload_hash);
  EXPECT_EQ(read[0].note, record.note);
}

TEST_F(JournalFileTest, AddsRecordsBehindThoseOfAnEarlierLife) {
  make(1);
  auto opened = open().value();

  ASSERT_THAT(opened.file.append(std::array{request(2, ""), request(3, "x")}), IsOk());

  EXPECT_THAT(numbers(open().value().records), ElementsAre(1, 2, 3));
  EXPECT_EQ(opened.file.size(), bytes().size());
}

TEST_F(JournalFileTest, CutsOffARecordThatACrashLeftIncompleteWhereverItEnded) {
  make(1);
  const std::string one = bytes();
  make(2);
  const std::string two = bytes();
  for (std::size_t size = one.size(); size < two.size(); ++size) {
    write(two.substr(0, size));

    const auto opened = open();

    ASSERT_THAT(opened, IsOk()) << size;
    EXPECT_THAT(numbers(opened->records), ElementsAre(1)) << size;
    EXPECT_EQ(bytes(), one) << size;
  }
}

TEST_F(JournalFileTest, CutsOffBlocksThatTheFileSystemAddedWithoutWritingThem) {
  make(2);
  const std::string whole = bytes();
  write(whole + std::string(4096, '\0'));

  EXPECT_THAT(numbers(open().value().records), ElementsAre(1, 2));
  EXPECT_EQ(bytes(), whole);
}

TEST_F(JournalFileTest, RefusesDamageBeforeTheEnd) {
  make(2);
  const std::string whole = bytes();
  const std::size_t end_of_first = (8 + whole.size()) / 2;
  for (std::size_t at = 8; at < end_of_first; ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write(damaged);

    EXPECT_THAT(open(), IsError(ErrorCode::io_error, HasSubstr("damaged at byte 8"))) << at;
    EXPECT_EQ(bytes(), damaged) << at;
  }
}

TEST_F(JournalFileTest, RefusesAFileThatIsNoJournal) {
  write("once upon a time");

  EXPECT_THAT(open(), IsError(ErrorCode::io_error, HasSubstr("this is no journal")));
}

TEST_F(JournalFileTest, NamesAFileThatIsNotThere) {
  EXPECT_THAT(open(), IsError(ErrorCode::io_error, HasSubstr("run/log")));
}

TEST_F(JournalFileTest, PutsOtherRecordsInThePlaceOfThoseItHas) {
  make(3);

  auto file = JournalFile::create(path(), std::array{request(9, "new")}).value();
  ASSERT_THAT(file.append(std::array{request(10, "")}), IsOk());

  EXPECT_THAT(numbers(open().value().records), ElementsAre(9, 10));
}

TEST_F(JournalFileTest, KeepsSomeOfItsRecordsBehindOthers) {
  const auto before = make(4);
  const auto keep = [](const JournalRecord& record) { return record.number > 2; };

  auto file = before.rewrite(std::array{request(9, "new")}, keep).value();
  ASSERT_THAT(file.append(std::array{request(10, "")}), IsOk());

  EXPECT_THAT(numbers(open().value().records), ElementsAre(9, 3, 4, 10));
}

TEST_F(JournalFileTest, HasRecordsThatAreLongerThanWhatIsReadAtOnce) {
  const std::string body(std::size_t{3} << 20U, 'x');
  JournalFile::create(path(), std::array{request(1, body), request(2, "short")}).value();

  const auto records = open().value().records;

  ASSERT_THAT(numbers(records), ElementsAre(1, 2));
  EXPECT_EQ(records.at(0).content(), body);
}

TEST_F(JournalFileTest, MayBeEmpty) {
  make(0);

  EXPECT_THAT(open().value().records, IsEmpty());
}

TEST(JournalRecord, RefusesBytesThatAreNoRecord) {
  const std::string whole = request(1, "").encode();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(JournalRecord::decode(whole.substr(0, size)), IsError(ErrorCode::io_error, _))
        << size;
  }
  EXPECT_THAT(JournalRecord::decode("\x63" + whole.substr(1)), IsError(ErrorCode::io_error, _));
}

}  // namespace
}  // namespace tinker::server::journal_file_test
