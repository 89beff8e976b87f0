#include "session/canceller.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/logging.h"
#include "session/json_call.h"
#include "session/retries.h"

namespace tinker::session {

using async::Task;

namespace {

constexpr std::chrono::milliseconds kTimeout{30'000};

/// A submission that may outlive its caller.
struct Submission {
  std::shared_ptr<SessionCore> session;
  std::shared_ptr<Canceller> canceller;
  Promise<UntypedApiFuture> promise;
  std::optional<std::string> accepted_id = {};
  bool is_abandoned = false;
};

Task<> submit_in_background(std::shared_ptr<Submission> submission, api::Call call) {
  auto calling = call_json<UntypedApiFuture>(submission->session, std::move(call));
  auto result = co_await std::move(calling);
  if (result.ok()) {
    submission->accepted_id = result->request_id;
    if (submission->is_abandoned) submission->canceller->abandon(result->request_id);
  }
  submission->promise.set(std::move(result));
  co_return Result<void>();
}

/// Its answer does not matter (R6.29).
Task<http::Response> send_cancel(std::shared_ptr<SessionCore> session,
                                 std::string request_id,
                                 std::shared_ptr<Watch> watch) {
  TINKER_CO_TRY(auto body, json_body(CancelFutureRequest{.request_id = request_id}));
  api::Call call = {.path = "/api/v1/cancel_future",
                    .body = std::move(body),
                    .pool = api::PoolKind::retrieve_promise,
                    .timeout = kTimeout,
                    .max_retries = 0,
                    .loggable = std::move(request_id),
                    .is_guarded = false,
                    .observer = watch};
  auto calling = session->api->call(std::move(call), session->tokens);
  co_return co_await std::move(calling);
}

Task<UntypedApiFuture> submit_beyond_scope(std::shared_ptr<SessionCore> session,
                                           std::shared_ptr<Canceller> canceller,
                                           api::Call call) {
  auto whence = async::this_context();
  const auto context = co_await whence;
  if (context.scope->is_cancelled()) co_return context.scope->reason();
  auto submission = std::make_shared<Submission>(
      Submission{.session = session,
                 .canceller = canceller,
                 .promise = Promise<UntypedApiFuture>(session->runtime->loop())});
  auto future = submission->promise.future();
  auto background =
      session->runtime->spawn(session->scope, submit_in_background(submission, std::move(call)));
  auto wait = async::until(std::move(future));
  auto result = co_await wait;
  if (result.ok() || !context.scope->is_cancelled()) co_return result;
  if (const auto accepted = submission->accepted_id) {
    canceller->abandon(*accepted);
  } else if (canceller->is_enabled()) {
    submission->is_abandoned = true;
  } else {
    background.cancel();
  }
  co_return result;
}

}  // namespace

bool Canceller::is_enabled() const noexcept {
  return session_->dynamic_config.sample_cancel_enabled && !session_->scope->is_cancelled();
}

void Canceller::abandon(std::string request_id) {
  if (!is_enabled()) return;
  session_->runtime->events().publish({.name = "sample.abandoned",
                                       .endpoint = "/api/v1/cancel_future",
                                       .session_id = session_->session_id,
                                       .request_id = request_id});
  queue_.push_back(std::move(request_id));
  if (is_draining_) return;
  is_draining_ = true;
  auto unobserved = session_->runtime->spawn(session_->scope, drain(shared_from_this()));
}

Task<> Canceller::drain(std::shared_ptr<Canceller> self) {
  const auto& session = self->session_;
  auto& queue = self->queue_;
  while (!queue.empty()) {
    const auto limit =
        std::max<std::int64_t>(session->dynamic_config.sample_cancel_max_batch_size, 1);
    const auto size = std::min(queue.size(), static_cast<std::size_t>(limit));
    for (std::size_t i = 0; i < size; ++i) {
      ++self->in_flight_;
      auto unobserved =
          session->runtime->spawn(session->scope, cancel_one(self, std::move(queue.front())));
      queue.pop_front();
    }
    while (self->in_flight_ > 0) {
      auto wait = self->one_done_.wait();
      TINKER_CO_TRY(co_await wait);
    }
  }
  self->is_draining_ = false;
  co_return Result<void>();
}

Task<> Canceller::cancel_one(std::shared_ptr<Canceller> self, std::string request_id) {
  const auto& session = self->session_;
  auto cancelling = execute_with_retries<http::Response>(
      session, "cancel_future", [session, request_id](const std::shared_ptr<Watch>& watch) {
        return send_cancel(session, request_id, watch);
      });
  const auto result = co_await std::move(cancelling);
  if (!result.ok() && !session->scope->is_cancelled()) {
    TINKER_LOG(session->logger(),
               error,
               "could not cancel the abandoned sample ",
               request_id,
               ": ",
               result.error().to_string());
  }
  --self->in_flight_;
  self->one_done_.notify_all();
  co_return Result<void>();
}

Task<UntypedApiFuture> submit_cancellable(std::shared_ptr<SessionCore> session,
                                          std::shared_ptr<Canceller> canceller,
                                          api::Call call) {
  if (!canceller->is_enabled()) {
    return call_json<UntypedApiFuture>(std::move(session), std::move(call));
  }
  return submit_beyond_scope(std::move(session), std::move(canceller), std::move(call));
}

}  // namespace tinker::session
