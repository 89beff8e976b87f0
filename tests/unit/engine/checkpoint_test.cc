#include "engine/checkpoint.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/random_model.h"
#include "formats/safetensors.h"
#include "support/temporary_folder.h"
#include "tinker/engine.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/tiny_model.h"

namespace tinker::checkpoint_test {
namespace {

namespace fs = std::filesystem;
using engine::Setting;
using formats::Safetensors;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

auto invalid(const std::string& what) {
  return IsError(ErrorCode::invalid_argument, HasSubstr(what));
}

Datum datum(const std::vector<std::int32_t>& text) {
  return {.model_input = ModelInput::from_tokens({text.begin(), text.end() - 1}),
          .loss_fn_inputs = {
              {"target_tokens", std::vector<std::int64_t>(text.begin() + 1, text.end())}}};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path().filename());
  return out;
}

/// A random model in a folder, and room for checkpoints beside it.
struct ModelFolder {
  explicit ModelFolder(engine::ModelConfig config = engine::small_config()) {
    config.vocab_size = 101;
    config.hidden_size = 20;
    engine::write_random_model(folder.path("model"), config, 3).value();
  }
  [[nodiscard]] Engine load(EngineOptions options = {}) const {
    options.threads = 2;
    return Engine::load(folder.path("model"), options).value();
  }

  testing::TemporaryFolder folder;
};

using Step = std::function<Result<OptimStepResponse>(const LocalTrainer&)>;
const Step kAdam = [](const LocalTrainer& trainer) {
  return trainer.optim_step({.learning_rate = 0.02, .weight_decay = 0.1});
};
const Step kMuon = [](const LocalTrainer& trainer) {
  return trainer.optim_step(MuonParams{.learning_rate = 0.02, .weight_decay = 0.1});
};

void train(const LocalTrainer& trainer, int begin, int end, const Step& step = kAdam) {
  for (int i = begin; i < end; ++i) {
    const std::vector data = {datum({i, 5, 9, 17, 33}), datum({7, i + 1, 3})};
    ASSERT_THAT(trainer.forward_backward(data, LossFn::cross_entropy), IsOk());
    ASSERT_THAT(step(trainer), IsOk());
  }
}

/// Bits of logprobs, of everything that a trainer is.
std::vector<std::uint32_t> logprobs_of(const LocalTrainer& trainer) {
  const auto output =
      trainer.forward(std::vector{datum({1, 2, 3, 4, 5, 6, 7, 8})}, LossFn::cross_entropy).value();
  std::vector<std::uint32_t> out;
  for (const float value : output.loss_fn_outputs[0].at("logprobs").floats())
    out.push_back(std::bit_cast<std::uint32_t>(value));
  return out;
}

// ---- resuming

class Resume : public ::testing::TestWithParam<Setting> {
 protected:
  Resume() : model(engine::small_config(GetParam().architecture)) {}
  [[nodiscard]] Engine load() const {
    return model.load({.precision = GetParam().precision == engine::Precision::f32
                                        ? EnginePrecision::f32
                                        : EnginePrecision::bf16,
                       .cpu = std::string(to_string(GetParam().path))});
  }
  [[nodiscard]] std::string path(const char* name) const { return model.folder.path(name); }
  /// The files of two checkpoints are the same.
  void expect_same(const char* found, const char* expected) const {
    for (const char* const name : {"/adapter_model.safetensors", "/optimizer.safetensors"}) {
      EXPECT_TRUE(model.folder.read(std::string(found) + name) ==
                  model.folder.read(std::string(expected) + name))
          << name;
    }
  }

