#include "tinker/metrics.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tinker/detail/mutex.h"

namespace tinker {

using std::chrono::nanoseconds;

namespace {

constexpr std::string_view kOther = "other";
// Beyond `max_series`, so that the kinds of events stay apart when there are too many endpoints.
constexpr std::size_t kOverflowSeries = 64;
constexpr std::size_t kMaxNameBytes = 128;
constexpr std::size_t kMaxFields = 16;

struct Name {
  std::string_view event;
  std::string_view endpoint;
};

struct OwnedName {
  std::string event;
  std::string endpoint;
  [[nodiscard]] Name view() const noexcept { return {.event = event, .endpoint = endpoint}; }
};

Name view_of(const Name& name) noexcept {
  return name;
}
Name view_of(const OwnedName& name) noexcept {
  return name.view();
}

/// Lets the map be asked with views, so that a known event costs no allocation.
struct NameHash {
  // NOLINTNEXTLINE(readability-identifier-naming): the standard library asks for this name.
  using is_transparent = void;
  std::size_t operator()(const auto& name) const noexcept {
    const Name view = view_of(name);
    const std::hash<std::string_view> hash;
    return hash(view.event) * 31 + hash(view.endpoint);
  }
};
struct NameEqual {
  // NOLINTNEXTLINE(readability-identifier-naming): the standard library asks for this name.
  using is_transparent = void;
  bool operator()(const auto& a, const auto& b) const noexcept {
    const Name left = view_of(a);
    const Name right = view_of(b);
    return left.event == right.event && left.endpoint == right.endpoint;
  }
};

std::size_t bucket_of(nanoseconds elapsed) noexcept {
  const auto units = static_cast<std::uint64_t>(elapsed.count() - 1) / 100'000;
  return std::min<std::size_t>(std::bit_width(units), EventLatency::kBuckets - 1);
}

std::string status_class(int status) {
  return status < 100 || status > 999 ? std::string() : std::to_string(status / 100) + "xx";
}

/// What is known of one kind of event at one endpoint.
struct Series {
  struct Outcome {
    int status_class = 0;
    std::optional<ErrorCode> error = {};
    std::uint64_t count = 0;
  };
  struct Value {
    std::string field;
    double value = 0;
  };
  std::vector<Outcome> outcomes = {};  // a handful: searched from the front
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t timed = 0;
  nanoseconds sum = {};
  nanoseconds max = {};
  std::array<std::uint64_t, EventLatency::kBuckets> buckets = {};
  std::vector<Value> values = {};

  void add(const Event& event);

 private:
  void count_outcome(const Event& event);
  void keep_value(std::string_view field, double value);
};

void Series::add(const Event& event) {
  count_outcome(event);
  bytes_sent += event.bytes_sent;
  bytes_received += event.bytes_received;
  if (event.elapsed > nanoseconds::zero()) {
    ++timed;
    sum += event.elapsed;
    max = std::max(max, event.elapsed);
    ++buckets[bucket_of(event.elapsed)];
  }
  for (const auto& field : event.fields) {
    if (const auto* integer = std::get_if<std::int64_t>(&field.value)) {
      keep_value(field.name, static_cast<double>(*integer));
    } else if (const auto* number = std::get_if<double>(&field.value)) {
      keep_value(field.name, *number);
    }
  }
}

void Series::count_outcome(const Event& event) {
  const int status = event.http_status / 100;
  const auto same = [&](const Outcome& o) {
    return o.status_class == status && o.error == event.error;
  };
  auto found = std::ranges::find_if(outcomes, same);
  if (found == outcomes.end()) {
    outcomes.push_back({.status_class = status, .error = event.error});
    found = outcomes.end() - 1;
  }
  ++found->count;
}

void Series::keep_value(std::string_view field, double value) {
  const auto found = std::ranges::find(values, field, &Value::field);
  if (found != values.end()) {
    found->value = value;
  } else if (values.size() < kMaxFields && field.size() <= kMaxNameBytes) {
    values.push_back({.field = std::string(field), .value = value});
  }
}

/// Where `part` of all events lie, by the bucket that holds it and evenly inside that.
nanoseconds quantile(const EventLatency& latency, double part) {
  const double wanted = part * static_cast<double>(latency.count);
  double before = 0;
  for (std::size_t i = 0; i < EventLatency::kBuckets; ++i) {
    const auto inside = static_cast<double>(latency.buckets[i]);
    if (inside == 0 || before + inside < wanted) {
      before += inside;
      continue;
    }
    const nanoseconds from = i == 0 ? nanoseconds::zero() : EventLatency::bound(i - 1);
    const nanoseconds to = std::min(EventLatency::bound(i), latency.max);
    const auto width = static_cast<double>((to - from).count());
    return from + nanoseconds(static_cast<std::int64_t>(width * (wanted - before) / inside));
  }
  return latency.max;
}

EventLatency latency_of(const OwnedName& name, const Series& series) {
  EventLatency out = {.event = name.event,
                      .endpoint = name.endpoint,
                      .count = series.timed,
                      .sum = series.sum,
                      .max = series.max,
                      .buckets = series.buckets};
  out.p50 = quantile(out, 0.5);
  out.p90 = quantile(out, 0.9);
  out.p99 = quantile(out, 0.99);
  return out;
}

void append(MetricsSnapshot& out, const OwnedName& name, const Series& series) {
  for (const auto& outcome : series.outcomes) {
    out.counts.push_back({
        .event = name.event,
        .endpoint = name.endpoint,
        .status = status_class(outcome.status_class * 100),
        .error = outcome.error ? std::string(to_string(*outcome.error)) : std::string(),
        .count = outcome.count,
    });
  }
  if (series.bytes_sent + series.bytes_received > 0) {
    out.traffic.push_back({.event = name.event,
                           .endpoint = name.endpoint,
                           .bytes_sent = series.bytes_sent,
                           .bytes_received = series.bytes_received});
  }
  if (series.timed > 0) out.latencies.push_back(latency_of(name, series));
  for (const auto& value : series.values) {
    out.values.push_back({.event = name.event,
                          .endpoint = name.endpoint,
                          .field = value.field,
                          .value = value.value});
  }
}

}  // namespace

struct Metrics::State {
  explicit State(MetricsOptions o) : options(o) {}

