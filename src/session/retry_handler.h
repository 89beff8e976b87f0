#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "async/child_scope.h"
#include "async/semaphore.h"
#include "async/task.h"
#include "session/session_core.h"
#include "session/watch.h"
#include "tinker/retry_config.h"
#include "tinker/types/client_config.h"
#include "tinker/unique_function.h"

namespace tinker::session {

/// `invalid_argument` when `config` cannot be used.
Result<void> validate(const RetryConfig& config);

/// `config` with what the server decides (section 2): its limit in place of `max_connections`, none
/// where results are polled in batches, and stuck detection off where it says so.
[[nodiscard]] RetryConfig effective_config(RetryConfig config, const ClientConfigResponse& server);

/// Whether the failure of an attempt is worth another one (R12.3).
[[nodiscard]] bool is_repeatable(const RetryConfig& config, const Error& error) noexcept;

/// The wait after failure number `failure` (0 first), for `u` uniform in [0, 1) (R12.4).
[[nodiscard]] std::chrono::nanoseconds retry_delay(const RetryConfig& config,
                                                   int failure,
                                                   double u);

/// What operations on one sampling session share (section 12): a limit to their number and the time
/// of the last success. Loop thread only.
class RetryHandler {
 public:
  class Operation;

  /// `config` is valid and effective.
  RetryHandler(std::shared_ptr<async::RuntimeCore> runtime, RetryConfig config);

  [[nodiscard]] const RetryConfig& config() const noexcept { return config_; }
  /// Nothing when there is no limit.
  [[nodiscard]] const std::optional<async::Semaphore>& limit() const noexcept { return limit_; }
  [[nodiscard]] std::size_t running() const noexcept { return running_; }

 private:
  [[nodiscard]] async::EventLoop& loop() const noexcept { return *runtime_->loop(); }
  void start(Operation& operation);
  void end(Operation& operation);
  void unlist(Operation& operation);
  void watch();
  void check_progress();

  std::shared_ptr<async::RuntimeCore> runtime_;
  RetryConfig config_;
  std::optional<async::Semaphore> limit_ = {};
  Operation* first_ = nullptr;  // of those that run, less those found stuck
  std::size_t running_ = 0;
  async::TimePoint progress_ = {};
  std::optional<async::TimerId> watch_ = {};
};

/// One that runs, from its beginning to the end of its life. Its scope is cancelled with
/// `ErrorCode::stuck` when the handler makes no progress (R12.6).
class RetryHandler::Operation {
 public:
  explicit Operation(std::shared_ptr<RetryHandler> handler) : handler_(std::move(handler)) {
    handler_->start(*this);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() {
    scope_.detach();
    handler_->end(*this);
  }

  /// Puts its scope below that of the task it runs in, which outlives it.
  void begin(async::Scope& outer) {
    scope_.attach(std::shared_ptr<async::Scope>(std::shared_ptr<async::Scope>(), &outer));
  }
  [[nodiscard]] async::Scope& scope() noexcept { return scope_; }
  /// It ended well, which is progress for all.
  void succeeded() noexcept { handler_->progress_ = handler_->loop().now(); }

 private:
  friend class RetryHandler;

  std::shared_ptr<RetryHandler> handler_;
  async::Scope scope_;
  // Its neighbours in the handler's list, where it is.
  Operation* previous_ = nullptr;
  Operation* next_ = nullptr;
  bool is_listed_ = false;
};

/// The attempts of one operation: decides after each failure, and reports it (R12.7).
class RetryAttempts {
 public:
  RetryAttempts(std::shared_ptr<SessionCore> session,
                std::shared_ptr<const RetryHandler> handler,
                std::string name,
                std::shared_ptr<Watch> watch);

  /// How long to wait before the next attempt; nothing when there was no error, when it is final,
  /// or when repetition is off.
  template <typename T>
  std::optional<std::chrono::nanoseconds> after(const Result<T>& result,
                                                const async::Context& context) {
    return result.ok() ? std::nullopt : after_error(result.error(), context);
  }