  ModelFolder model;
};

TEST_P(Resume, HasTheSameBitsAsGoingOn) {
  for (const auto& step : {kAdam, kMuon}) {
    const auto engine = load();
    const auto trainer = engine.create_trainer({.rank = 3, .seed = 1}).value();
    train(trainer, 0, 3, step);
    trainer.save(path("middle")).value();
    train(trainer, 3, 6, step);
    trainer.save(path("end")).value();

    const auto resumed = load().load_trainer(path("middle")).value();
    train(resumed, 3, 6, step);
    resumed.save(path("resumed")).value();

    expect_same("resumed", "end");
    EXPECT_EQ(logprobs_of(resumed), logprobs_of(trainer));
  }
}

TEST_P(Resume, GoesBackInTheSameTrainer) {
  const auto trainer = load().create_trainer({.rank = 3, .seed = 1}).value();
  train(trainer, 0, 2);
  trainer.save(path("middle")).value();
  train(trainer, 2, 4);
  trainer.save(path("end")).value();
  // Gradients that no step has used are forgotten.
  trainer.forward_backward(std::vector{datum({1, 2, 3})}, LossFn::cross_entropy).value();

  trainer.load(path("middle")).value();
  train(trainer, 2, 4);

  trainer.save(path("again")).value();
  expect_same("again", "end");
}

INSTANTIATE_TEST_SUITE_P(All,
                         Resume,
                         ::testing::ValuesIn(engine::all_settings()),
                         [](const auto& test) { return name_of(test.param); });

// ---- what is saved

class CheckpointTest : public ::testing::Test {
 protected:
  [[nodiscard]] Engine load() const { return model.load({.precision = EnginePrecision::f32}); }
  [[nodiscard]] std::string path(const char* name) const { return model.folder.path(name); }
  [[nodiscard]] std::string read(const char* name) const { return model.folder.read(name); }
  /// Saves one of so many steps.
  LocalTrainer saved(int steps = 2) {
    auto trainer = engine.create_trainer({.rank = 3, .seed = 1}).value();
    train(trainer, 0, steps);
    trainer.save(path("saved")).value();
    return trainer;
  }
  /// Writes a file of the checkpoint again, changed.
  void change(const char* name,
              const std::function<void(std::vector<Safetensors::Tensor>&, Safetensors::Metadata&)>&
                  f) const {
    const auto bytes = read(name);
    const auto file = Safetensors::parse(bytes).value();
    auto tensors = file.tensors();
    auto metadata = file.metadata();
    f(tensors, metadata);
    formats::write_safetensors(path(name), tensors, metadata).value();
  }
  void replace(const char* name, const std::string& from, const std::string& to) const {
    auto text = read(name);
    ASSERT_NE(text.find(from), std::string::npos);
    model.folder.write(name, text.replace(text.find(from), from.size(), to));
  }

