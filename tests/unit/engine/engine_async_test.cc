// The engine's calls that end in a future, alone and among each other.

#include <latch>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine_core.h"
#include "support/temporary_folder.h"
#include "tinker/engine.h"
#include "tinker/losses.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine_async_test {
namespace {

using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

struct EngineAsyncTest : ::testing::Test {
  EngineAsyncTest() {
    auto config = engine::tiny_config(engine::ModelConfig::Architecture::llama);
    config.context_length = 100'000;
    EXPECT_THAT(engine::write_random_model(folder.path(), config, 7), IsOk());
  }
  [[nodiscard]] Engine load(EngineOptions options = {}) const {
    options.threads = 2;
    return Engine::load(folder.path(), options).value();
  }
  static Datum datum(std::vector<std::int32_t> text) {
    return {.model_input = ModelInput::from_tokens({text.begin(), text.end() - 1}),
            .loss_fn_inputs = {
                {"target_tokens", std::vector<std::int64_t>(text.begin() + 1, text.end())}}};
  }
  /// Work for a long time.
  static std::vector<Datum> endless() {
    return std::vector<Datum>(3000, datum(std::vector<std::int32_t>(200, 7)));
  }
  static SamplingParams params(std::int64_t tokens, std::int64_t seed) {
    return {.max_tokens = tokens, .seed = seed, .stop = std::vector<std::int32_t>()};
  }

  testing::TemporaryFolder folder;
  ModelInput prompt = ModelInput::from_tokens({1, 2, 3});
};

TEST_F(EngineAsyncTest, CallsInFlightGiveTheBitsOfCallsOneByOne) {
  const auto engine = load();
  const std::vector<Datum> data = {datum({5, 9, 17, 33, 65}), datum({7, 8, 9})};
  const auto one_by_one = engine.create_trainer({.rank = 4, .seed = 1}).value();
  std::vector<double> expected;
  for (int i = 0; i < 5; ++i) {
    expected.push_back(one_by_one.forward_backward(data, LossFn::cross_entropy)->loss().value());
    ASSERT_THAT(one_by_one.optim_step({.learning_rate = 0.01}), IsOk());
  }
  const auto answer = engine.sample(prompt, params(10, 3), one_by_one.snapshot().value());

  auto making = engine.create_trainer_async({.rank = 4, .seed = 1});
  const auto trainer = making.get().value();
  std::vector<Future<ForwardBackwardOutput>> passes;
  std::vector<Future<OptimStepResponse>> steps;
  for (int i = 0; i < 5; ++i) {
    passes.push_back(trainer.forward_backward_async(data, LossFn::cross_entropy));
    steps.push_back(trainer.optim_step_async({.learning_rate = 0.01}));
  }
  auto snapshot = trainer.snapshot_async();

  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(passes[i].get()->loss().value(), expected[i]) << i;
    EXPECT_THAT(steps[i].get(), IsOk());
  }
  EXPECT_EQ(engine.sample(prompt, params(10, 3), snapshot.get().value())->sequences,
            answer->sequences);
}

TEST_F(EngineAsyncTest, SamplesAreAnsweredWhileATrainerWorks) {
  const auto engine = load();
  const auto alone = engine.sample(prompt, params(20, 3));
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  auto training = trainer.forward_backward_async(endless(), LossFn::cross_entropy);

  const auto beside = engine.sample(prompt, params(20, 3));

  EXPECT_FALSE(training.is_ready());
  ASSERT_THAT(beside, IsOk());
  EXPECT_EQ(beside->sequences, alone->sequences);
  training.cancel();
  EXPECT_THAT(training.get(), IsError(ErrorCode::cancelled, HasSubstr("forward_backward")));
}

