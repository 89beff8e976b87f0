#include "server/sequencer.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace tinker::server {

namespace {

using Start = UniqueFunction<void(std::optional<Error>)>;
using Submission = Sequencer::Submission;

constexpr std::size_t kMostRemembered = 100'000;

Error refused(std::string message) {
  return {.code = ErrorCode::bad_request,
          .message = std::move(message),
          .category = RequestErrorCategory::user};
}

Error given_up(std::int64_t number) {
  return refused("seq_id " + std::to_string(number) +
                 " came after a later one had begun: the client had given it up");
}

}  // namespace

// Whoever's turn has come enters `ready_`, in order. Only `run_ready` calls `start`, with nothing
// half done behind it, so that `start` may do what it likes.
class Sequencer::Impl : public std::enable_shared_from_this<Sequencer::Impl> {
 public:
  Impl(std::shared_ptr<async::EventLoop> loop, std::int64_t next, std::chrono::nanoseconds hold)
      : loop_(std::move(loop)), hold_(hold), next_(next), given_up_below_(next) {}

  Result<Admission> submit(Submission submission);
  /// So that the next one with this number is a duplicate.
  void remember(std::int64_t number, const Submission& submission);
  [[nodiscard]] bool has_gap() const noexcept { return missing_ > 0; }
  void give_up_missing();
  void stop_waiting();
  void close(const Error& reason);
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_count_ + ready_.size(); }
  [[nodiscard]] bool is_expected(std::int64_t number) const {
    return seen_.contains(number) || (!waiting_.empty() && number == next_);
  }
  [[nodiscard]] std::optional<std::int64_t> awaited_by(std::string_view request_id) const;

 private:
  struct Waiting {
    Submission submission;
    async::TimePoint until;
    std::vector<Submission> followers = {};  // without a number, to start after this one
  };
  struct Ready {
    Start start;
    std::optional<Error> error = {};
  };
  struct Seen {
    std::string request_type;
    std::string payload_hash;
    std::string request_id;
  };

  /// The id of the first one if `submission` repeats an earlier one (PROTOCOL 10.2).
  Result<std::optional<std::string>> find(const Submission& submission) const;
  void place_unnumbered(Submission submission);
  void place(std::int64_t number, Submission submission);
  void release(std::map<std::int64_t, Waiting>::iterator waiting);
  void release_below(std::int64_t number);
  void release_contiguous();
  void release_due();
  void set_timer();
  void run_ready();

  std::shared_ptr<async::EventLoop> loop_;
  std::chrono::nanoseconds hold_;
  std::int64_t next_;  // above all that have started
  // What is below this and was not seen fails: a barrier above it has started, or it may be a
  // repeat of one that is not remembered any more.
  std::int64_t given_up_below_;
  std::int64_t missing_ = 0;  // numbers between the two that were not seen
  std::map<std::int64_t, Waiting> waiting_ = {};
  std::size_t waiting_count_ = 0;           // followers included
  std::deque<std::int64_t> arrivals_ = {};  // of those that wait, and of some that do not any more
  std::map<std::int64_t, Seen> seen_ = {};
  std::deque<Ready> ready_ = {};
  bool is_running_ = false;
  async::TimerId timer_ = {};
  std::optional<Error> closed_ = {};
};

Result<std::optional<std::string>> Sequencer::Impl::find(const Submission& submission) const {
  if (closed_) return *closed_;
  if (!submission.seq_id) return std::optional<std::string>();
  const std::int64_t number = *submission.seq_id;
  if (number < 0 || number == std::numeric_limits<std::int64_t>::max()) {
    return refused("seq_id " + std::to_string(number) + " is out of range");
  }
  const auto found = seen_.find(number);
  if (found == seen_.end()) return std::optional<std::string>();
  const Seen& seen = found->second;
  if (seen.request_type != submission.request_type) {
    return refused("seq_id " + std::to_string(number) + " of this " + submission.request_type +
                   " was used for a request of type " + seen.request_type);
  }
  if (seen.payload_hash != submission.payload_hash) {
    return refused("seq_id " + std::to_string(number) + " was used for a " + seen.request_type +
                   " with another payload");
  }
  return std::optional(seen.request_id);
}

Result<Sequencer::Admission> Sequencer::Impl::submit(Submission submission) {
  TINKER_TRY(auto earlier, find(submission));
  if (earlier) return Admission{.request_id = *std::move(earlier), .is_duplicate = true};
  Admission admission{.request_id = submission.request_id};
  if (submission.seq_id) {
    const std::int64_t number = *submission.seq_id;
    remember(number, submission);
    place(number, std::move(submission));
  } else {
    place_unnumbered(std::move(submission));
  }
  run_ready();
  return admission;
}

// Numbers that still wait are never forgotten, so that each waits once.
void Sequencer::Impl::remember(std::int64_t number, const Submission& submission) {
  seen_.emplace(number,
                Seen{.request_type = submission.request_type,
                     .payload_hash = submission.payload_hash,
                     .request_id = submission.request_id});
  const auto lowest = seen_.begin();
  if (seen_.size() <= kMostRemembered || lowest->first >= next_) return;
  given_up_below_ = std::max(given_up_below_, lowest->first + 1);
  seen_.erase(lowest);
}