  ModelFolder model;
  Engine engine = load();
};

TEST_F(CheckpointTest, HasTheFilesOfPeftAndMore) {
  const auto trainer = saved();
  trainer.save(path("weights"), CheckpointParts::weights).value();

  EXPECT_THAT(names_in(path("saved")),
              UnorderedElementsAre("adapter_model.safetensors",
                                   "adapter_config.json",
                                   "optimizer.safetensors",
                                   "checkpoint_complete"));
  EXPECT_THAT(names_in(path("weights")),
              UnorderedElementsAre(
                  "adapter_model.safetensors", "adapter_config.json", "checkpoint_complete"));
  EXPECT_EQ(read("saved/checkpoint_complete"), "");
  EXPECT_THAT(read("saved/adapter_config.json"), HasSubstr("\"base_model_name_or_path\": \"/"));
  const auto bytes = read("saved/optimizer.safetensors");
  const auto state = Safetensors::parse(bytes).value();
  EXPECT_EQ(state.metadata().at("optimizer"), "adamw");
  EXPECT_EQ(state.metadata().at("step"), "2");
  for (const char* const moment : {"m.", "v."}) {
    const auto* const tensor = state.find(
        moment + std::string("base_model.model.model.layers.1.mlp.up_proj.lora_B.weight"));
    ASSERT_NE(tensor, nullptr);
    EXPECT_THAT(tensor->shape, ElementsAre(14, 3));
  }
}

TEST_F(CheckpointTest, OfNoStepsHasNoMoments) {
  const auto trainer = engine.create_trainer({.rank = 3, .seed = 1}).value();
  trainer.save(path("saved")).value();
  train(trainer, 0, 2, kMuon);

  const auto resumed = engine.load_trainer(path("saved")).value();
  train(resumed, 0, 2, kMuon);

  EXPECT_EQ(logprobs_of(resumed), logprobs_of(trainer));
}

TEST_F(CheckpointTest, LoadsWithoutTheOptimizer) {
  const auto trainer = saved();
  const auto fresh = engine.load_trainer(path("saved"), CheckpointParts::weights).value();
  const auto full = engine.load_trainer(path("saved")).value();
  EXPECT_EQ(logprobs_of(fresh), logprobs_of(trainer));
  EXPECT_EQ(logprobs_of(full), logprobs_of(trainer));

  // Moments of other gradients make another step of the same ones.
  train(fresh, 2, 3);
  train(full, 2, 3);

  EXPECT_NE(logprobs_of(fresh), logprobs_of(full));
}

TEST_F(CheckpointTest, IsWhereOneOptimizerFollowsAnother) {
  const auto trainer = saved();

  EXPECT_THAT(trainer.optim_step(MuonParams()),
              invalid("muon cannot go on after 2 steps of adamw; load the weights without"));
  trainer.load(path("saved"), CheckpointParts::weights).value();
  EXPECT_THAT(trainer.optim_step(MuonParams()), IsOk());
  EXPECT_THAT(trainer.optim_step({}), invalid("adamw cannot go on after 1 steps of muon"));
}

TEST_F(CheckpointTest, KeepsRankAlphaAndMatrices) {
  const auto trainer =
      engine.create_trainer({.rank = 5, .seed = 1, .train_unembed = false, .train_attn = false})
          .value();
  train(trainer, 0, 1);
  trainer.save(path("saved")).value();
  EXPECT_EQ(logprobs_of(engine.load_trainer(path("saved")).value()), logprobs_of(trainer));

  // With half of alpha it is another adapter.
  replace("saved/adapter_config.json", "\"lora_alpha\": 32", "\"lora_alpha\": 16");
  const auto halved = engine.load_trainer(path("saved")).value();
  EXPECT_NE(logprobs_of(halved), logprobs_of(trainer));
  halved.save(path("halved")).value();
  EXPECT_THAT(read("halved/adapter_config.json"), HasSubstr("\"lora_alpha\": 16"));
}

TEST_F(CheckpointTest, GivesASnapshotToSampleFrom) {
  const auto trainer = saved();
  const auto prompt = ModelInput::from_tokens({1, 2, 3, 4});
  const auto logprobs = [&](const AdapterSnapshot& from) {
    const SampleOptions options = {.include_prompt_logprobs = true};
    const auto answer = engine.sample(prompt, {.max_tokens = 1, .seed = 1}, from, options);
    return answer.value().prompt_logprobs[3];
  };

  const auto snapshot = engine.load_snapshot(path("saved")).value();

  EXPECT_EQ(logprobs(snapshot), logprobs(trainer.snapshot().value()));
  EXPECT_NE(logprobs(snapshot), logprobs({}));
}

// ---- where it is saved

TEST_F(CheckpointTest, ReplacesAnother) {
  const auto trainer = saved();
  train(trainer, 2, 3);

  trainer.save(path("saved"), CheckpointParts::weights).value();

  EXPECT_THAT(names_in(path("saved")),
              UnorderedElementsAre(
                  "adapter_model.safetensors", "adapter_config.json", "checkpoint_complete"));
  EXPECT_THAT(names_in(path("")), UnorderedElementsAre("model", "saved"));
  EXPECT_EQ(logprobs_of(engine.load_trainer(path("saved"), CheckpointParts::weights).value()),
            logprobs_of(trainer));
}

TEST_F(CheckpointTest, ReplacesNothingElse) {
  const auto trainer = saved();
  fs::create_directory(path("empty"));
  model.folder.write("file", "text");

  EXPECT_THAT(trainer.save(path("model")),
              invalid("model holds config.json, which is no file of a checkpoint; it is not"));
  EXPECT_THAT(trainer.save(path("file")), invalid("file is there and no folder"));
  EXPECT_THAT(trainer.save(path("empty")), IsOk());
  EXPECT_THAT(names_in(path("model")), UnorderedElementsAre("config.json", "model.safetensors"));
}

TEST_F(CheckpointTest, ReplacesNoCheckpointThatHoldsMore) {
  const auto trainer = saved();
  for (const std::string more : {"README.md", ".git/HEAD", "checkpoint-500/trainer_state.json"}) {
    const auto name = more.substr(0, more.find('/'));
    model.folder.write("saved/" + more, "text");

    EXPECT_THAT(trainer.save(path("saved")),
                AllOf(invalid(path("saved")), invalid("holds " + name + ", which is no file")));

    EXPECT_EQ(model.folder.read("saved/" + more), "text");
    EXPECT_EQ(names_in(path("saved")).size(), 5);
    fs::remove_all(fs::path(path("saved")) / name);
  }
  EXPECT_THAT(trainer.save(path("saved")), IsOk());
}

TEST_F(CheckpointTest, ReplacesNoFolderInThePlaceOfAFile) {
  const auto trainer = saved();
  fs::remove(path("saved/optimizer.safetensors"));
  model.folder.write("saved/optimizer.safetensors/notes", "text");

  EXPECT_THAT(trainer.save(path("saved")), invalid("holds optimizer.safetensors, "));
  EXPECT_EQ(read("saved/optimizer.safetensors/notes"), "text");
}

TEST_F(CheckpointTest, IsReadWholeWhileOthersTakeItsPlace) {
  constexpr int kSaves = 60;
  engine::ThreadPool threads(1);
  const auto of = engine::tiny_model({}, threads);
  const auto layout = engine::LoraLayout::create(of->config(), {.rank = 3}).value();
  const auto all = [&](float number) {
    engine::Floats out(layout->parameters());
    std::ranges::fill(out.span(), number);
    return out;
  };
  // Of the first state all numbers are 1, of the second 2.
  const auto save = [&](int number) {
    const auto value = static_cast<float>(number);
    const auto adapter = engine::Adapter::with_values(*of, layout, all(value), threads);
    const engine::OptimizerState state =
        engine::AdamState{.m = all(value), .v = all(value), .step = number};
    return engine::save_checkpoint(path("shared"), *adapter, &state, "base");
  };
  ASSERT_THAT(save(1), IsOk());
  std::atomic<int> saves = 0;
  std::atomic<bool> is_over = false;
  std::thread saver([&] {
    for (; !is_over; ++saves) EXPECT_THAT(save(1 + saves % 2), IsOk());
  });

  std::set<float> seen;
  while (saves < kSaves || seen.size() < 2) {
    const auto loaded = engine::load_checkpoint(
        path("shared"), of->config(), CheckpointParts::weights_and_optimizer);
    EXPECT_THAT(loaded, IsOk());
    if (!loaded.ok()) break;
    const auto& state = std::get<engine::AdamState>(loaded->optimizer);
    const float number = loaded->values[0];
    for (const auto* const numbers : {&loaded->values, &state.m, &state.v})
      EXPECT_EQ(std::ranges::count(numbers->span(), number), std::ssize(numbers->span()));
    EXPECT_EQ(static_cast<float>(state.step), number);
    seen.insert(number);
  }
  is_over = true;
  saver.join();

  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST_F(CheckpointTest, LeavesNothingBehindWhereItCannotBeWritten) {
  const auto trainer = saved();

  EXPECT_THAT(trainer.save(path("model/config.json/new")),
              IsError(ErrorCode::io_error, HasSubstr("config.json")));
  EXPECT_THAT(names_in(path("")), UnorderedElementsAre("model", "saved"));
}

// ---- refusals

TEST_F(CheckpointTest, IsRefusedUnlessItIsComplete) {
  saved();
  fs::remove(path("saved/checkpoint_complete"));

  EXPECT_THAT(engine.load_trainer(path("saved")),
              invalid("saved: there is no checkpoint_complete"));
  EXPECT_THAT(engine.load_snapshot(path("saved")), invalid("there is no checkpoint_complete"));
  EXPECT_THAT(engine.load_trainer(path("none")),
              invalid("none: no checkpoint; there is no adapter_config.json"));
}

TEST_F(CheckpointTest, IsRefusedWithoutAStateThatIsAskedFor) {
  saved();
  fs::remove(path("saved/optimizer.safetensors"));

  EXPECT_THAT(engine.load_trainer(path("saved")), invalid("there is no optimizer.safetensors"));
  EXPECT_THAT(engine.load_trainer(path("saved"), CheckpointParts::weights), IsOk());
}

TEST_F(CheckpointTest, IsRefusedByARunOfAnotherShape) {
  saved();
  const auto loaded_by = [&](const LoraConfig& config) {
    const auto trainer = engine.create_trainer(config).value();
    const auto before = logprobs_of(trainer);
    auto done = trainer.load(path("saved"));
    EXPECT_EQ(logprobs_of(trainer), before);
    return done;
  };

  EXPECT_THAT(loaded_by({.rank = 4}), invalid("rank is 3; expected 4, as in this run"));
  EXPECT_THAT(loaded_by({.rank = 3, .train_mlp = false}),
              invalid("trains is attention, mlp, unembed; expected attention, unembed"));
  replace("saved/adapter_config.json", "\"lora_alpha\": 32", "\"lora_alpha\": 8");
  EXPECT_THAT(loaded_by({.rank = 3}), invalid("alpha is 8; expected 32"));
}

TEST_F(CheckpointTest, IsRefusedForAnotherModel) {
  saved();
  auto wide = engine::small_config();
  wide.ffn_size = 22;
  auto deep = engine::small_config();
  deep.layers = 3;

  EXPECT_THAT(
      ModelFolder(wide).load().load_trainer(path("saved")),
      AllOf(invalid("adapter_model.safetensors"),
            invalid("mlp.gate_proj.lora_B.weight: its shape is [14, 3]; expected [22, 3]")));
  EXPECT_THAT(
      ModelFolder(deep).load().load_trainer(path("saved")),
      invalid("model.layers.2.self_attn.q_proj.lora_A.weight: the file has no such tensor"));
}

TEST_F(CheckpointTest, IsRefusedIfItsConfigIsNotThatOfItsTensors) {
  saved();
  replace("saved/adapter_config.json", "\"r\": 3", "\"r\": 4");
  EXPECT_THAT(engine.load_trainer(path("saved")),
              invalid("its shape is [3, 20]; expected [4, 20]"));
  replace("saved/adapter_config.json", "\"r\": 4", "\"r\": 2097152");
  EXPECT_THAT(
      engine.load_trainer(path("saved")),
      AllOf(invalid("adapter_config.json"), invalid("rank is 2097152; expected 1 to 1048576")));
  replace("saved/adapter_config.json", "\"r\": 2097152", "\"r\": 3");
  replace("saved/adapter_config.json", ", \"lm_head\"", "");
  EXPECT_THAT(engine.load_trainer(path("saved")),
              invalid("lm_head.lora_A.weight: the model has no such adapter"));
  replace("saved/adapter_config.json", "LORA", "IA3");
  EXPECT_THAT(engine.load_trainer(path("saved")),
              AllOf(invalid("adapter_config.json"), invalid("'peft_type' is IA3")));
}

TEST_F(CheckpointTest, IsRefusedForAnOptimizerThatIsNone) {
  saved();
  const char* const file = "saved/optimizer.safetensors";
  const auto set = [&](const char* name, const char* value) {
    change(file, [&](auto&, auto& metadata) { metadata[name] = value; });
    return engine.load_trainer(path("saved"));
  };

  EXPECT_THAT(set("step", "-1"), AllOf(invalid(file), invalid("metadata 'step' is '-1'")));
  EXPECT_THAT(set("step", "2x"), invalid("metadata 'step' is '2x', expected a number"));
  EXPECT_THAT(set("step", ""), invalid("metadata 'step' is ''"));
  for (const char* const many : {"9007199254740993", "9223372036854775807", "9223372036854775808"})
    EXPECT_THAT(set("step", many), invalid("expected a number from 0 to 9007199254740992"));
  EXPECT_THAT(set("step", "9007199254740992"), IsOk());
  EXPECT_THAT(set("step", "0"), invalid("the model has no such adapter"));
  EXPECT_THAT(set("step", "2"), IsOk());
  EXPECT_THAT(set("optimizer", "dimuon"),
              invalid("'optimizer' is 'dimuon', expected adamw or muon"));
  EXPECT_THAT(set("optimizer", "muon"), invalid("v.base_model"));
  change(file, [](auto&, auto& metadata) { metadata.erase("optimizer"); });
  EXPECT_THAT(engine.load_trainer(path("saved")), invalid("no metadata 'optimizer'"));
}

TEST_F(CheckpointTest, IsRefusedIfAMomentIsMissingOrMisshapen) {
  saved();
  const char* const file = "saved/optimizer.safetensors";
  const std::string name = "v.base_model.model.lm_head.lora_A.weight";
  const auto at = [&](std::vector<Safetensors::Tensor>& tensors) {
    return std::ranges::find(tensors, name, &Safetensors::Tensor::name);
  };

  change(file, [&](auto& tensors, auto&) { at(tensors)->shape = {20, 3}; });
  EXPECT_THAT(engine.load_trainer(path("saved")),
              invalid(name + ": its shape is [20, 3]; expected [3, 20]"));
  change(file, [&](auto& tensors, auto&) { tensors.erase(at(tensors)); });
  EXPECT_THAT(engine.load_trainer(path("saved")), invalid(name + ": the file has no such tensor"));
  model.folder.write(file, "short");
  EXPECT_THAT(engine.load_trainer(path("saved")), AllOf(invalid(file), invalid("shorter")));
}

TEST_F(CheckpointTest, IsRefusedIfANumberIsNone) {
  const auto load_with = [&](const std::string& file, const std::string& name, float number) {
    saved();
    std::string changed;
    change(file.c_str(), [&](auto& tensors, auto&) {
      auto& data = std::ranges::find(tensors, name, &Safetensors::Tensor::name)->data;
      changed = std::string(data);
      std::memcpy(changed.data(), &number, sizeof number);
      data = changed;
    });
    return engine.load_trainer(path("saved"));
  };
  const std::string name = "base_model.model.lm_head.lora_B.weight";
  const std::string weights = "saved/adapter_model.safetensors";
  const std::string moments = "saved/optimizer.safetensors";

  EXPECT_THAT(load_with(weights, name, std::nanf("")),
              AllOf(invalid(weights), invalid(name + ": its number 0 is nan; expected a finite")));
  EXPECT_THAT(load_with(moments, "m." + name, std::numeric_limits<float>::infinity()),
              AllOf(invalid(moments), invalid("m." + name + ": its number 0 is inf")));
  EXPECT_THAT(load_with(moments, "v." + name, -1e-9F),
              invalid("v." + name + ": its number 0 is -1e-09; expected a finite one of at least"));
  EXPECT_THAT(load_with(moments, "m." + name, -1e-9F), IsOk());
}

TEST_F(CheckpointTest, OptimizersThatAreNotDefinedAreRefusedByName) {
  const auto trainer = engine.create_trainer({.rank = 3}).value();

  EXPECT_THAT(trainer.optim_step(OptimParams(AdamParams())), IsOk());
  EXPECT_THAT(trainer.optim_step(OptimParams(DimuonParams())),
              AllOf(invalid("dimuon: not an optimizer whose definition is public"),
                    invalid("adamw"),
                    invalid("muon (MuonParams)")));
  EXPECT_THAT(trainer.optim_step(OptimParams(OtherOptimParams{.type = "lion"})), invalid("lion: "));
}

}  // namespace
}  // namespace tinker::checkpoint_test
