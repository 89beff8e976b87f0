#include "api/api_client.h"

#include <algorithm>

#include "base/block_pool.h"
#include "base/logging.h"
#include "base/strings.h"
#include "http/redirect.h"
#include "http/retry_after.h"
#include "http/url.h"
#include "tinker/version.h"

namespace tinker::api {

using async::Task;
using http::Headers;
using http::Method;
using http::Request;
using http::Response;
using http::Timeouts;
using http::Transport;
using http::Url;

namespace {

constexpr std::chrono::seconds kMaxBreakerWait{60};
constexpr std::size_t kMaxErrorText = 4096;
constexpr std::size_t kMaxCauseText = 200;  // in log lines

std::string_view platform_os() noexcept {
#if defined(__linux__)
  return "Linux";
#elif defined(__APPLE__)
  return "MacOS";
#elif defined(__FreeBSD__)
  return "FreeBSD";
#else
  return "Unknown";
#endif
}

std::string_view platform_arch() noexcept {
#if defined(__x86_64__)
  return "x64";
#elif defined(__aarch64__)
  return "arm64";
#elif defined(__i386__)
  return "x32";
#elif defined(__arm__)
  return "arm";
#else
  return "unknown";
#endif
}

bool is_success(int status) noexcept {
  return status >= 200 && status < 300;
}

/// A 400 without a body comes from a proxy on the way, not from the API (R5.3.1).
bool is_proxy_rejection(const Response& response) noexcept {
  if (response.status != 400) return false;
  const auto length = response.headers.find("content-length");
  return !length || *length == "0";
}

Timeouts timeouts_of(const Call& call) {
  if (!call.timeout) return {};
  const auto t = *call.timeout;
  return {.connect = t, .read = t, .write = t, .queue = t};
}

std::string read_timeout_text(const Call& call) {
  if (!call.timeout_text.empty()) return std::string(call.timeout_text);
  if (!call.timeout) return "60";
  return base::concat(static_cast<double>(call.timeout->count()) / 1000.0);
}

/// What every request of that method has (PROTOCOL 3), with the user's headers over it.
Headers common_headers(const Headers& users, Method method) {
  Headers headers;
  headers.add("Accept", "application/json");
  headers.add("Accept-Encoding", "gzip, deflate, zstd");
  if (method != Method::get) headers.add("Content-Type", "application/json");
  headers.add("User-Agent", base::concat("tinker-cpp/", version()));
  headers.add("X-Stainless-Package-Version", protocol_version());
  headers.add("X-Stainless-OS", platform_os());
  headers.add("X-Stainless-Arch", platform_arch());
  headers.add("X-Stainless-Runtime", "C++");
  headers.add("X-Stainless-Runtime-Version", "20");
  headers.add("X-Stainless-Async", "async:asio");
  for (const auto& header : users) headers.set(header.name, header.value);
  return headers;
}

/// Response headers that can be shown: none of them carries a secret.
std::string shown_headers(const Headers& headers) {
  static constexpr std::array<std::string_view, 7> kShown = {"content-type",
                                                             "content-length",
                                                             "content-encoding",
                                                             "x-request-id",
                                                             "retry-after",
                                                             "retry-after-ms",
                                                             "x-should-retry"};
  std::string out;
  for (const auto& header : headers) {
    const bool is_shown = std::ranges::any_of(
        kShown, [&](std::string_view name) { return http::same_name(name, header.name); });
    if (is_shown) out += base::concat(" ", header.name, "=", header.value);
  }
  return out;
}

}  // namespace

struct ApiClient::Attempt {
  Attempt(Call c, std::shared_ptr<TokenProvider> t) : call(std::move(c)), tokens(std::move(t)) {}

  [[nodiscard]] std::string_view endpoint() const noexcept {
    return call.endpoint.empty() ? call.path : call.endpoint;
  }
  /// For errors: "POST /api/v1/asample".
  [[nodiscard]] std::string name() const {
    return base::concat(to_string(call.method), " ", endpoint());
  }
  [[nodiscard]] bool has_retries() const noexcept {
    return retries + rejections < call.max_retries;
  }

