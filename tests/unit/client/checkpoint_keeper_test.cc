#include "tinker/checkpoint_keeper.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/training_server.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::checkpoint_keeper_test {
namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::Pair;
using ::testing::SizeIs;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::IsOkAndHolds;
using namespace std::chrono_literals;

std::string path_of(const std::string& name, const std::string& run = "s-1:train:0") {
  return "tinker://" + run + "/weights/" + name;
}

std::vector<std::int64_t> steps_of(const std::vector<SavedCheckpoint>& checkpoints) {
  std::vector<std::int64_t> out;
  for (const auto& one : checkpoints) out.push_back(one.step.value());
  return out;
}

class CheckpointKeeperTest : public ::testing::Test {
 protected:
  CheckpointKeeperTest() = default;

  CheckpointKeeper make(CheckpointPolicy policy) {
    return CheckpointKeeper::create(service, std::move(policy)).value();
  }
  /// Saves after each of `steps`, with that metric.
  void save_all(const CheckpointKeeper& keeper,
                const std::vector<std::pair<std::int64_t, double>>& steps) {
    for (const auto& [step, loss] : steps) {
      ASSERT_THAT(keeper.save(trainer, step, {{"loss", loss}}).get(), IsOk());
      f.time.run_ready();
    }
  }

  TrainingServer f;
  ServiceClient service = f.connect();
  TrainingClient trainer = service.create_lora_training_client("llama").get().value();
};

TEST_F(CheckpointKeeperTest, RefusesAPolicyThatMakesNoSense) {
  const auto create = [&](CheckpointPolicy policy) {
    return CheckpointKeeper::create(service, std::move(policy));
  };
  EXPECT_THAT(create({.every_steps = 1}), IsError(ErrorCode::invalid_argument, HasSubstr("name")));
  EXPECT_THAT(create({.name = "a"}), IsError(ErrorCode::invalid_argument, HasSubstr("every")));
  EXPECT_THAT(create({.name = "a", .every_steps = 0}),
              IsError(ErrorCode::invalid_argument, HasSubstr("found 0")));
  EXPECT_THAT(create({.name = "a", .every = -1s}),
              IsError(ErrorCode::invalid_argument, HasSubstr("every")));
  EXPECT_THAT(create({.name = "a", .every_steps = 1, .keep_last = 0}),
              IsError(ErrorCode::invalid_argument, HasSubstr("keep_last")));
  EXPECT_THAT(create({.name = "a", .every_steps = 1, .keep_best = 2}),
              IsError(ErrorCode::invalid_argument, HasSubstr("metric")));
}

TEST_F(CheckpointKeeperTest, SavesWithStepAndMetricInTheMetadata) {
  const auto keeper = make({.name = "sft", .every_steps = 10, .metric = "loss", .ttl = 1h});

  EXPECT_THAT(
      keeper.save(trainer, 20, {{"loss", 0.25}, {"other", 7}}).get(),
      IsOkAndHolds(SavedCheckpoint{.path = path_of("sft-000020"), .step = 20, .metric = 0.25}));

  ASSERT_THAT(f.saved, SizeIs(1));
  EXPECT_EQ(f.saved[0].path, "sft-000020");
  EXPECT_EQ(f.saved[0].ttl_seconds, 3600);
  EXPECT_FALSE(f.saved[0].overwrite);
  EXPECT_THAT(f.saved[0].user_metadata,
              Optional(ElementsAre(Pair("tinker.keeper", "sft"),
                                   Pair("tinker.metric.loss", "0.25"),
                                   Pair("tinker.step", "20"))));
  EXPECT_THAT(f.event_names(), ElementsAre("checkpoint.save"));
  EXPECT_EQ(f.events[0].fields["path"], path_of("sft-000020"));
  EXPECT_EQ(f.events[0].fields["step"], "20");
}

TEST_F(CheckpointKeeperTest, IsDueByStepsSinceTheLastOne) {
  const auto keeper = make({.name = "sft", .every_steps = 10});
  EXPECT_TRUE(keeper.is_due(0)) << "there is none yet";

  save_all(keeper, {{3, 0}});

  EXPECT_FALSE(keeper.is_due(3));
  EXPECT_FALSE(keeper.is_due(12));
  EXPECT_TRUE(keeper.is_due(13));
  f.time.advance(24h);
  EXPECT_FALSE(keeper.is_due(12)) << "time does not count";
}

