#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/store_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::store_checkpoints_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::SizeIs;

using StoreCheckpoints = testing::StoreTest;

const TinkerPath kPath = {.training_run_id = "r", .name = "a"};

auto named(const std::string& name) {
  return Field(&CheckpointRecord::name, name);
}

// ---- Names and times

TEST(StoreCheckName, AllowsLettersDigitsAndThreeSigns) {
  for (const std::string name : {"a", "step-10", "A_b.C", "...", "0", "-"}) {
    EXPECT_THAT(Store::check_name(name), IsOk()) << name;
  }
  EXPECT_THAT(Store::check_name(std::string(255, 'x')), IsOk());
}

// PROTOCOL 9.14: the client sends any name.
TEST(StoreCheckName, RefusesWhatCouldLeaveAFolderOrAnAddress) {
  for (const std::string name : {"", ".", "..", "x/y", "a b%c?", "../a", "a\\b", "ñ", "a\n"}) {
    EXPECT_THAT(Store::check_name(name),
                IsError(ErrorCode::invalid_argument, HasSubstr("'" + name + "'")));
  }
  EXPECT_THAT(Store::check_name(std::string("a\0b", 3)),
              IsError(ErrorCode::invalid_argument, HasSubstr("expected a name")));
}

TEST(StoreCheckName, DoesNotRepeatALongName) {
  EXPECT_THAT(Store::check_name(std::string(256, 'x')),
              IsError(ErrorCode::invalid_argument, HasSubstr("found 256 bytes")));
}

TEST(StoreCheckTtl, AllowsAnHourToTenYears) {
  EXPECT_THAT(Store::check_ttl(3600), IsOk());
  EXPECT_THAT(Store::check_ttl(std::int64_t{10} * 365 * 86400), IsOk());
  for (const std::int64_t seconds : {std::int64_t{3599}, std::int64_t{0}, std::int64_t{-3600}}) {
    EXPECT_THAT(Store::check_ttl(seconds),
                IsError(ErrorCode::invalid_argument, HasSubstr(std::to_string(seconds))));
  }
  EXPECT_FALSE(Store::check_ttl(std::int64_t{11} * 365 * 86400).ok());
}

// ---- New ones

TEST_F(StoreCheckpoints, KeepAllThatIsKnown) {
  CheckpointRecord record = {.run_id = "s:train:0",
                             .kind = CheckpointType::external,
                             .name = "step-10",
                             .owner = "ada",
                             .base_model = "m",
                             .lora = {.rank = 7, .seed = 5, .train_mlp = false},
                             .optimizer = DimuonOptimizerConfig(),
                             .has_optimizer_state = true,
                             .is_public = true,
                             .user_metadata = {{{"k", "it's"}}},
                             .expires_at = now() + 1h};
  const auto place = fill(123);
  const auto stored = store_->commit_checkpoint(record, place, false).value();
  reopen();

  record.created_at = now();
  record.size_bytes = 123;
  record.folder = place.name;
  EXPECT_EQ(stored, record);
  EXPECT_THAT(store_->find_checkpoint(record.path()), IsOkAndHolds(record));
  EXPECT_EQ(store_->folder_of(stored), place.folder);
  EXPECT_TRUE(fs::exists(place.folder / "weights"));
}

TEST_F(StoreCheckpoints, KeepWhatIsAbsentAbsent) {
  save("a");
  const auto found = store_->find_checkpoint(kPath).value().value();

  EXPECT_EQ(found.user_metadata, std::nullopt);
  EXPECT_EQ(found.expires_at, std::nullopt);
}

TEST_F(StoreCheckpoints, AreUnknownUntilTheyAreCommitted) {
  const auto place = fill();
  EXPECT_THAT(store_->find_checkpoint(kPath), IsOkAndHolds(std::nullopt));

  store_->abandon_checkpoint(place);
  EXPECT_THAT(folders(), IsEmpty());
}

TEST_F(StoreCheckpoints, BeginInFoldersOfTheirOwn) {
  const auto first = store_->begin_checkpoint().value();
  const auto second = store_->begin_checkpoint().value();

  EXPECT_NE(first.name, second.name);
  EXPECT_EQ(first.folder.parent_path(), store_->folder() / "checkpoints");
  EXPECT_FALSE(fs::exists(first.folder));
}

