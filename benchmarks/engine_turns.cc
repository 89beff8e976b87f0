// What a training script asks of the engine, without server and wire: `./dev bench server` has the
// official SDK do the same (server_peer.py), and takes turns.

#include <chrono>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "engine_bench.h"
#include "tinker/engine.h"

namespace tinker {

namespace {

// As in server_peer.py.
constexpr std::size_t kPrompts = 4;
constexpr std::size_t kSamples = 8;  // of each
constexpr std::size_t kAnswer = 16;  // tokens of each

/// Prompt and answer with its logprobs; answers are praised and blamed in turn.
Datum episode(const std::vector<std::int32_t>& prompt,
              const SampledSequence& answer,
              float advantage) {
  auto text = prompt;
  text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
  std::vector<float> logprobs(prompt.size() - 1, 0.0F);
  logprobs.insert(logprobs.end(), answer.logprobs.begin(), answer.logprobs.end());
  std::vector<float> advantages(prompt.size() - 1, 0.0F);
  advantages.resize(text.size() - 1, advantage);
  return {
      .model_input = ModelInput::from_tokens({text.begin(), text.end() - 1}),
      .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>(text.begin() + 1, text.end())},
                         {"logprobs", std::move(logprobs)},
                         {"advantages", std::move(advantages)}}};
}

Result<std::vector<Datum>> episodes(const Engine& engine,
                                    const LocalTrainer& trainer,
                                    const engine::ModelConfig& config,
                                    int iteration) {
  TINKER_TRY(const auto snapshot, trainer.snapshot());
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<Future<SampleResponse>> groups;
  for (std::size_t i = 0; i < kPrompts; ++i) {
    prompts.push_back(tokens_of(4000 + i, kPromptTokens, config));
    groups.push_back(engine.sample_async(ModelInput::from_tokens(prompts.back()),
                                         {.max_tokens = static_cast<std::int64_t>(kAnswer),
                                          .seed = Seed(iteration),
                                          .stop = std::vector<std::int32_t>()},
                                         snapshot,
                                         {.num_samples = static_cast<std::int64_t>(kSamples)}));
  }
  std::vector<Datum> out;
  for (std::size_t i = 0; i < kPrompts; ++i) {
    TINKER_TRY(const auto group, groups[i].get());
    for (const auto& answer : group.sequences) {
      out.push_back(episode(prompts[i], answer, out.size() % 2 == 0 ? 1.0F : -1.0F));
    }
  }
  return out;
}

}  // namespace

Result<void> bench_turns(const engine::ModelConfig& config, const EngineBenchOptions& options) {
  TINKER_TRY(const auto engine,
             Engine::load(
                 options.model,
                 {.precision = options.precision, .threads = options.threads, .cpu = options.cpu}));
  TINKER_TRY(const auto trainer, engine.create_trainer({.seed = Seed(1)}));
  const bool is_rl = options.asks_for("rl_turns");
  const auto loss = is_rl ? LossFn::importance_sampling : LossFn::cross_entropy;
  auto data = step_data(config, options);
  std::string line;
  for (int turn = 0; std::getline(std::cin, line); ++turn) {
    const auto start = std::chrono::steady_clock::now();
    if (is_rl) {
      TINKER_TRY(data, episodes(engine, trainer, config, turn));
    }
    TINKER_TRY(const auto output, trainer.forward_backward(data, loss));
    TINKER_TRY(trainer.optim_step({.learning_rate = 1e-4}));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    TINKER_TRY(const double sum, output.loss());
    print("turn", {{"seconds", seconds.count()}, {"loss", sum}});
  }
  return {};
}

}  // namespace tinker
