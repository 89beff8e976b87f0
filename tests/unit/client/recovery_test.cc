#include "tinker/recovery.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/training_server.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::recovery_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;
using ::tinker::testing::FakeReply;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using namespace std::chrono_literals;

constexpr auto kRun = "s-1:train:0";

const Error kGone = {.code = ErrorCode::not_found, .message = "no such model", .http_status = 404};

std::vector<std::chrono::nanoseconds> seconds(std::initializer_list<int> times) {
  std::vector<std::chrono::nanoseconds> out;
  for (const int time : times) out.emplace_back(std::chrono::seconds(time));
  return out;
}

class RecoveryTest : public ::testing::Test {
 protected:
  struct Recovered {
    std::string before;
    std::string after;
    SavedCheckpoint checkpoint;
  };
  struct Failed {
    std::string id;
    Error error;
  };

  RecoveryTest() = default;

  RecoveryMonitor start(RecoveryPolicy policy) {
    policy.on_recovery = [this](const TrainingClient& before,
                                const TrainingClient& after,
                                const SavedCheckpoint& checkpoint) {
      recovered.push_back({before.model_id(), after.model_id(), checkpoint});
    };
    policy.on_failure = [this](const std::string& id, const Error& error) {
      failed.push_back({id, error});
    };
    return RecoveryMonitor::start(service, std::move(policy)).value();
  }
  RecoveryMonitor start() { return start(RecoveryPolicy()); }
  /// A run with a checkpoint.
  TrainingClient make_run() {
    auto client = service.create_lora_training_client("llama").get().value();
    client.save_state("a").get().value();
    return client;
  }
  static std::string checkpoint_of(const std::string& run, const std::string& name = "a") {
    return "tinker://" + run + "/weights/" + name;
  }

  TrainingServer f;
  ServiceClient service = f.connect();
  std::vector<Recovered> recovered;
  std::vector<Failed> failed;
};

TEST_F(RecoveryTest, ACorruptedRunIsBroughtBackFromItsLastCheckpoint) {  // TINKEX 1.6
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(make_run()), IsOk());
  f.corrupted.insert(kRun);

  f.time.advance(30s);

  ASSERT_THAT(f.loaded, SizeIs(1));
  EXPECT_EQ(f.loaded[0].path, checkpoint_of(kRun));
  EXPECT_TRUE(f.loaded[0].optimizer);
  EXPECT_EQ(f.loaded[0].session_id, "s-1");
  ASSERT_THAT(recovered, SizeIs(1));
  EXPECT_EQ(recovered[0].before, kRun);
  EXPECT_EQ(recovered[0].after, "s-1:train:1");
  EXPECT_EQ(recovered[0].checkpoint.path, checkpoint_of(kRun));
  EXPECT_THAT(failed, IsEmpty());
}

TEST_F(RecoveryTest, TheNewRunIsWatchedInPlaceOfTheOld) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(make_run()), IsOk());
  f.corrupted = {kRun, "s-1:train:1"};
  f.add_checkpoint("s-1:train:1", "b", {});

  f.time.advance(30s);
  EXPECT_EQ(monitor.phase(kRun), std::nullopt);
  EXPECT_EQ(monitor.phase("s-1:train:1"), RunPhase::watched);
  f.time.advance(30s);

  EXPECT_THAT(f.paths_loaded(),
              ElementsAre(checkpoint_of(kRun), checkpoint_of("s-1:train:1", "b")));
  EXPECT_EQ(monitor.phase("s-1:train:2"), RunPhase::watched);
  EXPECT_THAT(recovered, SizeIs(2));
}

TEST_F(RecoveryTest, AHealthyRunIsLeftAlone) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(make_run()), IsOk());

  f.time.advance(100s);

  EXPECT_THAT(f.times("/training_runs/s-1:train:0"), seconds({30, 60, 90}));
  EXPECT_THAT(f.loaded, IsEmpty());
  EXPECT_THAT(f.events, IsEmpty());
}

