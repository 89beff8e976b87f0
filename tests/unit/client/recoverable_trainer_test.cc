#include "tinker/recoverable_trainer.h"

#include <atomic>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/training_server.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::recoverable_trainer_test {
namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

const FakeReply kAccept = {};
const FakeReply kGone = {.status = 404, .body = "no such model"};

class RecoverableTrainerTest : public ::testing::Test {
 protected:
  RecoverableTrainerTest() = default;

  RecoverableTrainer open(TrainerOptions options) {
    auto opening = RecoverableTrainer::open(monitor, keeper, make, std::move(options));
    return opening.get().value();
  }
  RecoverableTrainer open() { return open(TrainerOptions()); }

  static std::string path(int step, const std::string& run = "s-1:train:0") {
    return "tinker://" + run + "/weights/sft-00000" + std::to_string(step);
  }

  TrainingServer f;
  ServiceClient service = f.connect();
  CheckpointKeeper keeper =
      CheckpointKeeper::create(service, {.name = "sft", .every_steps = 2, .keep_last = 9}).value();
  RecoveryMonitor monitor = RecoveryMonitor::start(service).value();
  RecoverableTrainer::MakeClient make = [this] {
    return service.create_lora_training_client("llama");
  };
  std::vector<std::pair<std::string, std::int64_t>> calls;
  /// One request for each step; its loss is the number of the step.
  RecoverableTrainer::StepFunction one_step = [this](const TrainingClient& client,
                                                     std::int64_t step) {
    calls.emplace_back(client.model_id().substr(4), step);
    return client.optim_step(AdamParams()).then([step](const Result<OptimStepResponse>& done) {
      return done.ok() ? Result<StepMetrics>(StepMetrics{{"loss", static_cast<double>(step)}})
                       : done.error();
    });
  };
};

TEST_F(RecoverableTrainerTest, MakesEachStepOnceAndSavesOnSchedule) {
  const auto trainer = open();

  const auto outcome = trainer.run(5, one_step).get();

  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->steps, 5);
  EXPECT_EQ(outcome->recoveries, 0);
  EXPECT_THAT(outcome->metrics, ElementsAre(Pair("loss", 4)));
  EXPECT_EQ(outcome->checkpoint.path, path(5));
  EXPECT_THAT(calls,
              ElementsAre(Pair("train:0", 0),
                          Pair("train:0", 1),
                          Pair("train:0", 2),
                          Pair("train:0", 3),
                          Pair("train:0", 4)));
  EXPECT_THAT(f.names_saved(), ElementsAre("sft-000000", "sft-000002", "sft-000004", "sft-000005"));
  EXPECT_THAT(f.paths(),
              ElementsAre("checkpoints",
                          "create_model",
                          "save_weights",
                          "optim_step",
                          "optim_step",
                          "save_weights",
                          "optim_step",
                          "optim_step",
                          "save_weights",
                          "optim_step",
                          "save_weights"));
}

TEST_F(RecoverableTrainerTest, AFailedStepGoesBackToTheLastCheckpoint) {
  const auto trainer = open();
  f.steps = {kAccept, kAccept, kAccept, kGone};

  const auto outcome = trainer.run(5, one_step).get();

  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->recoveries, 1);
  EXPECT_THAT(f.paths_loaded(), ElementsAre(path(2)));
  EXPECT_TRUE(f.loaded[0].optimizer);
  EXPECT_THAT(calls,
              ElementsAre(Pair("train:0", 0),
                          Pair("train:0", 1),
                          Pair("train:0", 2),
                          Pair("train:0", 3),
                          Pair("train:1", 2),
                          Pair("train:1", 3),
                          Pair("train:1", 4)));
  EXPECT_EQ(outcome->checkpoint.path, path(5, "s-1:train:1"));
  EXPECT_EQ(trainer.client().model_id(), "s-1:train:1");
  EXPECT_EQ(trainer.step(), 5);
  EXPECT_EQ(monitor.phase("s-1:train:1"), RunPhase::watched);
}

TEST_F(RecoverableTrainerTest, AResultThatFailsOnTheServerGoesBack) {
  const auto trainer = open();
  f.steps = {{.body = R"({"request_id":"r-90"})"}};
  f.answers["r-90"] = {.body = R"({"error":"worker died","category":"server"})"};

  EXPECT_THAT(trainer.run(1, one_step).get(), IsOk());

  EXPECT_THAT(f.paths_loaded(), ElementsAre(path(0)));
}

