#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "async/child_scope.h"
#include "base/logging.h"
#include "base/strings.h"
#include "client/checkpoint_keeper.h"
#include "client/recovery.h"

namespace tinker::client {

using async::Task;

namespace {

using WeakRun = std::weak_ptr<WatchedRun>;

Error watch_ended() {
  return {.code = ErrorCode::cancelled, .message = "the training run is not watched any more"};
}

bool is_end(const Error& error) noexcept {
  return error.code == ErrorCode::cancelled || error.code == ErrorCode::closed;
}

/// An event about a run, with a checkpoint and the run's next name where there are any.
struct Report {
  std::string_view name;
  LogLevel level = LogLevel::info;
  std::string run_id = {};
  const Error* error = nullptr;
  std::string checkpoint = {};
  std::string new_run_id = {};
  std::int64_t attempt = 0;
  std::chrono::nanoseconds elapsed = {};
};

void publish(const RecoveryRules& rules, const Report& report) {
  const auto& events = rules.runtime->events();
  if (!events.is_observed()) return;
  std::array<EventField, 3> fields = {EventField{.name = "run_id", .value = report.run_id}};
  std::size_t count = 1;
  if (!report.checkpoint.empty()) {
    fields[count++] = {.name = "checkpoint", .value = report.checkpoint};
  }
  if (!report.new_run_id.empty()) {
    fields[count++] = {.name = "new_run_id", .value = report.new_run_id};
  }
  Event event = {.name = report.name,
                 .level = report.level,
                 .attempt = report.attempt,
                 .elapsed = report.elapsed,
                 .fields = std::span(fields).first(count)};
  if (report.error != nullptr) {
    event.message = report.error->message;
    event.request_id = report.error->request_id;
    event.http_status = report.error->http_status;
    event.error = report.error->code;
  }
  events.publish(event);
}

/// Calls the user's function on the callback thread; what it throws goes no further.
template <typename F>
void call_back(const RecoveryRules& rules, F function) {
  rules.runtime->callbacks()->post([function = std::move(function), runtime = rules.runtime] {
    try {
      function();
    } catch (...) {
      const auto thrown = detail::error_from_current_exception("a callback threw");
      TINKER_LOG(runtime->logger(), error, "recovery: ", thrown.to_string());
    }
  });
}

/// What the attempts of one recovery have taught.
struct Lessons {
  bool is_session_new = false;
  std::set<std::string, std::less<>> refused = {};  // checkpoints

  [[nodiscard]] const SavedCheckpoint& pick(const std::vector<SavedCheckpoint>& candidates) const {
    const auto found = std::ranges::find_if(
        candidates, [this](const SavedCheckpoint& one) { return !refused.contains(one.path); });
    return found == candidates.end() ? candidates.front() : *found;
  }

