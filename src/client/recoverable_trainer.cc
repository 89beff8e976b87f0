#include "tinker/recoverable_trainer.h"

#include <algorithm>
#include <utility>

#include "async/child_scope.h"
#include "base/strings.h"
#include "client/recovery.h"

namespace tinker::client {

using async::Task;

/// What the handles of a trainer share. Its tasks hold it weakly: with the last handle they end.
class TrainerState {
 public:
  struct Parts {
    RecoveryMonitor monitor;
    CheckpointKeeper keeper;
    std::shared_ptr<WatchedRun> run;
    TrainerOptions options;
    std::int64_t step;
  };
  explicit TrainerState(Parts parts)
      : parts_(std::move(parts)), step_(parts_.step), furthest_(parts_.step) {}
  TrainerState(const TrainerState&) = delete;
  TrainerState& operator=(const TrainerState&) = delete;
  ~TrainerState() {
    stop_.request_stop();
    parts_.monitor.state()->unwatch(
        parts_.run, {.code = ErrorCode::cancelled, .message = "the trainer went away"});
  }

  [[nodiscard]] const RecoveryRules& rules() const { return *parts_.monitor.state()->rules(); }
  [[nodiscard]] const CheckpointKeeper& keeper() const noexcept { return parts_.keeper; }
  [[nodiscard]] WatchedRun& run() const noexcept { return *parts_.run; }
  [[nodiscard]] std::stop_token stop_token() const { return stop_.get_token(); }

  /// False when it runs already.
  bool begin();
  void end();

  [[nodiscard]] std::int64_t step() const;
  /// Of the last step made.
  [[nodiscard]] StepMetrics metrics() const;
  void advance(StepMetrics metrics);
  /// Goes back to the checkpoint that the run was brought back from.
  Result<void> rewind();
  /// Whether another recovery may be tried after `error`.
  Result<void> allow_recovery(const Error& error);
  [[nodiscard]] TrainingOutcome outcome(SavedCheckpoint checkpoint) const;

 private:
  const Parts parts_;
  std::stop_source stop_;
  mutable detail::Mutex mutex_;
  bool is_running_ TINKER_GUARDED_BY(mutex_) = false;
  std::int64_t step_ TINKER_GUARDED_BY(mutex_);
  std::int64_t furthest_ TINKER_GUARDED_BY(mutex_);
  StepMetrics metrics_ TINKER_GUARDED_BY(mutex_);
  int stalled_ TINKER_GUARDED_BY(mutex_) = 0;  // recoveries since the last new step
  std::int64_t recoveries_ TINKER_GUARDED_BY(mutex_) = 0;
};

bool TrainerState::begin() {
  const detail::MutexLock lock(mutex_);
  if (std::exchange(is_running_, true)) return false;
  recoveries_ = 0;
  stalled_ = 0;
  return true;
}

void TrainerState::end() {
  const detail::MutexLock lock(mutex_);
  is_running_ = false;
}

std::int64_t TrainerState::step() const {
  const detail::MutexLock lock(mutex_);
  return step_;
}

StepMetrics TrainerState::metrics() const {
  const detail::MutexLock lock(mutex_);
  return metrics_;
}

void TrainerState::advance(StepMetrics metrics) {
  const detail::MutexLock lock(mutex_);
  metrics_ = std::move(metrics);
  if (++step_ <= furthest_) return;
  furthest_ = step_;
  stalled_ = 0;
}

Result<void> TrainerState::rewind() {
  const auto checkpoint = run().restored_from();
  if (!checkpoint.step) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .message = base::concat(
            "the checkpoint ", checkpoint.path, " does not say after which step it was made")};
  }
  const detail::MutexLock lock(mutex_);
  step_ = *checkpoint.step;
  metrics_.clear();
  ++recoveries_;
  return {};
}

Result<void> TrainerState::allow_recovery(const Error& error) {
  const detail::MutexLock lock(mutex_);
  if (stalled_ < parts_.options.max_stalled_recoveries) {
    ++stalled_;
    return {};
  }
  return error.with_context(base::concat("no new step after ", stalled_, " recoveries"));
}

TrainingOutcome TrainerState::outcome(SavedCheckpoint checkpoint) const {
  const detail::MutexLock lock(mutex_);
  return {.steps = step_,
          .recoveries = recoveries_,
          .metrics = metrics_,
          .checkpoint = std::move(checkpoint)};
}