TEST_F(EngineAsyncTest, AnotherTrainerGoesOnBetweenMicroBatches) {
  const auto engine = load();
  const auto busy = engine.create_trainer({.rank = 4, .seed = 1}).value().for_tenant("busy");
  const auto other = engine.create_trainer({.rank = 6, .seed = 1}).value().for_tenant("other");
  auto training = busy.forward_backward_async(endless(), LossFn::cross_entropy);

  EXPECT_THAT(other.forward_backward(std::vector{datum({1, 2, 3})}, LossFn::cross_entropy), IsOk());
  EXPECT_THAT(other.optim_step({}), IsOk());

  EXPECT_FALSE(training.is_ready());
  training.cancel();
  EXPECT_THAT(training.get(), IsError(ErrorCode::cancelled, HasSubstr("stop")));
}

TEST_F(EngineAsyncTest, WhatIsCancelledLeavesEverythingAsItWas) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const auto quiet = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const std::vector<Datum> data = {datum({5, 9, 17, 33, 65})};
  for (const auto& each : {trainer, quiet})
    ASSERT_THAT(each.forward_backward(data, LossFn::cross_entropy), IsOk());

  auto training = trainer.forward_backward_async(endless(), LossFn::cross_entropy);
  ASSERT_THAT(engine.sample(prompt, params(5, 3)), IsOk());  // some of it is done by now
  training.cancel();

  EXPECT_THAT(training.get(), IsError(ErrorCode::cancelled, HasSubstr("stop")));
  EXPECT_EQ(trainer.optim_step({})->metrics, quiet.optim_step({})->metrics);
}

TEST_F(EngineAsyncTest, CallsHaveADeadline) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const CallOptions soon = {.deadline = std::chrono::milliseconds(20)};

  EXPECT_THAT(trainer.with(soon).forward_backward(endless(), LossFn::cross_entropy),
              IsError(ErrorCode::deadline_exceeded, HasSubstr("forward_backward passed")));
  EXPECT_THAT(engine.with(soon).sample(prompt, params(90'000, 1)),
              IsError(ErrorCode::deadline_exceeded, HasSubstr("sample passed its deadline")));
  EXPECT_THAT(trainer.optim_step({}), IsOk());
}

TEST_F(EngineAsyncTest, ContinuationsMayDropTheLastHandle) {
  std::optional<Engine> engine = load();
  auto answer = engine->sample_async(prompt, params(3, 1));
  std::latch is_done(1);
  auto after = std::move(answer).then([last = std::exchange(engine, std::nullopt),
                                       &is_done](Result<SampleResponse> result) mutable {
    last.reset();
    is_done.count_down();
    return result.ok();
  });
  is_done.wait();
  (void)after.get();
}

TEST_F(EngineAsyncTest, WhatIsUnderWayEndsWithTheLastHandle) {
  std::optional<Engine> engine = load();
  std::optional trainer = engine->create_trainer({.rank = 4, .seed = 1}).value();
  auto training = trainer->forward_backward_async(endless(), LossFn::cross_entropy);
  auto sampling = engine->sample_async(prompt, params(90'000, 1));

  trainer.reset();
  engine.reset();

  EXPECT_THAT(training.get(), IsError(ErrorCode::cancelled, HasSubstr("engine went away")));
  EXPECT_THAT(sampling.get(), IsError(ErrorCode::cancelled, HasSubstr("engine went away")));
}

TEST_F(EngineAsyncTest, BlockingCallsInsideCallbacksAreRefused) {
  const auto engine = load();
  auto answer = engine.sample_async(prompt, params(3, 1));
  auto inside = std::move(answer).then([engine, this](const Result<SampleResponse>& /*first*/) {
    return engine.sample(prompt, params(3, 1));
  });
  EXPECT_THAT(inside.get(), IsError(ErrorCode::invalid_argument, HasSubstr("wait for itself")));

  // What is refused is not done.
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  auto pass = trainer.forward_backward_async({datum({5, 9, 17})}, LossFn::cross_entropy);
  auto refused = std::move(pass).then(
      [trainer](const Result<ForwardBackwardOutput>& /*first*/) { return trainer.optim_step({}); });
  EXPECT_THAT(refused.get(), IsError(ErrorCode::invalid_argument, HasSubstr("nothing was done")));
  EXPECT_GT(trainer.optim_step({})->metrics->at("unclipped_grad_l2:mean"), 0);
}

// A formula whose derivatives leave the range of float32, which the inputs do not show.
TEST_F(EngineAsyncTest, GradientsThatAreNotFiniteChangeNothing) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const auto quiet = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const auto too_large = loss::Formula::define("f", {{"logprobs", 1}}, [](const loss::Inputs& in) {
                           return sum(in["logprobs"] * 1e300);
                         }).value();
  const std::vector<Datum> data = {datum({5, 9, 17, 33, 65})};
  for (const auto& each : {trainer, quiet})
    ASSERT_THAT(each.forward_backward(data, LossFn::cross_entropy), IsOk());

  EXPECT_THAT(trainer.forward_backward(data, too_large),
              IsError(ErrorCode::invalid_argument, HasSubstr("is not finite")));

  EXPECT_EQ(trainer.optim_step({})->metrics, quiet.optim_step({})->metrics);
}

TEST_F(EngineAsyncTest, GradientsCanBeDiscarded) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const std::vector<Datum> data = {datum({5, 9, 17, 33, 65})};
  ASSERT_THAT(trainer.forward_backward(data, LossFn::cross_entropy), IsOk());

  ASSERT_THAT(trainer.discard_gradients(), IsOk());

  EXPECT_EQ(trainer.optim_step({})->metrics->at("unclipped_grad_l2:mean"), 0);
}

TEST_F(EngineAsyncTest, RefusesAnEmptyBatchAndWeightsThatAreNone) {
  const auto trainer = load().create_trainer({.rank = 4}).value();
  EXPECT_THAT(trainer.forward_backward({}, LossFn::cross_entropy),
              IsError(ErrorCode::invalid_argument, HasSubstr("no data")));
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(Engine::load(folder.path(), {.threads = 1, .sampling_weight = weight}),
                IsError(ErrorCode::invalid_argument, HasSubstr("sampling_weight is ")));
  }
}