TEST_F(StoreCheckpoints, OfOneNameMayHaveDifferentKindsAndRuns) {
  save("a", CheckpointType::training);
  save("a", CheckpointType::sampler);
  save("a", CheckpointType::external);
  put({.run_id = "q", .name = "a"});

  EXPECT_THAT(store_->checkpoints_of_run("r"), IsOkAndHolds(SizeIs(3)));
}

TEST_F(StoreCheckpoints, KeepTheirNamesUnlessTheyAreOverwritten) {
  const auto first = save("a");

  EXPECT_THAT(store_->commit_checkpoint({.run_id = "r", .name = "a"}, fill(), false),
              IsError(ErrorCode::conflict, HasSubstr("tinker://r/weights/a")));
  EXPECT_THAT(store_->find_checkpoint(kPath), IsOkAndHolds(first));
  EXPECT_THAT(folders(), ElementsAre(first.folder));
}

// PROTOCOL 9.14
TEST_F(StoreCheckpoints, AreOverwrittenAsAWhole) {
  put({.run_id = "r",
       .name = "a",
       .owner = "ada",
       .is_public = true,
       .user_metadata = {{{"k", "v"}}},
       .expires_at = now() + 1h});
  const auto second = put({.run_id = "r", .name = "a", .owner = "ada"}, true);

  const auto found = store_->find_checkpoint(kPath).value().value();

  EXPECT_EQ(found, second);
  EXPECT_EQ(found.user_metadata, std::nullopt);
  EXPECT_EQ(found.expires_at, std::nullopt);
  EXPECT_FALSE(found.is_public);
  EXPECT_THAT(folders(), ElementsAre(second.folder));
}

TEST_F(StoreCheckpoints, AreNotTakenWithABadName) {
  EXPECT_THAT(store_->commit_checkpoint({.run_id = "r", .name = "../a"}, fill(), false),
              IsError(ErrorCode::invalid_argument, HasSubstr("'../a'")));
  EXPECT_THAT(folders(), IsEmpty());
}

TEST_F(StoreCheckpoints, AreNotTakenWithoutTheirFolder) {
  const auto first = save("a");
  const auto place = store_->begin_checkpoint().value();

  EXPECT_THAT(store_->commit_checkpoint({.run_id = "r", .name = "a"}, place, true),
              IsError(ErrorCode::io_error, HasSubstr(place.folder.string())));
  EXPECT_THAT(store_->find_checkpoint(kPath), IsOkAndHolds(first));
  EXPECT_THAT(folders(), ElementsAre(first.folder));
}

TEST_F(StoreCheckpoints, AreNotTakenWithMetadataThatJsonCannotCarry) {
  const CheckpointRecord record = {.run_id = "r", .name = "a", .user_metadata = {{{"k", "\xff"}}}};

  EXPECT_FALSE(store_->commit_checkpoint(record, fill(), true).ok());
  EXPECT_THAT(folders(), IsEmpty());
}

TEST_F(StoreCheckpoints, SurviveATryToOverwriteThemThatFails) {
  const auto first = save("a");
  const CheckpointRecord record = {.run_id = "r", .name = "a", .user_metadata = {{{"k", "\xff"}}}};

  EXPECT_FALSE(store_->commit_checkpoint(record, fill(), true).ok());
  EXPECT_THAT(store_->find_checkpoint(kPath), IsOkAndHolds(first));
  EXPECT_THAT(folders(), ElementsAre(first.folder));
}

// ---- What there is

TEST_F(StoreCheckpoints, OfARunAreListedOldestFirst) {
  for (const auto* name : {"b", "a", "c"}) save(name);
  put({.run_id = "q", .name = "d"});

  EXPECT_THAT(store_->checkpoints_of_run("r"),
              IsOkAndHolds(ElementsAre(named("b"), named("a"), named("c"))));
}