namespace {

using Weak = std::weak_ptr<TrainerState>;
using StepFunction = std::shared_ptr<const RecoverableTrainer::StepFunction>;

Error trainer_gone() {
  return {.code = ErrorCode::cancelled, .message = "the trainer went away"};
}

/// Calls `function()` on the callback thread; gives what comes of it.
template <typename F>
auto call_user(const async::RuntimeCore& runtime, F function) {
  Promise<void> go(runtime.callbacks());
  auto out = go.future().then(
      [function = std::move(function)](const Result<void>&) { return function(); });
  go.set(Result<void>());
  return out;
}

struct Turn {
  std::int64_t step;
  bool is_due;
};

Result<Turn> next_turn(const Weak& weak) {
  const auto trainer = weak.lock();
  if (!trainer) return trainer_gone();
  const auto step = trainer->step();
  return Turn{.step = step, .is_due = trainer->keeper().is_due(step)};
}

Result<Future<SavedCheckpoint>> start_save(const Weak& weak, bool is_final) {
  const auto trainer = weak.lock();
  if (!trainer) return trainer_gone();
  const auto& keeper = trainer->keeper();
  const auto client = trainer->run().client();
  return is_final ? keeper.save_final(client, trainer->step(), trainer->metrics())
                  : keeper.save(client, trainer->step(), trainer->metrics());
}

Result<Future<StepMetrics>> start_step(const Weak& weak, const StepFunction& function) {
  const auto trainer = weak.lock();
  if (!trainer) return trainer_gone();
  auto metrics = call_user(*trainer->rules().runtime,
                           [function, client = trainer->run().client(), step = trainer->step()] {
                             return (*function)(client, step);
                           });
  // A function that is a coroutine may go on for a while after it was cancelled.
  return std::move(metrics).then([function](Result<StepMetrics> result) { return result; });
}

Result<void> finish_step(const Weak& weak, StepMetrics metrics) {
  const auto trainer = weak.lock();
  if (!trainer) return trainer_gone();
  trainer->advance(std::move(metrics));
  return {};
}

/// A checkpoint if one is due, and a step. At the end the last checkpoint instead.
Task<std::optional<SavedCheckpoint>> make_turn(Weak weak,
                                               std::int64_t steps,
                                               StepFunction function) {
  TINKER_CO_TRY(const auto turn, next_turn(weak));
  const bool is_end = turn.step >= steps;
  if (is_end || turn.is_due) {
    TINKER_CO_TRY(auto saving, start_save(weak, is_end));
    auto wait = async::until(std::move(saving));
    auto saved = co_await wait;
    if (is_end && saved.ok()) co_return std::optional(*std::move(saved));
    // The keeper told of the failure; the next turn tries again.
    const bool is_over = !saved.ok() && (is_end || saved.error().code == ErrorCode::cancelled);
    if (is_over) co_return std::move(saved).error();
  }
  TINKER_CO_TRY(auto stepping, start_step(weak, function));
  auto wait = async::until(std::move(stepping));
  TINKER_CO_TRY(auto metrics, co_await wait);
  TINKER_CO_TRY(finish_step(weak, std::move(metrics)));
  co_return std::optional<SavedCheckpoint>();
}

Result<bool> begin_use(const Weak& weak, std::shared_ptr<async::Scope> scope) {
  const auto trainer = weak.lock();
  if (!trainer) return trainer_gone();
  return trainer->run().use(std::move(scope));
}

/// The way back after `error`: until the run is brought back. The error of what ended it, or of the
/// step where a recovery would not help.
Result<Future<void>> start_recovery(const Weak& weak, const Error& error) {
  const auto trainer = weak.lock();
  if (!trainer) return trainer_gone();
  auto& run = trainer->run();
  const auto loss = run.loss();
  if (!loss && !trainer->rules().is_lost(error)) return error;
  TINKER_TRY(trainer->allow_recovery(loss ? loss->cause : error));
  // The monitor may have found out at this very moment; once the watch has ended, `back` says why.
  if (!loss) (void)run.lose(error);
  return run.back();
}

Result<void> rewind(const Weak& weak) {
  const auto trainer = weak.lock();
  return trainer ? trainer->rewind() : trainer_gone();
}

Task<> come_back(Weak weak, Error error) {
  TINKER_CO_TRY(auto waiting, start_recovery(weak, error));
  auto wait = async::until(std::move(waiting));
  TINKER_CO_TRY(co_await wait);
  co_return rewind(weak);
}

Result<Future<void>> start_prune(const Weak& weak) {
  const auto trainer = weak.lock();
  if (!trainer) return trainer_gone();
  return trainer->keeper().prune();
}

Result<TrainingOutcome> outcome(const Weak& weak, SavedCheckpoint checkpoint) {
  const auto trainer = weak.lock();
  if (!trainer) return trainer_gone();
  return trainer->outcome(std::move(checkpoint));
}

Task<SavedCheckpoint> make_turns(Weak weak, std::int64_t steps, StepFunction function) {
  while (true) {
    auto scope = std::make_shared<async::Scope>();
    TINKER_CO_TRY(const bool is_well, begin_use(weak, scope));
    Error error = {.code = ErrorCode::cancelled, .message = "the training run is lost"};
    if (is_well) {
      auto turning = async::in_child_scope(scope, make_turn(weak, steps, function));
      auto turned = co_await std::move(turning);
      if (turned.ok() && *turned) co_return **std::move(turned);
      if (turned.ok()) continue;
      error = std::move(turned).error();
    }
    auto returning = come_back(weak, std::move(error));
    TINKER_CO_TRY(co_await std::move(returning));
  }
}

/// `busy` is let go of when the run ends, however it does.
Task<TrainingOutcome> train(Weak weak,
                            std::int64_t steps,
                            StepFunction function,
                            [[maybe_unused]] std::shared_ptr<void> busy) {
  auto turns = make_turns(weak, steps, std::move(function));
  TINKER_CO_TRY(auto checkpoint, co_await std::move(turns));
  TINKER_CO_TRY(auto pruning, start_prune(weak));
  auto wait = async::until(std::move(pruning));
  TINKER_CO_TRY(co_await wait);
  co_return outcome(weak, std::move(checkpoint));
}

/// Where to go on: the checkpoint asked for, or the newest.
Result<std::optional<SavedCheckpoint>> pick(const std::vector<SavedCheckpoint>& kept,
                                            const std::optional<std::string>& path) {
  if (!path) return kept.empty() ? std::nullopt : std::optional(kept.back());
  const auto found = std::ranges::find(kept, *path, &SavedCheckpoint::path);
  if (found != kept.end()) return std::optional(*found);
  return Error{.code = ErrorCode::invalid_argument,
               .message = base::concat(
                   "resume_from: no checkpoint of this training is called \"", *path, "\"")};
}

/// Holds the monitor and the keeper, which nobody else may do yet.
Task<RecoverableTrainer> open_trainer(RecoveryMonitor monitor,
                                      CheckpointKeeper keeper,
                                      RecoverableTrainer::MakeClient make,
                                      TrainerOptions options) {
  const auto state = monitor.state();
  auto loading = async::until(keeper.load());
  TINKER_CO_TRY(const auto kept, co_await loading);
  TINKER_CO_TRY(const auto start, pick(kept, options.resume_from));
  auto making = async::until(start ? restore(state->service(), state->rules()->policy, start->path)
                                   : call_user(*state->rules()->runtime, std::move(make)));
  TINKER_CO_TRY(auto client, co_await making);
  if (start) keeper.restored(start->path);
  TINKER_CO_TRY(auto run, state->watch(std::move(client), keeper));
  co_return RecoverableTrainer(std::make_shared<TrainerState>(
      TrainerState::Parts{.monitor = monitor,
                          .keeper = keeper,
                          .run = std::move(run),
                          .options = options,
                          .step = start ? start->step.value_or(0) : 0}));
}

}  // namespace
}  // namespace tinker::client