TEST_F(EngineAsyncTest, ACheckpointIsWrittenWhileTheTrainerGoesOn) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const std::vector<Datum> data = {datum({5, 9, 17, 33, 65})};
  auto first = trainer.forward_backward_async(data, LossFn::cross_entropy);
  auto update = trainer.optim_step_async({.learning_rate = 0.01});
  auto saved = trainer.save_async(std::filesystem::path(folder.path()) / "saved");
  auto later = trainer.forward_backward_async(data, LossFn::cross_entropy);
  auto after = trainer.optim_step_async({.learning_rate = 0.01});
  auto refused = trainer.save_async(folder.path());

  EXPECT_THAT(saved.get(), IsOk());
  EXPECT_THAT(refused.get(), IsError(ErrorCode::invalid_argument, HasSubstr("holds")));
  EXPECT_THAT(after.get(), IsOk());

  const auto expected = engine.create_trainer({.rank = 4, .seed = 1}).value();
  ASSERT_THAT(expected.forward_backward(data, LossFn::cross_entropy), IsOk());
  ASSERT_THAT(expected.optim_step({.learning_rate = 0.01}), IsOk());
  const auto loaded = engine.load_trainer(std::filesystem::path(folder.path()) / "saved").value();
  EXPECT_EQ(loaded.forward(data, LossFn::cross_entropy)->metrics,
            expected.forward(data, LossFn::cross_entropy)->metrics);
  EXPECT_THAT(first.get(), IsOk());
  EXPECT_THAT(update.get(), IsOk());
  EXPECT_THAT(later.get(), IsOk());
}

