#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/endpoints.h"
#include "support/raw_http.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"
#include "wire/json.h"

namespace tinker::testing {

inline constexpr const char* kAda = "tml-ada-0123456789abcdef";
inline constexpr const char* kBob = "tml-bob-0123456789abcdef";

/// A server with a model and two owners, which still serves when the test ends.
class HostileServer : public ::testing::Test {
 protected:
  HostileServer() : HostileServer(LocalServerLimits()) {}
  explicit HostileServer(const LocalServerLimits& limits) : HostileServer(options(limits)) {}
  explicit HostileServer(LocalServerOptions options)
      : server_(LocalServer::start(std::move(options)).value()) {}

  static LocalServerOptions options(const LocalServerLimits& limits = {}) {
    return {.models = {{.name = "tiny", .source = "random:1x32,vocab=300"}},
            .keys = {{.owner = "ada", .key = Secret(kAda)}, {.owner = "bob", .key = Secret(kBob)}},
            .threads = 1,
            .precision = EnginePrecision::f32,
            .limits = limits};
  }

  void TearDown() override {
    const auto sampler = service().create_sampling_client({.base_model = "tiny"}).get();
    ASSERT_THAT(sampler, IsOk());
    EXPECT_THAT(sampler->sample(ModelInput::from_tokens({1, 2}), {.max_tokens = 2}).get(), IsOk());
  }

  [[nodiscard]] ServiceClient service(const char* key = kAda) const {
    return ServiceClient::connect({.base_url = server_.base_url(), .api_key = Secret(key)}).value();
  }
  /// With a connection of its own.
  [[nodiscard]] RawResponse ask(std::string_view method,
                                std::string_view path,
                                std::string_view body = {},
                                std::string_view key = kAda,
                                std::string_view headers = {}) const {
    RawHttp client(server_.port());
    const std::string all =
        std::string(headers) + (key.empty() ? "" : "X-API-Key: " + std::string(key) + "\r\n");
    return client.ask(method, "/api/v1/" + std::string(path), body, all);
  }
  [[nodiscard]] RawResponse post(std::string_view path, std::string_view body) const {
    return ask("POST", path, body);
  }
  /// What became of the operation that an answer names; the answer itself if it names none.
  [[nodiscard]] RawResponse outcome(RawResponse answer) const {
    const auto future = wire::decode_json<UntypedApiFuture>(answer.body);
    if (answer.status != 200 || !future.ok() || future->request_id.empty()) return answer;
    const std::string poll = R"({"request_id":")" + future->request_id + "\"}";
    do {
      answer = ask("POST", "retrieve_future", poll, kAda, "Accept: application/x-protobuf\r\n");
    } while (answer.status == 408);
    return answer;
  }

  // What ada has.
  [[nodiscard]] std::string new_session() const {
    const auto answer =
        post("create_session", R"({"tags":[],"sdk_version":"0.36.0","type":"create_session"})");
    return wire::decode_json<CreateSessionResponse>(answer.body).value().session_id;
  }
  [[nodiscard]] std::string new_run(const std::string& session) const {
    const auto made =
        outcome(post("create_model",
                     R"({"session_id":")" + session +
                         R"(","model_seq_id":1,"base_model":"tiny","lora_config":{"rank":2}})"));
    EXPECT_EQ(made.status, 200) << made.body;
    return session + ":train:1";
  }
  [[nodiscard]] std::string new_sampler(const std::string& session) const {
    const auto answer = post(
        "create_sampling_session",
        R"({"session_id":")" + session + R"(","sampling_session_seq_id":1,"base_model":"tiny"})");
    return wire::decode_json<CreateSamplingSessionResponse>(answer.body)
        .value()
        .sampling_session_id;
  }

  LocalServer server_;
};

/// The operation was refused at once, or failed and the user is to blame.
MATCHER(IsUsersFault, "a 4xx, or a failed operation of category user") {
  *result_listener << arg.status << " " << arg.body.substr(0, 300);
  if (arg.status >= 400 && arg.status < 500) return true;
  return arg.status == 200 && arg.body.find(R"("category":"user")") != std::string::npos;
}

/// `path` of the table with `value` for each of its {names}.
inline std::string fill(std::string_view path, std::string_view value) {
  std::string out;
  while (!path.empty()) {
    const auto open = path.find('{');
    out.append(path.substr(0, open));
    if (open == std::string_view::npos) break;
    out.append(value);
    path.remove_prefix(path.find('}') + 1);
  }
  return out;
}

}  // namespace tinker::testing
