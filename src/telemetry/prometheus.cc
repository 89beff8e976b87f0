#include <array>
#include <chrono>

#include "tinker/metrics.h"
#include "wire/prometheus_text.h"

namespace tinker {

namespace {

using wire::PrometheusText;

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

void write_latencies(const std::vector<EventLatency>& latencies, PrometheusText& out) {
  std::array<double, EventLatency::kBuckets - 1> bounds = {};
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] = seconds(EventLatency::bound(i));
  out.family("tinker_event_duration_seconds", "histogram", "How long events took.");
  for (const auto& latency : latencies) {
    out.histogram({{"event", latency.event}, {"endpoint", latency.endpoint}},
                  latency.buckets,
                  bounds,
                  seconds(latency.sum));
  }
}

}  // namespace

std::string to_prometheus(const MetricsSnapshot& snapshot) {
  PrometheusText out;
  out.family("tinker_events_total", "counter", "Events inside the client library, by outcome.");
  for (const auto& c : snapshot.counts) {
    out.sample(
        {{"event", c.event}, {"endpoint", c.endpoint}, {"status", c.status}, {"error", c.error}},
        static_cast<double>(c.count));
  }
  out.family("tinker_sent_bytes_total", "counter", "Bytes of request bodies.");
  for (const auto& t : snapshot.traffic) {
    out.sample({{"event", t.event}, {"endpoint", t.endpoint}}, static_cast<double>(t.bytes_sent));
  }
  out.family("tinker_received_bytes_total", "counter", "Bytes of response bodies, decompressed.");
  for (const auto& t : snapshot.traffic) {
    out.sample({{"event", t.event}, {"endpoint", t.endpoint}},
               static_cast<double>(t.bytes_received));
  }
  write_latencies(snapshot.latencies, out);
  out.family("tinker_event_value", "gauge", "The latest value of a number that events carry.");
  for (const auto& v : snapshot.values) {
    out.sample({{"event", v.event}, {"endpoint", v.endpoint}, {"field", v.field}}, v.value);
  }
  return std::move(out).take();
}

}  // namespace tinker
