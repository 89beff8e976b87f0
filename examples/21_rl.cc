// Reinforcement learning: answer with the capital, and stop. The reward is a program: the fewer
// tokens a right answer takes, the better.
//
//     21_rl MODEL     SmolLM2-135M-Instruct: a GGUF file or a folder; or none, and TINKER_BASE_URL
#include <algorithm>
#include <iostream>
#include <numeric>

#include "capitals.h"
#include "chat.h"

namespace {

float reward(const example::Chat& chat,
             const capitals::Question& question,
             const tinker::SampledSequence& answer) {
  if (chat.text(answer).find(question.capital) == std::string::npos) return 0;
  return 1.0F - static_cast<float>(std::ssize(answer.tokens) - 2) / example::Chat::kMostTokens;
}

struct Score {
  int right = 0;
  float reward = 0;
};
/// The most likely answers to the held-out questions.
Score evaluate(const tinker::SamplingClient& sampler, const example::Chat& chat, const char* when) {
  const auto test = capitals::test();
  std::vector<std::string> texts;
  for (const auto& question : test) texts.push_back(question.text);
  const auto answers = chat.ask(sampler, texts);
  Score out;
  for (std::size_t i = 0; i < test.size(); ++i) {
    const float gained = reward(chat, test[i], answers[i]);
    out.right += gained > 0 ? 1 : 0;
    out.reward += gained / static_cast<float>(test.size());
    if (i < 3) std::cout << "  " << test[i].text << " -> " << chat.text(answers[i]) << '\n';
  }
  std::cout << when << ": " << out.right << " of " << test.size() << " right, reward " << out.reward
            << '\n';
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const auto server = example::model_server(argc, argv);
  const auto service = server.connect();
  const auto model = example::any_model(service);
  const tinker::LoraTrainingOptions lora = {.rank = 16, .seed = 1, .train_unembed = false};
  const auto trainer = service.create_lora_training_client(model, lora).get().value();
  const example::Chat chat(trainer.get_tokenizer().get().value());
  evaluate(service.create_sampling_client({.base_model = model}).get().value(), chat, "before");

  const auto train = capitals::train();
  std::size_t next = 0;
  for (int round = 0; round < 9; ++round) {
    const auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
    std::vector<std::pair<capitals::Question, tinker::Future<tinker::SampleResponse>>> groups;
    for (int i = 0; i < 5; ++i) {
      const auto& question = train[next % train.size()];
      groups.emplace_back(question,
                          sampler.sample(chat.prompt(question.text),
                                         {.max_tokens = example::Chat::kMostTokens, .seed = next++},
                                         {.num_samples = 8}));
    }
    std::vector<tinker::Datum> batch;
    float sum = 0;
    for (auto& [question, group] : groups) {
      const auto answers = group.get().value().sequences;
      std::vector<float> rewards;
      for (const auto& answer : answers) rewards.push_back(reward(chat, question, answer));
      const float mean =
          std::reduce(rewards.begin(), rewards.end()) / static_cast<float>(rewards.size());
      sum += mean;
      // Equal rewards teach nothing; what rounding makes of their mean would be taken for a lesson.
      if (std::ranges::count(rewards, rewards[0]) == std::ssize(rewards)) continue;
      for (std::size_t i = 0; i < answers.size(); ++i) {
        batch.push_back(
            tinker::Datum::episode(chat.prompt(question.text), answers[i], rewards[i] - mean)
                .value());
      }
    }
    std::cout << "round " << round << ": reward " << sum / 5 << '\n';
    if (batch.empty()) continue;
    auto [gradients, update] = trainer.train_step(
        std::move(batch), tinker::LossFn::importance_sampling, {.learning_rate = 1e-3});
    gradients.get().value();
    update.get().value();
  }
  const auto saved = trainer.save_weights_for_sampler("capitals").get().value();
  const auto learnt = service.create_sampling_client({.model_path = saved.path}).get().value();
  const auto score = evaluate(learnt, chat, "after");
  std::cout << "saved " << saved.path << '\n';
  return score.right >= 11 && score.reward >= 0.5F ? 0 : 1;
}
