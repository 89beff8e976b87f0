#include "client/checkpoint_keeper.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ranges>
#include <utility>

#include "async/runtime_core.h"
#include "async/semaphore.h"
#include "base/logging.h"
#include "base/strings.h"
#include "tinker/detail/mutex.h"

namespace tinker::client {

using async::Task;

namespace {

// How a keeper's checkpoints are marked.
constexpr std::string_view kNameKey = "tinker.keeper";
constexpr std::string_view kStepKey = "tinker.step";
constexpr std::string_view kMetricKey = "tinker.metric.";  // and the metric's name

constexpr std::chrono::seconds kDeleteDeadline{60};
constexpr std::int64_t kPage = 100;
constexpr std::size_t kStepDigits = 6;

template <typename Number>
std::optional<Number> read_number(const StringMap& map, std::string_view key) {
  const auto found = map.find(key);
  if (found == map.end()) return std::nullopt;
  const std::string& text = found->second;
  Number number = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A loss that is no number is neither good nor bad.
std::optional<double> comparable(std::optional<double> metric) {
  return metric && std::isfinite(*metric) ? metric : std::nullopt;
}

std::optional<double> find_metric(const StepMetrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? std::nullopt : comparable(found->second);
}

Error keeper_gone() {
  return {.code = ErrorCode::cancelled, .message = "the checkpoint keeper went away"};
}

/// "sft-7-000020".
std::string name_of(const CheckpointPolicy& policy, std::int64_t step) {
  const std::string digits = base::concat(step);
  const auto zeros = kStepDigits - std::min(kStepDigits, digits.size());
  return base::concat(policy.name, "-", std::string(zeros, '0'), digits);
}

StringMap metadata_of(const CheckpointPolicy& policy, const SavedCheckpoint& checkpoint) {
  StringMap out = {{std::string(kNameKey), policy.name},
                   {std::string(kStepKey), base::concat(*checkpoint.step)}};
  if (checkpoint.metric) {
    out.emplace(base::concat(kMetricKey, policy.metric), base::concat(*checkpoint.metric));
  }
  return out;
}

Result<void> check(const CheckpointPolicy& policy) {
  const auto bad = [](std::string message) {
    return Error{.code = ErrorCode::invalid_argument, .message = std::move(message)};
  };
  if (policy.name.empty()) return bad("name: expected one for this training, found \"\"");
  if (!policy.every_steps && !policy.every) {
    return bad("every_steps, every: expected one of them, found none");
  }
  if (policy.every_steps && *policy.every_steps < 1) {
    return bad(base::concat("every_steps: expected at least 1, found ", *policy.every_steps));
  }
  if (policy.every && policy.every->count() <= 0) {
    return bad(base::concat("every: expected more than 0, found ", policy.every->count(), " ns"));
  }
  if (policy.keep_last < 1) return bad("keep_last: expected at least 1, found 0");
  if (policy.keep_best > 0 && policy.metric.empty()) {
    return bad(base::concat("keep_best: ", policy.keep_best, " of them by no metric"));
  }
  return {};
}

}  // namespace

SavedCheckpoint describe(const Checkpoint& checkpoint, std::string_view metric) {
  const StringMap metadata = checkpoint.user_metadata.value_or(StringMap());
  return {.path = checkpoint.tinker_path,
          .step = read_number<std::int64_t>(metadata, kStepKey),
          .metric = comparable(read_number<double>(metadata, base::concat(kMetricKey, metric)))};
}

/// What the handles of a keeper share. Tasks hold it weakly, because it keeps the service alive.
class KeeperState {
 public:
  KeeperState(const ServiceClient& service, CheckpointPolicy checked)
      : policy(std::move(checked)),
        rest(service.create_rest_client()),
        runtime(service.runtime().core()) {}

  const CheckpointPolicy policy;
  const RestClient rest;
  const std::shared_ptr<async::RuntimeCore> runtime;
  const async::Semaphore pruning = async::Semaphore::counting(1);

  [[nodiscard]] bool is_due(std::int64_t step) const;
  /// The one of that step of that run.
  [[nodiscard]] std::optional<SavedCheckpoint> find(std::string_view run, std::int64_t step) const;
  [[nodiscard]] std::vector<SavedCheckpoint> kept() const;
  /// Of `all`, which are oldest first.
  [[nodiscard]] std::vector<SavedCheckpoint> ranked(std::vector<SavedCheckpoint> all) const;

