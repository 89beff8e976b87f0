// Prometheus text exposition format 0.0.4.

#include "wire/prometheus_text.h"

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

namespace tinker::wire::prometheus_text_test {
namespace {

TEST(PrometheusText, WritesAFamilyAndItsSamples) {
  PrometheusText out;
  out.family("requests_total", "counter", "Requests by status.");
  out.sample({{"endpoint", "/a"}, {"status", "200"}}, 7);
  out.sample({}, 0.5);
  EXPECT_EQ(std::move(out).take(),
            "# HELP requests_total Requests by status.\n"
            "# TYPE requests_total counter\n"
            "requests_total{endpoint=\"/a\",status=\"200\"} 7\n"
            "requests_total 0.5\n");
}

TEST(PrometheusText, EscapesLabels) {
  PrometheusText out;
  out.family("x", "gauge", "X.");
  out.sample({{"a", "q\"b\\n\n\xff"}}, 1);
  EXPECT_TRUE(std::move(out).take().ends_with("x{a=\"q\\\"b\\\\n\\n\xEF\xBF\xBD\"} 1\n"));
}

TEST(PrometheusText, WritesNumbersThatAreNone) {
  PrometheusText out;
  out.family("x", "gauge", "X.");
  out.sample({}, std::numeric_limits<double>::quiet_NaN());
  out.sample({}, std::numeric_limits<double>::infinity());
  out.sample({}, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::move(out).take().ends_with("x NaN\nx +Inf\nx -Inf\n"));
}

TEST(PrometheusText, AddsTheBucketsOfAHistogramUp) {
  constexpr std::array<std::uint64_t, 3> kCounts = {2, 0, 1};
  constexpr std::array kBounds = {0.0008, 1.0};
  PrometheusText out;
  out.family("t", "histogram", "T.");
  out.histogram({{"e", "x"}}, kCounts, kBounds, 3.25);
  EXPECT_TRUE(
      std::move(out).take().ends_with("t_bucket{e=\"x\",le=\"0.0008\"} 2\n"
                                      "t_bucket{e=\"x\",le=\"1\"} 2\n"
                                      "t_bucket{e=\"x\",le=\"+Inf\"} 3\n"
                                      "t_sum{e=\"x\"} 3.25\n"
                                      "t_count{e=\"x\"} 3\n"));
}

}  // namespace
}  // namespace tinker::wire::prometheus_text_test
