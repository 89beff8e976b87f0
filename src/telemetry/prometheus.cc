#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "base/strings.h"
#include "telemetry/report_data.h"
#include "tinker/metrics.h"

namespace tinker {

namespace {

using Label = std::pair<std::string_view, std::string_view>;

/// Text exposition format 0.0.4: backslash, double quote and line feed are escaped in values.
std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : telemetry::as_utf8(std::string(value))) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\\' || c == '"') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return base::concat(value);
}

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

/// A bucket's bound, the same text in every scrape: "0.0008".
std::string bound_text(std::size_t bucket) {
  if (bucket + 1 == EventLatency::kBuckets) return "+Inf";
  std::array<char, 32> digits = {};
  const double bound = seconds(EventLatency::bound(bucket));
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), bound, std::chars_format::fixed);
  return {digits.data(), end.ptr};
}

class TextWriter {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    out_ += base::concat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  void sample(std::string_view suffix,
              std::initializer_list<Label> labels,
              std::string_view value) {
    out_ += base::concat(name_, suffix, "{");
    std::string_view separator;
    for (const auto& [name, text] : labels) {
      out_ += base::concat(separator, name, "=\"", escaped(text), "\"");
      separator = ",";
    }
    out_ += base::concat("} ", value, "\n");
  }
  std::string take() { return std::move(out_); }

 private:
  std::string_view name_ = {};
  std::string out_ = {};
};

void write_latencies(const std::vector<EventLatency>& latencies, TextWriter& out) {
  out.family("tinker_event_duration_seconds", "histogram", "How long events took.");
  for (const auto& latency : latencies) {
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < EventLatency::kBuckets; ++i) {
      below += latency.buckets[i];
      const std::string bound = bound_text(i);
      out.sample("_bucket",
                 {{"event", latency.event}, {"endpoint", latency.endpoint}, {"le", bound}},
                 base::concat(below));
    }
    out.sample("_sum",
               {{"event", latency.event}, {"endpoint", latency.endpoint}},
               number(seconds(latency.sum)));
    out.sample("_count",
               {{"event", latency.event}, {"endpoint", latency.endpoint}},
               base::concat(latency.count));
  }
}

}  // namespace

std::string to_prometheus(const MetricsSnapshot& snapshot) {
  TextWriter out;
  out.family("tinker_events_total", "counter", "Events inside the client library, by outcome.");
  for (const auto& c : snapshot.counts) {
    out.sample(
        "",
        {{"event", c.event}, {"endpoint", c.endpoint}, {"status", c.status}, {"error", c.error}},
        base::concat(c.count));
  }
  out.family("tinker_sent_bytes_total", "counter", "Bytes of request bodies.");
  for (const auto& t : snapshot.traffic) {
    out.sample("", {{"event", t.event}, {"endpoint", t.endpoint}}, base::concat(t.bytes_sent));
  }
  out.family("tinker_received_bytes_total", "counter", "Bytes of response bodies, decompressed.");
  for (const auto& t : snapshot.traffic) {
    out.sample("", {{"event", t.event}, {"endpoint", t.endpoint}}, base::concat(t.bytes_received));
  }
  write_latencies(snapshot.latencies, out);
  out.family("tinker_event_value", "gauge", "The latest value of a number that events carry.");
  for (const auto& v : snapshot.values) {
    out.sample(
        "", {{"event", v.event}, {"endpoint", v.endpoint}, {"field", v.field}}, number(v.value));
  }
  return out.take();
}

}  // namespace tinker
