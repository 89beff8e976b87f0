#include "server/model_registry.h"

#include <future>
#include <thread>
#include <utility>

#include <gmock/gmock.h>

#include "async/asio_loop.h"
#include "async/thread_pool.h"
#include "async/virtual_loop.h"
#include "server/random_source.h"
#include "support/hub_files.h"
#include "support/log_capture.h"
#include "support/manual_executor.h"
#include "support/temporary_folder.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::model_registry_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;
using ::tinker::testing::TemporaryFolder;
using ModelPtr = std::shared_ptr<LoadedModel>;

constexpr std::size_t kMiB = std::size_t{1} << 20U;

class ModelRegistryTest : public ::testing::Test {
 protected:
  /// What an `acquire` came to; nothing while it waits.
  struct Call {
    std::shared_ptr<async::Scope> scope = std::make_shared<async::Scope>();
    std::shared_ptr<std::optional<Result<ModelPtr>>> result =
        std::make_shared<std::optional<Result<ModelPtr>>>();

    [[nodiscard]] bool is_over() const { return result->has_value(); }
    /// Gives the model away.
    [[nodiscard]] Result<ModelPtr> take() const { return *std::exchange(*result, std::nullopt); }
  };

  void serve(RegistryOptions options) {
    options.threads = 1;
    options.hub_cache = files_.path("cache");
    registry_ = ModelRegistry::create(loop_, workers_, std::move(options)).value();
  }
  Call ask(const std::string& name) {
    Call call;
    async::run_detached(
        loop_,
        call.scope,
        registry_->acquire(name),
        [result = call.result](detail::Late<ModelPtr> late) { result->emplace(*std::move(late)); });
    loop_->run_ready();
    return call;
  }
  void work() {
    do {
      workers_->run();
      loop_->run_ready();
    } while (workers_->pending() > 0);
  }
  Result<ModelPtr> acquire(const std::string& name) {
    const auto call = ask(name);
    work();
    return call.take();
  }
  /// A folder with a model in it.
  std::string put_model(const std::string& name, bool has_tokenizer = true) {
    const auto source = parse_random_source("random:1x16").value();
    make_random_model(files_.path(name), source).value();
    if (has_tokenizer) write_random_tokenizer(files_.path(name), source).value();
    return files_.path(name);
  }
  static Result<SampleResponse> sample(const LoadedModel& model, std::vector<std::string> stop) {
    return model.engine.sample(ModelInput::from_tokens({1, 2, 3}),
                               {.max_tokens = 2, .stop = std::move(stop)});
  }

  TemporaryFolder files_;
  std::shared_ptr<async::VirtualLoop> loop_ = std::make_shared<async::VirtualLoop>();
  std::shared_ptr<support::ManualExecutor> workers_ = std::make_shared<support::ManualExecutor>();
  std::unique_ptr<ModelRegistry> registry_;
};

TEST_F(ModelRegistryTest, KnowsItsModelsBeforeTheyAreLoaded) {
  const auto folder = put_model("small");
  serve({.models = {{.name = "Acme/Small", .source = folder},
                    {.name = "tiny", .source = "random:2x32"}}});

  EXPECT_THAT(registry_->capabilities(),
              ElementsAre(SupportedModel{.model_name = "Acme/Small",
                                         .max_context_length = 32'768,
                                         .trainable = true,
                                         .sampleable = true},
                          SupportedModel{.model_name = "tiny",
                                         .max_context_length = 32'768,
                                         .trainable = true,
                                         .sampleable = true}));
  const auto facts = registry_->facts("Acme/Small").value();
  EXPECT_EQ(facts.name, "Acme/Small");
  EXPECT_EQ(facts.arch, "qwen3");
  EXPECT_EQ(facts.tokenizer_id, fs::canonical(folder));
  EXPECT_EQ(workers_->posts(), 0);
}

TEST_F(ModelRegistryTest, ListsItsModelsWhereOneIsUnknown) {
  serve(
      {.models = {{.name = "a", .source = "random:1x16"}, {.name = "b", .source = "random:1x16"}}});
  const auto unknown = IsError(ErrorCode::not_found,
                               HasSubstr("there is no base model \"c\"; this server has a, b"));

  EXPECT_THAT(registry_->facts("c"), unknown);
  EXPECT_THAT(acquire("c"), unknown);
}

TEST_F(ModelRegistryTest, MayHaveNoModels) {
  serve({});

  EXPECT_THAT(registry_->capabilities(), IsEmpty());
  EXPECT_THAT(registry_->facts("a"),
              IsError(ErrorCode::not_found, HasSubstr("this server has none")));
}

