#include "api/endpoint_breakers.h"

#include <array>
#include <utility>

#include "base/strings.h"

namespace tinker::api {

namespace {

void publish_change(const EventBus& events, const CircuitBreakerStatus& status) {
  if (!events.is_observed()) return;
  const bool is_open = status.state == CircuitState::open;
  const std::array<EventField, 3> fields = {
      EventField{.name = "state", .value = std::string(to_string(status.state))},
      EventField{.name = "is_open", .value = std::int64_t{is_open ? 1 : 0}},
      EventField{.name = "opens", .value = static_cast<std::int64_t>(status.opens)}};
  events.publish({.name = "circuit.state",
                  .level = is_open ? LogLevel::warn : LogLevel::info,
                  .message = is_open ? "too many calls failed; none is made for a while" : "",
                  .endpoint = status.name,
                  .elapsed = status.retry_after.value_or(std::chrono::nanoseconds::zero()),
                  .fields = fields});
}

}  // namespace

Result<std::shared_ptr<EndpointBreakers>> EndpointBreakers::create(
    CircuitBreakerOptions options, const std::shared_ptr<async::RuntimeCore>& core) {
  if (const auto usable = CircuitBreaker::create("", options); !usable.ok()) {
    return Error(usable.error()).with_context("circuit_breaker");
  }
  return std::shared_ptr<EndpointBreakers>(new EndpointBreakers(std::move(options), core));
}

EndpointBreakers::EndpointBreakers(CircuitBreakerOptions options,
                                   const std::shared_ptr<async::RuntimeCore>& core)
    : options_(std::move(options)), events_(core->events()), clock_(core->loop(), &core->clock()) {
  options_.on_change = [events = events_,
                        users = std::move(options_.on_change)](const CircuitBreakerStatus& status) {
    publish_change(events, status);
    if (users) users(status);
  };
}

Result<CircuitBreaker::Permit> EndpointBreakers::try_acquire(std::string_view endpoint) {
  TINKER_TRY(const auto breaker, find_or_make(endpoint));
  auto permit = breaker.try_acquire();
  if (!permit.ok()) {
    events_.publish(
        {.name = "circuit.rejected", .endpoint = endpoint, .error = ErrorCode::circuit_open});
  }
  return permit;
}

Result<CircuitBreaker> EndpointBreakers::find_or_make(std::string_view endpoint) {
  const ::tinker::detail::MutexLock lock(mutex_);
  if (const auto known = breakers_.find(endpoint); known != breakers_.end()) return known->second;
  TINKER_TRY(const auto breaker, CircuitBreaker::create(std::string(endpoint), options_, clock_));
  breakers_.emplace(endpoint, breaker);
  return breaker;
}

std::vector<CircuitBreaker> EndpointBreakers::all() const {
  const ::tinker::detail::MutexLock lock(mutex_);
  std::vector<CircuitBreaker> out;
  out.reserve(breakers_.size());
  for (const auto& [endpoint, breaker] : breakers_) out.push_back(breaker);
  return out;
}

std::vector<CircuitBreakerStatus> EndpointBreakers::status() const {
  std::vector<CircuitBreakerStatus> out;
  for (const auto& breaker : all()) out.push_back(breaker.status());
  return out;
}

void EndpointBreakers::reset(std::string_view endpoint) const {
  for (const auto& breaker : all()) {
    if (breaker.status().name == endpoint) breaker.reset();
  }
}

void EndpointBreakers::reset() const {
  for (const auto& breaker : all()) breaker.reset();
}

}  // namespace tinker::api
