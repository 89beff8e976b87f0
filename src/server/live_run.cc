#include "server/live_run.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/strings.h"
#include "server/errors.h"
#include "server/queue_reasons.h"
#include "server/service.h"

namespace tinker::server {

namespace {

/// An operation of a run with a journal: ends when what it appended is on the disk.
async::Task<EncodedResult> perform(std::shared_ptr<RunJournal> journal,
                                   async::Task<EncodedResult> work) {
  auto result = co_await std::move(work);
  auto syncing = journal->sync_at_last();
  TINKER_CO_TRY(co_await std::move(syncing));
  co_return result;
}

/// An operation that shall not be done again: the journal has its result before anybody else.
async::Task<EncodedResult> perform_once(std::shared_ptr<Service> service,
                                        std::shared_ptr<RunJournal> journal,
                                        std::string request_id,
                                        async::Task<EncodedResult> work) {
  auto result = co_await std::move(work);
  // What a server that stops has not finished, its next life does.
  if (!service->is_stopped()) journal->keep_result(request_id, result);
  co_return result;
}

async::Task<EncodedResult> give(std::shared_ptr<const Result<EncodedResult>> outcome) {
  co_return *outcome;
}

async::Task<EncodedResult> refuse(Error why) {
  co_return why;
}

JournalRecord record_of(const LiveRun& run,
                        const LiveRun::Operation& operation,
                        const std::string& request_id) {
  return {.kind = JournalRecord::Kind::request,
          .number = operation.seq_id.value_or(JournalRecord::kNoNumber),
          .request_id = request_id,
          .type = operation.type,
          .payload_hash = operation.payload_hash,
          .content_type = operation.source.content_type,
          .owner = run.record.owner,
          .note = operation.note,
          .body = operation.source.body};
}

}  // namespace

LiveRun::Work LiveRun::refusal(Error why) {
  return [why = std::move(why)](const std::shared_ptr<LiveRun>&) { return refuse(why); };
}

LiveRun::LiveRun(const std::shared_ptr<Service>& service,
                 RunRecord r,
                 std::shared_ptr<async::Scope> parent,
                 Journalled journalled)
    : record(std::move(r)),
      sequencer_(service->loop(), journalled.next, service->options().limits.chunk_time),
      first_(journalled.next),
      is_restored_(journalled.is_restored),
      journal_(std::move(journalled.journal)) {
  scope_->attach(std::move(parent));
}

Result<Sequencer::Admission> LiveRun::admit(const std::shared_ptr<Service>& service,
                                            Operation& operation) {
  if (operation.seq_id && *operation.seq_id < 1) {
    return bad_request(base::concat("seq_id: expected at least 1, found ", *operation.seq_id));
  }
  if (failure_) operation.kind = Sequencer::Kind::barrier;  // nothing to wait for
  const auto& source = operation.source;
  const std::string request_id = source.is_replay ? source.request_id
                                 : operation.seq_id
                                     ? base::concat(record.run_id, ":", *operation.seq_id)
                                     : base::concat(record.run_id, ":x", service->random_id());
  if (source.outcome) {
    operation.work = [outcome = source.outcome](const std::shared_ptr<LiveRun>&) {
      return give(outcome);
    };
  }
  Start what = {.request_id = request_id,
                .work = std::move(operation.work),
                .is_known = source.outcome != nullptr,
                .is_final = operation.is_final && !source.outcome};
  // The start is posted, so that the future is open by then.
  auto start_it = [service, self = shared_from_this(), what = std::move(what)](
                      std::optional<Error> refusal) mutable {
    service->loop()->post(
        [service, self, refusal = std::move(refusal), what = std::move(what)]() mutable {
          // Whether a request comes too late depends on the clock, which a replay does not repeat.
          if (refusal && !what.is_known) {
            what.work = LiveRun::refusal(*std::move(refusal));
            what.is_final = true;
          }
          self->start(service, std::move(what));
        });
  };
  TINKER_TRY(auto admission,
             sequencer_.submit({.seq_id = operation.seq_id,
                                .kind = operation.kind,
                                .request_type = operation.type,
                                .payload_hash = operation.payload_hash,
                                .request_id = request_id,
                                .start = std::move(start_it)}));
  if (admission.is_duplicate) return admission;
  service->futures.open(
      {.request_id = request_id,
       .owner = record.owner,
       .why = [weak = weak_from_this(), &futures = service->futures](std::string_view id) {
         const auto self = weak.lock();
         return self ? self->why_pending(id, futures) : StillPending();
       }});
  if (!journal_) return admission;
  const auto entry = record_of(*this, operation, request_id);
  source.is_replay ? journal_->replay(entry) : journal_->accept(entry);
  return admission;
}

async::Task<std::string> LiveRun::submit(std::shared_ptr<Service> service, Operation operation) {
  const bool is_recorded = journal_ && !operation.source.is_replay;
  if (!operation.source.is_replay) record.last_request_at = service->now();
  if (is_recorded && journal_->is_failing()) {
    auto trying = journal_->sync();
    TINKER_CO_TRY(co_await std::move(trying));
  }
  TINKER_CO_TRY(const auto admission, admit(service, operation));
  if (operation.accepted) operation.accepted(admission.request_id);
  if (is_recorded) {
    auto syncing = journal_->sync();
    TINKER_CO_TRY(co_await std::move(syncing));
  }
  co_return admission.request_id;
}

void LiveRun::add_result(const std::shared_ptr<Service>& service, const JournalRecord& entry) {
  service->futures.open({.request_id = entry.request_id, .owner = record.owner});
  service->futures.finish(entry.request_id, result_of(entry));
  journal_->replay(entry);
  if (entry.number == JournalRecord::kNoNumber) return;
  sequencer_.add_earlier({.seq_id = entry.number,
                          .request_type = entry.type,
                          .payload_hash = entry.payload_hash,
                          .request_id = entry.request_id});
}

void LiveRun::start(const std::shared_ptr<Service>& service, Start what) {
  if (failure_) return finish(*service, what.request_id, *failure_);
  if (!trainer_) {
    waiting_.emplace_back([service, self = shared_from_this(), what = std::move(what)]() mutable {
      self->start(service, std::move(what));
    });
    return;
  }
  started_.push_back(what.request_id);
  if (journal_) journal_->start(what.request_id);
  auto task = what.work(shared_from_this());
  if (journal_ && what.is_final) {
    task = perform_once(service, journal_, what.request_id, std::move(task));
  }
  if (journal_) task = perform(journal_, std::move(task));
  service->spawn(scope_,
                 std::move(task),
                 [service, self = shared_from_this(), request_id = what.request_id](
                     detail::Late<EncodedResult> result) {
                   self->finish(*service, request_id, *std::move(result));
                 });
  take_state();
}

void LiveRun::finish(Service& service,
                     const std::string& request_id,
                     Result<EncodedResult> result) {
  if (const auto started = std::ranges::find(started_, request_id); started != started_.end()) {
    started_.erase(started);  // the first one, mostly
  }
  // What a server that stops has not finished, its next life does.
  if (journal_ && service.is_stopped()) return;
  const bool was_catching_up = is_catching_up();
  service.futures.finish(request_id, std::move(result));
  if (journal_) journal_->finish(request_id);
  if (was_catching_up) service.caught_up.wake_all();
}

bool LiveRun::may_have_done(std::string_view request_id) const noexcept {
  const std::string_view place = request_id.substr(request_id.rfind(':') + 1);
  if (place.starts_with('x')) return is_restored_;  // it had no number
  std::int64_t number = 0;
  std::from_chars(place.data(), place.data() + place.size(), number);
  return number >= 1 && number < first_;
}

StillPending LiveRun::why_pending(std::string_view request_id, const FutureStore& futures) const {
  if (const auto number = sequencer_.awaited_by(request_id)) {
    return {.reason = base::concat("waits for request ", *number, " of this model")};
  }
  if (!trainer_) {
    const auto creation = futures.state(record.run_id + ":0");
    return {.state = QueueState::paused_capacity,
            .reason = base::concat(
                "waits for its model", creation.reason.empty() ? "" : ": ", creation.reason)};
  }
  const auto place = std::ranges::find(started_, request_id);
  if (place == started_.end()) return {};
  const auto before = static_cast<std::size_t>(place - started_.begin());
  if (before == 0) return {.reason = shared_with_others(model_->engine.queue())};
  return {.reason = base::concat(
              "waits for the engine: ", counted(before, "request"), " of this model before it")};
}

void LiveRun::open(std::shared_ptr<LoadedModel> model, LocalTrainer trainer) {
  model_ = std::move(model);
  trainer_.emplace(std::move(trainer));
  for (auto& begin : std::exchange(waiting_, {})) begin();
}

void LiveRun::fail(const Error& reason) {
  failure_ = reason;
  for (auto& begin : std::exchange(waiting_, {})) begin();
}

void LiveRun::close(const Error& reason) {
  sequencer_.close(reason);
  if (!trainer_) fail(reason);
}

async::Task<> LiveRun::recorded() {
  const auto journal = journal_;
  if (!journal) co_return Result<void>();
  auto syncing = journal->sync_at_last();
  co_return co_await std::move(syncing);
}

std::uint64_t LiveRun::add_gradients() {
  return journal_ ? journal_->add_gradients() : 0;
}

void LiveRun::drop_gradients(std::uint64_t pass) {
  if (journal_) journal_->drop_gradients(pass);
}

RunJournal::Clearing LiveRun::begin_clearing() {
  return journal_ ? journal_->begin_clearing(*trainer_, scope_) : RunJournal::Clearing();
}

void LiveRun::end_clearing(const RunJournal::Clearing& clearing, bool is_good) {
  if (journal_) journal_->end_clearing(clearing, is_good);
}

// Also between calls that change nothing: the log of a run that only computes logprobs grows, too.
void LiveRun::take_state() {
  if (!journal_) return;
  // A pass that the others did not wait for is done when it comes, unless there is a state behind.
  if (sequencer_.has_gap() && !journal_->is_too_long()) return;
  if (journal_->take_state(*trainer_, scope_)) sequencer_.give_up_missing();
}

void LiveRun::keep_sampler(const UnnamedSave& save, AdapterSnapshot weights) {
  if (journal_) journal_->keep_sampler(*trainer_, scope_, save, std::move(weights));
}

void LiveRun::drop_sampler(std::int64_t number) {
  if (journal_) journal_->drop_sampler(number);
}

void LiveRun::forget() {
  if (journal_) journal_->discard();
}

}  // namespace tinker::server