TEST_F(ModelRegistryTest, RefusesModelsThatItCannotServe) {
  const auto create = [this](std::vector<ServedModel> models) {
    const auto made = ModelRegistry::create(
        loop_, workers_, {.models = std::move(models), .hub_cache = files_.path("cache")});
    return made.ok() ? std::string() : made.error().to_string();
  };

  EXPECT_THAT(
      create({{.name = "a", .source = "random:1x16"}, {.name = "a", .source = "random:2x16"}}),
      HasSubstr("two models are named \"a\""));
  EXPECT_THAT(create({{.name = "a", .source = files_.path("none")}}), HasSubstr("a: model "));
  EXPECT_THAT(create({{.name = "Acme/Small"}}), HasSubstr(files_.path("cache")));
}

TEST_F(ModelRegistryTest, LoadsAModelOnFirstUse) {
  serve({.models = {{.name = "tiny", .source = "random:1x16"}}});

  const auto call = ask("tiny");
  EXPECT_FALSE(call.is_over());
  EXPECT_THAT(registry_->loaded(), IsEmpty());
  work();

  const auto model = call.take().value();
  EXPECT_THAT(sample(*model, {}), IsOk());
  EXPECT_GT(model->bytes, 0U);
  EXPECT_THAT(registry_->loaded(), ElementsAre("tiny"));
  EXPECT_GE(registry_->loaded_bytes(), model->bytes);
}

TEST_F(ModelRegistryTest, LetsTheNextOnesJoinALoad) {
  serve({.models = {{.name = "tiny", .source = "random:1x16"}}});

  const auto first = ask("tiny");
  const auto second = ask("tiny");
  EXPECT_EQ(workers_->posts(), 1);
  work();

  EXPECT_EQ(first.take().value(), second.take().value());
}

TEST_F(ModelRegistryTest, SharesAnEngineAmongTheNamesOfAFolder) {
  const auto folder = put_model("small");
  fs::create_directory_symlink(folder, files_.path("link"));
  serve(
      {.models = {{.name = "a", .source = folder}, {.name = "b", .source = files_.path("link")}}});

  const auto first = acquire("a").value();
  const auto second = acquire("b").value();

  EXPECT_EQ(first, second);
  EXPECT_EQ(workers_->posts(), 1);
  EXPECT_THAT(registry_->loaded(), ElementsAre("a", "b"));
}

TEST_F(ModelRegistryTest, KeepsAModelThatNobodyUses) {
  serve({.models = {{.name = "tiny", .source = "random:1x16"}}});
  auto* const first = acquire("tiny").value().get();

  const auto again = ask("tiny");

  EXPECT_EQ(again.take().value().get(), first);
  EXPECT_EQ(workers_->posts(), 1);
}

TEST_F(ModelRegistryTest, LoadsOneModelAfterTheOther) {
  serve(
      {.models = {{.name = "a", .source = "random:1x16"}, {.name = "b", .source = "random:2x16"}}});

  const auto first = ask("a");
  const auto second = ask("b");
  EXPECT_EQ(workers_->pending(), 1U);
  work();

  EXPECT_THAT(first.take(), IsOk());
  EXPECT_THAT(second.take(), IsOk());
}

TEST_F(ModelRegistryTest, GivesTheEngineTheTokenizerOfTheModel) {
  serve({.models = {{.name = "a", .source = put_model("with")},
                    {.name = "b", .source = put_model("without", false)}}});
  const auto with = acquire("a").value();
  const auto without = acquire("b").value();

  EXPECT_TRUE(with->tokenizer.has_value());
  EXPECT_THAT(sample(*with, {"xyz"}), IsOk());
  EXPECT_FALSE(without->tokenizer.has_value());
  EXPECT_THAT(sample(*without, {}), IsOk());
  EXPECT_THAT(sample(*without, {"xyz"}),
              IsError(ErrorCode::invalid_argument, HasSubstr("stop strings need a tokenizer")));
}

TEST_F(ModelRegistryTest, ServesAModelWhoseOwnTokenizerCannotBeRead) {
  const auto folder = put_model("small");
  files_.write("small/tokenizer.json", "no JSON");
  LogCapture log;
  serve({.models = {{.name = "tiny", .source = folder}}, .logger = log.logger()});

  EXPECT_FALSE(acquire("tiny").value()->tokenizer.has_value());
  EXPECT_THAT(log.text(), HasSubstr("the tokenizer of tiny cannot be read"));
}

TEST_F(ModelRegistryTest, FailsForAChosenTokenizerThatCannotBeRead) {
  const auto folder = put_model("small");
  files_.write("chosen.json", "no JSON");
  serve({.models = {{.name = "tiny", .source = folder, .tokenizer = files_.path("chosen.json")}}});

  EXPECT_THAT(acquire("tiny"), IsError(ErrorCode::invalid_argument, HasSubstr("chosen.json")));
}

