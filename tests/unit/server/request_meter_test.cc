#include "server/request_meter.h"

#include <chrono>
#include <utility>

#include <gtest/gtest.h>

#include "support/exposition.h"

namespace tinker::server::request_meter_test {
namespace {

using namespace std::chrono_literals;
using tinker::testing::Exposition;

Exposition read(const RequestMeter& meter) {
  wire::PrometheusText out;
  meter.write(out);
  return Exposition::parse(std::move(out).take()).value();
}

TEST(RequestMeter, CountsByEndpointAndStatus) {
  RequestMeter meter;
  meter.add("asample", 200, 1ms);
  meter.add("asample", 200, 1ms);
  meter.add("asample", 429, 1ms);
  meter.add("healthz", 200, 1ms);

  const auto text = read(meter);

  const char* const name = "tinker_server_requests_total";
  EXPECT_EQ(text.value(name, {{"endpoint", "asample"}, {"status", "200"}}), 2);
  EXPECT_EQ(text.value(name, {{"endpoint", "asample"}, {"status", "429"}}), 1);
  EXPECT_EQ(text.value(name, {{"endpoint", "healthz"}, {"status", "200"}}), 1);
}

TEST(RequestMeter, CountsARequestUpToItsBound) {
  RequestMeter meter;
  meter.add("asample", 200, 1ms);
  meter.add("asample", 200, 1ms + 1ns);
  meter.add("asample", 200, 1h);

  const auto text = read(meter);

  const auto up_to = [&](const char* bound) {
    return text.value("tinker_server_request_duration_seconds_bucket",
                      {{"endpoint", "asample"}, {"le", bound}});
  };
  EXPECT_EQ(up_to("0.001"), 1);
  EXPECT_EQ(up_to("0.004"), 2);
  EXPECT_EQ(up_to("65.536"), 2);
  EXPECT_EQ(up_to("+Inf"), 3);
}

}  // namespace
}  // namespace tinker::server::request_meter_test
