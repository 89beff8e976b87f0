#include "session/future_poller.h"

#include <algorithm>
#include <cmath>

#include "base/block_pool.h"
#include "base/logging.h"
#include "base/strings.h"
#include "http/retry_after.h"
#include "session/json_call.h"
#include "session/pacing.h"
#include "session/poll_outcome.h"
#include "session/poll_telemetry.h"
#include "session/watch.h"

namespace tinker::session {

using async::Task;
using std::chrono::nanoseconds;
using std::chrono::seconds;

namespace {

constexpr int kMaxBadRequestRetries = 3;
constexpr std::chrono::milliseconds kTimeout{45'000};
constexpr seconds kMaxBackoff{30};

/// The wait before the next poll after `retries` connection errors in a row: 1, 2, 4 … 30 s.
seconds backoff(int retries) {
  return retries >= 5 ? kMaxBackoff : seconds(1 << retries);
}

bool is_success(int status) noexcept {
  return status >= 200 && status < 300;
}

/// "OptimStep request r-1, poll 3 after 2.5 s".
std::string describe(const PollRequest& request, std::int64_t iteration, nanoseconds elapsed) {
  const double s = std::round(std::chrono::duration<double>(elapsed).count() * 10) / 10;
  return base::concat(request.request_type,
                      " request ",
                      request.request_id,
                      ", poll ",
                      iteration,
                      " after ",
                      s,
                      " s");
}

/// What the loop does after an answer: ends with `end`, or reserves, pauses and polls again.
struct Step {
  std::optional<Result<PollResult>> end = {};
  std::optional<std::int64_t> reserve_bytes = {};
  nanoseconds pause = {};
};

std::shared_ptr<Watch> make_watch(const SessionCore& session) {
  return std::allocate_shared<Watch>(base::BlockAllocator<Watch>(), session.runtime, "", "");
}

/// The state of one poll loop (R6.2), and what each answer does to it. Waits for nothing itself.
class PollLoop {
 public:
  PollLoop(std::shared_ptr<SessionCore> session, PollRequest request)
      : session_(std::move(session)),
        request_(std::move(request)),
        watch_(request_.watch ? request_.watch : make_watch(*session_)),
        allow_metadata_only_(request_.payload_bytes <= 0) {
    progress_ = {.iteration = -1, .started = session_->now()};
    watch_->set_subject("the result of ", request_.request_id, request_.request_type);
    watch_->set_state("waiting");
  }
  PollLoop(const PollLoop&) = delete;
  PollLoop& operator=(const PollLoop&) = delete;
  // A watch of the whole operation outlives the request that it names.
  ~PollLoop() { watch_->reset_subject(); }

  [[nodiscard]] const PollRequest& request() const noexcept { return request_; }
  [[nodiscard]] const PollProgress& progress() const noexcept { return progress_; }
  [[nodiscard]] Watch& watch() noexcept { return *watch_; }

  /// The next poll, ready to go.
  Result<Task<http::Response>> next();
  Step after(Result<http::Response> answer);

 private:
  [[nodiscard]] std::string where() const {
    return describe(request_, progress_.iteration, session_->now() - progress_.started);
  }
  [[nodiscard]] Step fail(Error error) const;
  Step after_error(Error error);
  Step after_status(const http::Response& response);
  Step after_success(http::Response response);
  void report(PollErrorKind kind, const Error& error, const http::Response* response);
  void tell_observer(const NotReady& answer);
  Step finish(http::Response response, bool is_protobuf);
  Step operation_failed(const OperationFailed& outcome);

  [[nodiscard]] http::Headers make_headers() const;

  std::shared_ptr<SessionCore> session_;
  PollRequest request_;
  std::shared_ptr<Watch> watch_;
  Pacing pacing_;
  PollProgress progress_;
  bool allow_metadata_only_;
  http::Body body_;  // as it was sent last
  async::TimePoint sent_ = {};
};

http::Headers PollLoop::make_headers() const {
  http::Headers headers;
  headers.reserve(5, 256);
  headers.add("X-Stainless-Raw-Response", "raw");
  headers.add("X-Tinker-Request-Iteration", base::Piece(progress_.iteration).text());
  headers.add("X-Tinker-Request-Type", request_.request_type);
  if (request_.is_protobuf) headers.add("Accept", "application/x-protobuf");
  if (progress_.iteration == 0 && request_.roundtrip_s) {
    headers.add("X-Tinker-Create-Promise-Roundtrip-Time",
                base::Piece(*request_.roundtrip_s).text());
  }
  return headers;
}

Result<Task<http::Response>> PollLoop::next() {
  ++progress_.iteration;
  if (!body_) {
    TINKER_TRY(body_,
               json_body(FutureRetrieveRequest{.request_id = request_.request_id,
                                               .allow_metadata_only = allow_metadata_only_}));
  }
  sent_ = session_->now();
  return session_->api->fetch(api::Call{.path = "/api/v1/retrieve_future",
                                        .body = body_,
                                        .headers = make_headers(),
                                        .pool = api::PoolKind::retrieve_promise,
                                        .timeout = kTimeout,
                                        .max_retries = 0,
                                        .loggable = request_.request_id,
                                        .trace = request_.trace,
                                        .is_guarded = false,
                                        .max_response_bytes = api::kMaxResultBytes,
                                        .observer = watch_},
                              session_->tokens);
}

Step PollLoop::fail(Error error) const {
  error.request_id = request_.request_id;
  return {.end = std::move(error).with_context(base::concat("polling ", where()))};
}

Step PollLoop::after(Result<http::Response> answer) {
  if (!answer.ok()) return after_error(std::move(answer).error());
  return is_success(answer->status) ? after_success(*std::move(answer)) : after_status(*answer);
}

Step PollLoop::after_error(Error error) {
  // A credential that cannot be had is no failure of the poll, and a redirect elsewhere will not
  // end.
  if (!http::is_transport_error(error)) return fail(std::move(error));
  report(PollErrorKind::retry_with_backoff, error, nullptr);
  watch_->set_state("no connection");
  pacing_.reset();
  return {.pause = backoff(progress_.connection_error_retries++)};
}

Step PollLoop::after_status(const http::Response& response) {
  Error error = session_->api->status_error(response);
  error.retry.retryable = false;  // what ends a poll is final for the request behind it
  if (response.status == 402) {
    const seconds limit(session_->config.billing_exception_max_pause_duration_sec);
    if (session_->billing.should_pause(session_->now(), limit, session_->logger())) {
      watch_->set_state("paused", "the account has a billing problem");
      return {.pause = BillingPause::kPause};
    }
  }
  const PollErrorKind kind = kind_of_status(response.status);
  report(kind, error, &response);
  if (kind == PollErrorKind::retry_with_backoff) {
    watch_->set_state("rate limited", error.message);
    pacing_.reset();
    return {.pause = backoff(progress_.connection_error_retries++)};
  }
  progress_.connection_error_retries = 0;
  if (kind == PollErrorKind::retry) {
    if (response.status != 408) {
      watch_->set_state("server error");
    } else if (const auto answer = read_not_ready(response.body)) {
      progress_.bad_request_retries = 0;
      watch_->recovered();
      if (answer->state) tell_observer(*answer);
    }
    return {.pause = pacing_.after(session_->now() - sent_)};
  }
  if (kind == PollErrorKind::retry_if_budget) {
    if (progress_.bad_request_retries++ < kMaxBadRequestRetries) return {};
    return fail(std::move(error).with_context(
        base::concat("bad request, still so after ", kMaxBadRequestRetries, " retries")));
  }
  if (kind == PollErrorKind::retryable_exception) {
    error.retry.retryable = true;
    return fail(std::move(error).with_context("the promise expired or broke"));
  }
  return fail(std::move(error));
}

Step PollLoop::after_success(http::Response response) {
  progress_.connection_error_retries = 0;
  watch_->recovered();
  auto outcome = classify_success(response);
  if (!outcome.ok()) {
    Error error = std::move(outcome).error();
    error.message = session_->api->redact(error.message);
    return fail(std::move(error));
  }
  if (const auto* again = std::get_if<NotReady>(&*outcome)) {
    TINKER_LOG(session_->logger(), warn, "polling ", where(), ": the server says try again");
    if (again->reason || (again->state && again->state->known())) tell_observer(*again);
    return {.pause = pacing_.after(session_->now() - sent_)};
  }
  if (const auto* metadata = std::get_if<MetadataOnly>(&*outcome)) {
    if (!allow_metadata_only_) {
      return fail(
          {.code = ErrorCode::invalid_response,
           .message = "the server sent metadata only, although it was asked for the result"});
    }
    allow_metadata_only_ = false;
    body_.reset();
    return {.reserve_bytes = metadata->payload_bytes};
  }
  if (const auto* failed = std::get_if<OperationFailed>(&*outcome))
    return operation_failed(*failed);
  return finish(std::move(response), std::holds_alternative<ProtobufPayload>(*outcome));
}

Step PollLoop::finish(http::Response response, bool is_protobuf) {
  const std::size_t size = response.body.size();
  PollResult result = {.body = std::move(response.body),
                       .is_protobuf = is_protobuf,
                       .body_bytes = size,
                       .iteration = progress_.iteration,
                       .started = progress_.started};
  if (is_protobuf == request_.is_protobuf) return {.end = std::move(result)};
  if (is_protobuf) {
    return {
        .end = unreadable_result(
            *session_, request_, result, {.message = "expected a result in JSON, found protobuf"})};
  }
  return fail({.code = ErrorCode::invalid_response,
               .message = "expected a result in protobuf, found JSON: the server is too old"});
}

Step PollLoop::operation_failed(const OperationFailed& outcome) {
  report_operation_failed(*session_, request_, progress_, outcome);
  Error error = {.code = ErrorCode::request_failed,
                 .message = base::concat(
                     "request failed: ", session_->api->redact(outcome.text()), " for ", where()),
                 .request_id = request_.request_id,
                 .category = outcome.category};
  return {.end = std::move(error)};
}

void PollLoop::report(PollErrorKind kind, const Error& error, const http::Response* response) {
  const http::Headers headers = make_headers();
  report_poll_failure(
      *session_,
      request_,
      progress_,
      {.kind = kind, .error = error, .request_headers = &headers, .response = response});
}

void PollLoop::tell_observer(const NotReady& answer) {
  const auto state = answer.state.value_or(OpenEnum<QueueState>::parse("unknown"));
  watch_->set_state(state.text(), session_->api->redact(answer.reason.value_or("")));
  if (request_.observer) request_.observer->notify(state, answer.reason);
}

Task<async::Semaphore::Permit> reserve(std::shared_ptr<SessionCore> session,
                                       std::shared_ptr<PollLoop> loop,
                                       std::int64_t bytes) {
  loop->watch().set_state("waiting for room among the results in flight");
  auto acquire = session->inflight_response_bytes.acquire(bytes);
  auto permit = co_await acquire;
  loop->watch().set_state("fetching the result");
  co_return permit;
}

Task<PollResult> poll_until_end(std::shared_ptr<SessionCore> session,
                                std::shared_ptr<PollLoop> loop) {
  auto ask = async::this_context();
  const auto context = co_await ask;
  async::Semaphore::Permit reserved;
  Step step;
  if (loop->request().payload_bytes > 0) step.reserve_bytes = loop->request().payload_bytes;
  loop->watch().set_deadline(context.scope->deadline());
  while (!step.end) {
    if (step.reserve_bytes) {
      auto room = reserve(session, loop, *step.reserve_bytes);
      TINKER_CO_TRY(reserved, co_await std::move(room));
    }
    if (step.pause > nanoseconds::zero()) {
      auto pause = async::sleep_for(step.pause);
      TINKER_CO_TRY(co_await pause);
    }
    if (context.scope->is_cancelled()) co_return context.scope->reason();
    TINKER_CO_TRY(auto fetch, loop->next());
    auto answer = co_await std::move(fetch);
    if (!answer.ok() && context.scope->is_cancelled()) co_return context.scope->reason();
    step = loop->after(std::move(answer));
  }
  if (step.end->ok()) (*step.end)->reserved = std::move(reserved);
  co_return *std::move(step.end);
}

}  // namespace

Error unreadable_result(const SessionCore& session,
                        const PollRequest& request,
                        const PollResult& result,
                        Error why) {
  why.code = ErrorCode::invalid_response;
  why.message = session.api->redact(why.message);
  why.request_id = request.request_id;
  report_unreadable_result(session, request, result, why);
  const auto where = describe(request, result.iteration, session.now() - result.started);
  return std::move(why).with_context(base::concat("reading the result of ", where));
}

Task<PollResult> poll_future(std::shared_ptr<SessionCore> session, PollRequest request) {
  const auto loop =
      std::allocate_shared<PollLoop>(base::BlockAllocator<PollLoop>(), session, std::move(request));
  auto polling = poll_until_end(session, loop);
  auto result = co_await std::move(polling);
  publish_poll_done(
      *session, loop->request(), loop->progress(), result.ok() ? nullptr : &result.error());
  co_return result;
}

}  // namespace tinker::session
