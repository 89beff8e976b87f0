#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
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
  [[nodiscard]] std::size_t running() const noexcept { return running_.size(); }

 private:
  [[nodiscard]] async::EventLoop& loop() const noexcept { return *runtime_->loop(); }
  std::uint64_t start(std::shared_ptr<async::Scope> operation);
  void end(std::uint64_t id);
  void watch();
  void check_progress();

  std::shared_ptr<async::RuntimeCore> runtime_;
  RetryConfig config_;
  std::optional<async::Semaphore> limit_ = {};
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, std::shared_ptr<async::Scope>> running_ = {};  // less those found stuck
  async::TimePoint progress_ = {};
  std::optional<async::TimerId> watch_ = {};
};

/// One that runs, from its beginning to the end of its life. Its scope is cancelled with
/// `ErrorCode::stuck` when the handler makes no progress (R12.6).
class RetryHandler::Operation {
 public:
  explicit Operation(std::shared_ptr<RetryHandler> handler);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { handler_->end(id_); }

  [[nodiscard]] const std::shared_ptr<async::Scope>& scope() const noexcept { return scope_; }
  /// It ended well, which is progress for all.
  void succeeded() noexcept { handler_->progress_ = handler_->loop().now(); }

 private:
  std::shared_ptr<RetryHandler> handler_;
  std::shared_ptr<async::Scope> scope_ = std::make_shared<async::Scope>();
  std::uint64_t id_;
};

/// The attempts of one operation: decides after each failure, and reports it (R12.7).
class RetryAttempts {
 public:
  RetryAttempts(std::shared_ptr<SessionCore> session,
                std::shared_ptr<const RetryHandler> handler,
                std::string name);

  /// How long to wait before the next attempt; nothing when the error is final.
  std::optional<std::chrono::nanoseconds> after(const Error& error, const async::Context& context);

 private:
  std::shared_ptr<SessionCore> session_;
  std::shared_ptr<const RetryHandler> handler_;
  std::string name_;
  async::TimePoint started_;
  int failures_ = 0;
};

namespace detail {

template <typename T>
async::Task<T> repeat(RetryAttempts attempts, UniqueFunction<async::Task<T>()> make) {
  auto whence = async::this_context();
  const auto context = co_await whence;
  while (true) {
    auto attempt = make();
    auto result = co_await std::move(attempt);
    if (result.ok()) co_return result;
    const auto delay = attempts.after(result.error(), context);
    if (!delay) co_return result;
    auto pause = async::sleep_for(*delay);
    TINKER_CO_TRY(co_await pause);
  }
}

}  // namespace detail

/// Runs `make()`, a whole operation from its submission to its result, until it succeeds or fails
/// for good, within the limits of `handler`. Without a handler it runs once: `sample_no_retries`.
/// `name` appears in telemetry.
template <typename T>
async::Task<T> execute(std::shared_ptr<SessionCore> session,
                       std::shared_ptr<RetryHandler> handler,
                       std::string name,
                       UniqueFunction<async::Task<T>()> make) {
  if (!handler) {
    auto once = make();
    co_return co_await std::move(once);
  }
  async::Semaphore::Permit permit;
  if (handler->limit()) {
    Watch watch(session->runtime, name, "");
    watch.set_state("queued", "as many operations as allowed are running");
    auto turn = handler->limit()->acquire();
    TINKER_CO_TRY(permit, co_await turn);
  }
  RetryHandler::Operation operation(handler);
  auto work =
      handler->config().enable_retry_logic
          ? detail::repeat<T>(RetryAttempts(session, handler, std::move(name)), std::move(make))
          : make();
  auto guarded = async::in_child_scope(operation.scope(), std::move(work));
  auto result = co_await std::move(guarded);
  if (result.ok()) operation.succeeded();
  co_return result;
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
  struct Entry {
    std::string sampling_session_id;
    std::shared_ptr<RetryHandler> handler;
  };

  std::shared_ptr<async::RuntimeCore> runtime_;
  std::list<Entry> entries_ = {};  // most recently used first
};

}  // namespace tinker::session
