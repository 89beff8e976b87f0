#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "support/raw_http.h"
#include "support/temporary_folder.h"
#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"

namespace tinker::testing {

/// A durable server, which can be started again on its data folder and port.
class DurableTest : public ::testing::Test {
 protected:
  DurableTest() { start(); }

  void start() {
    options_.data_dir = folder_.path("data");
    if (server_) options_.port = server_->port();
    server_.reset();
    server_ = LocalServer::start(options_).value();
  }
  void start_again() {
    ASSERT_THAT(server_->stop(), IsOk());
    start();
  }
  [[nodiscard]] ServiceClient connect() const {
    return ServiceClient::connect(
               {.base_url = server_->base_url(), .api_key = Secret("tml-local-test")})
        .value();
  }
  static TrainingClient new_run(const ServiceClient& service) {
    return service.create_lora_training_client("tiny", {.rank = 4, .seed = 7}).get().value();
  }
  [[nodiscard]] RawResponse post(std::string_view path, std::string_view body) const {
    return RawHttp(server_->port())
        .ask("POST",
             base::concat("/api/v1/", path),
             body,
             "X-API-Key: tml-local-test\r\nContent-Type: application/json\r\n");
  }
  /// What became of a request.
  [[nodiscard]] std::string outcome(std::string_view request_id) const {
    const auto poll = base::concat(R"({"request_id":")", request_id, R"("})");
    RawResponse answer;
    do {
      answer = post("retrieve_future", poll);
    } while (answer.status == 408);
    return answer.body;
  }
  /// Of the only run.
  [[nodiscard]] std::filesystem::path log() const {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_.path("data/journal"))) {
      if (entry.path().filename() == "log") return entry.path();
    }
    return {};
  }

  const TemporaryFolder folder_;
  LocalServerOptions options_ = {
      .models = {{.name = "tiny", .source = "random:2x64,vocab=512"}},
      .threads = 1,
      .precision = EnginePrecision::f32,
      .durable = true,
  };
  std::optional<LocalServer> server_ = {};
};

}  // namespace tinker::testing
