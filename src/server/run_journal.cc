#include "server/run_journal.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/strings.h"

namespace tinker::server {

namespace {

// A client whose connection broke while a result was on its way asks again within this time.
constexpr auto kAskAgain = std::chrono::minutes(1);
constexpr auto kTryAgain = std::chrono::seconds(1);
// Part of the time that writing states may take.
constexpr int kShare = 20;
constexpr int kInsufficientStorage = 507;
constexpr std::string_view kSnapshot = "snapshot-";
constexpr std::string_view kSampler = "sampler-";

async::Task<> finish_writing(Future<void> writing) {
  auto wait = async::until(std::move(writing));
  co_return co_await wait;
}

}  // namespace

RunJournal::RunJournal(Parts parts, std::shared_ptr<JournalLog> log)
    : parts_(std::move(parts)), log_(std::move(log)), snapshot_at_(parts_.loop->now()) {}

void RunJournal::create(JournalRecord record) {
  created_ = record;
  log_->append(std::move(record));
}

void RunJournal::note(const JournalRecord& record) {
  if (record.kind == JournalRecord::Kind::created) {
    created_ = record;
    return;
  }
  operations_[record.request_id] = {.number = record.number,
                                    .type = record.type,
                                    .payload_hash = record.payload_hash,
                                    .loaded = std::string(loaded_by(record)),
                                    .is_cut = record.kind == JournalRecord::Kind::result};
}

void RunJournal::accept(const JournalRecord& record) {
  note(record);
  log_->append(record);
}

void RunJournal::replay(const JournalRecord& record) {
  note(record);
  if (record.kind == JournalRecord::Kind::request) replays_.insert(record.request_id);
}

void RunJournal::start(const std::string& request_id) {
  auto& operation = operations_[request_id];
  operation.is_started = true;
  next_ = std::max(next_, operation.number + 1);
}

void RunJournal::keep_result(const std::string& request_id, const Result<EncodedResult>& result) {
  log_->append(record_of(request_id, std::make_shared<const Result<EncodedResult>>(result)));
}

void RunJournal::finish(const std::string& request_id) {
  operations_[request_id].is_finished = true;
  replays_.erase(request_id);
  cut();
}

async::Task<> sync_now(std::shared_ptr<JournalLog> log) {
  auto wait = async::until(log->sync());
  auto synced = co_await wait;
  if (synced.ok()) co_return Result<void>();
  co_return cannot_journal(std::move(synced).error());
}

Error cannot_journal(Error why) {
  Error error = std::move(why).with_context("the request cannot be journalled");
  if (error.code == ErrorCode::io_error) error.http_status = kInsufficientStorage;
  return error;
}

async::Task<> RunJournal::sync_at_last() {
  const auto log = log_;
  while (true) {
    auto wait = async::until(log->sync());
    const auto synced = co_await wait;
    if (synced.ok()) co_return Result<void>();
    auto pause = async::sleep_for(kTryAgain);
    TINKER_CO_TRY(co_await pause);
  }
}

void RunJournal::discard() {
  samplers_.clear();
  log_->discard(parts_.folder.string());
}

// ---- states

async::Task<> RunJournal::write_first_state(LocalTrainer trainer) {
  const auto self = shared_from_this();
  last_snapshot_ = base::concat(kSnapshot, ++snapshots_);
  auto writing = async::until(trainer.save_async(parts_.folder / last_snapshot_));
  TINKER_CO_TRY(co_await writing);
  std::vector<JournalRecord> head = {created_};
  head.push_back({.kind = JournalRecord::Kind::snapshot, .number = 1, .note = last_snapshot_});
  auto rewriting = async::until(log_->rewrite(std::move(head), [](const JournalRecord& record) {
    return record.kind != JournalRecord::Kind::created;
  }));
  co_return co_await rewriting;
}

void RunJournal::found_snapshot(const JournalRecord& record) {
  last_snapshot_ = record.note;
  next_ = record.number;
  const auto digits = std::string_view(last_snapshot_).substr(last_snapshot_.rfind('-') + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), snapshots_);
}

bool RunJournal::is_too_long() const noexcept {
  return log_->appended_bytes() >= parts_.options.most_bytes;
}

bool RunJournal::is_due() const {
  if (is_too_long()) return true;
  const auto age = parts_.loop->now() - snapshot_at_;
  const auto& options = parts_.options;
  if (age < kShare * snapshot_cost_) return false;
  return steps_ >= options.snapshot_steps || log_->appended_bytes() >= options.snapshot_bytes ||
         age >= options.snapshot_age;
}

std::uint64_t RunJournal::add_gradients() {
  gradients_.insert(++last_pass_);
  return last_pass_;
}

RunJournal::Clearing RunJournal::begin_clearing(const LocalTrainer& trainer,
                                                const std::shared_ptr<async::Scope>& scope) {
  ++steps_;
  return {.snapshot = begin_snapshot(trainer, scope), .last_pass = last_pass_};
}

