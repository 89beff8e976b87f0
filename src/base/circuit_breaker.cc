#include "tinker/circuit_breaker.h"

#include <algorithm>
#include <deque>

#include "base/strings.h"
#include "tinker/detail/mutex.h"

namespace tinker {

using std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;

namespace {

/// When to ask again while all probes are under way: nobody knows how long those take.
constexpr nanoseconds kProbePause = std::chrono::seconds(1);

Result<void> validate(const CircuitBreakerOptions& options) {
  if (options.failure_threshold < 1) {
    return Error::invalid_argument(
        base::concat("failure_threshold: expected 1 or more, found ", options.failure_threshold));
  }
  if (options.reset_timeout <= nanoseconds::zero()) {
    return Error::invalid_argument(base::concat(
        "reset_timeout: expected more than 0, found ", options.reset_timeout.count(), " ns"));
  }
  if (options.max_probes < 1) {
    return Error::invalid_argument(
        base::concat("max_probes: expected 1 or more, found ", options.max_probes));
  }
  if (const auto& rate = options.failure_rate) {
    const bool is_share = rate->threshold > 0 && rate->threshold <= 1;  // not so for NaN
    if (!is_share) {
      return Error::invalid_argument(base::concat(
          "failure_rate.threshold: expected above 0 and at most 1, found ", rate->threshold));
    }
    if (rate->min_calls < 1 || rate->calls < rate->min_calls) {
      return Error::invalid_argument(
          base::concat("failure_rate: expected 1 <= min_calls <= calls, found ",
                       rate->min_calls,
                       " and ",
                       rate->calls));
    }
    if (rate->window <= nanoseconds::zero()) {
      return Error::invalid_argument(base::concat(
          "failure_rate.window: expected more than 0, found ", rate->window.count(), " ns"));
    }
  }
  return {};
}

/// No answer of the service, but something that happened on this side.
bool is_ours(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::cancelled:
    case ErrorCode::deadline_exceeded:
    case ErrorCode::predecessor_failed:
    case ErrorCode::closed:
    case ErrorCode::stuck:
    case ErrorCode::circuit_open:
    case ErrorCode::io_error:
    case ErrorCode::internal: return true;
    default: return false;
  }
}

/// "server_error (status 503)".
std::string describe(const Error& error) {
  const auto code = to_string(error.code);
  if (error.http_status == 0) return std::string(code);
  return base::concat(code, " (status ", error.http_status, ")");
}

/// The outcomes of the last calls.
class Window {
 public:
  void clear() noexcept {
    calls_.clear();
    failures_ = 0;
  }

  /// Whether there are too many failures now.
  bool add(const FailureRate& rate, TimePoint now, bool is_failure) {
    calls_.push_back({.at = now, .is_failure = is_failure});
    failures_ += is_failure ? 1 : 0;
    while (calls_.size() > rate.calls || now - calls_.front().at > rate.window) {
      failures_ -= calls_.front().is_failure ? 1 : 0;
      calls_.pop_front();
    }
    const auto size = static_cast<double>(calls_.size());
    return calls_.size() >= rate.min_calls &&
           static_cast<double>(failures_) >= rate.threshold * size;
  }

 private:
  struct Call {
    TimePoint at;
    bool is_failure;
  };
  std::deque<Call> calls_ = {};
  std::size_t failures_ = 0;
};

}  // namespace

std::string_view to_string(CircuitState state) noexcept {
  switch (state) {
    case CircuitState::closed: return "closed";
    case CircuitState::open: return "open";
    case CircuitState::half_open: return "half_open";
  }
  return "unknown";
}

bool is_service_failure(const Error& error) noexcept {
  return error.code == ErrorCode::connection_failed || error.code == ErrorCode::timed_out ||
         error.http_status >= 500;
}

struct CircuitBreaker::State {
  State(std::string n, CircuitBreakerOptions o, std::shared_ptr<const Clock> c)
      : name(std::move(n)), options(std::move(o)), clock(std::move(c)) {}