// What a trainer saves at the end says everything about it: its parameters, moments and steps.
TEST_F(EngineAsyncTest, ATrainerAmongManyEndsWithTheBitsOfOneAlone) {
  const auto engine = load();
  const std::vector<Datum> data = {datum({5, 9, 17, 33, 65}), datum({7, 8, 9})};
  const auto formula =
      loss::Formula::define("sum of squares", {{"logprobs", 1}}, [](const auto& in) {
        return sum(in["logprobs"] * in["logprobs"]);
      }).value();
  const auto busy = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const auto alone = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const auto noise = engine.for_tenant("noise").create_trainer({.rank = 7, .seed = 2}).value();
  const std::vector<AdamParams> steps = {{.learning_rate = 0.01, .grad_clip_norm = 0.1},
                                         {.learning_rate = 0.02, .weight_decay = 0.1},
                                         {.learning_rate = 0.01}};
  for (const auto& step : steps) {
    ASSERT_THAT(alone.forward_backward(data, LossFn::cross_entropy), IsOk());
    ASSERT_THAT(alone.forward_backward(data, formula), IsOk());
    ASSERT_THAT(alone.forward(data, LossFn::cross_entropy), IsOk());
    ASSERT_THAT(alone.optim_step(step), IsOk());
  }

  std::vector<Future<ForwardBackwardOutput>> passes;
  std::vector<Future<OptimStepResponse>> updates;
  std::vector<Future<SampleResponse>> samples;
  std::vector<Future<ForwardBackwardOutput>> dropped;
  for (const auto& step : steps) {
    samples.push_back(engine.sample_async(prompt, params(20, 1)));
    dropped.push_back(noise.forward_backward_async(endless(), LossFn::cross_entropy));
    passes.push_back(busy.forward_backward_async(data, LossFn::cross_entropy));
    dropped.push_back(busy.forward_backward_async(endless(), LossFn::cross_entropy));
    passes.push_back(busy.forward_backward_async(data, formula));
    passes.push_back(busy.forward_async(data, LossFn::cross_entropy));
    updates.push_back(busy.optim_step_async(step));
    samples.push_back(engine.for_tenant("other").sample_async(prompt, params(7, 2)));
    ASSERT_THAT(engine.sample(prompt, params(5, 3)), IsOk());  // some of it is done by now
    for (auto& each : dropped) each.cancel();
  }
  for (auto& each : passes) EXPECT_THAT(each.get(), IsOk());
  for (auto& each : updates) EXPECT_THAT(each.get(), IsOk());
  for (auto& each : samples) EXPECT_THAT(each.get(), IsOk());
  for (auto& each : dropped) EXPECT_THAT(each.get(), IsError(ErrorCode::cancelled, HasSubstr("")));

  const std::filesystem::path root = folder.path();
  ASSERT_THAT(busy.save(root / "busy"), IsOk());
  ASSERT_THAT(alone.save(root / "alone"), IsOk());
  for (const auto* const file : {"adapter_model.safetensors", "optimizer.safetensors"})
    EXPECT_EQ(folder.read("busy/" + std::string(file)), folder.read("alone/" + std::string(file)));
}

TEST_F(EngineAsyncTest, LoadsKeepTheirPlaceAmongTheCalls) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const std::vector<Datum> data = {datum({5, 9, 17, 33, 65})};
  const auto saved = std::filesystem::path(folder.path()) / "saved";
  auto before = trainer.forward_async(data, LossFn::cross_entropy);
  auto saving = trainer.save_async(saved);
  auto pass = trainer.forward_backward_async(data, LossFn::cross_entropy);
  auto step = trainer.optim_step_async({.learning_rate = 0.1});
  auto moved = trainer.forward_async(data, LossFn::cross_entropy);
  auto loading = trainer.load_async(saved);
  auto after = trainer.forward_async(data, LossFn::cross_entropy);
  auto missing = trainer.load_async(saved / "nothing");

  EXPECT_THAT(saving.get(), IsOk());
  EXPECT_THAT(pass.get(), IsOk());
  EXPECT_THAT(step.get(), IsOk());
  EXPECT_THAT(loading.get(), IsOk());
  const auto at_first = before.get().value().metrics;
  EXPECT_NE(moved.get().value().metrics, at_first);
  EXPECT_EQ(after.get().value().metrics, at_first);
  EXPECT_THAT(missing.get(), IsError(ErrorCode::invalid_argument, HasSubstr("no checkpoint")));
}

