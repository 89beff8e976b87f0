#include "session/batch_poller.h"

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "http/retry_after.h"
#include "session/json_call.h"
#include "session/watch.h"

namespace tinker::session {

using async::Task;
using std::chrono::nanoseconds;
using std::chrono::seconds;

namespace {

constexpr std::chrono::milliseconds kTimeout{45'000};
constexpr seconds kRetryPause{1};
constexpr seconds kSinglePolls{30};
constexpr int kMaxBadRequestRetries = 3;
constexpr int kMaxFailures = 3;
constexpr std::size_t kMaxRemembered = 10'000;

struct Done {
  std::string request_id = {};
  Completion completion = {};
};

/// A state this library does not know concerns that request alone: whoever waits for it asks the
/// server directly.
Done read_completion(const FutureCompletion& completion) {
  if (const auto* finished = std::get_if<FutureFinished>(&completion)) {
    const auto size = finished->response_payload_uncompressed_size.value_or(0);
    return {.request_id = finished->request_id,
            .completion = {.kind = Completion::Kind::finished,
                           .payload_bytes = std::max<std::int64_t>(size, 0)}};
  }
  if (const auto* failed = std::get_if<FutureFailed>(&completion)) {
    return {.request_id = failed->request_id, .completion = {.kind = Completion::Kind::failed}};
  }
  const auto& unknown = *std::get_if<UnknownVariant>(&completion);
  const Json* id = unknown.value.find("request_id");
  const auto* text = id != nullptr ? id->get_if<std::string>() : nullptr;
  return {.request_id = text != nullptr ? *text : std::string()};
}

}  // namespace

BatchPoller::BatchPoller(std::shared_ptr<SessionCore> session,
                         std::string sampling_session_id,
                         std::int64_t clone_id)
    : session_(std::move(session)),
      sampling_session_id_(std::move(sampling_session_id)),
      clone_id_(clone_id),
      stored_(kMaxRemembered),
      uninteresting_(kMaxRemembered) {}

bool BatchPoller::is_single() const noexcept {
  if (failures_in_row_ >= kMaxFailures) return true;
  return single_until_ && session_->now() < *single_until_;
}

Task<Completion> BatchPoller::wait(std::string request_id) {
  const auto self = shared_from_this();
  if (auto known = stored_.take(request_id)) co_return *known;
  if (closed_) co_return *closed_;
  if (is_single() || waiters_.contains(request_id)) {
    uninteresting_.put(request_id, {});
    co_return Completion();
  }
  auto whence = async::this_context();
  const auto context = co_await whence;
  Promise<Completion> promise(session_->runtime->loop());
  auto future = promise.future();
  waiters_.emplace(request_id, Waiter{.promise = std::move(promise), .scope = context.scope});
  start();
  auto wait = async::until(std::move(future));
  auto result = co_await wait;
  // Whoever ended it has taken it out of the map; still there means cancelled.
  if (waiters_.erase(request_id) > 0) uninteresting_.put(request_id, {});
  co_return result;
}

void BatchPoller::retrieved(std::string request_id) {
  if (closed_ || failures_in_row_ >= kMaxFailures) return;
  retrieved_.insert(std::move(request_id));
  start();
}

void BatchPoller::close(Error reason) {
  if (closed_) return;
  closed_ = std::move(reason);
  end_waiters(*closed_);
  retrieved_.clear();
  stored_.clear();
  uninteresting_.clear();
  if (task_) task_->cancel();
}

void BatchPoller::end_waiters(const Result<Completion>& outcome) {
  auto waiters = std::exchange(waiters_, {});
  for (auto& [id, waiter] : waiters) waiter.promise.set(outcome);
}

void BatchPoller::start() {
  if (task_ || closed_) return;
  task_ = session_->runtime->spawn(session_->scope, run(shared_from_this()));
  const auto state = FutureAccess::consume(*task_);
  state->when_ready(
      [self = shared_from_this(), state] {
        const auto result = state->take();
        self->task_.reset();
        if (!result.ok()) return self->close(result.error());
        if (self->has_work()) self->start();  // it came while the task was about to end
      },
      session_->runtime->loop());
}

Task<> BatchPoller::run(std::shared_ptr<BatchPoller> self) {
  auto whence = async::this_context();
  const auto context = co_await whence;
  const auto& session = self->session_;
  std::optional<Watch> watch;  // while polls fail
  while (self->has_work()) {
    nanoseconds pause = {};
    if (self->is_single()) {
      const auto now = session->now();
      pause = self->single_until_.value_or(now) - now;
    } else {
      const auto reported = self->retrieved_;
      const auto sent = session->now();
      auto asking = ask(self);
      auto answer = co_await std::move(asking);
      if (!answer.ok() && context.scope->is_cancelled()) co_return context.scope->reason();
      if (watch || !answer.ok()) self->note(answer.ok() ? nullptr : context.scope->failure());
      if (answer.ok()) {
        watch.reset();
        for (const auto& id : reported) self->retrieved_.erase(id);
        pause = self->after_answer(*answer, session->now() - sent);
      } else if (const auto delay = self->retry_delay(answer.error())) {
        if (!watch) watch.emplace(session->runtime, "the batched poll of results", "");
        watch->operation_failed(answer.error(), std::nullopt);
        pause = *delay;
      } else {
        watch.reset();
        self->fall_back(answer.error());
      }
    }
    if (pause > nanoseconds::zero()) {
      auto sleep = async::sleep_for(pause);
      TINKER_CO_TRY(co_await sleep);
    }
  }
  co_return Result<void>();
}

Task<FuturesRetrieveResponse> BatchPoller::ask(std::shared_ptr<BatchPoller> self) {
  TINKER_CO_TRY(auto body,
                json_body(FuturesRetrieveRequest{
                    .target = {.sampling_session_id = self->sampling_session_id_,
                               .cloned_sampler_id = self->clone_id_},
                    .prev_cursor = self->cursor_,
                    .retrieved_request_ids = {self->retrieved_.begin(), self->retrieved_.end()},
                }));
  api::Call call = {.path = "/api/v1/retrieve_futures",
                    .body = std::move(body),
                    .pool = api::PoolKind::retrieve_futures,
                    .timeout = kTimeout,
                    .timeout_text = "45.0",
                    .max_retries = 0,
                    .loggable = self->sampling_session_id_,
                    .is_guarded = false};
  auto calling = call_json<FuturesRetrieveResponse>(self->session_, std::move(call));
  co_return co_await std::move(calling);
}

nanoseconds BatchPoller::after_answer(const FuturesRetrieveResponse& answer, nanoseconds took) {
  bad_request_retries_ = 0;
  failures_in_row_ = 0;
  single_until_.reset();
  cursor_ = answer.cursor;
  bool is_progress = false;
  for (const auto& completion : answer.completions) {
    const Done done = read_completion(completion);
    is_progress = deliver(done.request_id, done.completion) || is_progress;
  }
  if (!is_progress) return has_work() ? pacing_.after(took) : nanoseconds::zero();
  pacing_.reset();
  return {};
}

bool BatchPoller::deliver(const std::string& request_id, Completion completion) {
  const auto found = waiters_.find(request_id);
  if (found == waiters_.end()) {
    const bool is_wanted = !uninteresting_.take(request_id) && !request_id.empty();
    if (is_wanted) stored_.put(request_id, completion);
    return false;
  }
  Promise<Completion> promise = std::move(found->second.promise);
  waiters_.erase(found);
  promise.set(completion);
  return true;
}

void BatchPoller::note(const std::shared_ptr<const async::Failure>& failure) {
  for (auto& [id, waiter] : waiters_) waiter.scope->note(failure);
}

std::optional<nanoseconds> BatchPoller::retry_delay(const Error& error) {
  if (error.http_status == 402) {
    const seconds limit(session_->config.billing_exception_max_pause_duration_sec);
    if (session_->billing.should_pause(session_->now(), limit, session_->logger())) {
      return BillingPause::kPause;
    }
    return std::nullopt;
  }
  if (http::is_retryable(error)) return kRetryPause;
  if (error.http_status == 400 && bad_request_retries_ < kMaxBadRequestRetries) {
    ++bad_request_retries_;
    return kRetryPause;
  }
  return std::nullopt;
}

void BatchPoller::fall_back(const Error& error) {
  bad_request_retries_ = 0;
  ++failures_in_row_;
  const bool is_final = failures_in_row_ >= kMaxFailures;
  single_until_ = session_->now() + kSinglePolls;
  if (is_final) {
    retrieved_.clear();
    stored_.clear();
    uninteresting_.clear();
  }
  TINKER_LOG(session_->logger(),
             error,
             "retrieve_futures polling failed for sampling session ",
             sampling_session_id_,
             " (clone ",
             clone_id_,
             "): ",
             to_string(error.code),
             ": ",
             error.to_string(),
             is_final ? "; results are polled one by one from now on"
                      : "; results are polled one by one for a while");
  session_->runtime->events().publish({.name = "batch_poll.failed",
                                       .level = LogLevel::error,
                                       .message = error.message,
                                       .endpoint = "/api/v1/retrieve_futures",
                                       .session_id = session_->session_id,
                                       .http_status = error.http_status,
                                       .error = error.code,
                                       .attempt = failures_in_row_});
  if (!is_final) {
    for (const auto& [id, waiter] : waiters_) uninteresting_.put(id, {});
  }
  end_waiters(Completion());
}

}  // namespace tinker::session