TEST_F(RecoveryTest, TellsWhatHappensOnTheEventBus) {
  const auto monitor = start({.max_attempts = 2});
  ASSERT_THAT(monitor.watch(make_run()), IsOk());
  f.corrupted = {kRun, "s-1:train:2"};
  f.loads = {{.status = 422, .body = "no"}};

  f.time.advance(35s);       // back
  f.time.advance(30s + 5s);  // without a checkpoint

  EXPECT_THAT(f.event_names(),
              ElementsAre("recovery.detected",
                          "recovery.started",
                          "recovery.failed",
                          "recovery.started",
                          "recovery.completed",
                          "recovery.detected",
                          "recovery.failed",
                          "recovery.failed",
                          "recovery.exhausted"));
  EXPECT_EQ(f.events[0].fields["run_id"], kRun);
  EXPECT_EQ(f.events[1].fields["checkpoint"], checkpoint_of(kRun));
  EXPECT_EQ(f.events[2].error, ErrorCode::unprocessable);
  EXPECT_EQ(f.events[3].attempt, 2);
  EXPECT_EQ(f.events[4].fields["new_run_id"], "s-1:train:2");
}

TEST_F(RecoveryTest, OnlyWatchedRunsCanBeReported) {
  const auto monitor = start();

  EXPECT_THAT(monitor.report(kRun, kGone), IsError(ErrorCode::invalid_argument, HasSubstr(kRun)));
  EXPECT_THAT(monitor.unwatch(kRun), IsError(ErrorCode::invalid_argument, HasSubstr(kRun)));
  EXPECT_EQ(monitor.phase(kRun), std::nullopt);
}

TEST_F(RecoveryTest, ARunIsWatchedOnce) {
  const auto monitor = start();
  const auto run = make_run();
  ASSERT_THAT(monitor.watch(run), IsOk());

  EXPECT_THAT(monitor.watch(run), IsError(ErrorCode::invalid_argument, HasSubstr("already")));
  ASSERT_THAT(monitor.unwatch(kRun), IsOk());
  EXPECT_THAT(monitor.watch(run), IsOk());
}

TEST_F(RecoveryTest, AReportedFailureNeedsNoPoll) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(make_run()), IsOk());

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.run_ready();

  EXPECT_THAT(recovered, SizeIs(1));
  EXPECT_EQ(f.time.elapsed(), 0s);
}

TEST_F(RecoveryTest, ARunThatIsBeingBroughtBackIsNotReportedTwice) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(make_run()), IsOk());
  f.load_time = 10s;

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  EXPECT_EQ(monitor.phase(kRun), RunPhase::queued);
  EXPECT_THAT(monitor.report(kRun, kGone), IsError(ErrorCode::conflict, HasSubstr(kRun)));
  f.time.run_ready();
  EXPECT_EQ(monitor.phase(kRun), RunPhase::in_progress);
  EXPECT_THAT(monitor.report(kRun, kGone), IsError(ErrorCode::conflict, _));
  f.time.advance(10s);

  EXPECT_THAT(monitor.report(kRun, kGone), IsError(ErrorCode::invalid_argument, _))
      << "a late failure of the old run is not one of the new";
  f.time.advance(60s);
  EXPECT_THAT(recovered, SizeIs(1));
}

TEST_F(RecoveryTest, ErrorsOfTheUserAreNoReasonForARecovery) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(make_run()), IsOk());

  EXPECT_THAT(monitor.report(kRun, {.code = ErrorCode::unprocessable, .message = "bad batch"}),
              IsError(ErrorCode::invalid_argument, AllOf(HasSubstr(kRun), HasSubstr("bad batch"))));
  f.time.run_ready();

  EXPECT_THAT(f.loaded, IsEmpty());
}

