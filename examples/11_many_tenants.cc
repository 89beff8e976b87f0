// Many users in one process: each has a client with its own key, limits and errors; all share one
// runtime, that is, one event loop.
#include <iostream>

#include "server.h"
#include "text.h"

int main() {
  const example::Server server;
  //! [tenants]
  const auto runtime = tinker::Runtime::start();
  std::vector<tinker::ServiceClient> tenants;
  for (const char* key : {"tml-ada", "tml-bob", "tml-eve"}) {
    tenants.push_back(tinker::ServiceClient::connect({.base_url = server.url(),
                                                      .api_key = tinker::Secret(key),
                                                      .user_metadata = {{"team", "examples"}},
                                                      .runtime = runtime})
                          .value());
  }

  // All begin at once; none waits for another.
  const auto model = example::any_model(tenants[0]);
  std::vector<tinker::Future<tinker::TrainingClient>> creating;
  for (const auto& tenant : tenants) {
    creating.push_back(tenant.create_lora_training_client(model, {.rank = 8}));
  }
  const auto trainers = tinker::when_all(std::move(creating)).get().value();
  //! [tenants]

  std::vector<tinker::Future<tinker::ForwardBackwardOutput>> steps;
  for (const auto& trainer : trainers) {
    steps.push_back(trainer.forward_backward({example::next_letters("mine, not yours")},
                                             tinker::LossFn::cross_entropy));
  }
  for (const auto& output : tinker::when_all(std::move(steps)).get().value()) {
    std::cout << "loss " << output.loss().value() << '\n';
  }
  for (const auto& trainer : trainers) std::cout << trainer.model_id() << '\n';

  //! [deadline]
  // One tenant's deadline is that tenant's alone.
  const auto late = tenants[0]
                        .with({.deadline = std::chrono::milliseconds(0)})
                        .create_lora_training_client(model)
                        .get();
  std::cout << tinker::to_string(late.error().code) << '\n';
  //! [deadline]
  for (const auto& tenant : tenants) {
    tenant.close(tinker::SessionFinishReason::success).get().value();
  }
}