TEST_F(CheckpointKeeperTest, IsDueByTimeWhenThereWasAStep) {
  const auto keeper = make({.name = "sft", .every = 10min});
  save_all(keeper, {{3, 0}});

  f.time.advance(10min - 1ns);
  EXPECT_FALSE(keeper.is_due(4));
  f.time.advance(1ns);
  EXPECT_TRUE(keeper.is_due(4));
  EXPECT_FALSE(keeper.is_due(3)) << "nothing was learned since";
}

TEST_F(CheckpointKeeperTest, IsDueByWhicheverComesFirst) {
  const auto keeper = make({.name = "sft", .every_steps = 10, .every = 1h});
  save_all(keeper, {{0, 0}});

  EXPECT_TRUE(keeper.is_due(10));
  f.time.advance(1h);
  EXPECT_TRUE(keeper.is_due(1));
}

TEST_F(CheckpointKeeperTest, KeepsTheLastOnes) {
  const auto keeper = make({.name = "sft", .every_steps = 1, .keep_last = 2});

  save_all(keeper, {{1, 0}, {2, 0}, {3, 0}, {4, 0}});

  EXPECT_THAT(steps_of(keeper.checkpoints()), ElementsAre(3, 4));
  EXPECT_THAT(f.deleted, ElementsAre(path_of("sft-000001"), path_of("sft-000002")));
  EXPECT_THAT(f.event_names(), Contains("checkpoint.delete").Times(2));
}

TEST_F(CheckpointKeeperTest, KeepsTheBestOnesBesideTheLast) {
  const auto keeper =
      make({.name = "sft", .every_steps = 1, .keep_last = 1, .keep_best = 2, .metric = "loss"});

  save_all(keeper, {{1, 0.5}, {2, 0.1}, {3, 0.9}, {4, 0.3}, {5, 0.7}});

  EXPECT_THAT(steps_of(keeper.checkpoints()), ElementsAre(2, 4, 5));
  EXPECT_THAT(steps_of(keeper.ranked()), ElementsAre(2, 4, 5));
  EXPECT_THAT(keeper.latest(), Optional(Field(&SavedCheckpoint::step, 5)));
}

TEST_F(CheckpointKeeperTest, TheBestMayBeTheLargest) {
  const auto keeper = make({.name = "rl",
                            .every_steps = 1,
                            .keep_last = 1,
                            .keep_best = 1,
                            .metric = "loss",
                            .goal = MetricGoal::maximize});

  save_all(keeper, {{1, 0.5}, {2, 0.9}, {3, 0.9}, {4, 0.1}});

  EXPECT_THAT(steps_of(keeper.ranked()), ElementsAre(3, 4)) << "of equals the newer";
}

TEST_F(CheckpointKeeperTest, WithoutANumberItIsNeverTheBest) {
  const auto keeper =
      make({.name = "sft", .every_steps = 1, .keep_last = 1, .keep_best = 1, .metric = "loss"});

  save_all(keeper, {{1, 0.5}, {2, std::nan("")}});
  ASSERT_THAT(keeper.save(trainer, 3, {}).get(), IsOk());

  EXPECT_THAT(steps_of(keeper.checkpoints()), ElementsAre(1, 3));
  EXPECT_EQ(keeper.latest()->metric, std::nullopt);
  EXPECT_FALSE(f.saved[1].user_metadata->contains("tinker.metric.loss"));
}

TEST_F(CheckpointKeeperTest, AFailedDeleteIsLoggedAndTriedAgainAtTheNextRound) {
  const auto keeper = make({.name = "sft", .every_steps = 1, .keep_last = 1});
  f.deletes = {{.status = 403, .body = "no"}, {.status = 403, .body = "no"}};

  save_all(keeper, {{1, 0}, {2, 0}});
  EXPECT_THAT(f.log.lines("sft-000001 could not be deleted"), SizeIs(1));
  save_all(keeper, {{3, 0}});
  EXPECT_THAT(keeper.prune().get(), IsOk());

  const auto first = path_of("sft-000001");
  const auto second = path_of("sft-000002");
  EXPECT_THAT(f.deleted, ElementsAre(first, first, second, first));
  EXPECT_THAT(f.checkpoints, SizeIs(1));
  EXPECT_THAT(steps_of(keeper.checkpoints()), ElementsAre(3));
}