TEST_F(RecoveryTest, WhatIsLostCanBeDecidedByTheUser) {
  const auto monitor = start({.is_lost = [](const Error& error) {
    if (error.message == "throw") throw std::runtime_error("cannot decide");
    return error.code == ErrorCode::deadline_exceeded;
  }});
  ASSERT_THAT(monitor.watch(make_run()), IsOk());

  EXPECT_THAT(monitor.report(kRun, kGone), IsError(ErrorCode::invalid_argument, _));
  EXPECT_THAT(monitor.report(kRun, {.message = "throw"}), IsError(ErrorCode::invalid_argument, _));
  EXPECT_THAT(f.log.lines("cannot decide"), SizeIs(1));
  EXPECT_THAT(monitor.report(kRun, {.code = ErrorCode::deadline_exceeded}), IsOk());
}

TEST_F(RecoveryTest, TheOptimizerMayStartAnew) {
  const auto monitor = start({.restore_optimizer = false,
                              .from_state = {.user_metadata = StringMap{{"why", "recovery"}}}});
  ASSERT_THAT(monitor.watch(make_run()), IsOk());

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.run_ready();

  ASSERT_THAT(f.loaded, SizeIs(1));
  EXPECT_FALSE(f.loaded[0].optimizer);
  EXPECT_THAT(f.bodies("/load_weights")[0], HasSubstr(R"({"why":"recovery"})"));
}

TEST_F(RecoveryTest, GivesUpAfterTheLastAttempt) {  // TINKEX 3
  const auto monitor = start({.max_attempts = 2});
  ASSERT_THAT(monitor.watch(make_run()), IsOk());
  f.loads = {{.status = 422, .body = "first"},
             {.status = 422, .body = "second"},
             {.status = 422, .body = "third"}};
  f.corrupted.insert(kRun);

  f.time.advance(300s);

  EXPECT_THAT(f.loaded, SizeIs(2));
  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].id, kRun);
  EXPECT_THAT(failed[0].error.to_string(), HasSubstr("second"));
  EXPECT_THAT(recovered, IsEmpty());
  EXPECT_EQ(monitor.phase(kRun), std::nullopt);
  EXPECT_THAT(f.times("/training_runs/s-1:train:0"), Each(::testing::Le(35s)))
      << "nobody looks after it any more";
}

TEST_F(RecoveryTest, PausesLongerAfterEachAttemptUpToALimit) {
  const auto monitor = start({.max_attempts = 5, .backoff = 5s, .max_backoff = 12s});
  ASSERT_THAT(monitor.watch(make_run()), IsOk());
  f.loads.assign(4, {.status = 422, .body = "no"});
  f.corrupted.insert(kRun);

  f.time.advance(36s);
  EXPECT_EQ(monitor.phase(kRun), RunPhase::pending_retry);
  EXPECT_THAT(monitor.report(kRun, kGone), IsError(ErrorCode::conflict, _));
  f.time.advance(100s);

  EXPECT_THAT(f.times("/load_weights"), seconds({30, 35, 45, 57, 69}));
  EXPECT_THAT(recovered, SizeIs(1));
}

class ConcurrentRecovery : public RecoveryTest,
                           public ::testing::WithParamInterface<std::pair<int, std::vector<int>>> {
};

TEST_P(ConcurrentRecovery, BringsBackSoManyRunsAtATime) {
  const auto& [max_concurrent, times] = GetParam();
  const auto monitor = start({.max_concurrent = max_concurrent});
  for (int i = 0; i < 5; ++i) {
    f.results["CreateModel"] = {.body = R"({"model_id":"s-1:train:)" + std::to_string(i) + "\"}"};
    const auto run = make_run();
    f.corrupted.insert(run.model_id());
    ASSERT_THAT(monitor.watch(run), IsOk());
  }
  f.load_time = 10s;

  f.time.advance(100s);

  std::vector<int> started;
  for (const auto at : f.times("/load_weights")) {
    started.push_back(
        static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(at).count()));
  }
  EXPECT_EQ(started, times);
  EXPECT_THAT(recovered, SizeIs(5));
}

INSTANTIATE_TEST_SUITE_P(,
                         ConcurrentRecovery,
                         ::testing::Values(std::pair(1, std::vector{30, 40, 50, 60, 70}),
                                           std::pair(3, std::vector{30, 30, 30, 40, 40}),
                                           std::pair(9, std::vector{30, 30, 30, 30, 30})));