  void record(const Event& event) {
    const detail::MutexLock lock(mutex);
    series_for({.event = event.name, .endpoint = event.endpoint}).add(event);
  }
  Series& series_for(Name name) TINKER_ATTRIBUTE_(requires_capability(mutex)) {
    if (const auto found = series.find(name); found != series.end()) return found->second;
    const bool is_sane =
        name.event.size() <= kMaxNameBytes && name.endpoint.size() <= kMaxNameBytes;
    if (is_sane && series.size() < options.max_series) return make(name);
    const Name of_this_event = {.event = name.event.size() <= kMaxNameBytes ? name.event : kOther,
                                .endpoint = kOther};
    if (const auto found = series.find(of_this_event); found != series.end()) return found->second;
    if (series.size() < options.max_series + kOverflowSeries) return make(of_this_event);
    return make({.event = kOther, .endpoint = kOther});
  }
  Series& make(Name name) TINKER_ATTRIBUTE_(requires_capability(mutex)) {
    return series[OwnedName{.event = std::string(name.event),
                            .endpoint = std::string(name.endpoint)}];
  }

  const MetricsOptions options;
  mutable detail::Mutex mutex;
  std::unordered_map<OwnedName, Series, NameHash, NameEqual> series TINKER_GUARDED_BY(mutex);
};

Metrics::Metrics(const EventBus& bus, MetricsOptions options)
    : state_(std::make_shared<State>(options)),
      subscription_(bus.subscribe([state = state_](const Event& event) { state->record(event); })) {
}

MetricsSnapshot Metrics::snapshot() const {
  MetricsSnapshot out;
  {
    const detail::MutexLock lock(state_->mutex);
    for (const auto& [name, series] : state_->series) append(out, name, series);
  }
  std::ranges::sort(out.counts, {}, [](const EventCount& c) {
    return std::tie(c.event, c.endpoint, c.status, c.error);
  });
  std::ranges::sort(
      out.traffic, {}, [](const EventTraffic& t) { return std::tie(t.event, t.endpoint); });
  std::ranges::sort(
      out.latencies, {}, [](const EventLatency& l) { return std::tie(l.event, l.endpoint); });
  std::ranges::sort(
      out.values, {}, [](const EventValue& v) { return std::tie(v.event, v.endpoint, v.field); });
  return out;
}

std::uint64_t MetricsSnapshot::count(std::string_view event) const noexcept {
  std::uint64_t out = 0;
  for (const auto& entry : counts) {
    if (entry.event == event) out += entry.count;
  }
  return out;
}

}  // namespace tinker
