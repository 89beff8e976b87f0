#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/load_server/plan.h"
#include "tinker/rng.h"

namespace tinker::load_server {

using Time = std::chrono::steady_clock::time_point;

/// What a protocol has read of a request: only what decides about the answer.
struct Request {
  std::string path = {};
  std::string query = {};
  std::string fault = {};  ///< Header `x-fault`; counts instead of the query.
  std::string body = {};
  int retry_count = 0;
  bool accepts_proto = false;
};

struct Answer {
  Plan plan = {};
  std::string_view content_type = "application/json";
  std::string body = {};
  /// After the delay the request is to be asked again: this was only a place to wait.
  bool is_pending = false;
};

struct ServerOptions {
  /// How long a sample takes: a poll waits for a random time in between.
  std::chrono::milliseconds poll_min = {};
  std::chrono::milliseconds poll_max = {};
  std::string client_config = "{}";  ///< Answer of client/config.
  std::string fault = {};            ///< Plan of requests that bring none.
  std::string fault_path = {};       ///< Only of those whose path ends so,
  std::uint64_t fault_count = std::numeric_limits<std::uint64_t>::max();  ///< and of the first.
  std::uint64_t seed = 1;
  std::uint32_t max_streams = 1000;
};

/// The endpoints: enough of the Tinker API for a client to make a session, to sample and to train.
///
/// Any other path is answered with a small JSON object. `/stats` tells what the server has seen,
/// `/release` ends the wait of all that are held.
class Api {
 public:
  explicit Api(ServerOptions options);

  Answer answer(const Request& request, Time now);
  [[nodiscard]] const ServerOptions& options() const noexcept { return options_; }

  /// What `/stats` tells about connections; the server counts.
  struct Connections {
    std::uint64_t accepted = 0;
    std::uint64_t open = 0;
    std::uint64_t held = 0;  ///< Requests that wait for a release.
  };
  [[nodiscard]] Connections& connections() noexcept { return connections_; }
  /// Whether a release was asked for since the last call.
  bool take_release() noexcept { return std::exchange(is_release_due_, false); }

 private:
  struct Pending {
    Time ready = {};
    std::string id = {};
    friend bool operator>(const Pending& a, const Pending& b) { return a.ready > b.ready; }
  };
  /// Samples of one sampling session, for the batched poll.
  struct Samples {
    std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending = {};
    std::vector<std::string> completed = {};
  };

  bool is_fault_due(const Request& request);
  void fill(Answer& answer, const Request& request, Time now);
  void sample(Answer& answer, const Request& request, Time now);
  void retrieve(Answer& answer, const Request& request);
  void retrieve_all(Answer& answer, const Request& request, Time now);
  std::string stats() const;
  std::chrono::milliseconds random_delay(std::chrono::milliseconds min,
                                         std::chrono::milliseconds max);

  ServerOptions options_;
  bool is_batched_;  // clients poll for all samples of a session at once
  Rng rng_;
  Connections connections_ = {};
  bool is_release_due_ = false;
  std::uint64_t requests_ = 0;
  std::uint64_t samples_ = 0;  // and training requests
  std::uint64_t samplers_ = 0;
  std::uint64_t faults_ = 0;
  std::map<std::string, Samples, std::less<>> sessions_ = {};
  std::vector<Time> heartbeats_ = {};
};

}  // namespace tinker::load_server
