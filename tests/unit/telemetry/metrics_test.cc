#include "tinker/metrics.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/exposition.h"

namespace tinker::metrics_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;
using ::testing::SizeIs;
using tinker::testing::Exposition;
using namespace std::chrono_literals;

class MetricsTest : public ::testing::Test {
 protected:
  void respond(std::string_view endpoint, int status, std::chrono::nanoseconds elapsed) const {
    bus.publish({.name = "http.response",
                 .endpoint = endpoint,
                 .http_status = status,
                 .elapsed = elapsed,
                 .bytes_sent = 10,
                 .bytes_received = 100});
  }

  EventBus bus;
};

TEST_F(MetricsTest, CountsByEventEndpointStatusClassAndError) {
  const Metrics metrics(bus);

  respond("/api/v1/asample", 200, 1ms);
  respond("/api/v1/asample", 202, 1ms);
  respond("/api/v1/asample", 429, 1ms);
  respond("/api/v1/telemetry", 200, 1ms);
  bus.publish(
      {.name = "http.response", .endpoint = "/api/v1/asample", .error = ErrorCode::timed_out});
  bus.publish({.name = "http.retry", .endpoint = "/api/v1/asample"});

  const auto snapshot = metrics.snapshot();
  std::vector<std::string> counts;
  for (const auto& c : snapshot.counts) {
    counts.push_back(c.event + " " + c.endpoint + " " + c.status + " " + c.error + " " +
                     std::to_string(c.count));
  }
  EXPECT_THAT(counts,
              ElementsAre("http.response /api/v1/asample  timed_out 1",
                          "http.response /api/v1/asample 2xx  2",
                          "http.response /api/v1/asample 4xx  1",
                          "http.response /api/v1/telemetry 2xx  1",
                          "http.retry /api/v1/asample   1"));
  EXPECT_EQ(snapshot.count("http.response"), 5U);
  EXPECT_EQ(snapshot.count("unheard_of"), 0U);
}

TEST_F(MetricsTest, SumsTraffic) {
  const Metrics metrics(bus);

  respond("/a", 200, 1ms);
  respond("/a", 500, 1ms);
  bus.publish({.name = "http.retry", .endpoint = "/a"});

  const auto traffic = metrics.snapshot().traffic;
  ASSERT_THAT(traffic, SizeIs(1));
  EXPECT_EQ(traffic[0].bytes_sent, 20U);
  EXPECT_EQ(traffic[0].bytes_received, 200U);
}

TEST_F(MetricsTest, PutsLatenciesIntoBucketsThatDouble) {
  const Metrics metrics(bus);

  for (const auto elapsed :
       {1ns, 100'000ns, 100'001ns, 200'000ns, 200'001ns, 3'600'000'000'000ns}) {
    respond("/a", 200, elapsed);
  }
  respond("/a", 200, 0ns);  // took no time that was measured

  const auto latencies = metrics.snapshot().latencies;
  ASSERT_THAT(latencies, SizeIs(1));
  const auto& latency = latencies[0];
  EXPECT_EQ(latency.count, 6U);
  EXPECT_EQ(latency.sum, 1ns + 100'000ns + 100'001ns + 200'000ns + 200'001ns + 1h);
  EXPECT_EQ(latency.max, 1h);
  EXPECT_EQ(latency.buckets[0], 2U);
  EXPECT_EQ(latency.buckets[1], 2U);
  EXPECT_EQ(latency.buckets[2], 1U);
  EXPECT_EQ(latency.buckets[EventLatency::kBuckets - 1], 1U);
  EXPECT_EQ(EventLatency::bound(0), 100us);
  EXPECT_EQ(EventLatency::bound(22), 100us * (1 << 22));
}

TEST_F(MetricsTest, EstimatesQuantilesWithinTheirBucket) {
  const Metrics metrics(bus);

  for (int i = 1; i <= 1000; ++i) respond("/a", 200, i * 1ms);

  const auto latency = metrics.snapshot().latencies.at(0);
  EXPECT_THAT(latency.p50, AllOf(Ge(450ms), Le(550ms)));
  EXPECT_THAT(latency.p90, AllOf(Ge(850ms), Le(950ms)));
  EXPECT_THAT(latency.p99, AllOf(Ge(950ms), Le(1000ms)));
}

TEST_F(MetricsTest, NeverEstimatesMoreThanTheLongest) {
  const Metrics metrics(bus);

  respond("/a", 200, 2h);

  const auto latency = metrics.snapshot().latencies.at(0);
  EXPECT_THAT(latency.p50, AllOf(Ge(419s), Le(2h)));
  EXPECT_THAT(latency.p99, Le(2h));
}

TEST_F(MetricsTest, KeepsTheLatestValueOfANumber) {
  const Metrics metrics(bus);
  const auto publish = [&](std::int64_t depth, double share) {
    const std::array fields = {EventField{"depth", depth},
                               EventField{"share", share},
                               EventField{"text", std::string("no number")},
                               EventField{"flag", true}};
    bus.publish({.name = "queue", .fields = fields});
  };

  publish(3, 0.5);
  publish(7, 0.25);

  const auto values = metrics.snapshot().values;
  ASSERT_THAT(values, SizeIs(2));
  EXPECT_EQ(values[0].field, "depth");
  EXPECT_EQ(values[0].value, 7);
  EXPECT_EQ(values[1].field, "share");
  EXPECT_EQ(values[1].value, 0.25);
}