TEST_F(EngineAsyncTest, AllThatReadsOrWritesFilesHasAFuture) {
  const auto engine = load();
  const auto trainer = engine.create_trainer({.rank = 4, .seed = 1}).value();
  const std::filesystem::path root = folder.path();
  ASSERT_THAT(trainer.save(root / "saved"), IsOk());

  auto loading = engine.load_trainer_async(root / "saved");
  auto reading = engine.load_snapshot_async(root / "saved");
  auto snapshot = reading.get().value();
  auto writing = engine.export_merged_async(snapshot, root / "merged");
  auto refused = engine.export_merged_async(snapshot, root);
  auto missing = engine.load_trainer_async(root / "nothing");
  auto none = engine.load_snapshot_async(root / "nothing");

  const std::vector<Datum> data = {datum({5, 9, 17, 33, 65})};
  EXPECT_EQ(loading.get().value().forward(data, LossFn::cross_entropy)->metrics,
            trainer.forward(data, LossFn::cross_entropy)->metrics);
  EXPECT_THAT(writing.get(), IsOk());
  EXPECT_THAT(Engine::load(root / "merged", {.threads = 1}), IsOk());
  EXPECT_THAT(refused.get(), IsError(ErrorCode::invalid_argument, HasSubstr("not empty")));
  EXPECT_THAT(missing.get(), IsError(ErrorCode::invalid_argument, HasSubstr("no checkpoint")));
  EXPECT_THAT(none.get(), IsError(ErrorCode::invalid_argument, HasSubstr("no checkpoint")));
}

// ---- the queue for the disk

struct DiskQueueTest : EngineAsyncTest {
  DiskQueueTest() {
    auto threads = std::make_unique<engine::ThreadPool>(1);
    auto model = engine::tiny_model({.path = engine::cpu_paths().back()}, *threads);
    core.emplace(std::make_shared<engine::Compute>(std::move(threads), std::move(model)),
                 folder.path(),
                 EngineOptions());
  }
  /// A call that would write, behind one that writes until `is_free`.
  Future<void> write(const CallOptions& options) {
    blocking.push_back(core->submit_file_work({.name = "first"}, [this]() -> Result<void> {
      is_free.wait();
      return {};
    }));
    return core->submit_then<int>(
        {.name = "save", .options = options},
        core->new_line(),
        [] { return engine::once<int>([]() -> Result<int> { return 1; }); },
        [this](int /*value*/) -> Result<void> {
          has_written = true;
          return {};
        });
  }
  std::latch is_free{1};
  bool has_written = false;
  std::vector<Future<void>> blocking;
  std::optional<engine::EngineCore> core;  // ends before what its work uses
};

TEST_F(DiskQueueTest, WhatIsCancelledThereIsNotWritten) {
  auto saving = write({});
  saving.cancel();
  is_free.count_down();

  EXPECT_THAT(saving.get(), IsError(ErrorCode::cancelled, HasSubstr("save was asked to stop")));
  EXPECT_FALSE(has_written);
}

TEST_F(DiskQueueTest, WhatIsLateThereIsNotWritten) {
  auto saving = write({.deadline = std::chrono::milliseconds(50)});
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  is_free.count_down();

  EXPECT_THAT(saving.get(),
              IsError(ErrorCode::deadline_exceeded, HasSubstr("save passed its deadline")));
  EXPECT_FALSE(has_written);
}

TEST_F(DiskQueueTest, TheRestIsWritten) {
  auto saving = write({});
  is_free.count_down();

  EXPECT_THAT(saving.get(), IsOk());
  EXPECT_TRUE(has_written);
}

}  // namespace
}  // namespace tinker::engine_async_test
