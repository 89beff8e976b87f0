#include "cli/bench_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include "base/strings.h"
#include "wire/json_writer.h"

namespace tinker::cli {

namespace {

/// Linux keeps the peak of what a process was before it became this one in `ru_maxrss`, so the
/// one of its memory alone is asked for first.
double peak_rss_mib(const rusage& usage) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// The figures derived from a run.
struct Figures {
  double calls_per_s = 0;      // that succeeded
  double cpu_us_per_call = 0;  // failed ones included
  std::vector<std::pair<std::string_view, std::optional<double>>> latency_ms = {};
};

Figures figures_of(const BenchReport& report) {
  const BenchTally& tally = report.tally;
  std::vector<float> sorted = tally.latencies_ms;
  std::ranges::sort(sorted);
  // The smallest latency that so many of all calls did not exceed.
  const auto quantile = [&sorted](double share) -> std::optional<double> {
    if (sorted.empty()) return std::nullopt;
    const auto rank = std::ceil(share * static_cast<double>(sorted.size()));
    return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  const auto ratio = [](double a, double b) { return b > 0 ? a / b : 0; };
  return {
      .calls_per_s = ratio(static_cast<double>(tally.latencies_ms.size()), tally.elapsed.count()),
      .cpu_us_per_call = ratio(report.cpu_seconds * 1e6, static_cast<double>(tally.ended())),
      .latency_ms = {{"p50", quantile(0.5)},
                     {"p90", quantile(0.9)},
                     {"p99", quantile(0.99)},
                     {"max", quantile(1.0)}}};
}

double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

std::string fixed(double value, int digits) {
  std::array<char, 64> text = {};
  const auto end = std::to_chars(
      text.data(), text.data() + text.size(), value, std::chars_format::fixed, digits);
  return {text.data(), end.ptr};
}

}  // namespace

ProcessUsage ProcessUsage::now() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime),
          .peak_rss_mib = tinker::cli::peak_rss_mib(usage)};
}

std::string BenchReport::to_json() const {
  const Figures figures = figures_of(*this);
  wire::JsonWriter out(wire::NonFinite::refuse);
  const auto number = [&out](std::string_view name, double value) {
    out.key(name);
    out.number(rounded(value));
  };
  out.begin_object();
  out.key("calls");
  out.integer(tally.ended());
  out.key("failed");
  out.integer(tally.failed);
  number("seconds", tally.elapsed.count());
  number("calls_per_s", figures.calls_per_s);
  number("cpu_us_per_call", figures.cpu_us_per_call);
  out.key("latency_ms");
  out.begin_object();
  for (const auto& [name, value] : figures.latency_ms) {
    if (value) {
      number(name, *value);
    } else {
      out.key(name);
      out.null();
    }
  }
  out.end_object();
  number("rss_mib", peak_rss_mib);
  out.key("errors");
  out.begin_object();
  for (const auto& [name, count] : tally.errors) {
    out.key(name);
    out.integer(count);
  }
  out.end_object();
  out.end_object();
  return std::move(out).take();
}

std::string BenchReport::to_table() const {
  const Figures figures = figures_of(*this);
  std::string out = base::concat("calls          ", tally.ended(), ", ", tally.failed, " failed\n");
  out += base::concat("time           ", fixed(tally.elapsed.count(), 3), " s\n");
  out += base::concat("calls/s        ", fixed(figures.calls_per_s, 1), "\n");
  out += base::concat("CPU per call   ", fixed(figures.cpu_us_per_call, 1), " us\n");
  std::string_view label = "latency        ";
  for (const auto& [name, value] : figures.latency_ms) {
    out += base::concat(std::exchange(label, "               "),
                        name,
                        " ",
                        value ? fixed(*value, 2) : "-",
                        " ms\n");
  }
  out += base::concat("peak memory    ", fixed(peak_rss_mib, 1), " MiB\n");
  label = "errors         ";
  for (const auto& [name, count] : tally.errors) {
    out += base::concat(std::exchange(label, "               "), count, " ", name, "\n");
  }
  return out;
}

}  // namespace tinker::cli
