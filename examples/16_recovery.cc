// A run that survives the loss of its model: checkpoints on a schedule, and a loop that goes on
// from the newest one. The server is started again in the middle: checkpoints are on its disk,
// models were in its memory.
#include <filesystem>
#include <iostream>
#include <random>

#include "server.h"
#include "text.h"

namespace {

//! [step]
/// One step. The batch comes from its number: after a recovery the same steps come again.
tinker::Future<tinker::StepMetrics> train(tinker::TrainingClient client, std::int64_t step) {
  const std::vector<tinker::Datum> batch = {
      example::next_letters(step % 2 == 0 ? "back again. " : "here we are. ")};
  auto [gradients, update] =
      client.train_step(batch, tinker::LossFn::cross_entropy, {.learning_rate = 1e-2});
  TINKER_CO_TRY(const auto output, co_await gradients);
  TINKER_CO_TRY(co_await update);
  std::cout << "step " << step << ": loss " << output.loss().value() << '\n';
  co_return output.metrics;
}
//! [step]

}  // namespace

int main() {
  auto options = example::random_model();
  options.data_dir = std::filesystem::temp_directory_path() /
                     ("tinker-example-" + std::to_string(std::random_device()()));
  auto server = tinker::LocalServer::start(options).value();
  auto service = tinker::ServiceClient::connect(
                     {.base_url = server.base_url(), .api_key = tinker::Secret("tml-example")})
                     .value();
  const auto model = example::any_model(service);

  //! [recover]
  auto keeper = tinker::CheckpointKeeper::create(
                    service, {.name = "example", .every_steps = 2, .keep_last = 2})
                    .value();
  auto monitor = tinker::RecoveryMonitor::start(service,
                                                {.on_recovery =
                                                     [](const tinker::TrainingClient& before,
                                                        const tinker::TrainingClient& after,
                                                        const tinker::SavedCheckpoint& checkpoint) {
                                                       std::cout
                                                           << before.model_id() << " was lost, "
                                                           << after.model_id() << " goes on from "
                                                           << checkpoint.path << '\n';
                                                     }})
                     .value();
  auto trainer = tinker::RecoverableTrainer::open(
                     monitor, keeper, [&] { return service.create_lora_training_client(model); })
                     .get()
                     .value();
  trainer.run(5, train).get().value();
  //! [recover]

  options.port = server.port();
  server.stop().value();
  server = tinker::LocalServer::start(options).value();

  const auto outcome = trainer.run(8, train).get().value();
  std::cout << outcome.steps << " steps, " << outcome.recoveries << " recoveries, "
            << keeper.checkpoints().size() << " checkpoints kept\n";
  std::filesystem::remove_all(options.data_dir);
}