 private:
  std::optional<std::chrono::nanoseconds> after_error(const Error& error,
                                                      const async::Context& context);

  std::shared_ptr<SessionCore> session_;
  std::shared_ptr<const RetryHandler> handler_;
  std::string name_;
  std::shared_ptr<Watch> watch_;
  async::TimePoint started_;
  int failures_ = 0;
};

/// One attempt of an operation; the watch, which may be null, tells people of the wait.
template <typename T>
using Attempt = UniqueFunction<async::Task<T>(const std::shared_ptr<Watch>&)>;

namespace detail {

/// What tells of the wait for an operation, from its first attempt to its end.
std::shared_ptr<Watch> watch_operation(const SessionCore& session,
                                       const RetryConfig& config,
                                       std::string_view name);

/// A place among the operations of `handler`, when there was none free.
async::Task<async::Semaphore::Permit> wait_for_place(std::shared_ptr<SessionCore> session,
                                                     std::shared_ptr<RetryHandler> handler,
                                                     std::string name);

template <typename T>
async::Task<T> execute_within(std::shared_ptr<SessionCore> session,
                              std::shared_ptr<RetryHandler> handler,
                              std::string name,
                              Attempt<T> make) {
  std::optional<async::Semaphore::Permit> permit;
  if (handler->limit()) permit = handler->limit()->try_acquire();
  if (handler->limit() && !permit) {
    auto waiting = wait_for_place(session, handler, name);
    TINKER_CO_TRY(permit, co_await std::move(waiting));
  }
  RetryHandler::Operation operation(handler);
  auto ask = async::this_context();
  async::Context context = co_await ask;
  operation.begin(*context.scope);
  context.scope = &operation.scope();
  auto enter = async::EnterScope(*context.scope);
  co_await enter;
  const auto watch = watch_operation(*session, handler->config(), name);
  RetryAttempts attempts(std::move(session), std::move(handler), name, watch);
  while (!context.scope->is_cancelled()) {
    auto attempt = make(watch);
    auto wait = std::move(attempt).late();
    auto result = co_await wait;
    if ((*result).ok()) operation.succeeded();
    const auto delay = attempts.after(*result, context);
    if (!delay) co_return std::move(result);
    auto pause = async::sleep_for(*delay);
    TINKER_CO_TRY(co_await pause);
  }
  co_return context.scope->reason();
}

}  // namespace detail

/// Runs `make`, a whole operation from its submission to its result, until it succeeds or fails
/// for good, within the limits of `handler`. Without a handler it runs once: `sample_no_retries`.
/// `name` appears in telemetry.
template <typename T>
async::Task<T> execute(std::shared_ptr<SessionCore> session,
                       std::shared_ptr<RetryHandler> handler,
                       std::string name,
                       Attempt<T> make) {
  if (!handler) return make(nullptr);
  return detail::execute_within<T>(
      std::move(session), std::move(handler), std::move(name), std::move(make));
}

/// The handlers of one holder: sampling clients of the same session with the same configuration
/// share theirs (R12.1). Loop thread only.
class RetryHandlers {
 public:
  explicit RetryHandlers(std::shared_ptr<async::RuntimeCore> runtime)
      : runtime_(std::move(runtime)) {}

  /// `config` as the user gave it; `server` decides some of it.
  Result<std::shared_ptr<RetryHandler>> find_or_make(std::string_view sampling_session_id,
                                                     const RetryConfig& config,
                                                     const ClientConfigResponse& server);

 private:
  void forget_unused();

  struct Entry {
    std::string sampling_session_id;
    std::shared_ptr<RetryHandler> handler;
  };

  std::shared_ptr<async::RuntimeCore> runtime_;
  std::list<Entry> entries_ = {};  // most recently used first
};

}  // namespace tinker::session