TEST_F(ModelRegistryTest, TellsAllWhoWaitOfAFailureAndTriesAgain) {
  const auto folder = put_model("small");
  serve({.models = {{.name = "tiny", .source = folder}}});
  fs::rename(folder, files_.path("gone"));

  const auto first = ask("tiny");
  const auto second = ask("tiny");
  work();
  EXPECT_THAT(first.take(), IsError(ErrorCode::invalid_argument, HasSubstr("small")));
  EXPECT_THAT(second.take(), IsError(ErrorCode::invalid_argument, HasSubstr("small")));

  fs::rename(files_.path("gone"), folder);
  EXPECT_THAT(acquire("tiny"), IsOk());
}

TEST_F(ModelRegistryTest, GoesOnWithALoadWhenOneWhoWaitsGivesUp) {
  serve({.models = {{.name = "tiny", .source = "random:1x16"}}});
  const auto first = ask("tiny");
  const auto second = ask("tiny");

  first.scope->cancel({.code = ErrorCode::cancelled, .message = "gave up"});
  loop_->run_ready();
  EXPECT_THAT(first.take(), IsError(ErrorCode::cancelled, HasSubstr("gave up")));
  EXPECT_FALSE(second.is_over());
  work();

  EXPECT_THAT(second.take(), IsOk());
}

TEST_F(ModelRegistryTest, EndsThoseWhoWaitWhenItGoes) {
  serve({.models = {{.name = "tiny", .source = "random:1x16"}}});
  const auto call = ask("tiny");

  registry_.reset();
  work();

  EXPECT_THAT(call.take(), IsError(ErrorCode::cancelled, HasSubstr("abandoned")));
}

TEST_F(ModelRegistryTest, EndsThoseWhoWaitWhenNobodyWorksAnyMore) {
  serve({.models = {{.name = "tiny", .source = "random:1x16"}}});
  const auto call = ask("tiny");

  workers_->stop();
  loop_->run_ready();

  EXPECT_THAT(call.take(), IsError(ErrorCode::cancelled, HasSubstr("abandoned")));
}

TEST_F(ModelRegistryTest, MayGoBeforeItsModels) {
  serve({.models = {{.name = "tiny", .source = "random:1x16"}}});
  const auto model = acquire("tiny").value();

  registry_.reset();

  EXPECT_THAT(sample(*model, {}), IsOk());
  EXPECT_THAT(model->engine.export_merged({}, files_.path("exported")), IsOk());
}

// On threads as a server has them, users drop models wherever they are.
TEST(ModelRegistryOnThreads, LoadsOnWorkersAndLetsGoAnywhere) {
  const auto loop = async::AsioLoop::create();
  const auto workers = std::make_shared<async::ThreadPool>("test-worker", 2);
  auto registry = ModelRegistry::create(loop,
                                        workers,
                                        {.models = {{.name = "a", .source = "random:1x128"},
                                                    {.name = "b", .source = "random:2x128"}},
                                         .memory_bytes = 2 * kMiB,
                                         .threads = 1})
                      .value();
  std::thread thread([&loop] { loop->run(); });
  const auto acquire = [&](const std::string& name) {
    std::promise<Result<ModelPtr>> promise;
    loop->post([&] {
      async::run_detached(
          std::shared_ptr<async::EventLoop>(loop),
          std::make_shared<async::Scope>(),
          registry->acquire(name),
          [&promise](detail::Late<ModelPtr> late) { promise.set_value(*std::move(late)); });
    });
    return promise.get_future().get();
  };

  for (const auto* const name : {"a", "b", "a", "b"}) {
    const auto model = acquire(name);
    EXPECT_THAT(model, IsOk()) << name;
    EXPECT_THAT(acquire(name), IsOk());
  }

  loop->stop();
  thread.join();
}

/// Models of some 3 MiB, the cache included, in a memory for two of them.
class ShortMemoryTest : public ModelRegistryTest {
 protected:
  void SetUp() override {
    RegistryOptions options = {.memory_bytes = 7 * kMiB};
    for (const std::string name : {"a", "b", "c"}) {
      const auto seed = std::to_string(name[0]);
      options.models.push_back({.name = name, .source = "random:1x128,vocab=8000,seed=" + seed});
    }
    options.models.push_back({.name = "huge", .source = "random:4x512,vocab=8000"});
    serve(std::move(options));
  }
};

TEST_F(ShortMemoryTest, TheOneThatWasIdleLongestLeaves) {
  auto first = acquire("a").value();
  acquire("b").value();
  first.reset();  // used later than the other one

  const auto third = acquire("c").value();

  EXPECT_THAT(registry_->loaded(), ElementsAre("a", "c"));
  EXPECT_LE(registry_->loaded_bytes(), 7 * kMiB);
}

TEST_F(ShortMemoryTest, AModelThatLeftIsLoadedAgain) {
  for (const auto* const name : {"a", "b", "c", "a", "b", "c"}) {
    EXPECT_THAT(acquire(name), IsOk()) << name;
  }
}

