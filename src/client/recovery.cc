#include "client/recovery.h"

#include <utility>

#include "base/logging.h"
#include "base/strings.h"
#include "tinker/types/tinker_path.h"

namespace tinker::client {

namespace {

Error not_watched(const std::string& id) {
  return {.code = ErrorCode::invalid_argument,
          .message = base::concat("the training run \"", id, "\" is not watched")};
}

Error stopped() {
  return {.code = ErrorCode::closed, .message = "the recovery monitor was stopped"};
}

Result<void> check(const RecoveryPolicy& policy) {
  const auto bad = [](auto... pieces) {
    return Error{.code = ErrorCode::invalid_argument, .message = base::concat(pieces...)};
  };
  if (policy.max_attempts < 1) {
    return bad("max_attempts: expected at least 1, found ", policy.max_attempts);
  }
  if (policy.max_concurrent < 1) {
    return bad("max_concurrent: expected at least 1, found ", policy.max_concurrent);
  }
  if (policy.backoff.count() < 0) {
    return bad("backoff: expected at least 0, found ", policy.backoff.count(), " ns");
  }
  if (policy.max_backoff < policy.backoff) {
    return bad("max_backoff: expected at least backoff, found ", policy.max_backoff.count(), " ns");
  }
  if (policy.poll_interval.count() <= 0) {
    return bad("poll_interval: expected more than 0, found ", policy.poll_interval.count(), " ns");
  }
  if (policy.checkpoint) {
    TINKER_TRY(TinkerPath::parse(*policy.checkpoint));
  }
  return {};
}

}  // namespace

bool RecoveryRules::is_lost(const Error& error) const {
  if (!policy.is_lost) return needs_recovery(error);
  try {
    return policy.is_lost(error);
  } catch (...) {
    const auto thrown = detail::error_from_current_exception("is_lost threw");
    TINKER_LOG(runtime->logger(), error, thrown.to_string());
    return false;
  }
}

Future<TrainingClient> restore(const ServiceClient& service,
                               const RecoveryPolicy& policy,
                               const std::string& path) {
  return policy.restore_optimizer
             ? service.create_training_client_from_state_with_optimizer(path, policy.from_state)
             : service.create_training_client_from_state(path, policy.from_state);
}

WatchedRun::WatchedRun(ServiceClient service,
                       TrainingClient client,
                       std::optional<CheckpointKeeper> keeper)
    : runtime_(service.runtime().core()),
      keeper_(std::move(keeper)),
      service_(std::move(service)),
      client_(std::move(client)) {}

Result<void> WatchedRun::lose(Error cause) {
  {
    const detail::MutexLock lock(mutex_);
    if (ended_) return *ended_;
    if (loss_) {
      return Error{
          .code = ErrorCode::conflict,
          .message = base::concat(
              "the training run \"", client_.model_id(), "\" is being brought back already")};
    }
    loss_ = Loss{.cause = std::move(cause), .since = runtime_->clock().now()};
    phase_ = RunPhase::queued;
  }
  runtime_->loop()->post([weak = weak_from_this()] {
    if (const auto run = weak.lock()) run->wake();
  });
  return {};
}

void WatchedRun::wake() {
  const Error lost = {.code = ErrorCode::cancelled,
                      .message = "cancelled, because the training run is lost"};
  for (auto* scope : {&use_, &rest_}) {
    if (const auto waiting = std::exchange(*scope, nullptr)) waiting->cancel(lost);
  }
}

bool WatchedRun::use(std::shared_ptr<async::Scope> scope) {
  if (loss()) return false;
  use_ = std::move(scope);
  return true;
}

bool WatchedRun::rest(std::shared_ptr<async::Scope> scope) {
  if (loss()) return false;
  rest_ = std::move(scope);
  return true;
}

bool WatchedRun::enter(RunPhase phase) {
  const detail::MutexLock lock(mutex_);
  if (ended_) return false;
  phase_ = phase;
  return true;
}

std::optional<TrainingClient> WatchedRun::replace(TrainingClient client,
                                                  SavedCheckpoint checkpoint) {
  std::vector<Promise<void>> waiters;
  {
    const detail::MutexLock lock(mutex_);
    if (ended_) return std::nullopt;
    std::swap(client_, client);
    restored_from_ = std::move(checkpoint);
    loss_.reset();
    phase_ = RunPhase::watched;
    waiters.swap(waiters_);
  }
  for (auto& waiter : waiters) waiter.set(Result<void>());
  return client;
}

void WatchedRun::end(const Error& why) {
  std::vector<Promise<void>> waiters;
  {
    const detail::MutexLock lock(mutex_);
    if (ended_) return;
    ended_ = why;
    waiters.swap(waiters_);
  }
  for (auto& waiter : waiters) waiter.set(why);
  stop_.request_stop();
}

void WatchedRun::renew_session() {
  const detail::MutexLock lock(mutex_);
  service_ = service_.with_new_session();
}

Future<void> WatchedRun::back() {
  const detail::MutexLock lock(mutex_);
  if (ended_) return Future<void>::ready(*ended_);
  if (!loss_) return Future<void>::ready(Result<void>());
  Promise<void> promise(runtime_->loop());
  auto future = promise.future();
  waiters_.push_back(std::move(promise));
  return future;
}

RunPhase WatchedRun::phase() const {
  const detail::MutexLock lock(mutex_);
  return phase_;
}

std::optional<Loss> WatchedRun::loss() const {
  const detail::MutexLock lock(mutex_);
  return loss_;
}

ServiceClient WatchedRun::service() const {
  const detail::MutexLock lock(mutex_);
  return service_;
}

TrainingClient WatchedRun::client() const {
  const detail::MutexLock lock(mutex_);
  return client_;
}

SavedCheckpoint WatchedRun::restored_from() const {
  const detail::MutexLock lock(mutex_);
  return restored_from_;
}

MonitorState::MonitorState(ServiceClient service, RecoveryPolicy policy)
    : service_(std::move(service)),
      rules_(std::make_shared<const RecoveryRules>(
          RecoveryRules{.policy = std::move(policy), .runtime = service_.runtime().core()})) {}

Result<std::shared_ptr<WatchedRun>> MonitorState::watch(TrainingClient client,
                                                        std::optional<CheckpointKeeper> keeper) {
  const auto bad = [](std::string message) {
    return Error{.code = ErrorCode::invalid_argument, .message = std::move(message)};
  };
  if (rules_->policy.choice == CheckpointChoice::best && !rules_->policy.checkpoint &&
      (!keeper || keeper->policy().metric.empty())) {
    return bad("the best checkpoint is asked for: expected a keeper with a metric");
  }
  const std::string id = client.model_id();
  auto run = std::make_shared<WatchedRun>(service_, std::move(client), std::move(keeper));
  {
    const detail::MutexLock lock(mutex_);
    if (is_stopped_) return stopped();
    if (!runs_.emplace(id, run).second) {
      return bad(base::concat("the training run \"", id, "\" is watched already"));
    }
  }
  const auto& runtime = rules_->runtime;
  (void)runtime->spawn(runtime->scope(),
                       keep_watch({.rules = rules_, .monitor = weak_from_this(), .run = run}),
                       async::SpawnOptions{.stop_token = run->stop_token()});
  return run;
}

Result<std::shared_ptr<WatchedRun>> MonitorState::find(const std::string& id) const {
  const detail::MutexLock lock(mutex_);
  if (is_stopped_) return stopped();
  const auto found = runs_.find(id);
  if (found == runs_.end()) return not_watched(id);
  return found->second;
}

void MonitorState::unwatch(const std::shared_ptr<WatchedRun>& run, const Error& why) {
  {
    const detail::MutexLock lock(mutex_);
    std::erase_if(runs_, [&](const auto& entry) { return entry.second == run; });
  }
  run->end(why);
}

void MonitorState::rename(const std::string& before, const std::shared_ptr<WatchedRun>& run) {
  const detail::MutexLock lock(mutex_);
  if (runs_.erase(before) > 0) runs_.insert_or_assign(run->id(), run);
}

void MonitorState::stop() {
  std::map<std::string, std::shared_ptr<WatchedRun>, std::less<>> runs;
  {
    const detail::MutexLock lock(mutex_);
    is_stopped_ = true;
    runs.swap(runs_);
  }
  for (const auto& [id, run] : runs) run->end(stopped());
}

}  // namespace tinker::client

