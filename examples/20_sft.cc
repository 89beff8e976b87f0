// Teaches a small instruct model a house format in a minute: one sentence in, one label such as
// FOOD/GOOD out. Things and adjectives of the test are not in the training data.
//
//     20_sft MODEL     SmolLM2-135M-Instruct: a GGUF file or a folder; or none, and TINKER_BASE_URL
#include <array>
#include <iostream>

#include "chat.h"
#include "labels.h"

namespace {

/// How many sentences get their label; shows some of them.
int evaluate(const tinker::SamplingClient& sampler, const example::Chat& chat, const char* when) {
  const auto test = labels::test();
  std::vector<std::string> sentences;
  for (const auto& item : test) sentences.push_back(item.sentence);
  const auto answers = chat.ask(sampler, sentences);
  std::array<int, 2> right = {};  // GOOD, BAD
  for (std::size_t i = 0; i < test.size(); ++i) {
    const auto text = chat.text(answers[i]);
    if (text == test[i].label) ++right[i % 2];
    if (i % 7 == 0) std::cout << "  " << test[i].sentence << " -> " << text << '\n';
  }
  const std::size_t each = test.size() / 2;
  std::cout << when << ": " << right[0] + right[1] << " of " << test.size() << " right, GOOD "
            << right[0] << " of " << each << ", BAD " << right[1] << " of " << each << '\n';
  return right[0] + right[1];
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

  constexpr int kSteps = 30;
  const auto data = labels::train();
  tinker::Rng rng(1);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<tinker::Datum> batch;
    for (int i = 0; i < 8; ++i) {
      const auto& item = data[rng.below(data.size())];
      batch.push_back(chat.datum(item.sentence, item.label));
    }
    const double rate = 1e-3 * (1.0 - static_cast<double>(step) / kSteps);
    auto [gradients, update] = trainer.train_step(
        std::move(batch), tinker::LossFn::cross_entropy, {.learning_rate = rate});
    const double loss = gradients.get().value().loss().value();
    if (step % 10 == 0) std::cout << "step " << step << ": loss " << loss << '\n';
    update.get().value();
  }
  const auto saved = trainer.save_weights_for_sampler("labels").get().value();
  const auto learnt = service.create_sampling_client({.model_path = saved.path}).get().value();
  const int right = evaluate(learnt, chat, "after");
  std::cout << "saved " << saved.path << '\n';
  return right >= 22 ? 0 : 1;
}
