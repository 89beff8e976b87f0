// The embedded server and its clients in one process, for as many requests as TINKER_SOAK_REQUESTS
// says: samples, training steps, saves without a name and heartbeats. After a warm-up their memory
// grows no more. Results that were delivered are kept for ten minutes, so that a client whose
// connection broke can ask again; their number grows for longer than this test runs, so it is taken
// off.

#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stress/process_usage.h"
#include "support/exposition.h"
#include "support/raw_http.h"
#include "support/temporary_folder.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"
#include "wire/json.h"

namespace tinker::stress::soak_test {
namespace {

using testing::Exposition;
using testing::IsOk;
using testing::RawHttp;

constexpr std::size_t kClients = 4;
constexpr std::size_t kSamples = 64;     // of a round, all at the same time
constexpr std::size_t kHeartbeats = 16;  // of a round
constexpr std::size_t kRoundsOfWeights = 16;
constexpr double kMebibyte = 1 << 20;
constexpr double kMostGrowth = 24 * kMebibyte;
constexpr int kReports = 10;

/// Heartbeats of a session that nobody else uses.
class Heart {
 public:
  explicit Heart(const LocalServer& server) : http_(server.port()) {
    const auto made = http_.ask("POST",
                                "/api/v1/create_session",
                                R"({"tags":[],"sdk_version":"0.36.0","type":"create_session"})",
                                kKey);
    body_ = R"({"session_id":")" +
            wire::decode_json<CreateSessionResponse>(made.body).value().session_id + "\"}";
  }
  void beat() {
    EXPECT_EQ(http_.ask("POST", "/api/v1/session_heartbeat", body_, kKey).status, 200);
  }

 private:
  static constexpr const char* kKey = "X-API-Key: tml-soak\r\n";
  RawHttp http_;
  std::string body_;
};

/// What a training script does, over and over.
class Script {
 public:
  explicit Script(const LocalServer& server)
      : heart_(server),
        service_(
            ServiceClient::connect({.base_url = server.base_url(), .api_key = Secret("tml-soak")})
                .value()),
        trainer_(service_.create_lora_training_client("tiny", {.rank = 2}).get().value()) {}

  void round(std::size_t number) {
    if (number % kRoundsOfWeights == 0) {
      sampler_ = trainer_.save_weights_and_get_sampling_client().get().value();
    }
    std::vector<Future<SampleResponse>> samples;
    for (std::size_t i = 0; i < kSamples; ++i) {
      const auto token = static_cast<std::int32_t>((number * kSamples + i) % 250);
      samples.push_back(
          sampler_->sample(ModelInput::from_tokens({1, 2, token}), {.max_tokens = 2}));
    }
    auto step = trainer_.train_step({Datum::next_token({1, 2, 3, 4})}, LossFn::cross_entropy, {});
    for (std::size_t i = 0; i < kHeartbeats; ++i) heart_.beat();
    EXPECT_THAT(step.forward_backward.get(), IsOk());
    EXPECT_THAT(step.optim_step.get(), IsOk());
    for (auto& sample : samples) EXPECT_THAT(sample.get(), IsOk());
  }

 private:
  Heart heart_;
  ServiceClient service_;
  TrainingClient trainer_;
  std::optional<SamplingClient> sampler_ = {};
};

class Soak : public ::testing::Test {
 protected:
  [[nodiscard]] Exposition metrics() const {
    RawHttp http(server_.port());
    return Exposition::parse(http.ask("GET", "/metrics").body).value();
  }
  [[nodiscard]] double requests() const { return metrics().sum("tinker_server_requests_total"); }
  /// Of this process, without the results that the server keeps.
  [[nodiscard]] double memory() const {
    return static_cast<double>(resident_bytes()) -
           metrics().sum("tinker_server_kept_results_bytes");
  }
  /// Until the server has answered so many requests.
  void run_until(double total) {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kClients; ++i) {
      threads.emplace_back([&, i] {
        while (requests() < total && !HasFailure()) scripts_[i].round(rounds_[i]++);
      });
    }
  }

  testing::TemporaryFolder folder_;
  LocalServer server_ =
      LocalServer::start({.models = {{.name = "tiny", .source = "random:1x32,vocab=300"}},
                          .data_dir = folder_.path(),
                          .threads = 1,
                          .durable = true})
          .value();
  std::deque<Script> scripts_ = [this] {
    std::deque<Script> out;
    for (std::size_t i = 0; i < kClients; ++i) out.emplace_back(server_);
    return out;
  }();
  std::vector<std::size_t> rounds_ = std::vector<std::size_t>(kClients);
};

TEST_F(Soak, TakesNoMoreMemoryAfterAMillionRequestsThanAfterAFewOfThem) {
  const auto total = static_cast<double>(number_from_environment("TINKER_SOAK_REQUESTS", 20'000));
  std::optional<double> before;
  for (int i = 1; i <= kReports; ++i) {
    run_until(total * i / kReports);
    const double now = memory();
    if (i == kReports / 2) before = now;
    std::printf("%.0f requests: %.1f MiB\n", requests(), now / kMebibyte);
    std::fflush(stdout);
  }

  EXPECT_GE(requests(), total);
  if (!kIsSanitized) {
    EXPECT_LT(memory() - *before, kMostGrowth);
  }
}

}  // namespace
}  // namespace tinker::stress::soak_test
