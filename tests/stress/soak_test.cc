// The embedded server and its clients in one process, for as many requests as TINKER_SOAK_REQUESTS
// says: samples, training steps, saves with and without a name, heartbeats, and sessions that end.
// After a warm-up their memory grows no more. What the server keeps for a time or up to a number,
// results and ids of expired ones, it keeps here for so short that the warm-up has all of it.

#include <chrono>
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
constexpr std::size_t kRoundsOfSession = 64;
constexpr double kMebibyte = 1 << 20;
// Of the second half: what allocators and caches do by chance, and so much for each request.
constexpr double kMostGrowth = 6 * kMebibyte;
constexpr double kMostPerRequest = 8;
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
      : url_(server.base_url()), heart_(server), service_(connect()), trainer_(begin()) {}

  void round(std::size_t number) {
    if (number % kRoundsOfSession == kRoundsOfSession - 1) {
      EXPECT_THAT(service_.close(SessionFinishReason::success).get(), IsOk());
      service_ = connect();
      trainer_ = begin();
      sampler_ = named_weights();
    } else if (number % (2 * kRoundsOfWeights) == 0) {
      sampler_ = trainer_.save_weights_and_get_sampling_client().get().value();
    } else if (number % kRoundsOfWeights == 0) {
      sampler_ = named_weights();
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
  [[nodiscard]] ServiceClient connect() const {
    return ServiceClient::connect({.base_url = url_, .api_key = Secret("tml-soak")}).value();
  }
  [[nodiscard]] TrainingClient begin() const {
    return service_.create_lora_training_client("tiny", {.rank = 2}).get().value();
  }
  /// Of a checkpoint that is gone again: its files stay for the sampling client.
  [[nodiscard]] SamplingClient named_weights() const {
    const auto path = trainer_.save_weights_for_sampler("now").get().value().path;
    auto out = service_.create_sampling_client({.model_path = path}).get().value();
    EXPECT_THAT(service_.create_rest_client().delete_checkpoint_from_tinker_path(path).get(),
                IsOk());
    return out;
  }

  std::string url_;
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
      LocalServer::start(
          {.models = {{.name = "tiny", .source = "random:1x32,vocab=300"}},
           .data_dir = folder_.path(),
           .threads = 1,
           .session_timeout = std::chrono::seconds(20),
           .durable = true,
           .limits = {.delivered_time = std::chrono::seconds(1), .expired_ids = 1000}})
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
  double before = 0;
  double requests_before = 0;
  for (int i = 1; i <= kReports; ++i) {
    run_until(total * i / kReports);
    const double now = memory();
    if (i == kReports / 2) {
      before = now;
      requests_before = requests();
    }
    std::printf("%.0f requests: %.1f MiB\n", requests(), now / kMebibyte);
    std::fflush(stdout);
  }

  EXPECT_GE(requests(), total);
  if (!kIsSanitized) {
    EXPECT_LT(memory() - before, kMostGrowth + kMostPerRequest * (requests() - requests_before));
  }
}

}  // namespace
}  // namespace tinker::stress::soak_test
