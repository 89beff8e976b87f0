#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/connect.h"
#include "support/log_capture.h"
#include "tinker/service_client.h"
#include "tinker/testing/fake_transport.h"
#include "tinker/testing/virtual_runtime.h"
#include "wire/json.h"
#include "wire/proto.h"

namespace tinker::client {

/// A server that accepts every submission as "r-1", "r-2" … and has results by the type of the
/// request.
struct ScriptedServer {
  Runtime runtime;
  std::shared_ptr<testing::FakeTransport> server =
      std::make_shared<testing::FakeTransport>(runtime);
  std::map<std::string, std::string> environment = {{"HOME", "/nonexistent"}};
  /// The result of each request type; forward passes echo how many data they had.
  std::map<std::string, testing::FakeReply> results = {
      {"CreateModel", {.body = R"({"model_id":"s-1:train:0"})"}},
      {"OptimStep", {.body = R"({"metrics":{"grad_norm":0.5}})"}},
      {"SaveWeights", {.body = R"({"path":"tinker://s-1:train:0/weights/a"})"}},
      {"LoadWeights", {.body = R"({"path":"tinker://s-1:train:0/weights/a"})"}},
      {"SaveWeightsForSampler",
       {.body =
            R"({"path":"tinker://s-1:train:0/sampler_weights/a","sampling_session_id":"s-1:sample:7"})"}},
      {"SaveWeightsExternal", {.body = R"({"path":"tinker://s-1:train:0/external_weights/a"})"}}};
  std::map<std::string, std::size_t> data_of = {};  // by request id

  explicit ScriptedServer(Runtime r, const std::string& config = "{}") : runtime(std::move(r)) {
    server->reply("/client/config", {{.body = config}});
    server->reply("/client/dynamic_config", {{.body = "{}"}});
    server->reply("/create_session", {{.body = R"({"session_id":"s-1"})"}});
    server->reply("/session_heartbeat", {{.body = "{}"}});
    server->reply("/telemetry", {{.body = R"({"status":"accepted"})"}});
    server->reply("/finish", {{.body = "{}"}});
    server->reply("/create_sampling_session",
                  {{.body = R"({"sampling_session_id":"s-1:sample:0"})"}});
    for (const char* path : {"/create_model",
                             "/optim_step",
                             "/save_weights",
                             "/load_weights",
                             "/save_weights_for_sampler",
                             "/save_weights_external"}) {
      server->handle(path, [this](const http::Request&) { return accept(); });
    }
    server->handle("/forward_backward",
                   [this](const http::Request& request) { return accept_batch(request); });
    server->handle("/asample", [this](const http::Request&) { return accept_sample(); });
    server->handle("/retrieve_future",
                   [this](const http::Request& request) { return result(request); });
  }

  testing::FakeReply accept() {
    return {.body = R"({"request_id":"r-)" + std::to_string(++accepted_) + "\"}"};
  }
  testing::FakeReply accept_batch(const http::Request& request) {
    auto reply = accept();
    const auto decoded = wire::decode_proto<ForwardBackwardRequest>(*request.body);
    if (!decoded) return {.status = 400, .body = decoded.error().to_string()};
    data_of["r-" + std::to_string(accepted_)] = decoded->data.size();
    batches.push_back(*decoded);
    return reply;
  }
  testing::FakeReply accept_sample() {
    const auto id = std::to_string(++accepted_);
    return {.body = R"({"request_id":"r-)" + id + R"(","sample_sequence_ids":["q-)" + id + "\"]}"};
  }
  testing::FakeReply result(const http::Request& request) {
    const std::string type(request.headers.find("X-Tinker-Request-Type").value_or(""));
    if (const auto found = results.find(type); found != results.end()) return found->second;
    const auto asked = wire::decode_json<FutureRetrieveRequest>(*request.body);
    if (type == "Sample") {
      const SampleResponse answer = {
          .sequences = {{.stop_reason = StopReason::length, .tokens = {7}, .logprobs = {-0.5F}}}};
      return protobuf(wire::encode_proto(answer).value());
    }
    ForwardBackwardOutput output = {.loss_fn_output_type = "scalar"};
    output.loss_fn_outputs.resize(data_of[asked->request_id],
                                  {{"logprobs", std::vector<float>{-1.0F}}});
    output.metrics["loss:sum"] = static_cast<double>(data_of[asked->request_id]);
    return protobuf(wire::encode_proto(output).value());
  }
  static testing::FakeReply protobuf(std::string body) {
    return {.body = std::move(body), .headers = {{"Content-Type", "application/x-protobuf"}}};
  }

  ServiceOptions options() {
    return {.base_url = "http://server.test",
            .api_key = Secret("tml-secret-key"),
            .transport = server,
            .runtime = runtime};
  }
  session::Environment variables() {
    return [this](const char* name) -> std::optional<std::string> {
      const auto found = environment.find(name);
      if (found == environment.end()) return std::nullopt;
      return found->second;
    };
  }
  ServiceClient connect() { return connect(options()); }
  ServiceClient connect(ServiceOptions with) {
    return ServiceClient(client::connect(std::move(with), variables()).value());
  }

  /// Requests to paths that end with `path`, oldest first, as JSON.
  [[nodiscard]] std::vector<std::string> bodies(std::string_view path) const {
    std::vector<std::string> out;
    for (const auto& sent : server->sent(path)) out.emplace_back(http::view(sent.request.body));
    return out;
  }
  /// The paths asked for so far, without the life cycle's own and polls.
  [[nodiscard]] std::vector<std::string> paths() const {
    std::vector<std::string> out;
    for (const auto& sent : server->sent()) {
      const bool is_background =
          std::ranges::any_of(std::initializer_list<const char*>{"/telemetry",
                                                                 "/session_heartbeat",
                                                                 "/dynamic_config",
                                                                 "/client/config",
                                                                 "/create_session",
                                                                 "/retrieve_future"},
                              [&](const char* end) { return sent.path.ends_with(end); });
      if (!is_background) out.push_back(sent.path.substr(sent.path.rfind('/') + 1));
    }
    return out;
  }

  std::vector<ForwardBackwardRequest> batches = {};  // as they came

 private:
  int accepted_ = 0;
};

/// The server and its clients in virtual time.
struct VirtualTime {
  LogCapture log;
  testing::VirtualRuntime time{log.logger()};
};
struct ClientFixture : VirtualTime, ScriptedServer {
  explicit ClientFixture(const std::string& config = "{}")
      : ScriptedServer(time.runtime(), config) {}
};

/// `count` data of `tokens` tokens each.
inline std::vector<Datum> make_data(std::size_t count, std::size_t tokens = 2) {
  Datum datum;
  datum.model_input = ModelInput::from_tokens(std::vector<std::int32_t>(tokens, 5));
  datum.loss_fn_inputs.emplace("target_tokens", std::vector<std::int64_t>(tokens, 6));
  datum.loss_fn_inputs.emplace("weights", std::vector<float>(tokens, 1.0F));
  return std::vector<Datum>(count, datum);
}

}  // namespace tinker::client
