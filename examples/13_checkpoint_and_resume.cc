// Checkpoints: save, go on in a new client exactly where the old one was, find and delete them.
#include <iostream>

#include "server.h"
#include "text.h"

namespace {

double step(const tinker::TrainingClient& trainer) {
  const std::vector<tinker::Datum> batch = {example::next_letters("to be continued. ")};
  auto [gradients, update] =
      trainer.train_step(batch, tinker::LossFn::cross_entropy, {.learning_rate = 1e-2});
  update.get().value();
  return gradients.get().value().loss().value();
}

}  // namespace

int main() {
  const example::Server server;
  auto service = server.connect();
  auto trainer = service.create_lora_training_client(example::any_model(service)).get().value();
  for (int i = 0; i < 3; ++i) step(trainer);

  //! [save]
  const auto saved = trainer
                         .save_state("step-3",
                                     {.ttl_seconds = 7 * 24 * 3600,
                                      .user_metadata = tinker::StringMap{{"step", "3"}}})
                         .get()
                         .value();
  auto resumed = service.create_training_client_from_state_with_optimizer(saved.path).get().value();
  //! [save]
  const double here = step(trainer);
  const double there = step(resumed);
  std::cout << "resumed: " << (here == there ? "the same loss" : "another loss") << '\n';

  //! [list]
  const auto rest = service.create_rest_client();
  const auto list = rest.list_checkpoints(trainer.model_id()).get().value();
  for (const auto& checkpoint : list.checkpoints) {
    std::cout << checkpoint.checkpoint_id << " of " << checkpoint.tinker_path << '\n';
  }
  //! [list]

  //! [taken]
  // A name that is taken is an error, unless it is to be replaced.
  std::cout << trainer.save_state("step-3").get().error().to_string() << '\n';
  trainer.save_state("step-3", {.overwrite = true}).get().value();
  //! [taken]
  rest.delete_checkpoint_from_tinker_path(saved.path).get().value();
  std::cout << rest.list_checkpoints(trainer.model_id()).get().value().checkpoints.size()
            << " checkpoints left\n";
}
