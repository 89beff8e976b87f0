// Many requests at once. TINKER_LOAD_SAMPLES and TINKER_LOAD_BODIES say how many: 10000 and 208 in
// `./dev check stress`.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <malloc.h>

#include "hostile_server.h"
#include "support/exposition.h"
#include "support/peak_memory.h"
#include "support/processor_waits.h"
#include "wire/proto.h"

namespace tinker::load_test {
namespace {

using testing::HostileServer;
using testing::kAda;
using testing::RawHttp;

std::size_t number_from_environment(const char* name, std::size_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
}

std::string with_key() {
  return "X-API-Key: " + std::string(kAda) + "\r\n";
}

/// Sends heartbeats of a session, one after the other, while it lives.
class Heart {
 public:
  Heart(std::uint16_t port, const std::string& session)
      : thread_([this, port, body = R"({"session_id":")" + session + "\"}"] { beat(port, body); }) {
  }
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;
  ~Heart() { stop(); }

  /// To so many of the heartbeats, if waits for a processor do not count: a machine that is busy
  /// holds answers up, too.
  void expect_quick_answers(double share) {
    stop();
    ASSERT_FALSE(ready_times_.empty());
    EXPECT_LT(slowest_, std::chrono::seconds(5));
    if (!testing::kCanMeasureMemory) return;  // sanitizers slow everything down
    std::ranges::sort(ready_times_);
    const auto last = static_cast<double>(ready_times_.size() - 1);
    EXPECT_LT(ready_times_[static_cast<std::size_t>(share * last)], std::chrono::milliseconds(100))
        << "of " << ready_times_.size() << " heartbeats";
  }

 private:
  using Clock = std::chrono::steady_clock;

  void beat(std::uint16_t port, const std::string& body) {
    RawHttp client(port);
    const testing::ProcessorWaits waits({"tinker-server"});
    while (!is_over_) {
      const auto waited = waits.total();
      const auto start = Clock::now();
      EXPECT_EQ(client.ask("POST", "/api/v1/session_heartbeat", body, with_key()).status, 200);
      const std::chrono::nanoseconds took = Clock::now() - start;
      slowest_ = std::max(slowest_, took);
      ready_times_.push_back(took - (waited ? *waits.total() - *waited : took));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  void stop() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }

  std::atomic<bool> is_over_ = false;
  std::chrono::nanoseconds slowest_{0};
  std::vector<std::chrono::nanoseconds> ready_times_;  ///< Without the waits for a processor.
  std::thread thread_;
};

class Load : public HostileServer {
 protected:
  Load() : HostileServer(many_at_once()) {}

