#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tinker/checkpoint_keeper.h"
#include "tinker/error.h"
#include "tinker/service_client.h"
#include "tinker/training_client.h"

namespace tinker {

namespace client {
class MonitorState;
}

/// Whether a training request that failed like this leaves its run lost, or in a state nobody
/// knows, so that only a checkpoint is solid ground: the model or session is gone (404, 410), the
/// server failed or could not be reached in spite of all retries. False for what would fail again
/// the same way (a bad batch, a refused credential) and for what the caller did (a cancel, a
/// deadline). A `predecessor_failed` counts as its cause.
[[nodiscard]] bool needs_recovery(const Error& error) noexcept;

enum class CheckpointChoice {
  latest,  ///< The keeper's newest; without a keeper, the last one the server knows of the run.
  best,    ///< The keeper's best by its metric.
};

/// How lost runs are brought back.
struct RecoveryPolicy {
  int max_attempts = 3;  ///< Of one recovery. At least 1.
  /// Pause after the first failed attempt; doubles with each one.
  std::chrono::nanoseconds backoff = std::chrono::seconds(5);
  std::chrono::nanoseconds max_backoff = std::chrono::seconds(60);
  /// How often the server is asked whether a run is corrupted; also how long an answer may take.
  std::chrono::nanoseconds poll_interval = std::chrono::seconds(30);
  CheckpointChoice choice = CheckpointChoice::latest;
  /// Go back to this path, whatever was saved since. Default: `choice` decides.
  std::optional<std::string> checkpoint = {};
  bool restore_optimizer = true;  ///< Otherwise it starts anew.
  int max_concurrent = 1;         ///< Runs brought back at the same time; others queue.
  FromStateOptions from_state = {};
  /// Which failures are worth a recovery. Called on any thread, must not block. Default:
  /// `needs_recovery`.
  std::function<bool(const Error& error)> is_lost = {};
  /// Called when a run is back: as it was, as it is, and the checkpoint it went back to.
  std::function<void(
      const TrainingClient& before, const TrainingClient& after, const SavedCheckpoint& checkpoint)>
      on_recovery = {};
  /// Called when a run is given up, with the error of the last attempt.
  std::function<void(const std::string& training_run_id, const Error& error)> on_failure = {};
};

/// Where a watched run stands.
enum class RunPhase {
  watched,        ///< Nothing is known to be wrong.
  queued,         ///< Lost; waits for others to be brought back.
  in_progress,    ///< An attempt is under way.
  pending_retry,  ///< An attempt failed, the next one will come.
};

/// Watches training runs and brings back those that are lost: makes a new model from a checkpoint
/// and watches that.
///
///     auto monitor = RecoveryMonitor::start(service, {.on_recovery = [&](auto&, auto& after,
///     auto&)
///                                                     { use(after); }}).value();
///     monitor.watch(trainer, keeper).value();
///
/// A run is lost when the server says that it is corrupted, or when a failure is reported. An
/// attempt that the server refuses because the session is gone is followed by one in a new session;
/// a checkpoint that cannot be loaded by the next older (or next best) one. `RecoverableTrainer`
/// does all of this for a training loop.
///
/// Callbacks run on the callback thread; what they throw is logged. They should not hold a copy of
/// the monitor: it would never end. Copies are the same monitor; the end of the last one is `stop`.
///
/// Thread-safe.
class RecoveryMonitor {
 public:
  // NOLINTBEGIN(modernize-use-nodiscard): results are so by themselves.
  static Result<RecoveryMonitor> start(ServiceClient service);
  /// `invalid_argument` names a field of the policy that makes no sense.
  static Result<RecoveryMonitor> start(ServiceClient service, RecoveryPolicy policy);

  /// Begins to look after the run of `client`, which is one of the monitor's service.
  Result<void> watch(TrainingClient client) const;
  /// The same, with the checkpoints of `keeper`.
  Result<void> watch(TrainingClient client, CheckpointKeeper keeper) const;
  /// Ends that, and a recovery under way, without a callback.
  Result<void> unwatch(const std::string& training_run_id) const;
  /// A request of the run failed: begins a recovery. `invalid_argument` when the run is not watched
  /// (any more), or `error` is none that a recovery could help with; `conflict` when the run is
  /// being brought back already.
  Result<void> report(const std::string& training_run_id, Error error) const;

  /// Nothing when it is not watched.
  [[nodiscard]] std::optional<RunPhase> phase(const std::string& training_run_id) const;

  /// Ends everything, recoveries under way too, without callbacks and without waiting. Later calls
  /// fail with `closed`.
  void stop() const;
  // NOLINTEND(modernize-use-nodiscard)

  /// For the library itself.
  [[nodiscard]] const std::shared_ptr<client::MonitorState>& state() const noexcept {
    return state_;
  }

 private:
  explicit RecoveryMonitor(std::shared_ptr<client::MonitorState> state)
      : state_(std::move(state)) {}

  std::shared_ptr<client::MonitorState> state_;
};

}  // namespace tinker
