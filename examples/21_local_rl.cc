// Reinforcement learning on this machine: answer with the capital, and stop. The reward is a
// program: the fewer tokens a right answer takes, the better. Run it with SmolLM2-135M-Instruct, a
// GGUF file or a folder.
#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <string>

#include <tinker/engine.h>
#include <tinker/tinker.h>

namespace {

struct Question {
  const char* country;
  const char* capital;
};
constexpr std::array<Question, 14> kTrain = {{{"France", "Paris"},
                                              {"Germany", "Berlin"},
                                              {"Italy", "Rome"},
                                              {"Spain", "Madrid"},
                                              {"Japan", "Tokyo"},
                                              {"China", "Beijing"},
                                              {"Russia", "Moscow"},
                                              {"Egypt", "Cairo"},
                                              {"Canada", "Ottawa"},
                                              {"Greece", "Athens"},
                                              {"Poland", "Warsaw"},
                                              {"Sweden", "Stockholm"},
                                              {"Norway", "Oslo"},
                                              {"Portugal", "Lisbon"}}};
constexpr std::array<Question, 12> kTest = {{{"Austria", "Vienna"},
                                             {"Belgium", "Brussels"},
                                             {"Denmark", "Copenhagen"},
                                             {"Finland", "Helsinki"},
                                             {"Ireland", "Dublin"},
                                             {"Hungary", "Budapest"},
                                             {"Turkey", "Ankara"},
                                             {"India", "Delhi"},
                                             {"Cuba", "Havana"},
                                             {"Peru", "Lima"},
                                             {"Kenya", "Nairobi"},
                                             {"Thailand", "Bangkok"}}};
constexpr int kMostTokens = 12;

std::vector<std::int32_t> prompt(const tinker::Tokenizer& tokenizer, const Question& question) {
  return tokenizer.encode("<|im_start|>user\nWhat is the capital of " +
                              std::string(question.country) +
                              "?<|im_end|>\n<|im_start|>assistant\n",
                          {.add_special_tokens = false, .parse_special = true});
}

float reward(const tinker::Tokenizer& tokenizer,
             const Question& question,
             const tinker::SampledSequence& answer) {
  if (tokenizer.decode(answer.tokens).find(question.capital) == std::string::npos) return 0;
  return 1.0F - static_cast<float>(static_cast<int>(answer.tokens.size()) - 2) / kMostTokens;
}

tinker::Datum episode(const std::vector<std::int32_t>& asked,
                      const tinker::SampledSequence& answer,
                      float advantage) {
  auto text = asked;
  text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
  std::vector<float> logprobs(asked.size() - 1, 0.0F);
  logprobs.insert(logprobs.end(), answer.logprobs.begin(), answer.logprobs.end());
  std::vector<float> advantages(asked.size() - 1, 0.0F);
  advantages.resize(text.size() - 1, advantage);
  return {
      .model_input = tinker::ModelInput::from_tokens({text.begin(), text.end() - 1}),
      .loss_fn_inputs = {{"target_tokens", std::vector<std::int64_t>(text.begin() + 1, text.end())},
                         {"logprobs", std::move(logprobs)},
                         {"advantages", std::move(advantages)}}};
}

struct Score {
  int right = 0;
  float reward = 0;
};
/// The most likely answers to the held-out questions.
Score evaluate(const tinker::Engine& engine,
               const tinker::Tokenizer& tokenizer,
               const tinker::AdapterSnapshot& from) {
  std::vector<tinker::Future<tinker::SampleResponse>> answers;  // all at the same time
  for (const auto& question : kTest) {
    auto asked = tinker::ModelInput::from_tokens(prompt(tokenizer, question));
    answers.push_back(
        engine.sample_async(std::move(asked), {.max_tokens = kMostTokens, .temperature = 0}, from));
  }
  Score out;
  for (std::size_t i = 0; i < kTest.size(); ++i) {
    const auto response = answers[i].get().value();
    const auto& answer = response.sequences[0];
    const float gained = reward(tokenizer, kTest[i], answer);
    out.right += gained > 0 ? 1 : 0;
    out.reward += gained / static_cast<float>(kTest.size());
    if (i < 3)
      std::cout << "  " << kTest[i].country << ": " << tokenizer.decode(answer.tokens) << '\n';
  }
  std::cout << out.right << " of " << kTest.size() << " right, reward " << out.reward << '\n';
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: 21_local_rl MODEL\n";
    return 2;
  }
  const auto engine = tinker::Engine::load(argv[1]).value();
  const auto tokenizer = tinker::Tokenizer::load(argv[1]).value();
  const auto trainer =
      engine.create_trainer({.rank = 16, .seed = 1, .train_unembed = false}).value();
  evaluate(engine, tokenizer, {});

  for (int round = 0; round < 9; ++round) {
    const auto from = trainer.snapshot().value();
    std::vector<tinker::Future<tinker::SampleResponse>> groups;
    std::vector<Question> asked;
    for (int i = 0; i < 5; ++i) {
      asked.push_back(kTrain[static_cast<std::size_t>(round * 5 + i) % kTrain.size()]);
      groups.push_back(
          engine.sample_async(tinker::ModelInput::from_tokens(prompt(tokenizer, asked.back())),
                              {.max_tokens = kMostTokens, .seed = round * 5 + i},
                              from,
                              {.num_samples = 8}));
    }
    std::vector<tinker::Datum> batch;
    float sum = 0;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto group = groups[i].get().value();
      const auto& answers = group.sequences;
      std::vector<float> rewards;
      float mean = 0;
      for (const auto& answer : answers) {
        rewards.push_back(reward(tokenizer, asked[i], answer));
        mean += rewards.back() / static_cast<float>(answers.size());
      }
      sum += mean;
      // Equal rewards teach nothing; what rounding makes of their mean would be taken for a lesson.
      if (std::ranges::count(rewards, rewards[0]) == std::ssize(rewards)) continue;
      for (std::size_t j = 0; j < answers.size(); ++j)
        batch.push_back(episode(prompt(tokenizer, asked[i]), answers[j], rewards[j] - mean));
    }
    std::cout << "round " << round << ": reward " << sum / static_cast<float>(asked.size()) << '\n';
    if (batch.empty()) continue;
    trainer.forward_backward(batch, tinker::LossFn::importance_sampling).value();
    trainer.optim_step({.learning_rate = 1e-3}).value();
  }
  const auto score = evaluate(engine, tokenizer, trainer.snapshot().value());
  return score.right >= 11 && score.reward >= 0.5F ? 0 : 1;
}
