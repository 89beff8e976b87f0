#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "wire/prometheus_text.h"

namespace tinker::server {

/// Requests by endpoint: how many with which status, and how long they took. Loop thread only.
class RequestMeter {
 public:
  /// `endpoint` is a row's path, not what a client sent, so that there are few of them.
  void add(std::string_view endpoint, int status, std::chrono::nanoseconds elapsed);
  void write(wire::PrometheusText& out) const;

 private:
  /// In seconds. Each is four times the one before, up to a held poll and beyond.
  static constexpr std::array<double, 9> kBounds = {
      0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384, 65.536};

  struct Endpoint {
    std::map<int, std::uint64_t> by_status = {};
    std::array<std::uint64_t, kBounds.size() + 1> buckets = {};
    double seconds = 0;
  };
  std::map<std::string, Endpoint, std::less<>> endpoints_ = {};
};

}  // namespace tinker::server
