// Reinforcement learning with importance sampling: sample a group, reward it, train on what was
// better than the average, sample again from the new weights.
#include <algorithm>
#include <iostream>
#include <numeric>

#include "text.h"

namespace {

/// The share of small letters: something a model can learn from rewards alone.
float reward(std::string_view text) {
  const auto is_small = [](char letter) { return letter >= 'a' && letter <= 'z'; };
  return static_cast<float>(std::ranges::count_if(text, is_small)) /
         static_cast<float>(text.size());
}

/// Prompt and answer as one datum: the logprobs of the policy that sampled, and an advantage for
/// each token of the answer.
tinker::Datum episode(const std::string& prompt,
                      const tinker::SampledSequence& answer,
                      float advantage) {
  const auto all = prompt + example::text(answer.tokens);
  const auto unscored = prompt.size() - 1;  // targets that are still prompt
  std::vector<float> logprobs(unscored, 0.0F);
  std::ranges::copy(answer.logprobs, std::back_inserter(logprobs));
  std::vector<float> advantages(unscored, 0.0F);
  advantages.resize(all.size() - 1, advantage);
  return {
      .model_input =
          tinker::ModelInput::from_tokens(example::tokens(all.substr(0, all.size() - 1))),
      .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>(all.begin() + 1, all.end())},
                         {"logprobs", std::move(logprobs)},
                         {"advantages", std::move(advantages)}}};
}

}  // namespace

int main() {
  auto service = tinker::ServiceClient::connect().value();
  auto trainer = service.create_lora_training_client(example::any_model(service)).get().value();
  const std::string prompt = "Sing: ";
  //! [rl]
  for (int round = 0; round < 10; ++round) {
    auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
    const auto group = sampler
                           .sample(tinker::ModelInput::from_tokens(example::tokens(prompt)),
                                   {.max_tokens = 2, .seed = round},
                                   {.num_samples = 64})
                           .get()
                           .value();
    std::vector<float> rewards;
    for (const auto& answer : group.sequences) {
      rewards.push_back(reward(example::text(answer.tokens)));
    }
    const float mean =
        std::accumulate(rewards.begin(), rewards.end(), 0.0F) / static_cast<float>(rewards.size());
    std::cout << "round " << round << ": reward " << mean << '\n';

    std::vector<tinker::Datum> batch;
    for (std::size_t i = 0; i < group.sequences.size(); ++i) {
      batch.push_back(episode(prompt, group.sequences[i], rewards[i] - mean));
    }
    auto [gradients, update] = trainer.train_step(
        std::move(batch), tinker::LossFn::importance_sampling, {.learning_rate = 0.4});
    gradients.get().value();
    update.get().value();
  }
  //! [rl]
}