  enum class Verdict { none, success, failure };
  Result<std::uint64_t> begin();
  void end(std::uint64_t began_in, Verdict verdict, std::string_view why = {});
  void reset();
  CircuitBreakerStatus status() const;

  const std::string name;
  const CircuitBreakerOptions options;
  const std::shared_ptr<const Clock> clock;

 private:
  void change(CircuitState to) TINKER_ATTRIBUTE_(requires_capability(mutex_));
  void count(bool is_failure) TINKER_ATTRIBUTE_(requires_capability(mutex_));
  [[nodiscard]] nanoseconds left() const TINKER_ATTRIBUTE_(requires_capability(mutex_));
  Error reject(nanoseconds after) TINKER_ATTRIBUTE_(requires_capability(mutex_));
  [[nodiscard]] CircuitBreakerStatus status_now() const
      TINKER_ATTRIBUTE_(requires_capability(mutex_));
  void tell(const std::optional<CircuitBreakerStatus>& changed) const noexcept;

  mutable detail::Mutex mutex_;
  CircuitState state_ TINKER_GUARDED_BY(mutex_) = CircuitState::closed;
  std::uint64_t epoch_ TINKER_GUARDED_BY(mutex_) = 0;  // one more with each change
  TimePoint opened_ TINKER_GUARDED_BY(mutex_) = {};
  int probes_ TINKER_GUARDED_BY(mutex_) = 0;  // under way
  int failures_ TINKER_GUARDED_BY(mutex_) = 0;
  Window window_ TINKER_GUARDED_BY(mutex_);
  std::string last_failure_ TINKER_GUARDED_BY(mutex_) = {};
  std::uint64_t opens_ TINKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t rejected_ TINKER_GUARDED_BY(mutex_) = 0;
};

Result<std::uint64_t> CircuitBreaker::State::begin() {
  std::optional<CircuitBreakerStatus> changed;
  std::uint64_t epoch = 0;
  {
    const detail::MutexLock lock(mutex_);
    if (state_ == CircuitState::open) {
      const auto wait = left();
      if (wait > wait.zero()) return reject(wait);
      change(CircuitState::half_open);
      changed = status_now();
    }
    if (state_ == CircuitState::half_open) {
      if (probes_ == options.max_probes) {
        return reject(std::min(kProbePause, options.reset_timeout));
      }
      ++probes_;
    }
    epoch = epoch_;
  }
  tell(changed);
  return epoch;
}

void CircuitBreaker::State::end(std::uint64_t began_in, Verdict verdict, std::string_view why) {
  std::optional<CircuitBreakerStatus> changed;
  {
    const detail::MutexLock lock(mutex_);
    if (began_in != epoch_) return;
    if (verdict == Verdict::failure) last_failure_ = why;
    if (state_ == CircuitState::half_open) {
      --probes_;
      if (verdict == Verdict::success) change(CircuitState::closed);
      if (verdict == Verdict::failure) change(CircuitState::open);
    } else if (verdict != Verdict::none) {
      count(verdict == Verdict::failure);
    }
    if (began_in != epoch_) changed = status_now();
  }
  tell(changed);
}

void CircuitBreaker::State::reset() {
  std::optional<CircuitBreakerStatus> changed;
  {
    const detail::MutexLock lock(mutex_);
    const bool is_change = state_ != CircuitState::closed;
    change(CircuitState::closed);
    if (is_change) changed = status_now();
  }
  tell(changed);
}

CircuitBreakerStatus CircuitBreaker::State::status() const {
  const detail::MutexLock lock(mutex_);
  return status_now();
}

void CircuitBreaker::State::change(CircuitState to) {
  state_ = to;
  ++epoch_;
  probes_ = 0;
  failures_ = 0;
  window_.clear();
  if (to != CircuitState::open) return;
  opened_ = clock->now();
  ++opens_;
}

