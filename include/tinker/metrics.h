#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tinker/events.h"

namespace tinker {

/// How often an event happened, with one outcome.
struct EventCount {
  std::string event = {};
  std::string endpoint = {};
  std::string status = {};  ///< "2xx", "4xx" ...; empty when there was no answer.
  std::string error = {};   ///< Name of the `ErrorCode`; empty when it did not fail.
  std::uint64_t count = 0;
};

/// What went over the wire.
struct EventTraffic {
  std::string event = {};
  std::string endpoint = {};
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

/// How long an event took, over all of its kind. Quantiles are estimated from buckets whose bounds
/// double: within a factor of two, usually much nearer.
struct EventLatency {
  static constexpr std::size_t kBuckets = 24;
  /// 0.1 ms, 0.2 ms, 0.4 ms ... 419 s; the last one has none.
  static constexpr std::chrono::nanoseconds bound(std::size_t bucket) noexcept {
    return bucket + 1 < kBuckets ? std::chrono::microseconds(100) * (std::int64_t{1} << bucket)
                                 : std::chrono::nanoseconds::max();
  }

  std::string event = {};
  std::string endpoint = {};
  std::uint64_t count = 0;
  std::chrono::nanoseconds sum = {};
  std::chrono::nanoseconds max = {};
  std::chrono::nanoseconds p50 = {};
  std::chrono::nanoseconds p90 = {};
  std::chrono::nanoseconds p99 = {};
  std::array<std::uint64_t, kBuckets> buckets = {};  ///< Above the bound before, up to their own.
};

/// The latest value of a number that events carry.
struct EventValue {
  std::string event = {};
  std::string endpoint = {};
  std::string field = {};
  double value = 0;
};

/// All numbers of one moment, sorted by their names.
struct MetricsSnapshot {
  std::vector<EventCount> counts = {};
  std::vector<EventTraffic> traffic = {};
  std::vector<EventLatency> latencies = {};
  std::vector<EventValue> values = {};

  /// Over all endpoints and outcomes.
  [[nodiscard]] std::uint64_t count(std::string_view event) const noexcept;
};

/// The same in Prometheus' text format 0.0.4, for the answer of a scrape.
[[nodiscard]] std::string to_prometheus(const MetricsSnapshot& snapshot);

struct MetricsOptions {
  /// Pairs of event and endpoint that are counted apart; what comes later is counted as endpoint
  /// "other", so that memory stays bounded whatever is published.
  std::size_t max_series = 256;
};

/// Counts and times what happens on an event bus, from its construction to its end. docs/events.md
/// lists events and metrics.
///
///     Metrics metrics(runtime.events());
///     ...
///     write(metrics.prometheus());
///
/// Thread-safe.
class Metrics {
 public:
  explicit Metrics(const EventBus& bus) : Metrics(bus, MetricsOptions()) {}
  Metrics(const EventBus& bus, MetricsOptions options);

  [[nodiscard]] MetricsSnapshot snapshot() const;
  [[nodiscard]] std::string prometheus() const { return to_prometheus(snapshot()); }

 private:
  struct State;
  std::shared_ptr<State> state_;
  Subscription subscription_;
};

}  // namespace tinker
