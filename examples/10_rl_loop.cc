// Reinforcement learning with importance sampling: sample a group, reward it, train on what was
// better than the average, sample again from the new weights.
#include <algorithm>
#include <iostream>
#include <numeric>

#include "server.h"
#include "text.h"

namespace {

/// The share of small letters: something a model can learn from rewards alone.
float reward(std::string_view text) {
  const auto is_small = [](char letter) { return letter >= 'a' && letter <= 'z'; };
  return static_cast<float>(std::ranges::count_if(text, is_small)) /
         static_cast<float>(text.size());
}

}  // namespace

int main() {
  const example::Server server;
  auto service = server.connect();
  auto trainer =
      service.create_lora_training_client(example::any_model(service), {.seed = 1}).get().value();
  const auto prompt = tinker::ModelInput::from_tokens(example::tokens("Sing: "));
  //! [rl]
  for (int round = 0; round < 10; ++round) {
    auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
    const auto group =
        sampler.sample(prompt, {.max_tokens = 2, .seed = round}, {.num_samples = 64}).get().value();
    std::vector<float> rewards;
    for (const auto& answer : group.sequences) {
      rewards.push_back(reward(example::text(answer.tokens)));
    }
    const float mean =
        std::accumulate(rewards.begin(), rewards.end(), 0.0F) / static_cast<float>(rewards.size());
    std::cout << "round " << round << ": reward " << mean << '\n';

    std::vector<tinker::Datum> batch;
    for (std::size_t i = 0; i < group.sequences.size(); ++i) {
      const float advantage = rewards[i] - mean;
      batch.push_back(tinker::Datum::episode(prompt, group.sequences[i], advantage).value());
    }
    auto [gradients, update] = trainer.train_step(
        std::move(batch), tinker::LossFn::importance_sampling, {.learning_rate = 1e-2});
    gradients.get().value();
    update.get().value();
  }
  //! [rl]
}
