#include <chrono>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>

#include "support/store_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::store_copies_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsError;
using testing::IsOkAndHolds;
using ::testing::SizeIs;

using StoreCopies = testing::StoreTest;

const TinkerPath kPath = {.training_run_id = "r", .name = "a"};

// ---- Copies (PROTOCOL 9.43)

TEST_F(StoreCopies, ShareTheirBytes) {
  const auto source = put({.run_id = "r",
                           .kind = CheckpointType::sampler,
                           .name = "a",
                           .owner = "ada",
                           .base_model = "m",
                           .is_public = true,
                           .user_metadata = {{{"k", "v"}}},
                           .expires_at = now() + 1h});
  clock_.advance(1min);
  const RunRecord run = {.run_id = "q", .owner = "bob", .project_id = "p", .base_model = "m"};
  const auto copy = store_->copy_checkpoint(source, run, std::nullopt).value();

  auto expected = source;
  expected.run_id = "q";
  expected.owner = "bob";
  expected.created_at = now();
  expected.is_public = false;
  expected.expires_at = std::nullopt;
  EXPECT_EQ(copy, expected);
  EXPECT_THAT(store_->find_checkpoint(copy.path()), IsOkAndHolds(expected));
  EXPECT_THAT(store_->find_run("q"), IsOkAndHolds(run));
  EXPECT_THAT(folders(), ElementsAre(source.folder));
}

TEST_F(StoreCopies, KeepTheFolderUntilTheLastIsGone) {
  const auto source = save("a");
  const auto copy = store_->copy_checkpoint(source, {.run_id = "q"}, {}).value();

  store_->delete_checkpoint(kPath).value();
  EXPECT_THAT(folders(), ElementsAre(source.folder));
  EXPECT_TRUE(fs::exists(store_->folder_of(copy) / "weights"));

  store_->delete_checkpoint(copy.path()).value();
  EXPECT_THAT(folders(), IsEmpty());
}

TEST_F(StoreCopies, StayWhenTheSourceIsOverwritten) {
  const auto source = save("a");
  store_->copy_checkpoint(source, {.run_id = "q"}, {}).value();
  put({.run_id = "r", .name = "a"}, true);

  EXPECT_THAT(folders(), SizeIs(2));
  EXPECT_TRUE(fs::exists(store_->folder_of(source)));
}

TEST_F(StoreCopies, AreOfTheSourceThatWasSeenOrOfNone) {
  const auto seen = save("a");
  put({.run_id = "r", .name = "a"}, true);

  EXPECT_THAT(store_->copy_checkpoint(seen, {.run_id = "q"}, {}),
              IsError(ErrorCode::not_found, HasSubstr("tinker://r/weights/a")));
}

TEST_F(StoreCopies, BelongToANewRunOrAreNotMade) {
  const auto source = save("a");
  store_->add_run({.run_id = "q"}).value();

  EXPECT_THAT(store_->copy_checkpoint(source, {.run_id = "q"}, {}),
              IsError(ErrorCode::conflict, HasSubstr("run_id")));
  EXPECT_THAT(store_->checkpoints_of_run("q"), IsOkAndHolds(IsEmpty()));
}

// ---- Expiry

class StoreExpiry : public testing::StoreTest {
 protected:
  StoreExpiry() {
    store_->add_run({.run_id = "r", .session_id = "s", .owner = "ada"}).value();
    expiring_ = put({.run_id = "r", .name = "a", .owner = "ada", .expires_at = now() + 1h});
    lasting_ = save("b");
  }

  CheckpointRecord expiring_;
  CheckpointRecord lasting_;
};

TEST_F(StoreExpiry, HasNoEffectBeforeItsTime) {
  clock_.advance(1h - 1us);

  EXPECT_THAT(store_->find_checkpoint(kPath), IsOkAndHolds(expiring_));
  EXPECT_THAT(store_->sweep(), IsOkAndHolds(IsEmpty()));
}

TEST_F(StoreExpiry, HidesACheckpointEverywhereAtOnce) {
  clock_.advance(1h);

  EXPECT_THAT(store_->find_checkpoint(kPath), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(store_->checkpoints_of_run("r"), IsOkAndHolds(ElementsAre(lasting_)));
  EXPECT_THAT(store_->list_checkpoints("ada", {}).value().items, ElementsAre(lasting_));
  EXPECT_EQ(store_->list_checkpoints("ada", {}).value().total, 1);
  EXPECT_EQ(store_->storage_of_session("s").value().count, 1);
  EXPECT_EQ(store_->storage_by_project("ada").value()[0].storage.count, 1);
}

TEST_F(StoreExpiry, EndsAllChanges) {
  clock_.advance(1h);
  const auto is_missing = IsError(ErrorCode::not_found, HasSubstr("'tinker://r/weights/a'"));

  EXPECT_THAT(store_->set_public(kPath, true), is_missing);
  EXPECT_THAT(store_->set_expiry(kPath, std::nullopt), is_missing);
  EXPECT_THAT(store_->delete_checkpoint(kPath), is_missing);
  EXPECT_THAT(store_->copy_checkpoint(expiring_, {.run_id = "q"}, {}), is_missing);
}

TEST_F(StoreExpiry, FreesTheName) {
  clock_.advance(1h);
  const auto second = save("a");

  EXPECT_THAT(store_->find_checkpoint(kPath), IsOkAndHolds(second));
  EXPECT_THAT(folders(), ::testing::UnorderedElementsAre(lasting_.folder, second.folder));
}

TEST_F(StoreExpiry, IsCarriedOutBySweeping) {
  clock_.advance(1h);

  EXPECT_THAT(store_->sweep(), IsOkAndHolds(ElementsAre(kPath)));
  EXPECT_THAT(folders(), ElementsAre(lasting_.folder));
  EXPECT_THAT(store_->sweep(), IsOkAndHolds(IsEmpty()));
}

TEST_F(StoreExpiry, OfACopySparesTheSource) {
  store_->copy_checkpoint(lasting_, {.run_id = "q"}, now() + 1h).value();
  clock_.advance(1h);
  store_->sweep().value();

  EXPECT_THAT(store_->checkpoints_of_run("q"), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(folders(), ElementsAre(lasting_.folder));
}

TEST_F(StoreExpiry, WaitsForTheSweepAcrossARestart) {
  clock_.advance(1h);
  reopen();

  EXPECT_THAT(store_->find_checkpoint(kPath), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(store_->sweep(), IsOkAndHolds(ElementsAre(kPath)));
}

}  // namespace
}  // namespace tinker::server::store_copies_test