namespace tinker {

bool needs_recovery(const Error& error) noexcept {
  switch (error.code == ErrorCode::predecessor_failed ? error.cause.value_or(error.code)
                                                      : error.code) {
    case ErrorCode::connection_failed:
    case ErrorCode::timed_out:
    case ErrorCode::not_found:
    case ErrorCode::expired:
    case ErrorCode::rate_limited:
    case ErrorCode::server_error: return true;
    case ErrorCode::request_failed: return error.category != RequestErrorCategory::user;
    default: return false;
  }
}

Result<RecoveryMonitor> RecoveryMonitor::start(ServiceClient service) {
  return start(std::move(service), RecoveryPolicy());
}

Result<RecoveryMonitor> RecoveryMonitor::start(ServiceClient service, RecoveryPolicy policy) {
  TINKER_TRY(client::check(policy));
  return RecoveryMonitor(
      std::make_shared<client::MonitorState>(std::move(service), std::move(policy)));
}

Result<void> RecoveryMonitor::watch(TrainingClient client) const {
  TINKER_TRY(state_->watch(std::move(client), std::nullopt));
  return {};
}

Result<void> RecoveryMonitor::watch(TrainingClient client, CheckpointKeeper keeper) const {
  TINKER_TRY(state_->watch(std::move(client), std::move(keeper)));
  return {};
}

Result<void> RecoveryMonitor::unwatch(const std::string& training_run_id) const {
  TINKER_TRY(const auto run, state_->find(training_run_id));
  state_->unwatch(run,
                  {.code = ErrorCode::cancelled,
                   .message = base::concat("the watch of \"", training_run_id, "\" was ended")});
  return {};
}

Result<void> RecoveryMonitor::report(const std::string& training_run_id, Error error) const {
  TINKER_TRY(const auto run, state_->find(training_run_id));
  if (!state_->rules()->is_lost(error)) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .message = base::concat(
            "a recovery of \"", training_run_id, "\" would not help with: ", error.to_string())};
  }
  return run->lose(std::move(error));
}

std::optional<RunPhase> RecoveryMonitor::phase(const std::string& training_run_id) const {
  const auto run = state_->find(training_run_id);
  if (!run) return std::nullopt;
  return (*run)->phase();
}

void RecoveryMonitor::stop() const {
  state_->stop();
}

}  // namespace tinker