void RunJournal::end_clearing(const Clearing& clearing, bool is_good) {
  if (is_good) gradients_.erase(gradients_.begin(), gradients_.upper_bound(clearing.last_pass));
  settle(clearing.snapshot, is_good);
}

bool RunJournal::take_state(const LocalTrainer& trainer,
                            const std::shared_ptr<async::Scope>& scope) {
  if (!gradients_.empty()) return false;
  const auto snapshot = begin_snapshot(trainer, scope);
  settle(snapshot, true);
  return snapshot.has_value();
}

std::optional<std::string> RunJournal::begin_snapshot(const LocalTrainer& trainer,
                                                      const std::shared_ptr<async::Scope>& scope) {
  if (snapshot_ || log_->is_discarded() || to_replay() > 0 || !is_due()) return std::nullopt;
  Snapshot snapshot = {.name = {}, .next = next_, .covered = {}};
  for (const auto& [id, operation] : operations_) {
    if (operation.is_cut) continue;
    if (operation.is_started || operation.is_finished) {
      snapshot.covered.insert(id);
    } else if (operation.number != JournalRecord::kNoNumber && operation.number < next_) {
      return std::nullopt;  // its turn is yet to come, and behind the state it would be too late
    }
  }
  std::string name = base::concat(kSnapshot, ++snapshots_);
  snapshot.name = name;
  snapshot_ = std::move(snapshot);
  steps_ = 0;
  snapshot_at_ = parts_.loop->now();
  auto writing = finish_writing(trainer.save_async(parts_.folder / name));
  async::run_detached(parts_.loop,
                      scope,
                      std::move(writing),
                      [self = shared_from_this(), name](detail::Late<void> outcome) {
                        self->snapshot_written(name, *std::move(outcome));
                      });
  return name;
}

void RunJournal::snapshot_written(const std::string& name, const Result<void>& outcome) {
  if (log_->is_discarded()) return discard();  // a folder that was gone has come back with it
  snapshot_cost_ = parts_.loop->now() - snapshot_at_;
  if (!snapshot_ || snapshot_->name != name) return;
  if (outcome.ok()) {
    snapshot_->is_written = true;
    return cut();
  }
  warn("state", outcome.error());
  snapshot_.reset();
}

void RunJournal::settle(const std::optional<std::string>& snapshot, bool is_good) {
  if (!snapshot || !snapshot_ || snapshot_->name != *snapshot) return;
  if (!is_good) {
    stale_.push_back(*snapshot);
    snapshot_.reset();
    return;
  }
  snapshot_->is_good = true;
  cut();
}

std::filesystem::path RunJournal::sampler_folder(std::int64_t number) const {
  return parts_.folder / base::concat(kSampler, number);
}

void RunJournal::keep_sampler(const LocalTrainer& trainer,
                              std::shared_ptr<async::Scope> scope,
                              const UnnamedSave& save,
                              AdapterSnapshot weights) {
  samplers_[save.number] = {.seq_id = save.seq_id};
  write_sampler({.trainer = trainer,
                 .scope = std::move(scope),
                 .number = save.number,
                 .weights = std::move(weights)});
}

void RunJournal::write_sampler(UnwrittenSampler sampler) {
  const auto scope = sampler.scope;
  auto writing =
      finish_writing(sampler.trainer.save_async(sampler.weights, sampler_folder(sampler.number)));
  async::run_detached(
      parts_.loop,
      scope,
      std::move(writing),
      [self = shared_from_this(), sampler = std::move(sampler)](detail::Late<void> late) mutable {
        const Result<void> outcome = *std::move(late);
        self->sampler_written(std::move(sampler), outcome);
      });
}

void RunJournal::sampler_written(UnwrittenSampler sampler, const Result<void>& outcome) {
  if (log_->is_discarded()) return discard();
  const auto found = samplers_.find(sampler.number);
  if (outcome.ok() || found == samplers_.end() || sampler.scope->is_cancelled()) {
    if (found != samplers_.end()) found->second.is_written = outcome.ok();
    return cut();
  }
  if (!std::exchange(sampler.has_failed, true)) {
    warn("weights of a sampling session", outcome.error());
  }
  parts_.loop->schedule_after(kTryAgain,
                              [weak = weak_from_this(), sampler = std::move(sampler)]() mutable {
                                const auto self = weak.lock();
                                if (self && self->samplers_.contains(sampler.number)) {
                                  self->write_sampler(std::move(sampler));
                                }
                              });
}

void RunJournal::drop_sampler(std::int64_t number) {
  if (samplers_.erase(number) == 0) return;
  stale_.push_back(sampler_folder(number).filename().string());
}