void CircuitBreaker::State::count(bool is_failure) {
  failures_ = is_failure ? failures_ + 1 : 0;
  const bool is_rate_exceeded =
      options.failure_rate && window_.add(*options.failure_rate, clock->now(), is_failure);
  if (failures_ >= options.failure_threshold || (is_failure && is_rate_exceeded)) {
    change(CircuitState::open);
  }
}

nanoseconds CircuitBreaker::State::left() const {
  return options.reset_timeout - (clock->now() - opened_);
}

Error CircuitBreaker::State::reject(nanoseconds after) {
  ++rejected_;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(after);
  const auto how = state_ == CircuitState::open ? " is open" : " is being probed";
  return {.code = ErrorCode::circuit_open,
          .message = base::concat("not sent, because the circuit breaker of ",
                                  name,
                                  how,
                                  last_failure_.empty() ? "" : " after ",
                                  last_failure_,
                                  "; next attempt in ",
                                  std::chrono::duration<double>(ms).count(),
                                  " s"),
          .retry = {.retryable = true, .after = ms}};
}

CircuitBreakerStatus CircuitBreaker::State::status_now() const {
  CircuitBreakerStatus out = {
      .name = name, .state = state_, .failures = failures_, .opens = opens_, .rejected = rejected_};
  if (state_ == CircuitState::open) {
    const auto wait = left();
    if (wait > wait.zero()) {
      out.retry_after = wait;
    } else {
      out.state = CircuitState::half_open;  // as the next call will find it
    }
  }
  return out;
}

void CircuitBreaker::State::tell(
    const std::optional<CircuitBreakerStatus>& changed) const noexcept {
  if (!changed || !options.on_change) return;
  try {
    options.on_change(*changed);
  } catch (...) {  // NOLINT(bugprone-empty-catch): as the option says
  }
}

Result<CircuitBreaker> CircuitBreaker::create(std::string name, CircuitBreakerOptions options) {
  const std::shared_ptr<const Clock> clock(std::shared_ptr<const Clock>(), &Clock::system());
  return create(std::move(name), std::move(options), clock);
}

Result<CircuitBreaker> CircuitBreaker::create(std::string name,
                                              CircuitBreakerOptions options,
                                              std::shared_ptr<const Clock> clock) {
  TINKER_TRY(validate(options));
  if (!options.is_failure) options.is_failure = is_service_failure;
  return CircuitBreaker(
      std::make_shared<State>(std::move(name), std::move(options), std::move(clock)));
}

Result<CircuitBreaker::Permit> CircuitBreaker::try_acquire() const {
  TINKER_TRY(const auto epoch, state_->begin());
  return Permit(state_, epoch);
}

void CircuitBreaker::reset() const {
  state_->reset();
}

CircuitBreakerStatus CircuitBreaker::status() const {
  return state_->status();
}

CircuitBreaker::Permit::Permit(std::shared_ptr<State> state, std::uint64_t epoch) noexcept
    : state_(std::move(state)), epoch_(epoch) {}

CircuitBreaker::Permit& CircuitBreaker::Permit::operator=(Permit&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(epoch_, other.epoch_);
  return *this;
}

CircuitBreaker::Permit::~Permit() {
  if (state_) state_->end(epoch_, State::Verdict::none);
}

void CircuitBreaker::Permit::success() {
  if (const auto state = std::exchange(state_, nullptr)) {
    state->end(epoch_, State::Verdict::success);
  }
}

void CircuitBreaker::Permit::failure() {
  if (const auto state = std::exchange(state_, nullptr)) {
    state->end(epoch_, State::Verdict::failure);
  }
}

void CircuitBreaker::Permit::record(const Error& error) {
  if (!state_) return;
  using Verdict = State::Verdict;
  const bool is_failure = state_->options.is_failure(error);
  const auto verdict = is_failure            ? Verdict::failure
                       : is_ours(error.code) ? Verdict::none
                                             : Verdict::success;
  const auto state = std::exchange(state_, nullptr);
  state->end(epoch_, verdict, is_failure ? describe(error) : std::string());
}

}  // namespace tinker