TEST_F(CheckpointKeeperTest, ADeleteThatHangsHoldsNothingUpAndIsGivenUp) {
  const auto keeper = make({.name = "sft", .every_steps = 1, .keep_last = 1});
  f.deletes = {{.never = true}};

  save_all(keeper, {{1, 0}, {2, 0}});
  EXPECT_LT(f.time.elapsed(), 1s);
  EXPECT_THAT(keeper.prune().get(), IsOk());

  EXPECT_EQ(f.time.elapsed(), 60s);
  EXPECT_THAT(f.log.lines("could not be deleted"), SizeIs(1));
  EXPECT_THAT(f.deleted, SizeIs(2));
}

TEST_F(CheckpointKeeperTest, WhatIsGoneAlreadyIsDeleted) {
  const auto keeper = make({.name = "sft", .every_steps = 1, .keep_last = 1});
  f.deletes = {{.status = 404, .body = "gone"}};

  save_all(keeper, {{1, 0}, {2, 0}});
  EXPECT_THAT(keeper.prune().get(), IsOk());

  EXPECT_THAT(f.deleted, SizeIs(1));
  EXPECT_THAT(f.log.lines("could not be deleted"), IsEmpty());
}

TEST_F(CheckpointKeeperTest, AFailedSaveIsToldAndLosesNothing) {
  const auto keeper = make({.name = "sft", .every_steps = 1, .keep_last = 1});
  save_all(keeper, {{1, 0}});
  f.saves = {{.status = 422, .body = "too small"}};

  EXPECT_THAT(keeper.save(trainer, 2, {}).get(),
              IsError(ErrorCode::unprocessable, HasSubstr("too small")));

  EXPECT_THAT(steps_of(keeper.checkpoints()), ElementsAre(1));
  EXPECT_THAT(f.deleted, IsEmpty());
  EXPECT_TRUE(keeper.is_due(2)) << "it is still owed";
  EXPECT_EQ(f.events.back().name, "checkpoint.save");
  EXPECT_EQ(f.events.back().error, ErrorCode::unprocessable);
  EXPECT_THAT(f.log.lines("save a checkpoint after step 2"), SizeIs(1));
}

TEST_F(CheckpointKeeperTest, ASavedStepIsNotSavedAgain) {
  const auto keeper = make({.name = "sft", .every_steps = 1});
  const auto first = keeper.save(trainer, 5, {}).get().value();

  EXPECT_THAT(keeper.save(trainer, 5, {}).get(), IsOkAndHolds(first));
  EXPECT_THAT(keeper.save_final(trainer, 5, {}).get(), IsOkAndHolds(first));

  EXPECT_THAT(f.saved, SizeIs(1));
}

TEST_F(CheckpointKeeperTest, TheFinalOneStays) {
  const auto keeper = make({.name = "sft", .every_steps = 1, .ttl = 2h});
  ASSERT_THAT(keeper.save_final(trainer, 5, {}).get(), IsOk());
  EXPECT_EQ(f.saved[0].ttl_seconds, std::nullopt);

  ASSERT_THAT(keeper.save(trainer, 6, {}).get(), IsOk());
  f.server->reply("/ttl", {{.body = "{}"}});
  ASSERT_THAT(keeper.save_final(trainer, 6, {}).get(), IsOk());

  EXPECT_EQ(f.saved[1].ttl_seconds, 7200);
  EXPECT_THAT(f.bodies("sft-000006/ttl"), ElementsAre(R"({"ttl_seconds":null})"));
}

TEST_F(CheckpointKeeperTest, SavesInTheOrderOfTheCalls) {
  const auto keeper = make({.name = "sft", .every_steps = 1});

  auto before = trainer.optim_step(AdamParams());
  auto save = keeper.save(trainer, 1, {});
  auto after = trainer.optim_step(AdamParams());
  EXPECT_THAT(after.get(), IsOk());
  EXPECT_THAT(save.get(), IsOk());

  EXPECT_THAT(f.paths(), ElementsAre("create_model", "optim_step", "save_weights", "optim_step"));
}

