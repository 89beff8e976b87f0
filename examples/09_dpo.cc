// Direct preference optimization: pairs of answers to one prompt, the better one first. The
// reference is the model before training.
#include <iostream>

#include "server.h"
#include "text.h"

int main() {
  const example::Server server;
  auto service = server.connect();
  auto trainer =
      service.create_lora_training_client(example::any_model(service), {.seed = 1}).get().value();

  //! [dpo]
  // Data 0, 2, 4 ... are chosen, each followed by the one that was rejected.
  std::vector<tinker::Datum> pairs = {example::next_letters("Q: hi A: hello!", 9),
                                      example::next_letters("Q: hi A: go away", 9),
                                      example::next_letters("Q: bye A: see you", 10),
                                      example::next_letters("Q: bye A: at last", 10)};
  const auto reference =
      trainer.forward(pairs, tinker::LossFn::cross_entropy).get().value().loss_fn_outputs;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].loss_fn_inputs["reference_logprobs"] = reference[i].at("logprobs");
  }

  const auto loss = tinker::loss::dpo({.beta = 0.1});
  for (int step = 0; step < 10; ++step) {
    auto gradients = trainer.forward_backward_custom(pairs, loss);
    auto update = trainer.optim_step({.learning_rate = 1e-3});
    const auto metrics = gradients.get().value().metrics;
    std::cout << "loss " << metrics.at("dpo_loss") << ", margin " << metrics.at("margin")
              << ", accuracy " << metrics.at("accuracy") << '\n';
    update.get().value();
  }
  //! [dpo]
}