  /// A new one is complete: those it makes superfluous are to be deleted.
  void add(const SavedCheckpoint& checkpoint);
  /// Older ones were found.
  void adopt(std::vector<SavedCheckpoint> found);
  void restored(const std::string& path);

  /// What is to be deleted.
  [[nodiscard]] std::vector<std::string> doomed() const;
  void forget(const std::string& path);

 private:
  struct Mark {
    std::int64_t step;
    async::TimePoint time;
  };

  mutable detail::Mutex mutex_;
  std::vector<SavedCheckpoint> kept_ TINKER_GUARDED_BY(mutex_);  // oldest first
  std::vector<std::string> doomed_ TINKER_GUARDED_BY(mutex_);
  std::optional<Mark> last_ TINKER_GUARDED_BY(mutex_);  // where the schedule counts from
};

bool KeeperState::is_due(std::int64_t step) const {
  const detail::MutexLock lock(mutex_);
  if (!last_) return true;
  if (step <= last_->step) return false;
  if (policy.every_steps && step - last_->step >= *policy.every_steps) return true;
  return policy.every && runtime->clock().now() - last_->time >= *policy.every;
}

std::optional<SavedCheckpoint> KeeperState::find(std::string_view run, std::int64_t step) const {
  const auto place = base::concat("tinker://", run, "/");
  const detail::MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(kept_, [&](const SavedCheckpoint& one) {
    return one.step == step && one.path.starts_with(place);
  });
  return found == kept_.end() ? std::nullopt : std::optional(*found);
}

std::vector<SavedCheckpoint> KeeperState::kept() const {
  const detail::MutexLock lock(mutex_);
  return kept_;
}

std::vector<SavedCheckpoint> KeeperState::ranked(std::vector<SavedCheckpoint> all) const {
  std::erase_if(all, [](const SavedCheckpoint& checkpoint) { return !checkpoint.metric; });
  std::ranges::reverse(all);  // of equals the newer comes first
  const double sign = policy.goal == MetricGoal::minimize ? 1 : -1;
  std::ranges::stable_sort(all, {}, [sign](const SavedCheckpoint& checkpoint) {
    return sign * checkpoint.metric.value_or(0);
  });
  return all;
}

void KeeperState::add(const SavedCheckpoint& checkpoint) {
  const detail::MutexLock lock(mutex_);
  kept_.push_back(checkpoint);
  last_ = Mark{.step = checkpoint.step.value_or(0), .time = runtime->clock().now()};
  auto best = ranked(kept_);
  best.resize(std::min(best.size(), policy.keep_best));
  const std::size_t candidates = kept_.size() - std::min(kept_.size(), policy.keep_last);
  const auto is_kept = [&](const SavedCheckpoint& old) {
    return std::ranges::find(best, old.path, &SavedCheckpoint::path) != best.end();
  };
  const auto begin = kept_.begin();
  const auto newest = begin + static_cast<std::ptrdiff_t>(candidates);
  const auto end_of_kept = std::stable_partition(begin, newest, is_kept);
  for (auto old = end_of_kept; old != newest; ++old) doomed_.push_back(old->path);
  kept_.erase(end_of_kept, newest);
}

void KeeperState::adopt(std::vector<SavedCheckpoint> found) {
  const detail::MutexLock lock(mutex_);
  std::erase_if(found, [this](const SavedCheckpoint& checkpoint) {
    return std::ranges::find(kept_, checkpoint.path, &SavedCheckpoint::path) != kept_.end() ||
           std::ranges::find(doomed_, checkpoint.path) != doomed_.end();
  });
  kept_.insert(kept_.begin(), found.begin(), found.end());
}

void KeeperState::restored(const std::string& path) {
  const detail::MutexLock lock(mutex_);
  const auto found = std::ranges::find(kept_, path, &SavedCheckpoint::path);
  if (found == kept_.end()) return;
  std::rotate(found, found + 1, kept_.end());
  last_ = Mark{.step = kept_.back().step.value_or(0), .time = runtime->clock().now()};
}

std::vector<std::string> KeeperState::doomed() const {
  const detail::MutexLock lock(mutex_);
  return doomed_;
}

void KeeperState::forget(const std::string& path) {
  const detail::MutexLock lock(mutex_);
  std::erase(doomed_, path);
}

namespace {

using Weak = std::weak_ptr<KeeperState>;

void publish(const async::RuntimeCore& runtime,
             std::string_view name,
             const SavedCheckpoint& checkpoint,
             const Error* error) {
  if (!runtime.events().is_observed()) return;
  const std::array<EventField, 2> fields = {
      EventField{.name = "path", .value = checkpoint.path},
      EventField{.name = "step", .value = checkpoint.step.value_or(0)}};
  Event event = {.name = name,
                 .level = LogLevel::info,
                 .fields = std::span(fields).first(checkpoint.step ? 2 : 1)};
  if (error != nullptr) {
    event.level = LogLevel::warn;
    event.message = error->message;
    event.request_id = error->request_id;
    event.http_status = error->http_status;
    event.error = error->code;
  }
  runtime.events().publish(event);
}

std::optional<Future<void>> start_delete(const Weak& weak, const std::string& path) {
  const auto keeper = weak.lock();
  if (!keeper) return std::nullopt;
  return keeper->rest.with({.deadline = kDeleteDeadline}).delete_checkpoint_from_tinker_path(path);
}

void note_deleted(const async::RuntimeCore& runtime,
                  const Weak& weak,
                  const std::string& path,
                  const Result<void>& deleted) {
  const bool is_gone = deleted.ok() || deleted.error().code == ErrorCode::not_found;
  publish(runtime, "checkpoint.delete", {.path = path}, is_gone ? nullptr : &deleted.error());
  if (const auto keeper = is_gone ? weak.lock() : nullptr) return keeper->forget(path);
  if (is_gone) return;
  TINKER_LOG(runtime.logger(),
             warn,
             "the checkpoint ",
             path,
             " could not be deleted, another try comes with the next save: ",
             deleted.error().to_string());
}

/// One round over what is to be deleted. One round at a time, so that nothing is deleted twice.
Task<> prune(std::shared_ptr<async::RuntimeCore> runtime, Weak weak, async::Semaphore rounds) {
  auto turn = rounds.acquire();
  TINKER_CO_TRY(const auto permit, co_await turn);
  const auto list = [](const Weak& from) {
    const auto keeper = from.lock();
    return keeper ? keeper->doomed() : std::vector<std::string>();
  };
  const auto paths = list(weak);
  for (const auto& path : paths) {
    auto deleting = start_delete(weak, path);
    if (!deleting) co_return keeper_gone();
    auto wait = async::until(*std::move(deleting));
    const auto deleted = co_await wait;
    note_deleted(*runtime, weak, path, deleted);
  }
  co_return Result<void>();
}

Future<void> start_prune(const std::shared_ptr<KeeperState>& keeper) {
  const auto& runtime = keeper->runtime;
  return runtime->spawn(runtime->scope(), prune(runtime, keeper, keeper->pruning));
}

void note_saved(const Weak& weak, const SavedCheckpoint& checkpoint) {
  const auto keeper = weak.lock();
  if (!keeper) return;
  keeper->add(checkpoint);
  (void)start_prune(keeper);
}

Task<SavedCheckpoint> finish_save(std::shared_ptr<async::RuntimeCore> runtime,
                                  Weak weak,
                                  Future<SaveWeightsResponse> saving,
                                  SavedCheckpoint checkpoint) {
  auto wait = async::until(std::move(saving));
  const auto saved = co_await wait;
  if (!saved.ok()) {
    const Error error = saved.error().with_context(
        base::concat("save a checkpoint after step ", checkpoint.step.value_or(0)));
    publish(*runtime, "checkpoint.save", checkpoint, &error);
    TINKER_LOG(runtime->logger(), warn, error.to_string());
    co_return error;
  }
  checkpoint.path = saved->path;
  publish(*runtime, "checkpoint.save", checkpoint, nullptr);
  note_saved(weak, checkpoint);
  co_return checkpoint;
}

enum class SaveKind { periodic, final };

Future<SavedCheckpoint> start_save(const std::shared_ptr<KeeperState>& keeper,
                                   const TrainingClient& client,
                                   SavedCheckpoint checkpoint,
                                   SaveKind kind) {
  const auto& policy = keeper->policy;
  const std::int64_t step = checkpoint.step.value_or(0);
  if (auto saved = keeper->find(client.model_id(), step)) {
    if (kind == SaveKind::periodic || !policy.ttl) {
      return Future<SavedCheckpoint>::ready(*std::move(saved));
    }
    auto lasting = keeper->rest.set_checkpoint_ttl_from_tinker_path(saved->path, std::nullopt);
    return std::move(lasting).then([saved = *std::move(saved)](const Result<void>& done) {
      return done.ok() ? Result<SavedCheckpoint>(saved) : done.error();
    });
  }
  SaveOptions options = {.user_metadata = metadata_of(policy, checkpoint)};
  if (policy.ttl && kind == SaveKind::periodic) options.ttl_seconds = policy.ttl->count();
  auto saving = client.save_state(name_of(policy, step), std::move(options));
  const auto& runtime = keeper->runtime;
  return runtime->spawn(runtime->scope(),
                        finish_save(runtime, keeper, std::move(saving), std::move(checkpoint)));
}

std::optional<Future<CheckpointsListResponse>> start_page(const Weak& weak, std::int64_t offset) {
  const auto keeper = weak.lock();
  if (!keeper) return std::nullopt;
  return keeper->rest.list_user_checkpoints({.limit = kPage, .offset = offset});
}

bool is_of(const Checkpoint& checkpoint, const std::string& name) {
  if (checkpoint.checkpoint_type != CheckpointType::training || !checkpoint.user_metadata) {
    return false;
  }
  const auto found = checkpoint.user_metadata->find(kNameKey);
  return found != checkpoint.user_metadata->end() && found->second == name;
}

Result<std::vector<SavedCheckpoint>> adopt(const Weak& weak, std::vector<Checkpoint> listed) {
  const auto keeper = weak.lock();
  if (!keeper) return keeper_gone();
  std::erase_if(listed, [&](const Checkpoint& one) { return !is_of(one, keeper->policy.name); });
  std::ranges::stable_sort(listed, {}, [](const Checkpoint& one) { return one.time.instant(); });
  std::vector<SavedCheckpoint> found;
  found.reserve(listed.size());
  for (const auto& one : listed) found.push_back(describe(one, keeper->policy.metric));
  std::erase_if(found, [](const SavedCheckpoint& one) { return !one.step; });
  keeper->adopt(std::move(found));
  return keeper->kept();
}

Task<std::vector<SavedCheckpoint>> load_all(Weak weak) {
  std::vector<Checkpoint> listed;
  while (true) {
    auto listing = start_page(weak, std::ssize(listed));
    if (!listing) co_return keeper_gone();
    auto wait = async::until(*std::move(listing));
    TINKER_CO_TRY(auto page, co_await wait);
    const bool is_last = page.checkpoints.empty() || !page.cursor;
    std::ranges::move(page.checkpoints, std::back_inserter(listed));
    if (is_last || std::ssize(listed) >= page.cursor->total_count) break;
  }
  co_return adopt(weak, std::move(listed));
}

}  // namespace
}  // namespace tinker::client

namespace tinker {

using client::SaveKind;

Result<CheckpointKeeper> CheckpointKeeper::create(const ServiceClient& service,
                                                  CheckpointPolicy policy) {
  TINKER_TRY(client::check(policy));
  return CheckpointKeeper(std::make_shared<client::KeeperState>(service, std::move(policy)));
}

Future<std::vector<SavedCheckpoint>> CheckpointKeeper::load() const {
  const auto& runtime = state_->runtime;
  return runtime->spawn(runtime->scope(), client::load_all(state_));
}

bool CheckpointKeeper::is_due(std::int64_t step) const {
  return state_->is_due(step);
}

Future<SavedCheckpoint> CheckpointKeeper::save(const TrainingClient& client,
                                               std::int64_t step,
                                               const StepMetrics& metrics) const {
  const auto metric = client::find_metric(metrics, state_->policy.metric);
  return client::start_save(state_, client, {.step = step, .metric = metric}, SaveKind::periodic);
}

Future<SavedCheckpoint> CheckpointKeeper::save_final(const TrainingClient& client,
                                                     std::int64_t step,
                                                     const StepMetrics& metrics) const {
  const auto metric = client::find_metric(metrics, state_->policy.metric);
  return client::start_save(state_, client, {.step = step, .metric = metric}, SaveKind::final);
}

void CheckpointKeeper::restored(const std::string& path) const {
  state_->restored(path);
}

Future<void> CheckpointKeeper::prune() const {
  return client::start_prune(state_);
}

std::vector<SavedCheckpoint> CheckpointKeeper::checkpoints() const {
  return state_->kept();
}

std::vector<SavedCheckpoint> CheckpointKeeper::ranked() const {
  return state_->ranked(state_->kept());
}

std::optional<SavedCheckpoint> CheckpointKeeper::latest() const {
  const auto all = state_->kept();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

const CheckpointPolicy& CheckpointKeeper::policy() const noexcept {
  return state_->policy;
}

}  // namespace tinker
