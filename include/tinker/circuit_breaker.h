#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tinker/clock.h"
#include "tinker/error.h"
#include "tinker/result.h"

namespace tinker {

/// Calls go through; none does until a time has passed; a few do, to see whether it got better.
enum class CircuitState { closed, open, half_open };
/// The enumerator's own name, e.g. "half_open".
std::string_view to_string(CircuitState state) noexcept;

/// Whether `error` says that a service is in trouble: no connection, no answer in time, or a status
/// of 500 and above. Everything else is an answer. 429 asks for fewer calls and has a back-off of
/// its own, and 408 is how the protocol says "not ready": both come from a service that works.
bool is_service_failure(const Error& error) noexcept;

/// Opens a breaker when too many of the last calls failed, though not in a row.
struct FailureRate {
  double threshold = 0.5;   ///< The share of failures that is too much: above 0, at most 1.
  std::size_t calls = 100;  ///< Looks at so many last calls. At least `min_calls`.
  std::chrono::nanoseconds window = std::chrono::minutes(1);  ///< And at none that ended earlier.
  std::size_t min_calls = 20;  ///< Fewer calls prove nothing. At least 1.
};

struct CircuitBreakerStatus {
  std::string name = {};  ///< Of an endpoint, its path without ids: "/api/v1/asample".
  CircuitState state = CircuitState::closed;
  int failures = 0;            ///< In a row, while closed.
  std::uint64_t opens = 0;     ///< How often it has opened.
  std::uint64_t rejected = 0;  ///< How many calls it has kept from being made.
  /// While open: until the next call is let through.
  std::optional<std::chrono::nanoseconds> retry_after = {};
};

struct CircuitBreakerOptions {
  /// Failures in a row that open it. At least 1.
  int failure_threshold = 5;
  /// How long it stays open. Above 0.
  std::chrono::nanoseconds reset_timeout = std::chrono::seconds(30);
  /// Calls under way at a time while it is half open. At least 1.
  int max_probes = 1;
  /// Default: only failures in a row count.
  std::optional<FailureRate> failure_rate = {};
  /// Which errors are failures. Default: `is_service_failure`.
  std::function<bool(const Error& error)> is_failure = {};
  /// Called after each change of state, on the thread that caused it, with no lock held. What it
  /// throws is swallowed. Default: nobody hears of it.
  std::function<void(const CircuitBreakerStatus& status)> on_change = {};
};

/// Keeps calls from a service that fails, until it had time to recover.
///
///     auto breaker = CircuitBreaker::create("embeddings", {.failure_threshold = 3}).value();
///     auto answer = breaker.call([&] { return embed(text); });  // a Result<Embedding>
///
/// Closed, it counts: enough failures open it. Open, it rejects every call with
/// `ErrorCode::circuit_open`, whose `retry.after` says for how long. Then it is half open: at most
/// `max_probes` calls are let through at a time, counted when they start; the first that ends well
/// closes it, one that fails opens it again. A call counts only for the state it began in, so that
/// stragglers of an outage do not open what has just recovered. Copies are the same breaker.
///
/// Thread-safe.
class CircuitBreaker {
 public:
  class Permit;

  /// `name` appears in errors. `invalid_argument` for options that make no sense.
  static Result<CircuitBreaker> create(std::string name, CircuitBreakerOptions options);
  static Result<CircuitBreaker> create(std::string name,
                                       CircuitBreakerOptions options,
                                       std::shared_ptr<const Clock> clock);

  /// Leave to make one call, or `circuit_open`.
  [[nodiscard]] Result<Permit> try_acquire() const;
  /// Makes a call if there is leave to: `f()` gives a `Result`. What it throws is a failure, and
  /// comes out.
  template <typename F>
  std::invoke_result_t<F> call(F f) const;
  /// Closes it and forgets all failures.
  void reset() const;

  [[nodiscard]] CircuitBreakerStatus status() const;

 private:
  struct State;
  explicit CircuitBreaker(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

/// One call under way. The first verdict counts; without one, as after a cancelled call, nothing is
/// learned and the place of a probe is free again.
///
/// Thread-compatible.
class [[nodiscard]] CircuitBreaker::Permit {
 public:
  Permit(Permit&& other) noexcept = default;
  Permit& operator=(Permit&& other) noexcept;
  ~Permit();

  void success();
  void failure();
  /// What the error says: a failure, if `is_failure` says so; a success, if it is an answer of the
  /// service; nothing, if it was made on this side (`cancelled`, `deadline_exceeded`,
  /// `invalid_argument` …).
  void record(const Error& error);

 private:
  friend class CircuitBreaker;
  Permit(std::shared_ptr<State> state, std::uint64_t epoch) noexcept;

  std::shared_ptr<State> state_;  // null once there is a verdict
  std::uint64_t epoch_;
};

template <typename F>
std::invoke_result_t<F> CircuitBreaker::call(F f) const {
  auto permit = try_acquire();
  if (!permit.ok()) return std::move(permit).error();
  try {
    auto result = f();
    if (result.ok()) {
      permit->success();
    } else {
      permit->record(result.error());
    }
    return result;
  } catch (...) {
    permit->failure();
    throw;
  }
}

}  // namespace tinker
