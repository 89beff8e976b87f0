// A training loop: both requests of a step are in flight before the first is awaited.
#include <iostream>

#include "server.h"
#include "text.h"

int main() {
  const example::Server server;
  auto service = server.connect();
  const auto model = example::any_model(service);
  const std::vector<tinker::Datum> batch = {example::next_letters("the cat sat on the mat. "),
                                            example::next_letters("the hat is on the cat. ")};
  const auto prompt = tinker::ModelInput::from_tokens(example::tokens("th"));
  //! [loop]
  auto trainer = service.create_lora_training_client(model, {.rank = 16, .seed = 1}).get().value();
  for (int step = 0; step < 8; ++step) {
    auto [gradients, update] =
        trainer.train_step(batch, tinker::LossFn::cross_entropy, {.learning_rate = 1e-2});
    std::cout << "loss " << gradients.get().value().loss().value() << '\n';
    update.get().value();
  }
  auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
  auto answer = sampler.sample(prompt, {.max_tokens = 12, .seed = 1}).get().value();
  std::cout << "th" << example::text(answer.sequences[0].tokens) << '\n';
  service.close(tinker::SessionFinishReason::success).get().value();
  //! [loop]
}