void Sequencer::Impl::place_unnumbered(Submission submission) {
  if (submission.kind == Kind::pass && !waiting_.empty()) {
    waiting_.rbegin()->second.followers.push_back(std::move(submission));
    ++waiting_count_;
    return;
  }
  release_below(std::numeric_limits<std::int64_t>::max());
  ready_.push_back({.start = std::move(submission.start)});
  if (submission.kind == Kind::barrier) give_up_missing();
}

void Sequencer::Impl::place(std::int64_t number, Submission submission) {
  const bool is_barrier = submission.kind == Kind::barrier;
  if (number < next_) {
    Ready late{.start = std::move(submission.start)};
    if (number >= given_up_below_) --missing_;
    if (is_barrier || number < given_up_below_) late.error = given_up(number);
    ready_.push_back(std::move(late));
    return;
  }
  if (!is_barrier && number > next_) {
    const auto until = async::time_after(loop_->now(), hold_);
    waiting_.emplace(number, Waiting{.submission = std::move(submission), .until = until});
    ++waiting_count_;
    arrivals_.push_back(number);
    if (arrivals_.size() == 1) set_timer();
    return;
  }
  release_below(number);
  ready_.push_back({.start = std::move(submission.start)});
  next_ = number + 1;
  if (is_barrier) give_up_missing();
  release_contiguous();
}

void Sequencer::Impl::give_up_missing() {
  given_up_below_ = next_;
  missing_ = 0;
}

std::optional<std::int64_t> Sequencer::Impl::awaited_by(std::string_view request_id) const {
  const auto is_it = [&](const Submission& one) { return one.request_id == request_id; };
  const bool is_waiting = std::ranges::any_of(waiting_, [&](const auto& entry) {
    const auto& [submission, until, followers] = entry.second;
    return is_it(submission) || std::ranges::any_of(followers, is_it);
  });
  return is_waiting ? std::optional(next_) : std::nullopt;
}

void Sequencer::Impl::release(std::map<std::int64_t, Waiting>::iterator waiting) {
  missing_ += waiting->first - next_;
  next_ = waiting->first + 1;
  auto& [submission, until, followers] = waiting->second;
  waiting_count_ -= 1 + followers.size();
  ready_.push_back({.start = std::move(submission.start)});
  for (auto& follower : followers) ready_.push_back({.start = std::move(follower.start)});
  waiting_.erase(waiting);
}

void Sequencer::Impl::release_below(std::int64_t number) {
  while (!waiting_.empty() && waiting_.begin()->first < number) release(waiting_.begin());
}

void Sequencer::Impl::release_contiguous() {
  while (!waiting_.empty() && waiting_.begin()->first == next_) release(waiting_.begin());
}

void Sequencer::Impl::release_due() {
  while (!arrivals_.empty()) {
    const std::int64_t number = arrivals_.front();
    const auto found = waiting_.find(number);
    if (found != waiting_.end()) {
      if (found->second.until > loop_->now()) break;
      release_below(number + 1);
      release_contiguous();
    }
    arrivals_.pop_front();
  }
  set_timer();
  run_ready();
}

// For the one that waits longest. Should it have started by then, the timer is set for the next.
void Sequencer::Impl::set_timer() {
  if (arrivals_.empty()) return;
  timer_ = loop_->schedule(waiting_.at(arrivals_.front()).until, [self = weak_from_this()] {
    if (const auto alive = self.lock()) alive->release_due();
  });
}

void Sequencer::Impl::run_ready() {
  if (std::exchange(is_running_, true)) return;
  const auto self = shared_from_this();
  while (!ready_.empty()) {
    auto [start, error] = std::move(ready_.front());
    ready_.pop_front();
    if (closed_ && !error) error = closed_;
    start(std::move(error));
  }
  is_running_ = false;
}

void Sequencer::Impl::stop_waiting() {
  release_below(std::numeric_limits<std::int64_t>::max());
  run_ready();
}

void Sequencer::Impl::close(const Error& reason) {
  if (!closed_) closed_ = reason;
  loop_->cancel(timer_);
  arrivals_.clear();
  release_below(std::numeric_limits<std::int64_t>::max());
  run_ready();
}

Sequencer::Sequencer(std::shared_ptr<async::EventLoop> loop,
                     std::int64_t next,
                     std::chrono::nanoseconds hold)
    : impl_(std::make_shared<Impl>(std::move(loop), next, hold)) {}

// `impl_` is shared, so there is no bad_weak_ptr. NOLINTNEXTLINE(bugprone-exception-escape)
Sequencer::~Sequencer() {
  impl_->close({.code = ErrorCode::closed, .message = "the model was unloaded"});
}

Result<Sequencer::Admission> Sequencer::submit(Submission submission) {
  return impl_->submit(std::move(submission));
}

void Sequencer::add_earlier(const Submission& submission) {
  if (submission.seq_id) impl_->remember(*submission.seq_id, submission);
}

bool Sequencer::has_gap() const noexcept {
  return impl_->has_gap();
}

void Sequencer::give_up_missing() {
  impl_->give_up_missing();
}

void Sequencer::stop_waiting() {
  impl_->stop_waiting();
}

void Sequencer::close(const Error& reason) {
  impl_->close(reason);
}

std::optional<std::int64_t> Sequencer::awaited_by(std::string_view request_id) const {
  return impl_->awaited_by(request_id);
}

bool Sequencer::is_expected(std::int64_t number) const {
  return impl_->is_expected(number);
}

std::size_t Sequencer::waiting() const noexcept {
  return impl_->waiting();
}

}  // namespace tinker::server
