// How it works: callers put work into `arrivals_` under the mutex and go on. The one thread takes
// them out, asks the policy what is next, takes one step of that, and tells the policy what it
// cost. Everything but the arrivals belongs to that thread, so that it needs no lock.
//
// What must hold: every piece of work ends in exactly one call of its callback, whatever happens to
// it. While a line is inside a pass (`inside_`), no other line takes a step of work that uses the
// passes; the policy is told so, and others go on. The policy knows the lines that have work and do
// not wait for anything.

#include "engine/scheduler.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <limits>
#include <list>
#include <unordered_map>
#include <vector>

#include "async/thread_pool.h"
#include "base/strings.h"
#include "tinker/detail/mutex.h"
#include "tinker/engine.h"

namespace tinker::engine {
namespace {

using Time = std::chrono::steady_clock::time_point;

/// A callback that throws must not end the thread; whoever wrote it loses the answer.
template <typename F>
void call_back(F f) noexcept {
  try {
    f();
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is nobody to tell.
  }
}

double seconds_of(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Error engine_went_away() {
  return {.code = ErrorCode::cancelled, .message = "the engine went away"};
}

class Scheduler::State {
 public:
  State(std::shared_ptr<Sampler> sampler, const SchedulerOptions& options)
      : sampler_(std::move(sampler)), options_(options), policy_(options.policy) {}

  void post(LineId line, WorkOptions options, std::unique_ptr<Work> work);
  void post(SampleJob job, WorkOptions options, UniqueFunction<void(Result<SampleResponse>)> done);
  LineId new_line() noexcept { return next_line_++; }
  [[nodiscard]] EngineQueue queue() const noexcept;
  void wake(LineId line);
  void close();
  /// What the thread does, until it is closed.
  void run();

 private:
  /// Tells the thread that something was stopped.
  struct TellOfStop {
    State* state;
    void operator()() const noexcept { state->note_stop(); }
  };
  /// What work and samples have in common. Their address stays the same.
  struct Ticket {
    Ticket(WorkOptions given, State* state)
        : options(std::move(given)),
          since(state->options_.clock->now()),
          on_stop(options.stop, TellOfStop{state}) {}
    WorkOptions options;
    Time since;
    bool has_begun = false;
    bool is_committed = false;
    std::stop_callback<TellOfStop> on_stop;
  };
  struct Queued : Ticket {
    using Ticket::Ticket;
    LineId line = 0;
    std::unique_ptr<Work> work;
  };
  struct Sampling : Ticket {
    using Ticket::Ticket;
    SampleJob job;
    std::optional<Sampler::Id> id;
    UniqueFunction<void(Result<SampleResponse>)> done;
  };
  struct Line {
    std::deque<std::unique_ptr<Queued>> works;
    bool is_waiting = false;  // the first of them; the policy does not know the line then
  };

  using Samplings = std::list<std::unique_ptr<Sampling>>;

  bool take_arrivals();
  void admit(std::unique_ptr<Queued> work);
  void note_stop() noexcept;
  void note_end(const Ticket& ticket);
  void step();
  std::unique_ptr<Queued> step_line(LineId id);
  std::unique_ptr<Queued> take_first(LineId id);
  [[nodiscard]] bool can_go_on(LineId line) const;
  void step_sampler();
  void take_sampler_step();
  void submit_first();
  void answer(Samplings::iterator at, Result<SampleResponse> answer);
  void adjust_prompt_rows(std::chrono::nanoseconds step);
  void end_overdue();
  /// Ends all for which `why(ticket, others before it)` gives a reason.
  template <typename F>
  void end_if(F why);

  const std::shared_ptr<Sampler> sampler_;
  const SchedulerOptions options_;
  std::atomic<LineId> next_line_ = 1;
  // What `queue` tells.
  std::atomic<std::size_t> lines_count_ = 0;
  std::atomic<std::size_t> works_count_ = 0;
  std::atomic<std::size_t> samplings_count_ = 0;
  std::atomic<std::size_t> computing_count_ = 0;
  std::atomic<std::size_t> cache_bytes_ = 0;

  detail::Mutex mutex_;
  std::condition_variable_any changed_;
  bool has_stopped_ TINKER_GUARDED_BY(mutex_) = false;
  std::vector<LineId> woken_ TINKER_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Queued>> queued_ TINKER_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Sampling>> samplings_ TINKER_GUARDED_BY(mutex_);
  bool is_closing_ TINKER_GUARDED_BY(mutex_) = false;

  // Of the thread:
  Policy policy_;
  std::unordered_map<LineId, Line> lines_;  // those that have work
  std::optional<LineId> inside_;            // the line that is inside a pass
  Samplings waiting_;                       // which the sampler does not know yet
  Samplings sampling_;
  std::optional<Time> next_deadline_;
  bool is_blocked_ = false;                  // the last step found nothing that could go on
  bool must_look_ = false;                   // something was stopped, or may have been
  std::size_t prompt_rows_ = 2 * kKeyBlock;  // that a step may take while somebody waits
};

void Scheduler::State::post(LineId line, WorkOptions options, std::unique_ptr<Work> work) {
  auto queued = std::make_unique<Queued>(std::move(options), this);
  queued->line = line;
  queued->work = std::move(work);
  ++works_count_;
  const detail::MutexLock lock(mutex_);
  queued_.push_back(std::move(queued));
  changed_.notify_one();
}

void Scheduler::State::post(SampleJob job,
                            WorkOptions options,
                            UniqueFunction<void(Result<SampleResponse>)> done) {
  auto sampling = std::make_unique<Sampling>(std::move(options), this);
  sampling->job = std::move(job);
  sampling->done = std::move(done);
  ++samplings_count_;
  const detail::MutexLock lock(mutex_);
  samplings_.push_back(std::move(sampling));
  changed_.notify_one();
}

void Scheduler::State::wake(LineId line) {
  const detail::MutexLock lock(mutex_);
  woken_.push_back(line);
  changed_.notify_one();
}

void Scheduler::State::note_stop() noexcept {
  const detail::MutexLock lock(mutex_);
  has_stopped_ = true;
  changed_.notify_one();
}

void Scheduler::State::close() {
  const detail::MutexLock lock(mutex_);
  is_closing_ = true;
  changed_.notify_one();
}

void Scheduler::State::run() {
  while (take_arrivals()) {
    end_overdue();
    step();
  }
  end_if([](const Ticket& /*ticket*/, std::size_t /*before*/) { return engine_went_away(); });
}

/// Waits while there is nothing to do. Returns whether to go on.
bool Scheduler::State::take_arrivals() {
  std::vector<LineId> woken;
  std::vector<std::unique_ptr<Queued>> queued;
  std::vector<std::unique_ptr<Sampling>> samplings;
  bool is_closing = false;
  {
    const detail::MutexLock lock(mutex_);
    while (is_blocked_ && queued_.empty() && samplings_.empty() && woken_.empty() &&
           !has_stopped_ && !is_closing_) {
      if (!next_deadline_) {
        changed_.wait(mutex_);
        continue;
      }
      const auto left = *next_deadline_ - options_.clock->now();
      if (left <= left.zero()) break;
      changed_.wait_for(mutex_, std::min<std::chrono::nanoseconds>(left, std::chrono::hours(1)));
    }
    woken.swap(woken_);
    queued.swap(queued_);
    samplings.swap(samplings_);
    must_look_ = std::exchange(has_stopped_, false);
    is_closing = is_closing_;
  }
  for (auto& work : queued) admit(std::move(work));
  for (auto& sampling : samplings) {
    note_end(*sampling);
    waiting_.push_back(std::move(sampling));
  }
  for (const auto id : woken) {
    const auto found = lines_.find(id);
    if (found == lines_.end() || !std::exchange(found->second.is_waiting, false)) continue;
    policy_.arrive(found->second.works.front()->options.tenant, id);
  }
  policy_.want_sampling(!waiting_.empty() || !sampling_.empty());
  lines_count_.store(lines_.size(), std::memory_order_relaxed);
  return !is_closing;
}

void Scheduler::State::admit(std::unique_ptr<Queued> work) {
  note_end(*work);
  auto& line = lines_[work->line];
  if (line.works.empty()) policy_.arrive(work->options.tenant, work->line);
  line.works.push_back(std::move(work));
}

/// What was stopped before it arrived told so too early for anybody to look at it.
void Scheduler::State::note_end(const Ticket& ticket) {
  if (ticket.options.stop.stop_requested()) must_look_ = true;
  const auto& deadline = ticket.options.deadline;
  if (deadline && (!next_deadline_ || *deadline < *next_deadline_)) next_deadline_ = deadline;
}

void Scheduler::State::step() {
  const auto choice = policy_.next([this](LineId line) { return can_go_on(line); });
  is_blocked_ = !choice;
  if (!choice) return;
  const Time before = options_.clock->now();
  std::unique_ptr<Queued> over;
  if (choice->line) {
    over = step_line(*choice->line);
  } else {
    step_sampler();
  }
  // At least something, so that steps that seem to take no time cannot keep others out.
  constexpr double kLeastSeconds = 1e-7;
  policy_.charge(*choice, std::max(kLeastSeconds, seconds_of(options_.clock->now() - before)));
  if (choice->line && lines_.at(*choice->line).is_waiting) policy_.leave(*choice->line);
  if (!over) return;
  take_first(*choice->line);  // its place
  --works_count_;
  call_back([&] { over->work->finish(); });
}

/// Whether the first work of a line may take a step: only one line is inside a pass.
bool Scheduler::State::can_go_on(LineId line) const {
  return !inside_ || *inside_ == line || !lines_.at(line).works.front()->options.uses_passes;
}

/// Returns the first work of the line if that was its last step; its place is empty then.
std::unique_ptr<Scheduler::State::Queued> Scheduler::State::step_line(LineId id) {
  auto& line = lines_.at(id);
  auto& first = line.works.front();
  first->has_begun = true;
  const bool has_more = first->work->step();
  const Cut cut = has_more ? first->work->cut() : Cut::between;
  if (cut == Cut::inside) {
    inside_ = id;
  } else if (inside_ == id) {
    inside_.reset();
  }
  first->is_committed = cut == Cut::committed;
  line.is_waiting = cut == Cut::waiting;
  return has_more ? nullptr : std::move(first);
}

/// Removes the first of a line; the next one may be another tenant's.
std::unique_ptr<Scheduler::State::Queued> Scheduler::State::take_first(LineId id) {
  auto& line = lines_.at(id);
  auto out = std::move(line.works.front());
  line.works.pop_front();
  const bool is_known = !std::exchange(line.is_waiting, false);
  const auto* const next = line.works.empty() ? nullptr : &line.works.front()->options.tenant;
  if (is_known && next != nullptr && policy_.tenant_of(id) == *next) return out;
  if (is_known) policy_.leave(id);
  if (next != nullptr) {
    policy_.arrive(*next, id);
  } else {
    lines_.erase(id);
  }
  return out;
}

void Scheduler::State::step_sampler() {
  while (!waiting_.empty()) submit_first();
  take_sampler_step();
  computing_count_.store(sampler_->last_step().requests, std::memory_order_relaxed);
  cache_bytes_.store(sampler_->cache_bytes(), std::memory_order_relaxed);
}

void Scheduler::State::take_sampler_step() {
  if (sampling_.empty()) return;
  const Time before = options_.clock->now();
  try {
    // Prompts that nobody waits behind take all the rows there are.
    const bool is_alone = lines_.empty() && !sampler_->is_writing();
    sampler_->step(is_alone ? std::numeric_limits<std::size_t>::max() : prompt_rows_);
    if (is_alone) return;
  } catch (...) {  // no memory; the youngest gives way, as for lack of pages
    const auto youngest = std::prev(sampling_.end());
    sampler_->cancel(*(*youngest)->id);
    answer(youngest, error_in_flight());
    return;
  }
  if (sampler_->last_step().prompt >= prompt_rows_)
    adjust_prompt_rows(options_.clock->now() - before);
}

/// So many rows of prompts that a step takes about a quantum.
void Scheduler::State::adjust_prompt_rows(std::chrono::nanoseconds step) {
  constexpr std::size_t kMost = 512;
  if (step < options_.quantum * 2 / 3) prompt_rows_ = std::min(kMost, 2 * prompt_rows_);
  if (step > options_.quantum * 3 / 2) prompt_rows_ = std::max(kKeyBlock, prompt_rows_ / 2);
}

void Scheduler::State::submit_first() {
  sampling_.splice(sampling_.end(), waiting_, waiting_.begin());
  const auto at = std::prev(sampling_.end());
  Result<Sampler::Id> id = Error{};
  try {
    id = sampler_->submit(std::move((*at)->job),
                          [this, at](Result<SampleResponse> done) { answer(at, std::move(done)); });
  } catch (...) {
    id = error_in_flight();
  }
  if (!id.ok()) return answer(at, std::move(id).error());
  (*at)->id = *id;
  (*at)->has_begun = true;
}

void Scheduler::State::answer(Samplings::iterator at, Result<SampleResponse> answer) {
  const auto sampling = std::move(*at);
  sampling_.erase(at);
  --samplings_count_;
  call_back([&] { sampling->done(std::move(answer)); });
}

void Scheduler::State::end_overdue() {
  const Time now = options_.clock->now();
  const bool is_late = next_deadline_ && *next_deadline_ <= now;
  if (!std::exchange(must_look_, false) && !is_late) return;
  next_deadline_.reset();
  end_if([&](const Ticket& ticket, std::size_t before) -> std::optional<Error> {
    if (ticket.is_committed) return std::nullopt;
    const bool is_stopped = ticket.options.stop.stop_requested();
    if (!is_stopped && !(ticket.options.deadline && *ticket.options.deadline <= now)) {
      note_end(ticket);
      return std::nullopt;
    }
    const auto milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(now - ticket.since).count();
    const std::string where =
        ticket.has_begun
            ? std::string("while the engine worked on it")
            : base::concat("while it waited in the engine's queue, ", before, " before it");
    return Error{.code = is_stopped ? ErrorCode::cancelled : ErrorCode::deadline_exceeded,
                 .message = base::concat(
                     ticket.options.name,
                     is_stopped ? " was asked to stop after " : " passed its deadline after ",
                     milliseconds,
                     " ms, ",
                     where)};
  });
}

template <typename F>
void Scheduler::State::end_if(F why) {
  std::vector<UniqueFunction<void()>> endings;  // called last: they may do anything
  std::vector<LineId> lines;
  lines.reserve(lines_.size());
  for (const auto& [line, works] : lines_) lines.push_back(line);
  for (const auto line : lines) {
    std::size_t before = 0;
    for (std::size_t i = 0; lines_.contains(line) && i < lines_.at(line).works.size();) {
      auto& works = lines_.at(line).works;
      std::optional<Error> error = why(*works[i], before++);
      if (!error) {
        ++i;
        continue;
      }
      std::unique_ptr<Queued> ended;
      if (i == 0) {
        ended = take_first(line);
        if (inside_ == line) inside_.reset();
      } else {
        ended = std::move(works[i]);
        works.erase(works.begin() + static_cast<std::ptrdiff_t>(i));
      }
      --works_count_;
      endings.emplace_back([ended = std::move(ended), error = *std::move(error)]() mutable {
        ended->work->abandon(std::move(error));
      });
    }
  }
  for (auto* const list : {&waiting_, &sampling_}) {
    std::size_t before = 0;
    for (auto at = list->begin(); at != list->end();) {
      const auto here = at++;
      std::optional<Error> error = why(**here, before++);
      if (!error) continue;
      if ((*here)->id) sampler_->cancel(*(*here)->id);
      auto ended = std::move(*here);
      list->erase(here);
      --samplings_count_;
      endings.emplace_back([ended = std::move(ended), error = *std::move(error)]() mutable {
        ended->done(std::move(error));
      });
    }
  }
  for (auto& ending : endings) call_back([&] { ending(); });
}

EngineQueue Scheduler::State::queue() const noexcept {
  EngineQueue out = {.training_calls = works_count_, .samples = samplings_count_};
  out.training_runs = std::min<std::size_t>(lines_count_, out.training_calls);
  if (out.samples == 0) return out;  // what the last step had has ended
  out.samples_computing = std::min<std::size_t>(computing_count_, out.samples);
  out.cache_bytes = cache_bytes_;
  return out;
}

Scheduler::Scheduler(std::shared_ptr<Sampler> sampler, const SchedulerOptions& options)
    : state_(std::make_shared<State>(std::move(sampler), options)), thread_([state = state_] {
        async::enter_library_thread("tinker-engine");
        state->run();
      }) {}

Scheduler::~Scheduler() {
  state_->close();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

LineId Scheduler::new_line() noexcept {
  return state_->new_line();
}

EngineQueue Scheduler::queue() const noexcept {
  return state_->queue();
}

UniqueFunction<void()> Scheduler::waker_of(LineId line) const {
  return [weak = std::weak_ptr(state_), line] {
    if (const auto state = weak.lock()) state->wake(line);
  };
}

void Scheduler::enqueue(LineId line, WorkOptions options, std::unique_ptr<Work> work) {
  state_->post(line, std::move(options), std::move(work));
}

void Scheduler::sample(SampleJob job,
                       WorkOptions options,
                       UniqueFunction<void(Result<SampleResponse>)> done) {
  state_->post(std::move(job), std::move(options), std::move(done));
}

}  // namespace tinker::engine
