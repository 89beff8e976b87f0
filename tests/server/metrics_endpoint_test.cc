// GET /metrics of the embedded server: what it says, and to whom.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "support/exposition.h"
#include "support/loop_fixture.h"
#include "tinker/local_server.h"
#include "tinker/tinker.h"

namespace tinker::metrics_endpoint_test {
namespace {

using testing::Exposition;

constexpr const char* kKey = "tml-ada-0123456789abcdef";

class MetricsEndpoint : public testing::LoopFixture {
 protected:
  static LocalServer start(LocalServerOptions options = {}) {
    options.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}};
    options.threads = 1;
    return LocalServer::start(std::move(options)).value();
  }
  static ServiceClient connect(const LocalServer& server) {
    return ServiceClient::connect({.base_url = server.base_url(), .api_key = Secret(kKey)}).value();
  }
  http::Response fetch(const LocalServer& server, http::Headers headers) {
    auto request = get(base::concat(server.base_url(), "/metrics"));
    request.headers = std::move(headers);
    return http->send(std::move(request)).get().value();
  }
  Exposition read(const LocalServer& server) {
    return Exposition::parse(fetch(server, {}).body).value();
  }

  std::shared_ptr<http::Transport> http = transport();
};

TEST_F(MetricsEndpoint, IsTextThatAScraperReads) {
  const auto server = start();

  const auto response = fetch(server, {});

  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.find("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_TRUE(Exposition::parse(response.body));
}

TEST_F(MetricsEndpoint, CountsRequestsByEndpointAndStatus) {
  const auto server = start();
  (void)connect(server).get_server_capabilities().get();
  (void)fetch(server, {});
  auto wrong = get(base::concat(server.base_url(), "/nowhere"));
  (void)http->send(std::move(wrong)).get();

  const auto metrics = read(server);

  const auto count = [&](const char* endpoint, const char* status) {
    return metrics.value("tinker_server_requests_total",
                         {{"endpoint", endpoint}, {"status", status}});
  };
  EXPECT_EQ(count("get_server_capabilities", "200"), 1);
  EXPECT_EQ(count("/metrics", "200"), 1);
  EXPECT_EQ(count("other", "404"), 1);
  EXPECT_EQ(metrics.value("tinker_server_request_duration_seconds_count", {{"endpoint", "other"}}),
            1);
}

TEST_F(MetricsEndpoint, CountsTokensThatAreTrainedAndSampled) {
  const auto server = start();
  const auto service = connect(server);
  const auto trainer = service.create_lora_training_client("tiny", {.rank = 4}).get().value();
  (void)trainer.forward_backward({Datum::next_token({1, 2, 3, 4, 5})}, LossFn::cross_entropy)
      .get()
      .value();
  const auto sampler = service.create_sampling_client({.base_model = "tiny"}).get().value();
  (void)sampler
      .sample(ModelInput::from_tokens({1, 2, 3}),
              {.max_tokens = 2, .stop = std::vector<std::int32_t>()})
      .get()
      .value();

  const auto metrics = read(server);

  const auto tokens = [&](const char* kind) {
    return metrics.value("tinker_server_tokens_total", {{"model", "tiny"}, {"kind", kind}});
  };
  EXPECT_EQ(tokens("training"), 4);
  EXPECT_EQ(tokens("prefill"), 3);
  EXPECT_EQ(tokens("sample"), 2);
}

TEST_F(MetricsEndpoint, TellsWhatIsInMemory) {
  const auto server = start();
  const auto service = connect(server);
  EXPECT_EQ(read(server).value("tinker_server_model_loaded", {{"model", "tiny"}}), 0);
  const auto trainer = service.create_lora_training_client("tiny", {.rank = 4}).get().value();

  const auto metrics = read(server);

  EXPECT_EQ(metrics.value("tinker_server_model_loaded", {{"model", "tiny"}}), 1);
  EXPECT_GT(metrics.value("tinker_server_models_bytes", {}), 0);
  EXPECT_EQ(metrics.value("tinker_server_sessions", {}), 1);
  EXPECT_EQ(metrics.value("tinker_server_runs", {}), 1);
  EXPECT_EQ(metrics.value("tinker_server_pending_operations", {}), 0);
  EXPECT_GT(metrics.value("tinker_server_kept_results", {}), 0);
  EXPECT_GT(metrics.value("tinker_server_uptime_seconds", {}), 0);
}

TEST_F(MetricsEndpoint, TellsWhatAdaptersTake) {
  const auto server = start();
  const auto service = connect(server);
  const auto trainer = service.create_lora_training_client("tiny", {.rank = 4}).get().value();
  const auto of = [&](const std::string& name, const char* kind) {
    return read(server).value("tinker_server_snapshots" + name, {{"kind", kind}});
  };
  EXPECT_EQ(of("", "unnamed"), 0);

  const auto sampler = trainer.save_weights_and_get_sampling_client().get().value();
  (void)trainer.save_weights_for_sampler("mine").get().value();

  EXPECT_EQ(of("", "unnamed"), 1);
  EXPECT_EQ(of("", "checkpoint"), 1);
  EXPECT_GT(of("_bytes", "unnamed"), 4 * 64 * 4);  // four bytes for each of so many parameters
  EXPECT_EQ(of("_bytes", "checkpoint"), of("_bytes", "unnamed"));
  EXPECT_GT(read(server).value("tinker_server_resident_bytes", {}), 1 << 20);
}

TEST_F(MetricsEndpoint, TellsHowMuchTheEngineHasToDo) {
  const auto server = start();
  const auto service = connect(server);
  const auto trainer = service.create_lora_training_client("tiny", {.rank = 4}).get().value();
  const auto sampler = service.create_sampling_client({.base_model = "tiny"}).get().value();
  const auto of = [](const Exposition& metrics, const std::string& name) {
    return metrics.value("tinker_server_engine_" + name, {{"model", "tiny"}}).value_or(-1);
  };
  std::vector<std::int32_t> tokens(500, 7);
  std::vector<Future<ForwardBackwardOutput>> passes;
  for (int i = 0; i < 4; ++i) {
    passes.push_back(trainer.forward_backward(std::vector<Datum>(20, Datum::next_token(tokens)),
                                              LossFn::cross_entropy));
  }
  std::vector<Future<SampleResponse>> samples;
  for (int i = 0; i < 8; ++i) {
    samples.push_back(sampler.sample(ModelInput::from_tokens(tokens),
                                     {.max_tokens = 500, .stop = std::vector<std::int32_t>()}));
  }

  double calls = 0;
  double drawn = 0;
  double cache = 0;
  for (int i = 0; i < 1000 && (calls < 1 || drawn < 1 || cache < 1); ++i) {
    const auto metrics = read(server);
    calls = std::max(calls, of(metrics, "training_calls"));
    drawn = std::max(drawn, of(metrics, "computing_samples") + of(metrics, "waiting_samples"));
    cache = std::max(cache, of(metrics, "cache_bytes"));
  }

  EXPECT_GE(calls, 1);
  EXPECT_GE(drawn, 1);
  EXPECT_GT(cache, 0);
  for (auto& pass : passes) (void)pass.get().value();
  for (auto& sample : samples) (void)sample.get().value();
  const auto idle = read(server);
  EXPECT_EQ(of(idle, "training_calls"), 0);
  EXPECT_EQ(of(idle, "computing_samples") + of(idle, "waiting_samples"), 0);
  EXPECT_EQ(of(idle, "cache_bytes"), 0);
}

TEST_F(MetricsEndpoint, NeedsAKeyWhereOthersReachTheServer) {
  const auto server = start({.host = "0.0.0.0", .keys = {{.owner = "ada", .key = Secret(kKey)}}});

  EXPECT_EQ(fetch(server, {}).status, 401);
  EXPECT_EQ(fetch(server, {{"authorization", "Bearer tml-eve-0123456789abcdef"}}).status, 401);
  EXPECT_EQ(fetch(server, {{"x-api-key", kKey}}).status, 200);
  EXPECT_EQ(fetch(server, {{"authorization", base::concat("Bearer ", kKey)}}).status, 200);
}

}  // namespace
}  // namespace tinker::metrics_endpoint_test