TEST_F(RecoveryTest, ARunThatWaitsForItsNextAttemptHoldsNoSlot) {
  const auto monitor = start({.backoff = 20s});
  const auto first = make_run();
  f.results["CreateModel"] = {.body = R"({"model_id":"s-1:train:1"})"};
  const auto second = make_run();
  ASSERT_THAT(monitor.watch(first), IsOk());
  ASSERT_THAT(monitor.watch(second), IsOk());
  f.loads = {{.status = 422, .body = "no"}};

  ASSERT_THAT(monitor.report(first.model_id(), kGone), IsOk());
  ASSERT_THAT(monitor.report(second.model_id(), kGone), IsOk());
  f.time.advance(1s);

  EXPECT_EQ(monitor.phase(first.model_id()), RunPhase::pending_retry);
  ASSERT_THAT(recovered, SizeIs(1));
  EXPECT_EQ(recovered[0].before, second.model_id());
}

TEST_F(RecoveryTest, TheSlotOfACancelledRecoveryIsFree) {
  const auto monitor = start();
  const auto first = make_run();
  f.results["CreateModel"] = {.body = R"({"model_id":"s-1:train:1"})"};
  const auto second = make_run();
  ASSERT_THAT(monitor.watch(first), IsOk());
  ASSERT_THAT(monitor.watch(second), IsOk());
  f.loads = {{.never = true}};
  ASSERT_THAT(monitor.report(first.model_id(), kGone), IsOk());
  ASSERT_THAT(monitor.report(second.model_id(), kGone), IsOk());
  f.time.advance(5s);
  EXPECT_EQ(monitor.phase(second.model_id()), RunPhase::queued);

  ASSERT_THAT(monitor.unwatch(first.model_id()), IsOk());
  f.time.run_ready();

  ASSERT_THAT(recovered, SizeIs(1));
  EXPECT_EQ(recovered[0].before, second.model_id());
  EXPECT_TRUE(f.server->sent("/load_weights")[0].is_cancelled);
  EXPECT_THAT(failed, IsEmpty());
}

TEST_F(RecoveryTest, StopEndsARecoveryAtOnceAndForGood) {
  const auto monitor = start();
  const auto run = make_run();
  ASSERT_THAT(monitor.watch(run), IsOk());
  f.loads = {{.never = true}};
  f.corrupted.insert(kRun);
  f.time.advance(30s);

  monitor.stop();
  f.time.run_ready();

  EXPECT_TRUE(f.server->sent("/load_weights")[0].is_cancelled);
  EXPECT_THAT(monitor.watch(run), IsError(ErrorCode::closed, _));
  EXPECT_THAT(monitor.report(kRun, kGone), IsError(ErrorCode::closed, _));
  const auto polls = f.server->sent("/training_runs/s-1:train:0").size();
  f.time.advance(1h);
  EXPECT_THAT(f.server->sent("/training_runs/s-1:train:0"), SizeIs(polls));
  EXPECT_THAT(recovered, IsEmpty());
  EXPECT_THAT(failed, IsEmpty());
}

TEST_F(RecoveryTest, TheEndOfTheLastHandleIsAStop) {
  auto monitor = std::optional(start());
  ASSERT_THAT(monitor->watch(make_run()), IsOk());
  f.corrupted.insert(kRun);
  f.loads = {{.never = true}};
  f.time.advance(30s);

  monitor.reset();
  f.time.advance(1h);

  EXPECT_TRUE(f.server->sent("/load_weights")[0].is_cancelled);
  EXPECT_THAT(f.server->sent("/training_runs/s-1:train:0"), SizeIs(2));  // a look, and the choice
}

TEST_F(RecoveryTest, GivesUpAtOnceWhenTheServiceIsClosed) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(make_run()), IsOk());
  ASSERT_THAT(service.close(SessionFinishReason::success).get(), IsOk());

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.run_ready();

  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].error.code, ErrorCode::closed);
}