TEST_F(ShortMemoryTest, NobodyLosesAModelThatIsInUse) {
  const auto first = acquire("a").value();
  const auto second = acquire("b").value();
  const int loads = workers_->posts();

  EXPECT_THAT(acquire("c"),
              IsError(ErrorCode::invalid_argument,
                      ContainsRegex("c needs [0-9]+ MiB, and [0-9]+ MiB are left of the 7 MiB")));
  EXPECT_EQ(workers_->posts(), loads);
  EXPECT_THAT(registry_->loaded(), ElementsAre("a", "b"));
}

TEST_F(ShortMemoryTest, NobodyLeavesForAModelThatDoesNotFitEvenSo) {
  acquire("a").value();

  EXPECT_THAT(acquire("huge"),
              IsError(ErrorCode::invalid_argument,
                      ContainsRegex("huge needs [0-9]+ MiB, and 7 MiB are left of the 7 MiB")));
  EXPECT_THAT(registry_->loaded(), ElementsAre("a"));
}

TEST_F(ShortMemoryTest, ARefusalIsNotTheLastWord) {
  auto first = acquire("a").value();
  const auto second = acquire("b").value();
  ASSERT_FALSE(acquire("c").ok());

  first.reset();

  EXPECT_THAT(acquire("c"), IsOk());
}

TEST_F(ShortMemoryTest, AdaptersTakeTheirPartOfIt) {
  const auto first = acquire("a").value();
  auto hold = registry_->hold("an adapter", 3 * kMiB);
  ASSERT_THAT(hold, IsOk());

  EXPECT_THAT(
      registry_->hold("an adapter", 2 * kMiB),
      IsError(ErrorCode::invalid_argument,
              ContainsRegex("an adapter needs 2 MiB, and [0-9]+ MiB are left of the 7 MiB")));
  EXPECT_FALSE(acquire("b").ok());
  *hold = nullptr;

  EXPECT_THAT(acquire("b"), IsOk());
}

TEST_F(ShortMemoryTest, IdleModelsLeaveForAdapters) {
  acquire("a").value();
  const auto second = acquire("b").value();

  EXPECT_THAT(registry_->hold("an adapter", 3 * kMiB), IsOk());

  EXPECT_THAT(registry_->loaded(), ElementsAre("b"));
}

TEST_F(ShortMemoryTest, WhatIsKeptForSpeedGoesBeforeModels) {
  acquire("a").value();
  const std::size_t room = registry_->training_room("a");
  auto kept = registry_->hold("kept", room / 2).value();
  registry_->on_shortage([&kept] { return std::exchange(kept, nullptr) != nullptr; });

  EXPECT_THAT(registry_->hold("an adapter", room / 4 * 3), IsOk());

  EXPECT_EQ(kept, nullptr);
  EXPECT_THAT(registry_->loaded(), ElementsAre("a"));
}

TEST_F(ShortMemoryTest, AdaptersLeaveLessToTraining) {
  const auto model = acquire("a").value();
  const auto before = registry_->training_room("a");
  const auto hold = registry_->hold("an adapter", kMiB).value();

  EXPECT_EQ(registry_->training_room("a"), before - kMiB);
}

TEST_F(ShortMemoryTest, TheContextIsWhatTheCacheHolds) {
  const auto context = [this](std::size_t i) {
    return *registry_->capabilities().at(i).max_context_length;
  };
  const auto before = context(0);
  const auto first = acquire("a").value();
  const auto sample = [&](std::int64_t prompt) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(prompt), 7);
    return first->engine.sample(ModelInput::from_tokens(tokens), {.max_tokens = 1});
  };

  EXPECT_LT(before, 32'768);
  EXPECT_EQ(context(0), before);
  EXPECT_THAT(sample(before - 1), IsOk());
  EXPECT_THAT(sample(before), IsError(ErrorCode::invalid_argument, HasSubstr("the cache of this")));
  const auto next = context(1);
  EXPECT_LT(next, before);
  const auto second = ask("b");
  EXPECT_EQ(context(1), next);  // also while it is being loaded
  work();
  EXPECT_EQ(context(1), next);
}

TEST_F(ShortMemoryTest, TrainingIsHeldToWhatIsLeft) {
  const auto model = acquire("a").value();
  const auto trainer = model->engine.create_trainer({.rank = 4}).value();
  const Datum datum = {.model_input = ModelInput::from_tokens(std::vector<std::int32_t>(2000, 7)),
                       .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>(2000, 7)},
                                          {"weights", std::vector<float>(2000, 1)}}};

  EXPECT_THAT(trainer.forward_backward({&datum, 1}, LossFn::cross_entropy),
              IsError(ErrorCode::invalid_argument, HasSubstr("MiB are left")));
}

}  // namespace
}  // namespace tinker::server::model_registry_test
