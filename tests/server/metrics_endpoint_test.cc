// GET /metrics of the embedded server: what it says, and to whom.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

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

TEST_F(MetricsEndpoint, NeedsAKeyWhereOthersReachTheServer) {
  const auto server = start({.host = "0.0.0.0", .keys = {{.owner = "ada", .key = Secret(kKey)}}});

  EXPECT_EQ(fetch(server, {}).status, 401);
  EXPECT_EQ(fetch(server, {{"authorization", "Bearer tml-eve-0123456789abcdef"}}).status, 401);
  EXPECT_EQ(fetch(server, {{"x-api-key", kKey}}).status, 200);
  EXPECT_EQ(fetch(server, {{"authorization", base::concat("Bearer ", kKey)}}).status, 200);
}

}  // namespace
}  // namespace tinker::metrics_endpoint_test