  /// A model could not be made from the checkpoint `path`. What is gone may be the session; after
  /// that, and when the server says no, it is the checkpoint.
  void learn(WatchedRun& run, const std::string& path, const Error& error) {
    const bool is_gone = error.code == ErrorCode::not_found || error.code == ErrorCode::expired;
    if (is_gone && !is_session_new) {
      is_session_new = true;
      return run.renew_session();
    }
    const bool is_no = is_gone || error.code == ErrorCode::request_failed ||
                       error.code == ErrorCode::bad_request ||
                       error.code == ErrorCode::unprocessable ||
                       error.code == ErrorCode::permission_denied;
    if (is_no) refused.insert(path);
  }
};

Task<> sleep(std::chrono::nanoseconds time) {
  auto pause = async::sleep_for(time);
  co_return co_await pause;
}

bool is_lost(const WeakRun& weak) {
  const auto run = weak.lock();
  return run && run->loss();
}

Result<bool> begin_rest(const WeakRun& weak, std::shared_ptr<async::Scope> scope) {
  const auto run = weak.lock();
  if (!run) return watch_ended();
  return run->rest(std::move(scope));
}

/// Until it is time for a look, or the run is lost.
Task<> rest(WeakRun weak, std::chrono::nanoseconds time) {
  auto nap = std::make_shared<async::Scope>();
  TINKER_CO_TRY(const bool is_well, begin_rest(weak, nap));
  if (!is_well) co_return Result<void>();
  auto sleeping = async::in_child_scope(nap, sleep(time));
  const auto slept = co_await std::move(sleeping);
  if (!slept.ok() && !is_lost(weak)) co_return slept.error();
  co_return Result<void>();
}

/// Asks the server about the run, unless it is known to be lost.
std::optional<Future<TrainingRun>> ask(const WeakRun& weak, std::chrono::nanoseconds deadline) {
  const auto run = weak.lock();
  if (!run || run->loss()) return std::nullopt;
  const auto rest = run->service().create_rest_client();
  return rest.with({.deadline = deadline}).get_training_run(run->id());
}

Result<void> judge(const Guard& guard, const Result<TrainingRun>& answer) {
  const auto run = guard.run.lock();
  if (!run) return watch_ended();
  if (!answer.ok()) {
    if (is_end(answer.error())) return answer.error();
    publish(*guard.rules,
            {.name = "recovery.poll_error", .run_id = run->id(), .error = &answer.error()});
    return {};
  }
  if (!answer->corrupted) return {};
  // That somebody else was faster to say so is no error.
  (void)run->lose({.code = ErrorCode::request_failed,
                   .message = base::concat("the training run \"", run->id(), "\" is corrupted"),
                   .category = RequestErrorCategory::server});
  return {};
}

/// Looks once, unless the run is known to be lost. One run of a monitor at a time.
Task<> look(Guard guard) {
  if (is_lost(guard.run)) co_return Result<void>();
  auto turn = guard.rules->polls.acquire();
  TINKER_CO_TRY(const auto permit, co_await turn);
  auto asking = ask(guard.run, guard.rules->policy.poll_interval);
  if (!asking) co_return Result<void>();
  auto wait = async::until(*std::move(asking));
  const auto answer = co_await wait;
  co_return judge(guard, answer);
}

/// Checkpoints to go back to, best choice first, as far as we know without asking.
std::vector<SavedCheckpoint> candidates_of(const RecoveryPolicy& policy, const WatchedRun& run) {
  const auto& keeper = run.keeper();
  auto all = keeper ? keeper->checkpoints() : std::vector<SavedCheckpoint>();
  std::ranges::reverse(all);
  if (policy.checkpoint) {
    const auto found = std::ranges::find(all, *policy.checkpoint, &SavedCheckpoint::path);
    return {found == all.end() ? SavedCheckpoint{.path = *policy.checkpoint} : *found};
  }
  if (policy.choice == CheckpointChoice::latest || !keeper) return all;
  auto best = keeper->ranked();
  std::ranges::copy_if(
      all, std::back_inserter(best), [](const SavedCheckpoint& one) { return !one.metric; });
  return best;
}

/// What to go on with: candidates, or the question to the server for one.
struct Search {
  std::vector<SavedCheckpoint> candidates = {};
  std::optional<Future<TrainingRun>> asking = {};
  std::string run_id = {};
};

Result<Search> search(const Guard& guard) {
  const auto run = guard.run.lock();
  if (!run || !run->enter(RunPhase::in_progress)) return watch_ended();
  Search out = {.candidates = candidates_of(guard.rules->policy, *run), .run_id = run->id()};
  if (out.candidates.empty()) {
    out.asking = run->service().create_rest_client().get_training_run(out.run_id);
  }
  return out;
}

Task<SavedCheckpoint> choose(Guard guard, std::shared_ptr<Lessons> lessons) {
  TINKER_CO_TRY(auto found, search(guard));
  if (!found.asking) co_return lessons->pick(found.candidates);
  auto wait = async::until(*std::move(found.asking));
  const auto answer = co_await wait;
  if (!answer.ok()) co_return answer.error().with_context("find a checkpoint");
  if (!answer->last_checkpoint) {
    co_return Error{.code = ErrorCode::not_found,
                    .message = base::concat(
                        "the training run \"", found.run_id, "\" has no checkpoint to go back to")};
  }
  co_return describe(*answer->last_checkpoint, "");
}

Result<Future<TrainingClient>> start_restore(const Guard& guard,
                                             const std::string& path,
                                             int attempt) {
  const auto run = guard.run.lock();
  if (!run) return watch_ended();
  publish(
      *guard.rules,
      {.name = "recovery.started", .run_id = run->id(), .checkpoint = path, .attempt = attempt});
  return restore(run->service(), guard.rules->policy, path);
}

Result<void> install(const Guard& guard,
                     const SavedCheckpoint& checkpoint,
                     TrainingClient client,
                     int attempt) {
  const auto monitor = guard.monitor.lock();
  const auto run = guard.run.lock();
  const auto loss = run ? run->loss() : std::nullopt;
  if (!monitor || !loss) return watch_ended();
  if (run->keeper()) run->keeper()->restored(checkpoint.path);
  auto before = run->replace(client, checkpoint);
  if (!before) return watch_ended();
  monitor->rename(before->model_id(), run);

  const auto& rules = *guard.rules;
  TINKER_LOG(rules.runtime->logger(),
             warn,
             "the training run ",
             before->model_id(),
             " is brought back as ",
             client.model_id(),
             " from ",
             checkpoint.path);
  publish(rules,
          {.name = "recovery.completed",
           .run_id = before->model_id(),
           .checkpoint = checkpoint.path,
           .new_run_id = client.model_id(),
           .attempt = attempt,
           .elapsed = rules.runtime->clock().now() - loss->since});
  if (const auto& told = rules.policy.on_recovery) {
    call_back(rules, [told, checkpoint, from = *std::move(before), to = std::move(client)] {
      told(from, to, checkpoint);
    });
  }
  return {};
}

void learn(const WeakRun& weak, Lessons& lessons, const std::string& path, const Error& error) {
  if (const auto run = weak.lock()) lessons.learn(*run, path, error);
}

/// One attempt, with one of the slots for as long as it lasts.
Task<> try_once(Guard guard, std::shared_ptr<Lessons> lessons, int attempt) {
  auto turn = guard.rules->slots.acquire();
  TINKER_CO_TRY(const auto permit, co_await turn);
  auto choosing = choose(guard, lessons);
  TINKER_CO_TRY(const auto checkpoint, co_await std::move(choosing));
  TINKER_CO_TRY(auto making, start_restore(guard, checkpoint.path, attempt));
  auto wait = async::until(std::move(making));
  auto made = co_await wait;
  if (!made.ok()) {
    learn(guard.run, *lessons, checkpoint.path, made.error());
    co_return std::move(made).error().with_context(checkpoint.path);
  }
  co_return install(guard, checkpoint, *std::move(made), attempt);
}

/// How long to wait after failed attempt number `attempt`.
std::chrono::nanoseconds pause_after(int attempt, const RecoveryPolicy& policy) {
  auto pause = policy.backoff;
  for (int i = 1; i < attempt && pause < policy.max_backoff; ++i) pause *= 2;
  return std::min(pause, policy.max_backoff);
}

void note_failure(const Guard& guard, const Error& error, int attempt) {
  const auto run = guard.run.lock();
  if (!run) return;
  run->enter(RunPhase::pending_retry);
  publish(*guard.rules,
          {.name = "recovery.failed",
           .level = LogLevel::warn,
           .run_id = run->id(),
           .error = &error,
           .attempt = attempt});
}

void give_up(const Guard& guard, const Error& error, int attempt) {
  const auto monitor = guard.monitor.lock();
  const auto run = guard.run.lock();
  if (!monitor || !run) return;
  const std::string id = run->id();
  monitor->unwatch(run, error);

  const auto& rules = *guard.rules;
  publish(rules,
          {.name = "recovery.exhausted",
           .level = LogLevel::error,
           .run_id = id,
           .error = &error,
           .attempt = attempt});
  TINKER_LOG(rules.runtime->logger(),
             error,
             "the training run ",
             id,
             " could not be brought back, attempt ",
             attempt,
             " was the last: ",
             error.to_string());
  if (const auto& told = rules.policy.on_failure) {
    call_back(rules, [told, id, error] { told(id, error); });
  }
}

void announce(const Guard& guard) {
  const auto run = guard.run.lock();
  const auto loss = run ? run->loss() : std::nullopt;
  if (!loss) return;
  TINKER_LOG(guard.rules->runtime->logger(),
             warn,
             "the training run ",
             run->id(),
             " is lost: ",
             loss->cause.to_string());
  publish(*guard.rules,
          {.name = "recovery.detected",
           .level = LogLevel::warn,
           .run_id = run->id(),
           .error = &loss->cause});
}

void queue_again(const WeakRun& weak) {
  if (const auto run = weak.lock()) run->enter(RunPhase::queued);
}

Task<> recover(Guard guard) {
  announce(guard);
  const auto lessons = std::make_shared<Lessons>();
  const auto& policy = guard.rules->policy;
  for (int attempt = 1;; ++attempt) {
    auto trying = try_once(guard, lessons, attempt);
    const auto tried = co_await std::move(trying);
    if (tried.ok() || tried.error().code == ErrorCode::cancelled) co_return tried;
    note_failure(guard, tried.error(), attempt);
    if (attempt == policy.max_attempts || tried.error().code == ErrorCode::closed) {
      give_up(guard, tried.error(), attempt);
      co_return tried;
    }
    auto pause = async::sleep_for(pause_after(attempt, policy));
    TINKER_CO_TRY(co_await pause);
    queue_again(guard.run);
  }
}

Task<> look_after(Guard guard) {
  while (true) {
    auto resting = rest(guard.run, guard.rules->policy.poll_interval);
    TINKER_CO_TRY(co_await std::move(resting));
    auto looking = look(guard);
    TINKER_CO_TRY(co_await std::move(looking));
    if (!is_lost(guard.run)) continue;
    auto recovering = recover(guard);
    TINKER_CO_TRY(co_await std::move(recovering));
  }
}

void end_watch(const Guard& guard, const Error& why) {
  const auto monitor = guard.monitor.lock();
  const auto run = guard.run.lock();
  if (monitor && run) monitor->unwatch(run, why);
}

}  // namespace

Task<> keep_watch(Guard guard) {
  auto watching = look_after(guard);
  const auto ended = co_await std::move(watching);
  if (!ended.ok()) end_watch(guard, ended.error());
  co_return ended;
}

}  // namespace tinker::client