namespace tinker {

Future<RecoverableTrainer> RecoverableTrainer::open(RecoveryMonitor monitor,
                                                    CheckpointKeeper keeper,
                                                    MakeClient make) {
  return open(std::move(monitor), std::move(keeper), std::move(make), TrainerOptions());
}

Future<RecoverableTrainer> RecoverableTrainer::open(RecoveryMonitor monitor,
                                                    CheckpointKeeper keeper,
                                                    MakeClient make,
                                                    TrainerOptions options) {
  const auto runtime = monitor.state()->rules()->runtime;
  return runtime->spawn(
      runtime->scope(),
      client::open_trainer(
          std::move(monitor), std::move(keeper), std::move(make), std::move(options)));
}

Future<TrainingOutcome> RecoverableTrainer::run(std::int64_t steps, StepFunction function) const {
  const auto refused = [](std::string message) {
    return Future<TrainingOutcome>::ready(
        Error{.code = ErrorCode::invalid_argument, .message = std::move(message)});
  };
  if (steps < 0) return refused(base::concat("steps: expected at least 0, found ", steps));
  if (!state_->begin()) return refused("the trainer is running already");
  std::shared_ptr<void> busy(nullptr, [weak = std::weak_ptr(state_)](void*) {
    if (const auto trainer = weak.lock()) trainer->end();
  });
  const auto& runtime = state_->rules().runtime;
  return runtime->spawn(runtime->scope(),
                        client::train(state_,
                                      steps,
                                      std::make_shared<const StepFunction>(std::move(function)),
                                      std::move(busy)),
                        async::SpawnOptions{.stop_token = state_->stop_token()});
}

TrainingClient RecoverableTrainer::client() const {
  return state_->run().client();
}

std::int64_t RecoverableTrainer::step() const {
  return state_->step();
}

}  // namespace tinker