// PROTOCOL 9.30
TEST_F(StoreCheckpoints, OfAnOwnerAreListedNewestFirst) {
  for (const auto* name : {"b", "a", "c"}) save(name);
  put({.run_id = "q", .name = "d", .owner = "bob"});

  const auto page = store_->list_checkpoints("ada", {.limit = 2}).value();
  const auto rest = store_->list_checkpoints("ada", {.limit = 2, .offset = 2}).value();

  EXPECT_THAT(page.items, ElementsAre(named("c"), named("a")));
  EXPECT_EQ(page.total, 3);
  EXPECT_THAT(rest.items, ElementsAre(named("b")));
}

TEST_F(StoreCheckpoints, AreCountedBySessionAndProject) {
  store_->add_run({.run_id = "r", .session_id = "s", .owner = "ada", .project_id = "p"}).value();
  save("a");
  save("b");
  put({.run_id = "imported", .name = "c", .owner = "ada"});

  EXPECT_THAT(store_->storage_of_session("s"), IsOkAndHolds(Storage{.count = 2, .bytes = 20}));
  EXPECT_THAT(store_->storage_of_session("t"), IsOkAndHolds(Storage()));
  EXPECT_THAT(store_->storage_by_project("ada"),
              IsOkAndHolds(ElementsAre(ProjectStorage{"", {.count = 1, .bytes = 10}},
                                       ProjectStorage{"p", {.count = 2, .bytes = 20}})));
  EXPECT_THAT(store_->storage_by_project("bob"), IsOkAndHolds(IsEmpty()));
}

// ---- Changes

TEST_F(StoreCheckpoints, ArePublishedAndHidden) {
  save("a");
  ASSERT_THAT(store_->set_public(kPath, true), IsOk());
  EXPECT_TRUE(store_->find_checkpoint(kPath).value()->is_public);

  ASSERT_THAT(store_->set_public(kPath, false), IsOk());
  EXPECT_FALSE(store_->find_checkpoint(kPath).value()->is_public);
}

// PROTOCOL 9.29
TEST_F(StoreCheckpoints, GetAndLoseAnExpiry) {
  save("a");
  ASSERT_THAT(store_->set_expiry(kPath, now() + 2h), IsOk());
  EXPECT_EQ(store_->find_checkpoint(kPath).value()->expires_at, now() + 2h);

  ASSERT_THAT(store_->set_expiry(kPath, std::nullopt), IsOk());
  clock_.advance(3h);
  EXPECT_EQ(store_->find_checkpoint(kPath).value()->expires_at, std::nullopt);
}

TEST_F(StoreCheckpoints, KeepTheirFoldersWhileSomebodyHasTheRecord) {
  const auto replaced = save("a").folder;
  auto first = store_->find_checkpoint(kPath).value();
  put({.run_id = "r", .name = "a", .owner = "ada"}, true);
  const auto deleted = store_->find_checkpoint(kPath).value()->folder;
  auto second = store_->find_checkpoint(kPath).value();
  ASSERT_THAT(store_->delete_checkpoint(kPath), IsOk());

  store_->sweep().value();
  EXPECT_THAT(folders(), ::testing::UnorderedElementsAre(replaced, deleted));
  first.reset();
  store_->sweep().value();
  EXPECT_THAT(folders(), ElementsAre(deleted));
  second.reset();
  store_->sweep().value();
  EXPECT_THAT(folders(), IsEmpty());
}

TEST_F(StoreCheckpoints, AreDeletedWithTheirFolders) {
  const auto first = save("a");
  const auto second = save("b");
  ASSERT_THAT(store_->delete_checkpoint(kPath), IsOk());

  EXPECT_THAT(store_->find_checkpoint(kPath), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(folders(), ElementsAre(second.folder));
}

TEST_F(StoreCheckpoints, CannotChangeBeforeTheyAreThere) {
  const auto is_missing = IsError(ErrorCode::not_found, HasSubstr("'tinker://r/weights/a'"));

  EXPECT_THAT(store_->set_public(kPath, true), is_missing);
  EXPECT_THAT(store_->set_expiry(kPath, now() + 2h), is_missing);
  EXPECT_THAT(store_->delete_checkpoint(kPath), is_missing);
  EXPECT_THAT(store_->copy_checkpoint({.run_id = "r", .name = "a"}, {.run_id = "q"}, {}),
              is_missing);
}

}  // namespace
}  // namespace tinker::server::store_checkpoints_test