TEST_F(RecoveryTest, AClosedServiceEndsTheWatch) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(make_run()), IsOk());
  ASSERT_THAT(service.close(SessionFinishReason::success).get(), IsOk());

  f.time.advance(30s);

  EXPECT_EQ(monitor.phase(kRun), std::nullopt);
  EXPECT_THAT(failed, IsEmpty());
}

TEST_F(RecoveryTest, WhatCallbacksThrowIsLogged) {
  const auto run = make_run();
  const auto monitor =
      RecoveryMonitor::start(
          service,
          {.max_attempts = 1,
           .on_recovery =
               [](const auto&, const auto&, const auto&) { throw std::runtime_error("x1"); },
           .on_failure = [](const auto&, const auto&) { throw std::runtime_error("x2"); }})
          .value();
  ASSERT_THAT(monitor.watch(run), IsOk());

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.run_ready();
  ASSERT_EQ(monitor.phase("s-1:train:1"), RunPhase::watched);
  ASSERT_THAT(monitor.report("s-1:train:1", kGone), IsOk());  // which has no checkpoint
  f.time.run_ready();

  EXPECT_THAT(f.log.lines("x1"), SizeIs(1));
  EXPECT_THAT(f.log.lines("x2"), SizeIs(1));
}

TEST_F(RecoveryTest, GoesOnWatchingAfterAFailedPoll) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(make_run()), IsOk());
  f.polls = {{.status = 403, .body = "no"}, {.never = true}};

  f.time.advance(30s);
  f.time.advance(30s);
  EXPECT_THAT(f.event_names(), ElementsAre("recovery.poll_error"));
  f.time.advance(30s);  // the second one is given up
  EXPECT_THAT(f.event_names(), ElementsAre("recovery.poll_error", "recovery.poll_error"));
  EXPECT_EQ(f.events[0].error, ErrorCode::permission_denied);
  EXPECT_EQ(f.events[1].error, ErrorCode::deadline_exceeded);
  f.corrupted.insert(kRun);
  f.time.advance(30s);

  EXPECT_THAT(recovered, SizeIs(1));
}

TEST_F(RecoveryTest, OneRunIsLookedAtAtATime) {
  const auto monitor = start();
  for (int i = 0; i < 3; ++i) {
    f.results["CreateModel"] = {.body = R"({"model_id":"s-1:train:)" + std::to_string(i) + "\"}"};
    ASSERT_THAT(monitor.watch(make_run()), IsOk());
  }
  f.polls = {{.status = 403, .body = "no", .delay = 2s},
             {.status = 403, .body = "no", .delay = 2s}};

  f.time.advance(35s);

  EXPECT_THAT(f.times("/training_runs/s-1:train:0"), seconds({30}));
  EXPECT_THAT(f.times("/training_runs/s-1:train:1"), seconds({32}));
  EXPECT_THAT(f.times("/training_runs/s-1:train:2"), seconds({34}));
}

TEST_F(RecoveryTest, ALookAtOthersDoesNotHoldUpAReportedRun) {
  const auto monitor = start();
  const auto first = make_run();
  f.results["CreateModel"] = {.body = R"({"model_id":"s-1:train:1"})"};
  const auto second = make_run();
  ASSERT_THAT(monitor.watch(first), IsOk());
  f.time.advance(10s);
  ASSERT_THAT(monitor.watch(second), IsOk());
  f.polls = {{.never = true}};
  f.time.advance(20s);

  ASSERT_THAT(monitor.report("s-1:train:1", kGone), IsOk());
  f.time.run_ready();

  EXPECT_THAT(recovered, SizeIs(1));
}