TEST_F(RecoverableTrainerTest, APredecessorThatFailedCountsAsItsCause) {
  const auto trainer = open();
  f.server->reply("/forward_backward",
                  {{.status = 404, .body = "no such model", .delay = 1s},
                   {.body = R"({"request_id":"r-80"})"}});
  f.answers["r-80"] = ClientFixture::protobuf(wire::encode_proto(ForwardBackwardOutput()).value());

  const auto outcome =
      trainer
          .run(1,
               [](const TrainingClient& client, std::int64_t) {
                 auto step = client.train_step(make_data(1), LossFn::cross_entropy, AdamParams());
                 return std::move(step.optim_step).then([](const Result<OptimStepResponse>& done) {
                   return done.ok() ? Result<StepMetrics>(StepMetrics()) : done.error();
                 });
               })
          .get();

  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->recoveries, 1);
}

TEST_F(RecoverableTrainerTest, ErrorsOfTheUserComeOut) {
  const auto trainer = open();
  f.steps = {kAccept, {.status = 422, .body = "bad batch"}};

  EXPECT_THAT(trainer.run(3, one_step).get(),
              IsError(ErrorCode::unprocessable, HasSubstr("bad batch")));
  EXPECT_THAT(f.loaded, IsEmpty());
  EXPECT_EQ(trainer.step(), 1);

  EXPECT_THAT(trainer.run(3, one_step).get(), IsOk()) << "and another run goes on";
  EXPECT_THAT(calls, Contains(Pair("train:0", 1)).Times(2));
}

TEST_F(RecoverableTrainerTest, WhatAStepThrowsComesOut) {
  const auto trainer = open();

  EXPECT_THAT(trainer
                  .run(1,
                       [](const TrainingClient&, std::int64_t) -> Future<StepMetrics> {
                         throw std::runtime_error("no data");
                       })
                  .get(),
              IsError(ErrorCode::internal, HasSubstr("no data")));
}

TEST_F(RecoverableTrainerTest, ACorruptedRunEndsTheStepUnderWay) {
  const auto trainer = open();
  f.steps = {kAccept, kAccept, kAccept, {.never = true}};
  auto training = trainer.run(4, one_step);
  f.time.advance(29s);
  f.corrupted.insert("s-1:train:0");

  const auto outcome = training.get();

  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->recoveries, 1);
  EXPECT_EQ(f.time.elapsed(), 30s);
  EXPECT_TRUE(f.server->sent("/optim_step")[3].is_cancelled);
  EXPECT_THAT(calls.back(), Pair("train:1", 3));
}

TEST_F(RecoverableTrainerTest, PausesWhileItsRunIsBroughtBack) {
  const auto trainer = open();
  ASSERT_THAT(trainer.run(1, one_step).get(), IsOk());
  f.load_time = 60s;
  ASSERT_THAT(monitor.report("s-1:train:0", {.code = ErrorCode::not_found}), IsOk());

  ASSERT_THAT(trainer.run(2, one_step).get(), IsOk());

  EXPECT_EQ(f.time.elapsed(), 60s);
  EXPECT_THAT(calls, ElementsAre(Pair("train:0", 0), Pair("train:1", 1)));
}

TEST_F(RecoverableTrainerTest, GivesUpWithTheRecovery) {
  const auto trainer = open();
  f.steps = {kGone};
  f.loads.assign(3, {.status = 422, .body = "broken"});

  EXPECT_THAT(trainer.run(2, one_step).get(),
              IsError(ErrorCode::unprocessable, HasSubstr("broken")));

  EXPECT_THAT(f.loaded, SizeIs(3));
  EXPECT_THAT(f.times("/load_weights"), ElementsAre(0s, 5s, 15s));
  f.steps = {kGone};
  EXPECT_THAT(trainer.run(2, one_step).get(), IsError(ErrorCode::unprocessable, _))
      << "nobody will bring it back any more";
}

TEST_F(RecoverableTrainerTest, GivesUpWhenRecoveriesLeadNowhere) {
  const auto trainer = open({.max_stalled_recoveries = 2});
  f.steps = {kAccept, kAccept, kAccept, kGone, kAccept, kGone, kGone};

  const auto outcome = trainer.run(5, one_step).get();

  EXPECT_THAT(outcome, IsError(ErrorCode::not_found, HasSubstr("no such model")));
  EXPECT_THAT(outcome.error().to_string(), HasSubstr("no new step after 2 recoveries"));
  EXPECT_THAT(f.paths_loaded(), ElementsAre(path(2), path(2)));
}

