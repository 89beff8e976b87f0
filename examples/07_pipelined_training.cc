// Pipelined training: the server always has the next step at hand while the client looks at the
// last one. Nothing is awaited between submissions; requests keep the order of the calls.
#include <deque>
#include <iostream>

#include "server.h"
#include "text.h"

int main() {
  constexpr std::size_t kInFlight = 3;
  constexpr int kSteps = 12;
  const example::Server server;
  auto service = server.connect();
  auto trainer =
      service.create_lora_training_client(example::any_model(service), {.seed = 1}).get().value();
  const std::vector<tinker::Datum> batch(4, example::next_letters("one step after the other. "));

  //! [pipeline]
  std::deque<tinker::TrainStep> steps;
  const auto finish_oldest = [&] {
    auto [gradients, update] = std::move(steps.front());
    steps.pop_front();
    std::cout << "loss " << gradients.get().value().loss().value() << '\n';
    update.get().value();
  };
  for (int step = 0; step < kSteps; ++step) {
    const double learning_rate = 1e-2 * (1.0 - static_cast<double>(step) / kSteps);
    steps.push_back(
        trainer.train_step(batch, tinker::LossFn::cross_entropy, {.learning_rate = learning_rate}));
    if (steps.size() > kInFlight) finish_oldest();
  }
  while (!steps.empty()) finish_oldest();
  //! [pipeline]

  //! [parts]
  // The parts of a large batch, as they arrive.
  auto parts = trainer.forward_backward_parts(batch, tinker::LossFn::cross_entropy, {}).value();
  for (auto& part : parts) {
    const auto output = part.output.get().value();
    std::cout << "data " << part.first << " to " << part.first + part.count - 1 << ": "
              << output.loss_fn_outputs.size() << " outputs\n";
  }
  //! [parts]
}
