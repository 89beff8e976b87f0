// Training and sampling at the same time, on this machine: calls end in futures, the engine takes
// steps of all of them in turn, and no result depends on what else goes on.
#include <chrono>
#include <iostream>

#include <tinker/engine.h>

namespace {

/// Teaches the model to go on with `text` after its first token.
tinker::Datum by_heart(const std::vector<std::int32_t>& text) {
  return {.model_input = tinker::ModelInput::from_tokens({text.begin(), text.end() - 1}),
          .loss_fn_inputs = {
              {"target_tokens", std::vector<std::int64_t>(text.begin() + 1, text.end())}}};
}

}  // namespace

int main(int argc, char** argv) {
  const auto loaded = tinker::Engine::load(argc > 1 ? argv[1] : ".");
  if (!loaded) {
    std::cerr << loaded.error().to_string() << '\n';
    return 1;
  }
  const tinker::Engine& engine = *loaded;
  const auto prompt = tinker::ModelInput::from_tokens({5});
  //! [together]
  const auto trainer = engine.create_trainer({.rank = 8, .seed = 1}).value();
  const std::vector<tinker::Datum> data = {by_heart({5, 9, 17, 33, 65, 129, 2})};
  std::vector<tinker::Future<tinker::OptimStepResponse>> steps;
  for (int step = 0; step < 60; ++step) {
    (void)trainer.forward_backward_async(data, tinker::LossFn::cross_entropy);
    steps.push_back(trainer.optim_step_async({.learning_rate = 0.01}));
  }
  auto trained = trainer.snapshot_async();  // behind the steps, which are behind the gradients

  // The base model answers meanwhile.
  const tinker::SamplingParams greedy = {.max_tokens = 6, .temperature = 0};
  std::cout << engine.sample(prompt, greedy).value().sequences[0].tokens.size() << " tokens\n";
  const auto answer = engine.sample(prompt, greedy, trained.get().value()).value();
  //! [together]
  for (const auto token : answer.sequences[0].tokens) std::cout << token << ' ';
  std::cout << '\n';
  for (auto& step : steps) step.get().value();

  //! [limits]
  // Of each tenant's calls, and none of them longer than a second.
  const auto mine = engine.for_tenant("alice").with({.deadline = std::chrono::seconds(1)});
  auto sample = mine.sample_async(prompt, {.max_tokens = 100});
  sample.cancel();
  std::cout << (sample.get().ok() ? "answered" : "cancelled") << '\n';
  //! [limits]

  trainer.forward_backward(data, tinker::LossFn::cross_entropy).value();
  trainer.discard_gradients().value();
  std::cout << "norm " << trainer.optim_step({}).value().metrics->at("unclipped_grad_l2:mean")
            << '\n';
}