void RunJournal::drop_unused(const std::string& loaded) {
  const bool is_used = std::ranges::any_of(
      operations_, [&](const auto& entry) { return entry.second.loaded == loaded; });
  if (!is_used) remove({loaded});
}

// ---- cutting the log

void RunJournal::cut() {
  if (!snapshot_ || !snapshot_->is_written || !snapshot_->is_good) return;
  const bool is_pending = std::ranges::any_of(
      snapshot_->covered, [&](const auto& id) { return !operations_.at(id).is_finished; });
  const bool is_writing = std::ranges::any_of(
      samplers_, [](const auto& sampler) { return !sampler.second.is_written; });
  if (is_pending || is_writing) return;
  const Snapshot snapshot = *std::exchange(snapshot_, std::nullopt);
  auto head = head_of(snapshot);
  auto left = std::make_shared<std::set<std::string>>();
  for (const auto& [id, operation] : operations_) {
    if (!operation.is_cut) left->insert(id);
  }
  auto rewriting = log_->rewrite(std::move(head), [left](const JournalRecord& record) {
    const bool is_of_request =
        record.kind == JournalRecord::Kind::request || record.kind == JournalRecord::Kind::result;
    return is_of_request && left->contains(record.request_id);
  });
  // What the log named so far goes when it does not any more.
  auto stale = std::exchange(stale_, {});
  if (!last_snapshot_.empty()) stale.push_back(last_snapshot_);
  last_snapshot_ = snapshot.name;
  (void)std::move(rewriting).then([self = shared_from_this(), stale](const Result<void>& done) {
    if (done.ok()) return self->remove(stale);
    self->warn("log", done.error());
    self->stale_.insert(self->stale_.end(), stale.begin(), stale.end());
  });
}

std::vector<JournalRecord> RunJournal::head_of(const Snapshot& snapshot) {
  using Kind = JournalRecord::Kind;
  std::vector<JournalRecord> head = {created_};
  head.push_back({.kind = Kind::snapshot, .number = snapshot.next, .note = snapshot.name});
  for (const auto& [number, sampler] : samplers_) {
    head.push_back({.kind = Kind::sampler,
                    .number = number,
                    .note = sampler.seq_id ? std::to_string(*sampler.seq_id) : std::string()});
  }
  for (auto it = operations_.begin(); it != operations_.end();) {
    auto& [id, operation] = *it;
    if (snapshot.covered.contains(id)) operation.is_cut = true;
    if (operation.is_cut && !operation.loaded.empty()) {
      stale_.push_back(std::exchange(operation.loaded, {}));
    }
    const auto outcome = operation.is_cut ? parts_.futures->outcome(id, kAskAgain) : nullptr;
    if (outcome) {
      auto& record = head.emplace_back(record_of(id, outcome));
      record.number = operation.number;
      record.type = operation.type;
      record.payload_hash = operation.payload_hash;
    }
    it = operation.is_cut && !outcome ? operations_.erase(it) : std::next(it);
  }
  return head;
}

void RunJournal::remove(std::vector<std::string> folders) {
  parts_.thread->post([folder = parts_.folder, folders = std::move(folders)] {
    std::error_code ignored;
    for (const auto& name : folders) std::filesystem::remove_all(folder / name, ignored);
  });
}

void RunJournal::warn(std::string_view what, const Error& error) const {
  parts_.logger.write(LogLevel::warn,
                      base::concat("journal ",
                                   parts_.folder.string(),
                                   ": the ",
                                   what,
                                   " could not be written: ",
                                   error.to_string()));
}

// ---- records

std::string_view loaded_by(const JournalRecord& record) {
  const bool is_load = record.kind == JournalRecord::Kind::request && record.type == "load_weights";
  return is_load ? std::string_view(record.note) : std::string_view();
}

JournalRecord record_of(const std::string& request_id,
                        const std::shared_ptr<const Result<EncodedResult>>& result) {
  JournalRecord out = {.kind = JournalRecord::Kind::result, .request_id = request_id};
  if (result->ok()) {
    const EncodedResult& encoded = **result;
    out.content_type = encoded.is_protobuf ? "application/x-protobuf" : "application/json";
    out.body = std::shared_ptr<const std::string>(result, &encoded.body);  // not copied
    return out;
  }
  const Error& error = result->error();
  out.note = error.category == RequestErrorCategory::server ? "server" : "user";
  out.body = std::make_shared<const std::string>(error.to_string());
  return out;
}

Result<EncodedResult> result_of(const JournalRecord& record) {
  if (record.note.empty()) {
    return EncodedResult{.body = std::string(record.content()),
                         .is_protobuf = record.content_type == "application/x-protobuf"};
  }
  return Error{.code = ErrorCode::request_failed,
               .message = std::string(record.content()),
               .category = record.note == "server" ? RequestErrorCategory::server
                                                   : RequestErrorCategory::user};
}

}  // namespace tinker::server