TEST_F(RecoveryTest, ASessionThatIsGoneIsReplaced) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(make_run()), IsOk());
  f.loads = {{.status = 410, .body = "the session is finished"}};

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.advance(5s);

  ASSERT_THAT(f.loaded, SizeIs(2));
  EXPECT_EQ(f.loaded[1].session_id, "s-2");
  EXPECT_EQ(f.loaded[1].path, f.loaded[0].path);
  ASSERT_THAT(recovered, SizeIs(1));
  EXPECT_EQ(recovered[0].after, "s-2:train:0");
  f.time.advance(30s);
  EXPECT_THAT(f.server->sent("/training_runs/s-2:train:0"), SizeIs(1)) << "watched there";
}

TEST_F(RecoveryTest, ARunWithoutACheckpointCannotBeBroughtBack) {
  const auto monitor = start({.max_attempts = 1});
  const auto run = service.create_lora_training_client("llama").get().value();
  ASSERT_THAT(monitor.watch(run), IsOk());

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.run_ready();

  ASSERT_THAT(failed, SizeIs(1));
  EXPECT_EQ(failed[0].error.code, ErrorCode::not_found);
  EXPECT_THAT(failed[0].error.message, AllOf(HasSubstr(kRun), HasSubstr("no checkpoint")));
}

class RecoveryWithKeeper : public RecoveryTest {
 protected:
  RecoveryWithKeeper() {
    for (const auto& [step, loss] : {std::pair(10, 0.5), std::pair(20, 0.1), std::pair(30, 0.9)}) {
      keeper.save(run, step, {{"loss", loss}}).get().value();
    }
  }
  static std::string path(int step) {
    return "tinker://s-1:train:0/weights/sft-0000" + std::to_string(step);
  }

  TrainingClient run = service.create_lora_training_client("llama").get().value();
  CheckpointKeeper keeper =
      CheckpointKeeper::create(service,
                               {.name = "sft", .every_steps = 10, .keep_last = 3, .metric = "loss"})
          .value();
};

TEST_F(RecoveryWithKeeper, TakesTheNewestOfTheKeeper) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(run, keeper), IsOk());

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.run_ready();

  EXPECT_THAT(f.paths_loaded(), ElementsAre(path(30)));
  ASSERT_THAT(recovered, SizeIs(1));
  EXPECT_EQ(recovered[0].checkpoint,
            (SavedCheckpoint{.path = path(30), .step = 30, .metric = 0.9}));
}

TEST_F(RecoveryWithKeeper, TakesAnOlderOneWhenThatCannotBeLoaded) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(run, keeper), IsOk());
  f.loads = {{.status = 422, .body = "broken"}};

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.advance(5s);

  EXPECT_THAT(f.paths_loaded(), ElementsAre(path(30), path(20)));
  EXPECT_THAT(keeper.latest(), Optional(Field(&SavedCheckpoint::path, path(20))))
      << "the broken one is not tried first again";
}

TEST_F(RecoveryWithKeeper, AServerThatIsDownDoesNotBlameTheCheckpoint) {
  const auto monitor = start();
  ASSERT_THAT(monitor.watch(run, keeper), IsOk());
  f.server->reply("/load_weights", {{.status = 500}});

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.advance(1h);

  ASSERT_THAT(failed, SizeIs(1));
  for (const auto& body : f.bodies("/load_weights")) EXPECT_THAT(body, HasSubstr(path(30)));
}

TEST_F(RecoveryWithKeeper, TakesTheBest) {
  const auto monitor = start({.choice = CheckpointChoice::best});
  ASSERT_THAT(monitor.watch(run, keeper), IsOk());
  f.loads = {{.status = 422, .body = "broken"}};

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.advance(5s);

  EXPECT_THAT(f.paths_loaded(), ElementsAre(path(20), path(10)));
}

TEST_F(RecoveryWithKeeper, TheBestNeedsAMetric) {
  const auto monitor = start({.choice = CheckpointChoice::best});
  const auto blind = CheckpointKeeper::create(service, {.name = "x", .every_steps = 1}).value();

  EXPECT_THAT(monitor.watch(run), IsError(ErrorCode::invalid_argument, HasSubstr("metric")));
  EXPECT_THAT(monitor.watch(run, blind), IsError(ErrorCode::invalid_argument, HasSubstr("metric")));
}

