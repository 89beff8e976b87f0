#include "server/request_meter.h"

#include <algorithm>

namespace tinker::server {

void RequestMeter::add(std::string_view endpoint, int status, std::chrono::nanoseconds elapsed) {
  auto found = endpoints_.find(endpoint);
  if (found == endpoints_.end()) found = endpoints_.try_emplace(std::string(endpoint)).first;
  Endpoint& entry = found->second;
  const double seconds = std::chrono::duration<double>(elapsed).count();
  const auto bound = std::ranges::lower_bound(kBounds, seconds);
  ++entry.by_status[status];
  ++entry.buckets[static_cast<std::size_t>(bound - kBounds.begin())];
  entry.seconds += seconds;
}

void RequestMeter::write(wire::PrometheusText& out) const {
  out.family("tinker_server_requests_total", "counter", "Requests that were answered.");
  for (const auto& [path, endpoint] : endpoints_) {
    for (const auto& [status, count] : endpoint.by_status) {
      out.sample({{"endpoint", path}, {"status", std::to_string(status)}},
                 static_cast<double>(count));
    }
  }
  out.family("tinker_server_request_duration_seconds",
             "histogram",
             "From the head of a request to its answer; polls are held until there is a result.");
  for (const auto& [path, endpoint] : endpoints_) {
    out.histogram({{"endpoint", path}}, endpoint.buckets, kBounds, endpoint.seconds);
  }
}

}  // namespace tinker::server