TEST_F(CheckpointKeeperTest, FindsWhatAnEarlierProcessSaved) {
  f.add_checkpoint(
      "old:train:0",
      "sft-000010",
      {{"tinker.keeper", "sft"}, {"tinker.step", "10"}, {"tinker.metric.loss", "0.5"}});
  f.add_checkpoint(
      "old:train:0", "sft-000030", {{"tinker.keeper", "other"}, {"tinker.step", "30"}});
  f.add_checkpoint("old:train:0", "sft-000040", {});
  f.add_checkpoint("old:train:0", "sft-x", {{"tinker.keeper", "sft"}, {"tinker.step", "x"}});
  f.add_checkpoint("old:train:1", "sft-000020", {{"tinker.keeper", "sft"}, {"tinker.step", "20"}});
  const auto keeper = make({.name = "sft", .every_steps = 5, .keep_last = 1, .metric = "loss"});

  const auto found = keeper.load().get();

  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(
      *found,
      ElementsAre(
          SavedCheckpoint{.path = path_of("sft-000010", "old:train:0"), .step = 10, .metric = 0.5},
          SavedCheckpoint{.path = path_of("sft-000020", "old:train:1"), .step = 20}));
  EXPECT_THAT(keeper.load().get(), IsOkAndHolds(SizeIs(2))) << "once each";
}

TEST_F(CheckpointKeeperTest, DeletesOnlyItsOwn) {
  f.add_checkpoint("old:train:0", "sft-000010", {{"tinker.keeper", "sft"}, {"tinker.step", "10"}});
  f.add_checkpoint("old:train:0", "sft-000011", {});
  f.add_checkpoint("old:train:0", "sft-000012", {{"tinker.keeper", "rl"}, {"tinker.step", "12"}});
  const auto keeper = make({.name = "sft", .every_steps = 5, .keep_last = 1});
  ASSERT_THAT(keeper.load().get(), IsOk());

  save_all(keeper, {{20, 0}, {30, 0}});

  EXPECT_THAT(f.deleted, ElementsAre(path_of("sft-000010", "old:train:0"), path_of("sft-000020")));
}

TEST_F(CheckpointKeeperTest, ReadsAllPagesOfTheList) {
  int page = 0;
  f.server->handle("/api/v1/checkpoints", [&page](const http::Request&) {
    const std::string number = std::to_string(++page);
    return testing::FakeReply{
        .body = R"({"checkpoints":[{"checkpoint_id":"weights/a","checkpoint_type":"training",)"
                R"("time":"2026-03-01T10:00:00Z","tinker_path":"tinker://o:train:0/weights/)" +
                number + R"(","user_metadata":{"tinker.keeper":"sft","tinker.step":")" + number +
                R"("}}],"cursor":{"offset":0,"limit":1,"total_count":3}})"};
  });
  const auto keeper = make({.name = "sft", .every_steps = 5});

  EXPECT_THAT(keeper.load().get(), IsOkAndHolds(SizeIs(3)));
  EXPECT_THAT(f.server->sent("/api/v1/checkpoints").back().request.url, HasSubstr("offset=2"));
}

TEST_F(CheckpointKeeperTest, WhatIsRestoredIsTheNewest) {
  const auto keeper = make({.name = "sft", .every_steps = 10, .keep_last = 2});
  save_all(keeper, {{10, 0}, {20, 0}});

  keeper.restored(path_of("sft-000010"));

  EXPECT_THAT(steps_of(keeper.checkpoints()), ElementsAre(20, 10));
  EXPECT_FALSE(keeper.is_due(19)) << "counts from there";
  EXPECT_TRUE(keeper.is_due(20));
  save_all(keeper, {{21, 0}});
  EXPECT_THAT(steps_of(keeper.checkpoints()), ElementsAre(10, 21));
}

TEST_F(CheckpointKeeperTest, OneThatGoesAwayHoldsNothingUp) {
  auto keeper = std::optional(make({.name = "sft", .every_steps = 1}));
  f.saves = {{.body = R"({"request_id":"r-77"})", .delay = 5s}};
  f.answers["r-77"] = {.body = R"({"path":"tinker://s-1:train:0/weights/sft-000001"})"};
  auto save = keeper->save(trainer, 1, {});
  auto load = keeper->load();

  keeper.reset();

  EXPECT_THAT(save.get(), IsOk());
  EXPECT_THAT(load.get(), IsError(ErrorCode::cancelled, _));
}

}  // namespace
}  // namespace tinker::client::checkpoint_keeper_test
