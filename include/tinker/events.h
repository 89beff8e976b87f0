#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tinker/error.h"
#include "tinker/log.h"

namespace tinker {

/// One more detail of an `Event`.
struct EventField {
  std::string_view name = {};
  std::variant<bool, std::int64_t, double, std::string> value = {};
};

/// Something that happened inside the library: a request answered, a retry, a pause. Texts hold no
/// secret, and are valid only while the sink runs.
struct Event {
  std::string_view name = {};  ///< E.g. "http.response"; docs/events.md lists them all.
  LogLevel level = LogLevel::debug;
  std::string_view message = {};   ///< For people; may be empty.
  std::string_view endpoint = {};  ///< Path without ids or query, e.g. "/api/v1/asample".
  std::string_view session_id = {};
  std::string_view request_id = {};
  int http_status = 0;                    ///< 0 when there was no answer.
  std::optional<ErrorCode> error = {};    ///< How it failed, if it did.
  std::int64_t attempt = 0;               ///< Attempts before this one.
  std::chrono::nanoseconds elapsed = {};  ///< How long it took.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::span<const EventField> fields = {};  ///< What only this kind of event has.
};

/// Receives events, on whichever thread they happen: be quick, do not block.
using EventSink = std::function<void(const Event& event)>;

/// Ends a subscription when it dies.
class Subscription {
 public:
  Subscription() = default;
  explicit Subscription(std::function<void()> end) : end_(std::move(end)) {}
  Subscription(Subscription&& other) noexcept : end_(std::exchange(other.end_, nullptr)) {}
  Subscription& operator=(Subscription&& other) noexcept {
    Subscription replaced(std::move(other));
    std::swap(end_, replaced.end_);
    return *this;
  }
  ~Subscription() {
    if (end_) end_();
  }

 private:
  std::function<void()> end_ = {};
};

/// Carries events from the library to loggers, metrics and reporters. A copy is the same bus.
///
/// Thread-safe.
class EventBus {
 public:
  EventBus();

  /// `sink` is called from now until the subscription dies; once that has returned, never again.
  /// Where a subscription dies inside a sink, calls that other threads have begun may still end
  /// later: sinks do not wait for each other. What a sink throws is swallowed.
  [[nodiscard]] Subscription subscribe(EventSink sink) const;
  void publish(const Event& event) const noexcept;
  /// Whether anybody listens: if not, the event need not be made.
  [[nodiscard]] bool is_observed() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tinker
