#include "client/partial_folder.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::partial_folder_test {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::TemporaryFolder;

struct Fixture {
  TemporaryFolder folder;
  [[nodiscard]] std::string target() const { return folder.path("copy"); }
  [[nodiscard]] std::shared_ptr<PartialFolder> open() const {
    return PartialFolder::open(target(), "tinker://a").value();
  }
};

TEST(PartialFolder, RemembersPartsOfAnObject) {
  const Fixture f;
  {
    const auto object = f.open()->open_object("a b").value();
    EXPECT_FALSE(object.parts.has_value());
    EXPECT_THAT(object.file->write(4, "5678"), IsOk());
    EXPECT_THAT(object.file->begin(PartState::of(10, 4, "\"v1\"")), IsOk());
    EXPECT_THAT(object.file->finish_part(1), IsOk());
  }

  const auto object = f.open()->open_object("a b").value();

  ASSERT_TRUE(object.parts.has_value());
  EXPECT_EQ(object.parts->size, 10U);
  EXPECT_EQ(object.parts->etag, "\"v1\"");
  EXPECT_THAT(object.parts->done, ElementsAre(false, true, false));
  EXPECT_EQ(object.parts->bytes_done(), 4U);
  EXPECT_EQ(object.parts->bytes_of(2), 2U);
}

TEST(PartialFolder, WhatIsForgottenTakesNoMore) {
  const Fixture f;
  const auto folder = f.open();
  const auto old = folder->open_object("a").value();
  EXPECT_THAT(old.file->begin(PartState::of(8, 4, "\"v1\"")), IsOk());
  EXPECT_THAT(old.file->forget(), IsOk());
  const auto fresh = folder->open_object("a").value();
  EXPECT_THAT(fresh.file->write(0, "new!"), IsOk());

  // What a worker had in its queue.
  EXPECT_THAT(old.file->write(0, "old!"), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(old.file->finish_part(0), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(old.file->begin(PartState::of(8, 4, "\"v1\"")), IsError(ErrorCode::cancelled, _));

  EXPECT_EQ(f.folder.read("copy.partial/objects/a"), "new!");
  EXPECT_THAT(f.folder.read("copy.partial/journal"), ::testing::Not(HasSubstr("part 0")));
}

TEST(PartialFolder, LinesOfAJournalThatMakeNoSenseArePassedOver) {
  const Fixture f;
  {
    ASSERT_THAT(f.open()->open_object("a"), IsOk());
  }
  f.folder.write("copy.partial/journal",
                 "tinker download 1 tinker://a\nobject 0 4 \"v\" a\nobject 8 0 \"v\" a\nobject x\n"
                 "part 7 a\npart\nobject 99999999999999999 1 \"v\" a\nwhat\n\n");

  const auto object = f.open()->open_object("a").value();

  EXPECT_FALSE(object.parts.has_value());
}

TEST(PartialFolder, AFileOfAnotherSizeDoesNotCount) {
  const Fixture f;
  {
    const auto object = f.open()->open_object("a").value();
    EXPECT_THAT(object.file->begin(PartState::of(8, 4, "\"v1\"")), IsOk());
    EXPECT_THAT(object.file->finish_part(0), IsOk());
  }
  std::filesystem::resize_file(f.folder.path("copy.partial/objects/a"), 7);

  EXPECT_FALSE(f.open()->open_object("a").value().parts.has_value());
}

TEST(PartialFolder, RefusesWhatDoesNotFitOntoTheDisk) {
  const Fixture f;
  const auto object = f.open()->open_object("a").value();

  EXPECT_THAT(
      object.file->begin(PartState::of(std::uint64_t{1} << 60U, std::uint64_t{1} << 40U, "")),
      IsError(ErrorCode::io_error, HasSubstr("are free")));
}

TEST(PartialFolder, CutsWhatIsTooLongAndRefusesWhatIsTooShort) {
  const Fixture f;
  const auto object = f.open()->open_object("a").value();
  EXPECT_THAT(object.file->write(0, "12345678"), IsOk());

  EXPECT_THAT(object.file->finish(9),
              IsError(ErrorCode::io_error, HasSubstr("8 bytes, expected 9")));
  EXPECT_THAT(object.file->finish(4), IsOk());
  EXPECT_EQ(f.folder.read("copy.partial/objects/a"), "1234");
}

TEST(PartialFolder, OnlyOneHoldsIt) {
  const Fixture f;
  const auto first = f.open();

  const auto second = PartialFolder::open(f.target(), "tinker://a");

  ASSERT_THAT(second, IsError(ErrorCode::io_error, HasSubstr("another download")));
  EXPECT_TRUE(second.error().retry.retryable);
}

TEST(PartialFolder, ReplacesAFileAsWellAsAFolder) {
  const Fixture f;
  f.folder.write("copy", "old");
  const auto folder = f.open();
  EXPECT_THAT(folder->open_object("a").value().file->write(0, "new"), IsOk());

  EXPECT_THAT(folder->publish(folder->objects(), false), IsError(ErrorCode::io_error, _));
  EXPECT_EQ(f.folder.read("copy"), "old");
  EXPECT_THAT(folder->publish(folder->objects(), true), IsOk());

  EXPECT_EQ(f.folder.read("copy/a"), "new");
  EXPECT_FALSE(std::filesystem::exists(f.target() + ".partial"));
}

}  // namespace
}  // namespace tinker::client::partial_folder_test
