#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/runtime_core.h"
#include "tinker/circuit_breaker.h"
#include "tinker/detail/mutex.h"

namespace tinker::api {

/// The circuit breakers of one client: one per endpoint, made with its first call.
///
/// An endpoint is a path without ids, as in events: one handler of the server, so that a broken
/// save does not keep samples from being sent, and a handful in all, however many ids are in use.
///
/// Thread-safe.
class EndpointBreakers {
 public:
  /// Changes of state are published on the events of `core`, in its time.
  static Result<std::shared_ptr<EndpointBreakers>> create(
      CircuitBreakerOptions options, const std::shared_ptr<async::RuntimeCore>& core);

  /// Leave for one request, or `circuit_open`.
  Result<CircuitBreaker::Permit> try_acquire(std::string_view endpoint);
  /// Sorted by name.
  [[nodiscard]] std::vector<CircuitBreakerStatus> status() const;
  /// Closes that of `endpoint`, or all.
  void reset(std::string_view endpoint) const;
  void reset() const;

 private:
  EndpointBreakers(CircuitBreakerOptions options, const std::shared_ptr<async::RuntimeCore>& core);
  Result<CircuitBreaker> find_or_make(std::string_view endpoint);
  [[nodiscard]] std::vector<CircuitBreaker> all() const;

  CircuitBreakerOptions options_;
  EventBus events_;
  std::shared_ptr<const Clock> clock_;
  mutable ::tinker::detail::Mutex mutex_;
  std::map<std::string, CircuitBreaker, std::less<>> breakers_ TINKER_GUARDED_BY(mutex_) = {};
};

}  // namespace tinker::api
