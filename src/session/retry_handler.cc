#include "session/retry_handler.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/block_pool.h"
#include "base/logging.h"
#include "http/retry_after.h"
#include "session/failure_report.h"
#include "session/retries.h"

namespace tinker::session {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::size_t kMaxUnused = 100;

Error stuck_error(std::chrono::nanoseconds progress_timeout) {
  return {.code = ErrorCode::stuck,
          .message = base::concat("no progress made in ",
                                  Seconds(progress_timeout).count(),
                                  " s. Requests appear to be stuck")};
}

}  // namespace

Result<void> validate(const RetryConfig& config) {
  if (config.max_connections && *config.max_connections <= 0) {
    return Error{
        .code = ErrorCode::invalid_argument,
        .message = base::concat("max_connections must be positive, got ", *config.max_connections)};
  }
  return {};
}

RetryConfig effective_config(RetryConfig config, const ClientConfigResponse& server) {
  if (server.sample_use_retrieve_futures) {
    config.max_connections.reset();
  } else {
    config.max_connections = server.sample_max_concurrent_requests;
  }
  if (!server.sample_enable_stuck_detection) config.enable_stuck_detection = false;
  return config;
}

bool is_repeatable(const RetryConfig& config, const Error& error) noexcept {
  if (is_end_of_operation(error)) return false;
  // A 410 is an expired promise, which a new sample replaces, or a session that has ended for good.
  // Whoever polls says which.
  if (error.code == ErrorCode::expired && !error.retry.retryable) return false;
  const auto& codes = config.retryable_errors;
  if (std::ranges::find(codes, error.code) != codes.end()) return true;
  // A status that ended the polling of an accepted request comes without the hint: that is final.
  return error.http_status != 0 && http::is_retryable(error) && error.retry.retryable;
}

std::chrono::nanoseconds retry_delay(const RetryConfig& config, int failure, double u) {
  constexpr int kEnough = 1000;  // beyond any limit, and below what overflows
  const Seconds limit = config.retry_delay_max;
  const Seconds grown = Seconds(config.retry_delay_base) * std::exp2(std::min(failure, kEnough));
  const Seconds delay = std::min(grown, limit);
  const Seconds varied = delay + delay * config.jitter_factor * (2 * u - 1);
  if (!(varied > Seconds::zero())) return {};
  if (varied >= limit) return config.retry_delay_max;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(varied);
}

RetryHandler::RetryHandler(std::shared_ptr<async::RuntimeCore> runtime, RetryConfig config)
    : runtime_(std::move(runtime)), config_(std::move(config)) {
  if (config_.max_connections) limit_ = async::Semaphore::counting(*config_.max_connections);
}

void RetryHandler::start(Operation& operation) {
  if (running_ == 0) progress_ = loop().now();
  operation.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &operation;
  first_ = &operation;
  operation.is_listed_ = true;
  ++running_;
  if (config_.enable_stuck_detection && !watch_) watch();
}

void RetryHandler::end(Operation& operation) {
  unlist(operation);
  // A timer lives only as long as an operation does, which keeps the handler.
  if (running_ > 0) return;
  if (const auto timer = std::exchange(watch_, std::nullopt)) loop().cancel(*timer);
}

void RetryHandler::unlist(Operation& operation) {
  if (!std::exchange(operation.is_listed_, false)) return;
  --running_;
  Operation*& to_it = operation.previous_ == nullptr ? first_ : operation.previous_->next_;
  to_it = operation.next_;
  if (operation.next_ != nullptr) operation.next_->previous_ = operation.previous_;
}

void RetryHandler::watch() {
  watch_ = loop().schedule(async::time_after(progress_, config_.progress_timeout),
                           [this] { check_progress(); });
}