TEST_F(RecoverableTrainerTest, ANewStepMakesForNewRecoveries) {
  const auto trainer = open({.max_stalled_recoveries = 1});
  f.steps = {kAccept, kGone, kAccept, kAccept, kGone, kAccept, kGone};  // at 1, 2 and 3

  const auto outcome = trainer.run(4, one_step).get();

  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->recoveries, 3);
}

TEST_F(RecoverableTrainerTest, AFailedSaveDoesNotStopTheTraining) {
  const auto trainer = open();
  f.saves = {kAccept, {.status = 422, .body = "full"}, {.status = 422, .body = "full"}};

  ASSERT_THAT(trainer.run(4, one_step).get(), IsOk());

  EXPECT_THAT(f.names_saved(), ElementsAre("sft-000000", "sft-000002", "sft-000003", "sft-000004"))
      << "tried again before the next step";
}

TEST_F(RecoverableTrainerTest, WithoutItsLastCheckpointTheTrainingIsNotDone) {
  const auto trainer = open();
  f.saves = {kAccept, {.status = 422, .body = "full"}};
  EXPECT_THAT(trainer.run(1, one_step).get(), IsError(ErrorCode::unprocessable, _));
  EXPECT_THAT(trainer.run(1, one_step).get(), IsOk());

  f.saves = {kGone};
  const auto outcome = trainer.run(2, one_step).get();

  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(outcome->recoveries, 1);
  EXPECT_THAT(calls.back(), Pair("train:1", 1));
}

TEST_F(RecoverableTrainerTest, GoesOnWhereAnEarlierProcessEnded) {
  f.add_checkpoint("old:train:0", "sft-000004", {{"tinker.keeper", "sft"}, {"tinker.step", "4"}});
  f.add_checkpoint("old:train:0", "sft-000006", {{"tinker.keeper", "sft"}, {"tinker.step", "6"}});
  const auto trainer = open();
  EXPECT_EQ(trainer.step(), 6);

  ASSERT_THAT(trainer.run(8, one_step).get(), IsOk());

  EXPECT_EQ(f.models, 0);
  EXPECT_THAT(f.paths_loaded(), ElementsAre(path(6, "old:train:0")));
  EXPECT_THAT(calls, ElementsAre(Pair("train:0", 6), Pair("train:0", 7)));
}

TEST_F(RecoverableTrainerTest, GoesOnFromACheckpointByItsPath) {
  f.add_checkpoint("old:train:0", "sft-000004", {{"tinker.keeper", "sft"}, {"tinker.step", "4"}});
  f.add_checkpoint("old:train:0", "sft-000006", {{"tinker.keeper", "sft"}, {"tinker.step", "6"}});
  const auto trainer = open({.resume_from = path(4, "old:train:0")});

  EXPECT_EQ(trainer.step(), 4);
  EXPECT_THAT(f.paths_loaded(), ElementsAre(path(4, "old:train:0")));
  auto unknown = RecoverableTrainer::open(monitor, keeper, make, {.resume_from = path(5)});
  EXPECT_THAT(unknown.get(), IsError(ErrorCode::invalid_argument, HasSubstr(path(5))));
}

TEST_F(RecoverableTrainerTest, ACheckpointThatDoesNotSayItsStepIsNoWayBack) {
  f.add_checkpoint("old:train:0", "mine", {});
  monitor =
      RecoveryMonitor::start(service, {.checkpoint = "tinker://old:train:0/weights/mine"}).value();
  const auto trainer = open();
  f.steps = {kGone};

  EXPECT_THAT(trainer.run(1, one_step).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("old:train:0/weights/mine")));
}

TEST_F(RecoverableTrainerTest, AModelThatCannotBeMadeIsAnError) {
  make = [] {
    return Future<TrainingClient>::ready(Error{.code = ErrorCode::billing, .message = "no money"});
  };
  auto opening = RecoverableTrainer::open(monitor, keeper, make);
  EXPECT_THAT(opening.get(), IsError(ErrorCode::billing, _));

  make = []() -> Future<TrainingClient> { throw std::runtime_error("no idea"); };
  opening = RecoverableTrainer::open(monitor, keeper, make);
  EXPECT_THAT(opening.get(), IsError(ErrorCode::internal, HasSubstr("no idea")));
}

