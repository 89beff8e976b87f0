#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tinker/checkpoint_keeper.h"
#include "tinker/future.h"
#include "tinker/recovery.h"
#include "tinker/training_client.h"

namespace tinker {

namespace client {
class TrainerState;
}

struct TrainerOptions {
  /// Go on from this checkpoint of the keeper's. Default: from its newest.
  std::optional<std::string> resume_from = {};
  /// How many recoveries in a row may lead to no new step; then the error comes out. At least 0.
  int max_stalled_recoveries = 3;
};

/// What a run of training steps came to.
struct TrainingOutcome {
  std::int64_t steps = 0;           ///< Of the whole training, earlier runs included.
  std::int64_t recoveries = 0;      ///< During this run.
  StepMetrics metrics = {};         ///< Of the last step.
  SavedCheckpoint checkpoint = {};  ///< Of the end.
};

/// A training loop that survives the loss of its model.
///
///     Future<StepMetrics> train(TrainingClient client, std::int64_t step) {
///       auto [gradients, update] = client.train_step(batch(step), loss, {.learning_rate = 1e-4});
///       TINKER_CO_TRY(auto output, co_await gradients);
///       TINKER_CO_TRY(co_await update);
///       co_return output.metrics;
///     }
///     auto opening = RecoverableTrainer::open(monitor, keeper, [&] {
///       return service.create_lora_training_client("Qwen/Qwen3-8B");
///     });
///     auto trainer = opening.get().value();
///     trainer.run(1000, train).get().value();
///
/// Before a step it saves a checkpoint if one is due, the first before step 0. When a step fails in
/// a way that needs a recovery, or the monitor finds the run corrupted, what is under way is
/// cancelled, the run is brought back, and the loop goes on with the step of the checkpoint: the
/// function sees the same steps again, with another client, and must take its batch from the
/// number. Other errors come out unchanged. A save that fails does not stop the training, except
/// the last.
///
/// One step at a time. Copies are the same trainer; the end of the last one cancels what it does,
/// and ends the watch. Thread-safe.
class RecoverableTrainer {
 public:
  /// Makes the model when there is no checkpoint to go on from.
  using MakeClient = std::function<Future<TrainingClient>()>;
  /// Makes step number `step`, counted from 0, and gives its metrics. `client` is good for this
  /// step only.
  using StepFunction = std::function<Future<StepMetrics>(TrainingClient client, std::int64_t step)>;

  // NOLINTBEGIN(modernize-use-nodiscard): futures and results are so by themselves.
  /// Goes on with what earlier processes left under the keeper's name, or begins. Functions run on
  /// the callback thread: they may not block.
  static Future<RecoverableTrainer> open(RecoveryMonitor monitor,
                                         CheckpointKeeper keeper,
                                         MakeClient make);
  static Future<RecoverableTrainer> open(RecoveryMonitor monitor,
                                         CheckpointKeeper keeper,
                                         MakeClient make,
                                         TrainerOptions options);

  /// Trains until `steps` steps have been made in all, then saves. One at a time; a later one goes
  /// on where it ended.
  Future<TrainingOutcome> run(std::int64_t steps, StepFunction function) const;

  /// As it is now; another one after a recovery.
  [[nodiscard]] TrainingClient client() const;
  /// How many steps have been made; less after a recovery.
  [[nodiscard]] std::int64_t step() const;
  // NOLINTEND(modernize-use-nodiscard)

  /// For the library itself.
  explicit RecoverableTrainer(std::shared_ptr<client::TrainerState> state)
      : state_(std::move(state)) {}

 private:
  std::shared_ptr<client::TrainerState> state_;
};

}  // namespace tinker
