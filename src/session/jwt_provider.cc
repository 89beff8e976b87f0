#include "session/jwt_provider.h"

#include <algorithm>

#include "base/logging.h"
#include "http/ascii.h"
#include "session/jwt.h"
#include "session/watch.h"
#include "tinker/types/auth.h"
#include "wire/json.h"

namespace tinker::session {

using async::Task;
using std::chrono::seconds;

namespace {

constexpr const char* kPath = "/api/v1/auth/token";
constexpr double kUsableSeconds = 60;      // with no more than this left, ask for a new one
constexpr double kRefreshBeforeEnd = 300;  // where the token lives at least twice as long
constexpr double kLongestSleep = 365 * 86'400.0;
constexpr seconds kMinPause{10};
constexpr seconds kRetryPause{60};

/// A token goes into a header; an empty one would send none.
bool is_sendable(const Secret& token) {
  const std::string& text = token.expose();
  return !text.empty() &&
         std::ranges::none_of(text, [](char c) { return c == ' ' || http::ascii::is_control(c); });
}

}  // namespace

std::chrono::nanoseconds refresh_delay(std::optional<double> seconds_left) {
  if (!seconds_left) return kRetryPause;
  const double left = *seconds_left;
  const double delay = left > 2 * kRefreshBeforeEnd ? left - kRefreshBeforeEnd : left / 2;
  return std::max<std::chrono::nanoseconds>(
      kMinPause,
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(std::clamp(delay, 0.0, kLongestSleep))));
}

JwtProvider::JwtProvider(std::shared_ptr<async::RuntimeCore> core,
                         std::shared_ptr<api::ApiClient> api,
                         std::shared_ptr<api::TokenProvider> raw,
                         std::shared_ptr<async::Scope> scope)
    : core_(std::move(core)),
      api_(std::move(api)),
      raw_(std::move(raw)),
      scope_(std::move(scope)) {}

Task<Secret> JwtProvider::token() {
  const auto self = shared_from_this();
  if (is_usable()) co_return token_;
  const auto exchange = join_exchange();
  auto outcome = outcome_of(exchange);
  auto result = co_await std::move(outcome);
  if (result.ok()) co_return token_;
  // A wait that was cut short says nothing about the token.
  if (!exchange->outcome || token_.empty() || scope_->is_cancelled()) co_return result.error();
  if (!exchange->is_reported) {
    exchange->is_reported = true;
    TINKER_LOG(core_->logger(),
               warn,
               "the access token could not be replaced, the old one is used: ",
               result.error().to_string());
  }
  co_return token_;
}

bool JwtProvider::is_usable() const {
  if (token_.empty()) return false;
  // One that came just now is the best there is, however short its life: asking again with every
  // request would be the loop of D26 once more.
  if (core_->loop()->now() - adopted_ < kMinPause) return true;
  return seconds_left(token_, core_->clock().wall_time()).value_or(0) > kUsableSeconds;
}

std::shared_ptr<JwtProvider::Exchange> JwtProvider::join_exchange() {
  if (exchange_) return exchange_;
  exchange_ = std::make_shared<Exchange>();
  // A task of its own: whoever asked first may be cancelled, the others still need the token.
  auto future = core_->spawn(scope_, fetch(api_, raw_));
  const auto state = FutureAccess::consume(future);
  state->when_ready(
      [self = shared_from_this(), exchange = exchange_, state] {
        self->settle(*exchange, state->take());
      },
      core_->loop());
  return exchange_;
}

Task<Secret> JwtProvider::fetch(std::shared_ptr<api::ApiClient> api,
                                std::shared_ptr<api::TokenProvider> raw) {
  const auto watch = std::make_shared<Watch>(api->core(), "exchange of the credential", "");
  api::Call call = {.path = kPath,
                    .body = std::make_shared<const std::string>("{}"),
                    .pool = api::PoolKind::auth,
                    .is_guarded = false,
                    .observer = watch};
  auto request = api->call(std::move(call), std::move(raw));
  TINKER_CO_TRY(const auto response, co_await std::move(request));
  // The decoder's own message would quote what it found, which may be the token.
  auto answer = wire::decode_json<AuthTokenResponse>(response.body);
  if (!answer || !is_sendable(answer->jwt)) {
    co_return Error{
        .code = ErrorCode::invalid_response,
        .message = base::concat(
            "answer of ", kPath, ": expected a token that fits into a header as 'jwt'")};
  }
  co_return std::move(answer->jwt);
}

void JwtProvider::settle(Exchange& exchange, Result<Secret> result) {
  exchange_.reset();
  core_->events().publish(
      {.name = "auth.exchange",
       .endpoint = kPath,
       .http_status = result.ok() ? 200 : result.error().http_status,
       .error = result.ok() ? std::nullopt : std::optional(result.error().code)});
  if (result.ok()) {
    adopt(*std::move(result));
    exchange.outcome = Result<void>();
  } else {
    exchange.outcome = std::move(result).error();
  }
  exchange.changed.notify_all();
}

void JwtProvider::adopt(Secret token) {
  adopted_ = core_->loop()->now();
  const auto left = seconds_left(token, core_->clock().wall_time());
  refresh_due_ = async::time_after(adopted_, refresh_delay(left));
  token_ = std::move(token);
  if (is_kept_fresh_) return;
  is_kept_fresh_ = true;
  static_cast<void>(core_->spawn(scope_, keep_fresh(weak_from_this())));
}

Task<> JwtProvider::outcome_of(std::shared_ptr<Exchange> exchange) {
  const auto& outcome = exchange->outcome;
  while (!outcome) {
    auto wait = exchange->changed.wait();
    TINKER_CO_TRY(co_await wait);
  }
  co_return *outcome;
}

// Does not keep the provider alive while it sleeps.
Task<> JwtProvider::keep_fresh(std::weak_ptr<JwtProvider> weak) {
  while (true) {
    std::chrono::nanoseconds delay = {};
    {
      const auto self = weak.lock();
      if (!self) co_return Result<void>();
      delay = self->refresh_due_ - self->core_->loop()->now();
    }
    if (delay > delay.zero()) {
      auto pause = async::sleep_for(delay);
      TINKER_CO_TRY(co_await pause);
    } else if (const auto self = weak.lock()) {
      auto attempt = self->refresh();
      TINKER_CO_TRY(co_await std::move(attempt));
    }
  }
}

Task<> JwtProvider::refresh() {
  const auto exchange = join_exchange();
  auto outcome = outcome_of(exchange);
  const auto result = co_await std::move(outcome);
  if (scope_->is_cancelled()) co_return scope_->reason();
  if (result.ok()) co_return Result<void>();
  refresh_due_ = async::time_after(core_->loop()->now(), kRetryPause);
  TINKER_LOG(core_->logger(),
             debug,
             "the access token could not be replaced, next try in ",
             kRetryPause.count(),
             " s: ",
             result.error().to_string());
  co_return Result<void>();
}

}  // namespace tinker::session