TEST_F(RecoveryWithKeeper, TakesTheOneThatIsAskedFor) {
  const auto monitor = start({.checkpoint = path(10)});
  ASSERT_THAT(monitor.watch(run, keeper), IsOk());

  ASSERT_THAT(monitor.report(kRun, kGone), IsOk());
  f.time.run_ready();

  EXPECT_THAT(f.paths_loaded(), ElementsAre(path(10)));
  EXPECT_EQ(recovered.at(0).checkpoint.step, 10);
}

TEST(RecoveryPolicy, IsCheckedBeforeAnythingBegins) {
  TrainingServer f;
  const auto service = f.connect();
  const auto start = [&](RecoveryPolicy policy) {
    return RecoveryMonitor::start(service, std::move(policy));
  };

  EXPECT_THAT(start({.max_attempts = 0}), IsError(ErrorCode::invalid_argument, HasSubstr("0")));
  EXPECT_THAT(start({.backoff = -1s}), IsError(ErrorCode::invalid_argument, HasSubstr("backoff")));
  EXPECT_THAT(start({.max_backoff = 1s}),
              IsError(ErrorCode::invalid_argument, HasSubstr("max_backoff")));
  EXPECT_THAT(start({.poll_interval = 0s}),
              IsError(ErrorCode::invalid_argument, HasSubstr("poll_interval")));
  EXPECT_THAT(start({.checkpoint = "weights/a"}),
              IsError(ErrorCode::invalid_argument, HasSubstr("weights/a")));
  EXPECT_THAT(start({.max_concurrent = 0}),
              IsError(ErrorCode::invalid_argument, HasSubstr("max_concurrent")));
  EXPECT_THAT(RecoveryMonitor::start(service), IsOk());
}

TEST(NeedsRecovery, WhereTheModelIsGoneOrItsStateUnknown) {
  const auto needs = [](ErrorCode code) { return needs_recovery({.code = code}); };
  for (const auto code : {ErrorCode::connection_failed,
                          ErrorCode::timed_out,
                          ErrorCode::not_found,
                          ErrorCode::expired,
                          ErrorCode::rate_limited,
                          ErrorCode::server_error,
                          ErrorCode::request_failed}) {
    EXPECT_TRUE(needs(code)) << to_string(code);
  }
  for (const auto code : {ErrorCode::invalid_argument,
                          ErrorCode::cancelled,
                          ErrorCode::deadline_exceeded,
                          ErrorCode::predecessor_failed,
                          ErrorCode::closed,
                          ErrorCode::internal,
                          ErrorCode::bad_request,
                          ErrorCode::unauthenticated,
                          ErrorCode::billing,
                          ErrorCode::permission_denied,
                          ErrorCode::conflict,
                          ErrorCode::unprocessable}) {
    EXPECT_FALSE(needs(code)) << to_string(code);
  }
  EXPECT_FALSE(
      needs_recovery({.code = ErrorCode::request_failed, .category = RequestErrorCategory::user}));
}

TEST(NeedsRecovery, APredecessorThatFailedCountsAsItsCause) {
  TrainingServer f;
  const auto service = f.connect();
  const auto trainer = service.create_lora_training_client("llama").get().value();
  const auto fail = [&](std::vector<FakeReply> replies) {
    f.server->reply("/forward_backward", std::move(replies));
    auto step = trainer.train_step(make_data(1), LossFn::cross_entropy, AdamParams());
    EXPECT_FALSE(step.forward_backward.get().ok());
    auto update = step.optim_step.get();
    EXPECT_THAT(update, IsError(ErrorCode::predecessor_failed, _));
    return update.error();
  };

  const Error gone = fail({{.status = 404, .body = "no such model", .delay = 1s}});
  EXPECT_EQ(gone.cause, ErrorCode::not_found);
  EXPECT_TRUE(needs_recovery(gone));
  EXPECT_FALSE(needs_recovery(fail({{.status = 422, .body = "bad batch", .delay = 1s}})));
}

}  // namespace
}  // namespace tinker::client::recovery_test
