#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tinker/future.h"
#include "tinker/service_client.h"
#include "tinker/training_client.h"

namespace tinker {

namespace client {
class KeeperState;
}

/// Numbers that a training step gives, by name: `ForwardBackwardOutput::metrics`, or your own.
using StepMetrics = std::map<std::string, double, std::less<>>;

/// Which of two metrics is the better one.
enum class MetricGoal { minimize, maximize };

/// When to save checkpoints, and which to keep.
struct CheckpointPolicy {
  /// Names the training, through recoveries and in later processes: checkpoints are called
  /// "<name>-000020", and `CheckpointKeeper::load` finds them by it. One name for each training.
  std::string name = {};
  /// A checkpoint is due when so many steps were made since the last one. At least 1. Default: by
  /// time alone.
  std::optional<std::int64_t> every_steps = {};
  /// Or when so much time has passed and there was a step. Default: by steps alone.
  std::optional<std::chrono::nanoseconds> every = {};
  std::size_t keep_last = 2;  ///< How many of the newest to keep. At least 1.
  std::size_t keep_best = 0;  ///< How many of the best by `metric` to keep, beside the newest.
  /// Name of the metric that tells how good a checkpoint is, e.g. "loss:sum". Default: none.
  std::string metric = {};
  MetricGoal goal = MetricGoal::minimize;
  /// When the server may delete one by itself, counted from its save. Default: never.
  std::optional<std::chrono::seconds> ttl = {};
};

/// A training checkpoint, and when in the training it was made.
struct SavedCheckpoint {
  std::string path = {};  ///< "tinker://…", see `TinkerPath`.
  /// How many steps had been made. Absent for one that no keeper made.
  std::optional<std::int64_t> step = {};
  std::optional<double> metric =
      {};  ///< Of the policy's `metric`; absent where that had no number.

  friend bool operator==(const SavedCheckpoint&, const SavedCheckpoint&) = default;
};

/// Saves checkpoints on a schedule and deletes those that are not to be kept.
///
///     auto keeper = CheckpointKeeper::create(service, {.name = "sft-7", .every_steps =
///     20}).value(); if (keeper.is_due(step)) keeper.save(trainer, step, metrics).get().value();
///
/// It deletes only what it made itself, or found by `load`, and never the newest. What could not be
/// deleted is logged and tried again after the next save; a save that fails changes nothing. Step
/// and metric travel in the checkpoint's metadata, so that a later process knows them. Copies are
/// the same keeper.
///
/// Thread-safe.
class CheckpointKeeper {
 public:
  // NOLINTBEGIN(modernize-use-nodiscard): futures and results are so by themselves.
  /// Deletes and lists as the user of `service`. `invalid_argument` names a field that makes no
  /// sense.
  static Result<CheckpointKeeper> create(const ServiceClient& service, CheckpointPolicy policy);

  /// Finds what earlier processes saved under this name, and takes it over. Checkpoints of the
  /// whole account are looked through. All that is kept, oldest first.
  Future<std::vector<SavedCheckpoint>> load() const;

  /// Whether it is time for one, `step` steps having been made; always before the first.
  [[nodiscard]] bool is_due(std::int64_t step) const;
  /// Saves the state of `client`, after the calls that were made on it. A step of a run that is
  /// saved already is not saved again.
  Future<SavedCheckpoint> save(const TrainingClient& client,
                               std::int64_t step,
                               const StepMetrics& metrics) const;
  /// As `save`, without the policy's `ttl`.
  Future<SavedCheckpoint> save_final(const TrainingClient& client,
                                     std::int64_t step,
                                     const StepMetrics& metrics) const;
  /// The training goes on from there: it is the newest now.
  void restored(const std::string& path) const;
  /// Tries to delete all that is not kept any more. `save` does it, too, without waiting for it.
  /// Ends when each was tried; what failed is logged.
  Future<void> prune() const;

  /// All that is kept, oldest first.
  [[nodiscard]] std::vector<SavedCheckpoint> checkpoints() const;
  /// Those that have a metric, best first; of equals the newer.
  [[nodiscard]] std::vector<SavedCheckpoint> ranked() const;
  [[nodiscard]] std::optional<SavedCheckpoint> latest() const;
  [[nodiscard]] const CheckpointPolicy& policy() const noexcept;
  // NOLINTEND(modernize-use-nodiscard)

 private:
  explicit CheckpointKeeper(std::shared_ptr<client::KeeperState> state)
      : state_(std::move(state)) {}

  std::shared_ptr<client::KeeperState> state_;
};

}  // namespace tinker
