// export_check FOLDER [MODEL]: trains adapters of a model for a few steps, in f32, saves and
// exports them, and writes down the logprobs that the engine computes, for compare.py. Without a
// model it makes random ones of every kind.
//
//     FOLDER/NAME/base                             the model as a Hugging Face folder
//     FOLDER/NAME/ADAPTER/{checkpoint,merged}
//     FOLDER/NAME/ADAPTER/logprobs.json            {"tokens": [[...]], "base": [[...]], "adapter":
//     [[...]]}
#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "engine/counter_random.h"
#include "engine/model_files.h"
#include "engine/random_model.h"
#include "tinker/engine.h"

namespace {

namespace fs = std::filesystem;
using namespace tinker;
using Tokens = std::vector<std::int32_t>;
using Architecture = engine::ModelConfig::Architecture;

constexpr int kSteps = 8;

/// Some texts of the model itself, and one of tokens that it would never say.
std::vector<Tokens> texts_of(const Engine& model, const engine::ModelConfig& config) {
  const auto token = [&](std::uint64_t stream, std::uint64_t index) {
    return static_cast<std::int32_t>(engine::random_bits(1, stream, index) % config.vocab_size);
  };
  std::vector<Tokens> out;
  for (std::uint64_t i = 0; i < 4; ++i) {
    Tokens text = {token(i, 0), token(i, 1)};
    const auto sampled =
        model
            .sample(ModelInput::from_tokens(text),
                    {.max_tokens = 46, .seed = i, .stop = std::vector<std::int32_t>()})
            .value();
    const auto& tokens = sampled.sequences[0].tokens;
    text.insert(text.end(), tokens.begin(), tokens.end());
    out.push_back(std::move(text));
  }
  const std::size_t length = std::min<std::size_t>(200, config.context_length);
  Tokens noise;
  for (std::size_t i = 0; i < length; ++i) noise.push_back(token(9, i));
  out.push_back(std::move(noise));
  return out;
}

std::vector<Datum> data_of(const std::vector<Tokens>& texts) {
  std::vector<Datum> out;
  for (const auto& text : texts) {
    out.push_back({.model_input = ModelInput::from_tokens({text.begin(), text.end() - 1}),
                   .loss_fn_inputs = {{"target_tokens",
                                       std::vector<std::int64_t>(text.begin() + 1, text.end())}}});
  }
  return out;
}

template <typename Rows>
std::string json(const Rows& rows) {
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (const auto value : row) line += base::concat(line.empty() ? "" : ",", value);
    out += base::concat(out.empty() ? "[[" : ",\n[", line, "]");
  }
  return out + "]";
}

std::vector<std::vector<float>> logprobs_of(const LocalTrainer& trainer,
                                            const std::vector<Datum>& data) {
  std::vector<std::vector<float>> out;
  const auto output = trainer.forward(data, LossFn::cross_entropy).value();
  for (const auto& one : output.loss_fn_outputs) {
    const auto logprobs = one.at("logprobs").floats();
    out.emplace_back(logprobs.begin(), logprobs.end());
  }
  return out;
}

void check(const fs::path& folder, const fs::path& path) {
  const auto config = engine::ModelFiles::open(path).value().config();
  const auto model = Engine::load(path, {.precision = EnginePrecision::f32}).value();
  model.export_merged({}, folder / "base").value();
  const auto texts = texts_of(model, config);
  const auto data = data_of(texts);
  const auto write = [&](const std::string& name, const LocalTrainer& trainer, const auto& params) {
    const auto base = logprobs_of(trainer, data);
    for (int i = 0; i < kSteps; ++i) {
      trainer.forward_backward(data, LossFn::cross_entropy).value();
      trainer.optim_step(params).value();
    }
    trainer.save(folder / name / "checkpoint").value();
    model.export_merged(trainer.snapshot().value(), folder / name / "merged").value();
    std::ofstream(folder / name / "logprobs.json")
        << R"({"tokens": )" << json(texts) << ",\n\"base\": " << json(base)
        << ",\n\"adapter\": " << json(logprobs_of(trainer, data)) << "}\n";
  };
  write("adamw_all",
        model.create_trainer({.rank = 8, .seed = 1}).value(),
        AdamParams{.learning_rate = 3e-3});
  write("muon_layers",
        model.create_trainer({.rank = 4, .seed = 2, .train_unembed = false}).value(),
        MuonParams{.learning_rate = 3e-3});
  std::cout << folder.string() << '\n';
}

struct RandomModel {
  std::string name;
  Architecture architecture;
  bool tied_head;
};

void check_random_models(const fs::path& folder) {
  for (const auto& [name, architecture, tied_head] :
       {RandomModel{.name = "llama", .architecture = Architecture::llama, .tied_head = false},
        RandomModel{.name = "llama_tied", .architecture = Architecture::llama, .tied_head = true},
        RandomModel{.name = "qwen2", .architecture = Architecture::qwen2, .tied_head = true},
        RandomModel{.name = "qwen3", .architecture = Architecture::qwen3, .tied_head = false}}) {
    const engine::ModelConfig config = {.architecture = architecture,
                                        .vocab_size = 300,
                                        .hidden_size = 48,
                                        .ffn_size = 80,
                                        .layers = 2,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 12,
                                        .context_length = 256,
                                        .tied_head = tied_head,
                                        .eos_ids = {2}};
    engine::write_random_model(folder / name / "model", config, 3).value();
    check(folder / name, folder / name / "model");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: export_check FOLDER [MODEL]\n";
    return 2;
  }
  try {
    const fs::path folder = argv[1];
    if (argc == 2) {
      check_random_models(folder);
    } else {
      check(folder / fs::path(argv[2]).stem(), argv[2]);
    }
  } catch (const ResultError& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