  static LocalServerOptions many_at_once() {
    auto out = options();
    out.flags = {{"sample_max_concurrent_requests", "10000"}};
    return out;
  }
  /// Operations that are accepted and not finished.
  [[nodiscard]] double pending() const {
    const auto answer = ask("GET", "/metrics");
    return testing::Exposition::parse(answer.body)
        .value()
        .value("tinker_server_pending_operations", {})
        .value_or(0);
  }
};

TEST_F(Load, LosesNoSampleAndNoHeartbeat) {
  constexpr std::size_t kClients = 4;
  constexpr std::size_t kMany = 10'000;
  const std::size_t samples = number_from_environment("TINKER_LOAD_SAMPLES", 500) / kClients;
  // Ten thousand are in flight together if none ends before the last one has come.
  const std::int64_t tokens = kClients * samples < kMany ? 2 : 128;
  Heart heart(server_.port(), new_session());
  std::atomic<std::size_t> ended = 0;
  std::atomic<std::size_t> clients_left = kClients;
  double most_pending = 0;
  {
    std::vector<std::jthread> clients;
    for (std::size_t i = 0; i < kClients; ++i) {
      clients.emplace_back([&, own = service()] {
        const auto sampler = own.create_sampling_client({.base_model = "tiny"}).get().value();
        std::vector<Future<SampleResponse>> all;
        for (std::size_t n = 0; n < samples; ++n) {
          all.push_back(
              sampler.sample(ModelInput::from_tokens({1, 2, static_cast<std::int32_t>(n % 250)}),
                             {.max_tokens = tokens}));
        }
        for (auto& sample : all) ended += sample.get().ok() ? 1 : 0;
        --clients_left;
      });
    }
    while (clients_left > 0) {
      most_pending = std::max(most_pending, pending());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  EXPECT_EQ(ended, kClients * samples);
  heart.expect_quick_answers(1);
  if (kClients * samples >= kMany) {
    EXPECT_GE(most_pending, 9'000);
  }
}

class TrainingLoad : public HostileServer {
 protected:
  [[nodiscard]] std::string seeded_run() const {
    const auto session = new_session();
    const auto made = outcome(
        post("create_model",
             R"({"session_id":")" + session +
                 R"(","model_seq_id":1,"base_model":"tiny","lora_config":{"rank":2,"seed":5}})"));
    EXPECT_EQ(made.status, 200) << made.body;
    return session + ":train:1";
  }
  /// 3.3 MB: twenty targets for each token, as a distillation has them.
  static std::string body(const std::string& run, int number) {
    constexpr std::size_t kTokens = 200;
    constexpr std::size_t kTargets = 20;
    using Shape = TensorData::Shape;
    const Shape shape = {kTokens, kTargets};
    const Datum datum = {
        .model_input = ModelInput::from_tokens(std::vector<std::int32_t>(kTokens, 7)),
        .loss_fn_inputs = {
            {"target_tokens",
             TensorData(Buffer(std::vector<std::int64_t>(kTokens * kTargets, 7)), shape)},
            {"weights", TensorData(Buffer(std::vector<float>(kTokens * kTargets, 0.05F)), shape)}}};
    ForwardBackwardRequest request;
    request.model_id = run;
    request.data.assign(69, datum);
    request.loss_fn = LossFn::cross_entropy;
    request.seq_id = number;
    return wire::encode_proto(request).value();
  }
  /// Of the gradient that a step of the optimizer consumes.
  [[nodiscard]] double gradient(const std::string& run, int number) const {
    const auto step = outcome(post("optim_step",
                                   R"({"model_id":")" + run + R"(","adam_params":{},"seq_id":)" +
                                       std::to_string(number) + "}"));
    const std::string name = R"("unclipped_grad_l2:mean":)";
    const auto at = step.body.find(name);
    return at == std::string::npos ? 0 : std::strtod(step.body.c_str() + at + name.size(), nullptr);
  }
};

TEST_F(TrainingLoad, ExecutesEachBodyOnce) {
  const auto bodies = static_cast<int>(number_from_environment("TINKER_LOAD_BODIES", 16));
  const auto one = seeded_run();
  ASSERT_EQ(outcome(post("forward_backward", body(one, 1))).status, 200);
  const double gradient_of_one = gradient(one, 2);
  const auto run = seeded_run();
  ASSERT_GT(body(run, 1).size(), 3'300'000U);
  Heart heart(server_.port(), new_session());
  std::vector<testing::RawResponse> accepted(static_cast<std::size_t>(bodies));
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < bodies; ++i) {
      clients.emplace_back([&, i] {
        accepted[static_cast<std::size_t>(i)] = post("forward_backward", body(run, i + 1));
      });
    }
  }

  for (const auto& answer : accepted) {
    const auto done = outcome(answer);
    EXPECT_EQ(done.header("content-type"), "application/x-protobuf") << done.body;
  }
  // All these threads of one process wait for its memory, too.
  heart.expect_quick_answers(0.99);
  EXPECT_GT(gradient_of_one, 0);
  // Sums of floats: far less than one body off.
  EXPECT_NEAR(gradient(run, bodies + 1) / gradient_of_one, bodies, 0.4);
}

TEST_F(Load, OfSmallRequestsLeavesNothingBehind) {
  const auto session = new_session();
  RawHttp client(server_.port());
  const std::string body = R"({"session_id":")" + session + "\"}";
  const auto ask_often = [&](int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_EQ(client.ask("POST", "/api/v1/session_heartbeat", body, with_key()).status, 200);
      ASSERT_EQ(client
                    .ask("POST",
                         "/api/v1/retrieve_future",
                         R"({"request_id":"none)" + std::to_string(i) + "\"}",
                         with_key())
                    .status,
                404);
    }
  };
  ask_often(200);
  ::malloc_trim(0);
  const testing::PeakMemory memory;

  ask_often(1000);

  if (testing::kCanMeasureMemory) {
    EXPECT_LT(memory.grown_bytes(), 4U << 20U);
  }
}

TEST_F(Load, KeepsAResultWhoseClientWentAway) {
  const auto run = new_run(new_session());
  const std::string body = R"({"model_id":")" + run + R"(","adam_params":{},"seq_id":1})";
  const auto accepted = post("optim_step", body);
  const auto id = wire::decode_json<UntypedApiFuture>(accepted.body).value().request_id;
  const std::string poll = R"({"request_id":")" + id + "\"}";
  for (int i = 0; i < 20; ++i) {
    RawHttp client(server_.port());
    client.send(RawHttp::request("POST", "/api/v1/retrieve_future", poll, with_key()));
  }

  EXPECT_THAT(outcome(accepted).body, ::testing::HasSubstr("metrics"));
}

}  // namespace
}  // namespace tinker::load_test