TEST_F(MetricsTest, BoundsTheNumberOfSeries) {
  const Metrics metrics(bus, {.max_series = 3});

  for (int i = 0; i < 1000; ++i) respond("/api/v1/" + std::to_string(i), 200, 1ms);
  for (int i = 0; i < 1000; ++i) bus.publish({.name = "odd" + std::to_string(i)});

  const auto snapshot = metrics.snapshot();
  std::map<std::pair<std::string, std::string>, std::uint64_t> counts;
  for (const auto& c : snapshot.counts) counts[{c.event, c.endpoint}] += c.count;
  EXPECT_LE(counts.size(), 3U + 64U + 1U);
  EXPECT_EQ((counts[{"http.response", "/api/v1/2"}]), 1U);
  EXPECT_EQ((counts[{"http.response", "other"}]), 997U);
  EXPECT_EQ(snapshot.count("http.response"), 1000U);
  EXPECT_EQ((counts[{"odd0", "other"}]), 1U);
  EXPECT_GT((counts[{"other", "other"}]), 900U);
}

TEST_F(MetricsTest, BoundsTheLengthOfNamesAndTheNumberOfFields) {
  const Metrics metrics(bus);
  std::vector<std::string> names(100);
  std::vector<EventField> fields;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = "f" + std::to_string(i);
    fields.push_back({names[i], std::int64_t{1}});
  }

  bus.publish({.name = "many", .endpoint = std::string(129, 'x'), .fields = fields});

  const auto snapshot = metrics.snapshot();
  ASSERT_THAT(snapshot.counts, SizeIs(1));
  EXPECT_EQ(snapshot.counts[0].endpoint, "other");
  EXPECT_THAT(snapshot.values, SizeIs(16));
}

TEST_F(MetricsTest, EndsWithItsSubscription) {
  {
    const Metrics metrics(bus);
  }

  EXPECT_FALSE(bus.is_observed());
}

TEST_F(MetricsTest, CountsEventsOfManyThreads) {
  const Metrics metrics(bus);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) respond("/a", 200, 1ms);
    });
  }
  EXPECT_LE(metrics.snapshot().count("http.response"), 4000U);
  threads.clear();

  EXPECT_EQ(metrics.snapshot().count("http.response"), 4000U);
}

TEST_F(MetricsTest, WritesPrometheusText) {
  const Metrics metrics(bus);
  const std::array fields = {EventField{"depth", std::int64_t{7}}};
  respond("/a", 200, 1ms);
  respond("/a", 200, 3ms);
  respond("/a", 503, 1h);
  bus.publish({.name = "queue", .fields = fields});

  const auto text = Exposition::parse(metrics.prometheus());

  ASSERT_TRUE(text);
  EXPECT_EQ(text->types(),
            (std::map<std::string, std::string>{{"tinker_events_total", "counter"},
                                                {"tinker_sent_bytes_total", "counter"},
                                                {"tinker_received_bytes_total", "counter"},
                                                {"tinker_event_duration_seconds", "histogram"},
                                                {"tinker_event_value", "gauge"}}));
  const Exposition::Labels a = {{"event", "http.response"}, {"endpoint", "/a"}};
  const auto with = [&](std::string name, std::string value) {
    auto labels = a;
    labels.emplace(std::move(name), std::move(value));
    return labels;
  };
  auto ok = with("status", "2xx");
  ok.emplace("error", "");
  EXPECT_EQ(text->value("tinker_events_total", ok), 2);
  EXPECT_EQ(text->value("tinker_sent_bytes_total", a), 30);
  EXPECT_EQ(text->value("tinker_received_bytes_total", a), 300);
  EXPECT_EQ(text->value("tinker_event_duration_seconds_bucket", with("le", "0.0008")), 0);
  EXPECT_EQ(text->value("tinker_event_duration_seconds_bucket", with("le", "0.0016")), 1);
  EXPECT_EQ(text->value("tinker_event_duration_seconds_bucket", with("le", "0.0032")), 2);
  EXPECT_EQ(text->value("tinker_event_duration_seconds_bucket", with("le", "419.4304")), 2);
  EXPECT_EQ(text->value("tinker_event_duration_seconds_bucket", with("le", "+Inf")), 3);
  EXPECT_EQ(text->value("tinker_event_duration_seconds_count", a), 3);
  EXPECT_EQ(text->value("tinker_event_duration_seconds_sum", a), 3600.004);
  EXPECT_EQ(
      text->value("tinker_event_value", {{"event", "queue"}, {"endpoint", ""}, {"field", "depth"}}),
      7);
}

TEST_F(MetricsTest, EscapesLabelValues) {
  const Metrics metrics(bus);
  bus.publish({.name = "a\"b\\c\nd\xFF"});

  const auto text = Exposition::parse(metrics.prometheus());

  ASSERT_TRUE(text);
  EXPECT_EQ(
      text->value(
          "tinker_events_total",
          {{"event", "a\"b\\c\nd\xEF\xBF\xBD"}, {"endpoint", ""}, {"status", ""}, {"error", ""}}),
      1);
}

TEST_F(MetricsTest, WritesNumbersThatPrometheusKnows) {
  const Metrics metrics(bus);
  const std::array fields = {EventField{"nan", std::numeric_limits<double>::quiet_NaN()},
                             EventField{"high", std::numeric_limits<double>::infinity()},
                             EventField{"low", -std::numeric_limits<double>::infinity()}};
  bus.publish({.name = "odd", .fields = fields});

  const auto text = Exposition::parse(metrics.prometheus());

  ASSERT_TRUE(text);
  EXPECT_TRUE(std::isnan(
      *text->value("tinker_event_value", {{"event", "odd"}, {"endpoint", ""}, {"field", "nan"}})));
}

TEST_F(MetricsTest, WritesOnlyDescriptionsBeforeTheFirstEvent) {
  const Metrics metrics(bus);

  const auto text = Exposition::parse(metrics.prometheus());

  ASSERT_TRUE(text);
  EXPECT_EQ(text->size(), 0U);
}

}  // namespace
}  // namespace tinker::metrics_test