  Call call;
  std::shared_ptr<TokenProvider> tokens;
  std::optional<ChannelPool::Lease> lease = {};  // once it has begun
  Redactor::Pin secret_pin = {};
  async::Scope* scope = nullptr;  // of the operation; outlives it
  Accepts accepts = Accepts::success;
  int retries = 0;
  int rejections = 0;                   // by the circuit breaker
  std::chrono::nanoseconds delay = {};  // before the next retry
  // Of the attempt under way.
  async::TimePoint started = {};
  Secret token = {};
  Redactor::Pin token_pin = {};
  std::string url = {};
  int redirects = 0;
  std::optional<CircuitBreaker::Permit> permit = {};
};

ApiClient::ApiClient(std::shared_ptr<async::RuntimeCore> core,
                     std::shared_ptr<Transport> transport,
                     ApiClientOptions options)
    : core_(std::move(core)), transport_(std::move(transport)), options_(std::move(options)) {
  for (const auto& header : options_.default_headers) redactor_.keep(header.value);
  get_headers_ = common_headers(options_.default_headers, Method::get);
  post_headers_ = common_headers(options_.default_headers, Method::post);
}

ChannelPool& ApiClient::pool(PoolKind kind) {
  auto& pool = pools_[static_cast<std::size_t>(kind)];
  if (!pool) pool = std::make_shared<ChannelPool>(kind, transport_);
  return *pool;
}

void ApiClient::close() {
  for (auto& pool : pools_) pool.reset();
}

Task<Response> ApiClient::call(Call call, std::shared_ptr<TokenProvider> tokens) {
  auto state = std::allocate_shared<Attempt>(
      base::BlockAllocator<Attempt>(), std::move(call), std::move(tokens));
  return perform(shared_from_this(), std::move(state), Accepts::success);
}

Task<Response> ApiClient::fetch(Call call, std::shared_ptr<TokenProvider> tokens) {
  auto state = std::allocate_shared<Attempt>(
      base::BlockAllocator<Attempt>(), std::move(call), std::move(tokens));
  return perform(shared_from_this(), std::move(state), Accepts::any_status);
}

// What a coroutine keeps lives as long as a request is in flight, so all that need not be kept is
// done by plain functions.
Task<Response> ApiClient::perform(std::shared_ptr<ApiClient> self,
                                  std::shared_ptr<Attempt> state,
                                  Accepts accepts) {
  auto whence = async::this_context();
  state->scope = (co_await whence).scope;
  state->accepts = accepts;
  TINKER_CO_TRY(self->begin(*state));
  while (true) {
    if (self->options_.breakers && state->call.is_guarded) {
      auto passing = pass_breaker(self, state);
      TINKER_CO_TRY(co_await std::move(passing));
    }
    state->started = self->core_->loop()->now();
    if (const Secret* known = state->tokens ? state->tokens->known_token() : nullptr) {
      state->token = *known;
    } else if (state->tokens) {
      auto ask = state->tokens->token();
      auto token = co_await std::move(ask);
      if (!token.ok()) co_return std::move(token).error();
      state->token = *std::move(token);
    }
    self->begin_attempt(*state);
    auto next = Next::redirect;
    while (next == Next::redirect) {
      auto future = self->send(*state);
      auto wait = async::until(std::move(future));
      auto result = co_await wait;
      next = self->settle(*state, result);
      if (next == Next::done) co_return self->finish(*state, std::move(result));
    }
    auto pause = async::sleep_for(state->delay);
    TINKER_CO_TRY(co_await pause);
  }
}

Task<> ApiClient::pass_breaker(std::shared_ptr<ApiClient> self, std::shared_ptr<Attempt> state) {
  while (true) {
    auto permit = self->options_.breakers->try_acquire(state->endpoint());
    if (permit.ok()) {
      state->permit = *std::move(permit);
      co_return Result<void>();
    }
    Error error = std::move(permit).error();
    const auto wait = error.retry.after.value_or(std::chrono::milliseconds::zero());
    auto whence = async::this_context();
    const auto context = co_await whence;
    if (!state->has_retries() || wait > kMaxBreakerWait || async::expires_within(context, wait)) {
      co_return std::move(error).with_context(state->name());
    }
    ++state->rejections;
    auto pause = async::sleep_for(wait);
    TINKER_CO_TRY(co_await pause);
  }
}

void ApiClient::tell_breaker(Attempt& state, const Result<Response>& result) {
  if (!state.permit) return;
  if (!result.ok()) {
    state.permit->record(result.error());
  } else if (is_proxy_rejection(*result)) {
    state.permit->record({.code = ErrorCode::connection_failed});
  } else if (result->status >= 400) {
    state.permit->record(
        {.code = error_code_for_status(result->status), .http_status = result->status});
  } else {
    state.permit->success();
  }
  state.permit.reset();
}

Result<void> ApiClient::begin(Attempt& state) {
  Call& call = state.call;
  if (call.trace) {
    TINKER_TRY(call.trace->validate());
  }
  if (call.method != Method::get && call.idempotency_key.empty()) {
    call.idempotency_key = base::concat("tinker-cpp-retry-", core_->rng().uuid4());
  }
  if (options_.is_single_attempt) call.max_retries = 0;
  state.secret_pin = redactor_.use(call.secret.expose());
  state.lease.emplace(pool(call.pool).lease());
  return {};
}

void ApiClient::begin_attempt(Attempt& state) {
  if (!first_sent_) first_sent_ = core_->loop()->now();
  state.token_pin = redactor_.use(state.token.expose());
  state.url = http::join_url(options_.base_url, state.call.path);
  if (!state.call.query.empty()) state.url += base::concat("?", state.call.query);
  state.redirects = 0;
}

ApiClient::Next ApiClient::settle(Attempt& state, Result<Response>& result) {
  if (!result.ok()) {
    result = transport_error(state, std::move(result).error());
  } else if (state.call.follow_redirects && http::is_redirect(*result)) {
    auto target = redirect_target(state, *result);
    if (target.ok()) {
      state.url = *std::move(target);
      ++state.redirects;
      return Next::redirect;
    }
    result = std::move(target).error();
  }
  if (result.ok()) was_answered_ = true;
  tell_breaker(state, result);
  tell_outcome(state, result);
  log_attempt(state, result);
  const auto delay = retry_delay(state, result);
  if (!delay) return Next::done;
  state.delay = *delay;
  return Next::retry;
}

void ApiClient::tell_outcome(const Attempt& state, const Result<Response>& result) const {
  if (result.ok() && is_success(result->status)) return state.scope->note(nullptr);
  // To a poll, 408 says that there is no result yet.
  const auto is_failure = [&](const Response& answer) {
    if (state.accepts == Accepts::any_status && answer.status == 408) return false;
    return http::should_retry(answer) || answer.status == 402;
  };
  if (result.ok() ? !is_failure(*result) : !http::is_transport_error(result.error())) return;
  const auto cause = result.ok() ? status_text(*result, kMaxCauseText) : result.error().message;
  const auto failure = std::make_shared<const async::Failure>(async::Failure{
      .what = base::concat(to_string(state.call.method),
                           " ",
                           redact(http::join_url(options_.base_url, state.endpoint())),
                           ": ",
                           cause),
      .at = core_->loop()->now()});
  state.scope->note(failure);
  const auto observer = state.call.observer.lock();
  if (!observer) return;
  const bool is_slow_down = result.ok() && (result->status == 429 || result->status == 402);
  observer->attempt_failed(
      {.failure = failure,
       .attempts_left = state.call.max_retries - state.retries - state.rejections,
       .is_slow_down = is_slow_down,
       .was_answered = was_answered_,
       .deadline = state.scope->deadline()});
}

std::optional<std::chrono::nanoseconds> ApiClient::retry_delay(Attempt& state,
                                                               const Result<Response>& result) {
  const bool is_worth_a_retry =
      result.ok() ? http::should_retry(*result) : http::is_transport_error(result.error());
  if (!is_worth_a_retry || !state.has_retries()) return std::nullopt;

  std::chrono::nanoseconds delay = http::backoff_delay(state.retries, core_->rng().uniform());
  if (result.ok()) {
    delay = http::retry_after(result->headers, core_->clock().wall_time()).value_or(delay);
  }
  ++state.retries;
  core_->events().publish({.name = "http.retry",
                           .endpoint = state.endpoint(),
                           .session_id = session_id_,
                           .http_status = result.ok() ? result->status : 0,
                           .attempt = state.retries,
                           .elapsed = delay});
  return delay;
}

Result<Response> ApiClient::finish(Attempt& state, Result<Response>&& result) const {
  if (!result.ok()) return std::move(result);
  log_deprecation(*result);
  if (is_success(result->status)) {
    state.lease->succeeded();
    return std::move(result);
  }
  if (is_proxy_rejection(*result) && state.lease->rejected()) {
    return Error{.code = ErrorCode::connection_failed,
                 .message = "a proxy rejected the request: 400 without a body",
                 .retry = {.retryable = true}};
  }
  if (state.accepts == Accepts::success) return status_error(*result);
  return std::move(result);
}

Error ApiClient::transport_error(const Attempt& state, Error error) const {
  error.message = redact(error.message);
  error.retry.retryable = http::is_transport_error(error);
  return std::move(error).with_context(state.name());
}

Result<std::string> ApiClient::redirect_target(const Attempt& state, const Response& response) {
  TINKER_TRY(const Url from, Url::parse(state.url));
  const auto to = from.resolve(response.headers.find("location").value_or(""));
  const bool is_endless = state.redirects == http::kMaxRedirects;
  if (to && to->same_origin(from) && !is_endless) return to->to_string();
  const auto why =
      !to ? std::string("to an address that cannot be read")
      : to->same_origin(from)
          ? base::concat("more than ", http::kMaxRedirects, " times, last to ", to->target)
          : base::concat("to another origin, ", to->origin(), "; credentials are not sent there");
  return Error{.code = ErrorCode::unexpected_status,
               .message = base::concat("the server redirects ", why),
               .http_status = response.status}
      .with_context(state.name());
}

Future<Response> ApiClient::send(const Attempt& state) const {
  return transport_->send(make_request(state));
}

Request ApiClient::make_request(const Attempt& state) const {
  const Call& call = state.call;
  Request request = {.method = call.method,
                     .url = state.url,
                     .body = call.body,
                     .timeouts = timeouts_of(call),
                     .channel = state.lease->channel(),
                     .max_response_bytes = call.max_response_bytes,
                     .is_repeatable = call.is_repeatable};
  Headers& headers = request.headers;
  headers.reserve(24, 960);  // about what they need, at once
  for (const auto& [name, value] : call.method == Method::get ? get_headers_ : post_headers_) {
    headers.add(name, value);
  }
  // What the protocol needs of this call is not the user's to change.
  for (const auto& header : call.headers) headers.set(header.name, header.value);
  headers.set("x-stainless-retry-count", std::to_string(state.retries));
  headers.set("x-stainless-read-timeout", read_timeout_text(call));
  if (call.method != Method::get) headers.set("X-Idempotency-Key", call.idempotency_key);
  if (call.trace) {
    headers.set("traceparent", call.trace->traceparent);
    if (!call.trace->tracestate.empty()) headers.set("tracestate", call.trace->tracestate);
  }
  if (!state.token.empty()) headers.set("X-API-Key", state.token.expose());
  return request;
}

std::string ApiClient::status_text(const Response& response, std::size_t limit) const {
  const std::string text = redact(response.body, limit);
  const auto code = base::concat("error code: ", response.status);
  return text.empty() ? code : base::concat(code, " - ", text);
}

Error ApiClient::status_error(const Response& response) const {
  Error error = {.code = error_code_for_status(response.status),
                 .message = status_text(response, kMaxErrorText),
                 .http_status = response.status};
  if (const auto id = response.headers.find("x-request-id")) error.request_id = redact(*id);
  error.retry.retryable = http::is_retryable(error);
  if (const auto after = http::retry_after(response.headers, core_->clock().wall_time())) {
    error.retry.after = std::chrono::duration_cast<std::chrono::milliseconds>(*after);
  }
  if (response.status == 401 && !credential_source_.empty()) {
    return std::move(error).with_context(base::concat("with the key of ", credential_source_));
  }
  return error;
}

void ApiClient::log_attempt(const Attempt& attempt, const Result<Response>& result) const {
  const auto elapsed = core_->loop()->now() - attempt.started;
  if (core_->events().is_observed()) {
    Event event = {.name = "http.response",
                   .endpoint = attempt.endpoint(),
                   .session_id = session_id_,
                   .attempt = attempt.retries,
                   .elapsed = elapsed,
                   .bytes_sent = http::view(attempt.call.body).size()};
    if (result.ok()) {
      event.http_status = result->status;
      event.bytes_received = result->body.size();
    } else {
      event.error = result.error().code;
    }
    core_->events().publish(event);
  }
  if (!core_->logger().enabled(LogLevel::debug)) return;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count();
  const auto what = base::concat(to_string(attempt.call.method), " ", attempt.call.path);
  const auto sent = attempt.call.loggable.empty()
                        ? std::string()
                        : base::concat(" ", redact(attempt.call.loggable));
  if (result.ok()) {
    TINKER_LOG(core_->logger(),
               debug,
               what,
               sent,
               " -> ",
               result->status,
               ", ",
               ms,
               " ms, retry ",
               attempt.retries,
               redact(shown_headers(result->headers)));
  } else {
    TINKER_LOG(core_->logger(),
               debug,
               what,
               sent,
               " failed after ",
               ms,
               " ms, retry ",
               attempt.retries,
               ": ",
               result.error().to_string());
  }
}

void ApiClient::log_deprecation(const Response& response) const {
  const auto note = response.headers.find("x-deprecation-note");
  if (!note || note->empty()) return;
  std::string level(response.headers.find("x-deprecation-level").value_or(""));
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  std::erase_if(level, is_space);
  const auto line = redact(base::concat("Deprecation notice: ", *note));
  if (http::same_name(level, "error")) {
    TINKER_LOG(core_->logger(), error, line);
  } else {
    TINKER_LOG(core_->logger(), warn, line);
  }
}

}  // namespace tinker::api