TEST_F(RecoverableTrainerTest, RunsOnceAtATime) {
  const auto trainer = open();
  auto first = trainer.run(3, one_step);

  EXPECT_THAT(trainer.run(3, one_step).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("already")));
  EXPECT_THAT(trainer.run(-1, one_step).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("-1")));
  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(trainer.run(3, one_step).get(), IsOk());
}

TEST_F(RecoverableTrainerTest, ACancelledRunEndsAtOnce) {
  const auto trainer = open();
  f.steps = {{.never = true}};
  auto training = trainer.run(3, one_step);
  f.time.advance(1s);

  training.cancel();

  EXPECT_THAT(training.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_TRUE(f.server->sent("/optim_step")[0].is_cancelled);
  EXPECT_EQ(f.time.elapsed(), 1s);
}

TEST_F(RecoverableTrainerTest, ACancelledRunLeavesARecoveryToTheMonitor) {
  const auto trainer = open();
  f.steps = {kGone};
  f.load_time = 10s;
  auto training = trainer.run(3, one_step);
  f.time.advance(1s);

  training.cancel();
  EXPECT_THAT(training.get(), IsError(ErrorCode::cancelled, _));
  f.time.advance(10s);

  EXPECT_EQ(trainer.client().model_id(), "s-1:train:1");
}

TEST_F(RecoverableTrainerTest, TheEndOfTheLastHandleEndsTheRunAndTheWatch) {
  auto trainer = std::optional(open());
  f.steps = {{.never = true}};
  auto training = trainer->run(3, one_step);
  f.time.advance(1s);

  trainer.reset();

  EXPECT_THAT(training.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_EQ(monitor.phase("s-1:train:0"), std::nullopt);
  EXPECT_EQ(f.time.elapsed(), 1s);
}

TEST_F(RecoverableTrainerTest, AStoppedMonitorLeavesTheErrorToTheCaller) {
  const auto trainer = open();
  monitor.stop();
  f.steps = {kGone};

  EXPECT_THAT(trainer.run(1, one_step).get(), IsError(ErrorCode::closed, HasSubstr("stopped")));
}

TEST_F(RecoverableTrainerTest, DeletesWhatIsNotKeptBeforeItIsDone) {
  keeper =
      CheckpointKeeper::create(service, {.name = "sft", .every_steps = 1, .keep_last = 1}).value();
  const auto trainer = open();

  ASSERT_THAT(trainer.run(3, one_step).get(), IsOk());

  EXPECT_THAT(f.checkpoints, SizeIs(1));
  EXPECT_EQ(f.checkpoints[0].tinker_path, path(3));
}

/// On real threads: recoveries, saves and polls at the same time, and handles that go while all of
/// it is under way.
TEST(RecoverableTrainerThreads, TrainsThroughLossesAndLetsGo) {
  std::atomic<int> requests = 0;
  ScriptedServer f(Runtime::start(), R"({"create_model_via_load_weights":true})");
  f.server->reply("/api/v1/checkpoints", {{.body = R"({"checkpoints":[]})"}});
  f.server->reply("/weights/a", {{.body = "{}"}});
  f.server->handle("/optim_step",
                   [&](const http::Request&) { return ++requests % 5 == 0 ? kGone : f.accept(); });
  const auto step = [](const TrainingClient& client, std::int64_t) {
    return client.optim_step(AdamParams()).then([](const Result<OptimStepResponse>& done) {
      return done.ok() ? Result<StepMetrics>(StepMetrics()) : done.error();
    });
  };
  std::vector<Future<TrainingOutcome>> unfinished;
  for (int round = 0; round < 5; ++round) {
    const auto service = f.connect();
    const auto keeper =
        CheckpointKeeper::create(service, {.name = "sft", .every_steps = 2}).value();
    const auto monitor = RecoveryMonitor::start(service, {.poll_interval = 1ms}).value();
    auto opening = RecoverableTrainer::open(
        monitor, keeper, [&] { return service.create_lora_training_client("llama"); });
    const auto trainer = opening.get().value();

    const auto outcome = trainer.run(20, step).get();
    ASSERT_THAT(outcome, IsOk());
    EXPECT_GT(outcome->recoveries, 0);
    unfinished.push_back(trainer.run(1'000'000, step));
  }
  for (auto& run : unfinished) EXPECT_THAT(run.get(), IsError(ErrorCode::cancelled, _));
}

}  // namespace
}  // namespace tinker::client::recoverable_trainer_test
