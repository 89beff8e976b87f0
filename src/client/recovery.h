#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "async/runtime_core.h"
#include "async/scope.h"
#include "async/semaphore.h"
#include "tinker/detail/mutex.h"
#include "tinker/recovery.h"

namespace tinker::client {

/// A new model as `policy` asks for it.
Future<TrainingClient> restore(const ServiceClient& service,
                               const RecoveryPolicy& policy,
                               const std::string& path);

/// What is known of a lost run while it is brought back.
struct Loss {
  Error cause;
  async::TimePoint since;
};

/// A run under watch: one object through all its recoveries, whatever the run is called by then.
/// Any thread, except where it says otherwise.
class WatchedRun : public std::enable_shared_from_this<WatchedRun> {
 public:
  WatchedRun(ServiceClient service, TrainingClient client, std::optional<CheckpointKeeper> keeper);

  /// It is lost: ends what uses it and wakes its guard. `conflict` when that is known, `closed`
  /// when it is not watched any more.
  Result<void> lose(Error cause);
  /// While it is lost. False once it is not watched any more.
  bool enter(RunPhase phase);
  /// It is back. What it was; nothing when it is not watched any more.
  std::optional<TrainingClient> replace(TrainingClient client, SavedCheckpoint checkpoint);
  /// It is not watched any more.
  void end(const Error& why);
  /// The server has ended the session: later calls are made in a new one.
  void renew_session();

  /// Until it is watched and not lost, or not watched any more; then the error says why.
  Future<void> back();
  /// Loop thread: `scope` is cancelled when the run is lost; false when it is already.
  bool use(std::shared_ptr<async::Scope> scope);
  /// The same for the guard's sleep.
  bool rest(std::shared_ptr<async::Scope> scope);

  [[nodiscard]] RunPhase phase() const;
  [[nodiscard]] std::optional<Loss> loss() const;
  [[nodiscard]] ServiceClient service() const;
  [[nodiscard]] TrainingClient client() const;
  [[nodiscard]] std::string id() const { return client().model_id(); }
  [[nodiscard]] const std::optional<CheckpointKeeper>& keeper() const noexcept { return keeper_; }
  /// Where the last recovery went back to.
  [[nodiscard]] SavedCheckpoint restored_from() const;
  /// Stops when the watch ends.
  [[nodiscard]] std::stop_token stop_token() const { return stop_.get_token(); }

 private:
  void wake();

  const std::shared_ptr<async::RuntimeCore> runtime_;
  const std::optional<CheckpointKeeper> keeper_;
  std::stop_source stop_;
  mutable detail::Mutex mutex_;
  ServiceClient service_ TINKER_GUARDED_BY(mutex_);
  TrainingClient client_ TINKER_GUARDED_BY(mutex_);
  RunPhase phase_ TINKER_GUARDED_BY(mutex_) = RunPhase::watched;
  std::optional<Loss> loss_ TINKER_GUARDED_BY(mutex_);
  std::optional<Error> ended_ TINKER_GUARDED_BY(mutex_);
  SavedCheckpoint restored_from_ TINKER_GUARDED_BY(mutex_);
  std::vector<Promise<void>> waiters_ TINKER_GUARDED_BY(mutex_);
  // Loop thread.
  std::shared_ptr<async::Scope> use_ = {};
  std::shared_ptr<async::Scope> rest_ = {};
};

/// What the guards of all runs of a monitor go by. Holds no client.
struct RecoveryRules {
  RecoveryPolicy policy;
  std::shared_ptr<async::RuntimeCore> runtime;
  async::Semaphore slots = async::Semaphore::counting(policy.max_concurrent);
  async::Semaphore polls = async::Semaphore::counting(1);

  [[nodiscard]] bool is_lost(const Error& error) const;
};

/// What the handles of a monitor share. Guards hold it, and the runs in it, weakly.
class MonitorState : public std::enable_shared_from_this<MonitorState> {
 public:
  MonitorState(ServiceClient service, RecoveryPolicy policy);
  MonitorState(const MonitorState&) = delete;
  MonitorState& operator=(const MonitorState&) = delete;
  ~MonitorState() { stop(); }

  Result<std::shared_ptr<WatchedRun>> watch(TrainingClient client,
                                            std::optional<CheckpointKeeper> keeper);
  [[nodiscard]] Result<std::shared_ptr<WatchedRun>> find(const std::string& id) const;
  /// Ends the watch of `run`, whatever it is called.
  void unwatch(const std::shared_ptr<WatchedRun>& run, const Error& why);
  /// `run` has got another id.
  void rename(const std::string& before, const std::shared_ptr<WatchedRun>& run);
  void stop();

  [[nodiscard]] const ServiceClient& service() const noexcept { return service_; }
  [[nodiscard]] const std::shared_ptr<const RecoveryRules>& rules() const noexcept {
    return rules_;
  }

 private:
  const ServiceClient service_;
  const std::shared_ptr<const RecoveryRules> rules_;
  mutable detail::Mutex mutex_;
  std::map<std::string, std::shared_ptr<WatchedRun>, std::less<>> runs_ TINKER_GUARDED_BY(mutex_);
  bool is_stopped_ TINKER_GUARDED_BY(mutex_) = false;
};

/// Who looks after one run. Keeps nothing alive.
struct Guard {
  std::shared_ptr<const RecoveryRules> rules;
  std::weak_ptr<MonitorState> monitor;
  std::weak_ptr<WatchedRun> run;
};
/// Polls, and brings the run back each time it is lost, until its watch ends.
async::Task<> keep_watch(Guard guard);

}  // namespace tinker::client