void RetryHandler::check_progress() {
  watch_.reset();
  if (loop().now() - progress_ < config_.progress_timeout) return watch();
  const Error reason = stuck_error(config_.progress_timeout);
  TINKER_LOG(runtime_->logger(), error, reason.message, "; ", running_, " are given up");
  runtime_->events().publish({.name = "operation.stuck",
                              .level = LogLevel::error,
                              .message = reason.message,
                              .error = reason.code,
                              .elapsed = loop().now() - progress_});
  // Those who come next start anew: they are not to blame.
  while (Operation* const operation = first_) {
    unlist(*operation);
    operation->scope().cancel(operation->scope().with_cause(reason, loop().now()));
  }
}

RetryAttempts::RetryAttempts(std::shared_ptr<SessionCore> session,
                             std::shared_ptr<const RetryHandler> handler,
                             std::string name,
                             std::shared_ptr<Watch> watch)
    : session_(std::move(session)),
      handler_(std::move(handler)),
      name_(std::move(name)),
      watch_(std::move(watch)),
      started_(session_->now()) {}

std::optional<std::chrono::nanoseconds> RetryAttempts::after_error(const Error& error,
                                                                   const async::Context& context) {
  if (!handler_->config().enable_retry_logic || is_end_of_operation(error)) return std::nullopt;
  const auto wait = breaker_wait(error, context);
  const bool is_repeated = wait || is_repeatable(handler_->config(), error);
  ++failures_;
  report_failure(*session_,
                 {.event = "operation.attempt_failed",
                  .telemetry = "RetryHandler.execute.exception",
                  .function = name_,
                  .decision = "should_retry",
                  .is_repeated = is_repeated,
                  .attempt_count = failures_,
                  .started = started_},
                 error);
  if (!is_repeated) {
    TINKER_LOG(session_->logger(), error, name_, " failed for good: ", error.to_string());
    return std::nullopt;
  }
  watch_->operation_failed(error, context.scope->deadline());
  const auto delay = wait.value_or(
      retry_delay(handler_->config(), failures_ - 1, session_->runtime->rng().uniform()));
  TINKER_LOG(session_->logger(),
             debug,
             name_,
             " failed, attempt ",
             failures_,
             ": ",
             error.to_string(),
             "; next in ",
             Seconds(delay).count(),
             " s");
  return delay;
}

namespace detail {

std::shared_ptr<Watch> watch_operation(const SessionCore& session,
                                       const RetryConfig& config,
                                       std::string_view name) {
  auto watch =
      std::allocate_shared<Watch>(base::BlockAllocator<Watch>(), session.runtime, name, "");
  if (config.enable_stuck_detection) {
    watch->set_limit({.until = async::time_after(session.now(), config.progress_timeout),
                      .name = "RetryConfig::progress_timeout"});
  }
  return watch;
}

async::Task<async::Semaphore::Permit> wait_for_place(std::shared_ptr<SessionCore> session,
                                                     std::shared_ptr<RetryHandler> handler,
                                                     std::string name) {
  Watch watch(session->runtime, name, "");
  watch.set_state("queued", "as many operations as allowed are running");
  auto turn = handler->limit()->acquire();
  co_return co_await turn;
}

}  // namespace detail

Result<std::shared_ptr<RetryHandler>> RetryHandlers::find_or_make(
    std::string_view sampling_session_id,
    const RetryConfig& config,
    const ClientConfigResponse& server) {
  TINKER_TRY(validate(config));
  RetryConfig effective = effective_config(config, server);
  if (auto checked = validate(effective); !checked) {
    return checked.error().with_context("the server's sample_max_concurrent_requests");
  }
  const auto known = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.sampling_session_id == sampling_session_id && entry.handler->config() == effective;
  });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
  } else {
    entries_.push_front(
        {.sampling_session_id = std::string(sampling_session_id),
         .handler = std::make_shared<RetryHandler>(runtime_, std::move(effective))});
    forget_unused();
  }
  return entries_.front().handler;
}

// One that a client still has stays: another one would have limits of its own beside it.
void RetryHandlers::forget_unused() {
  auto at = entries_.end();
  while (entries_.size() > kMaxUnused && at != std::next(entries_.begin())) {
    --at;
    const bool is_used = at->handler.use_count() > 1;
    if (!is_used) at = entries_.erase(at);
  }
}

}  // namespace tinker::session
