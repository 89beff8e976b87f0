#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "telemetry/reporter.h"
#include "tinker/testing/fake_transport.h"
#include "tinker/testing/virtual_runtime.h"
#include "wire/json.h"

namespace tinker::telemetry {

constexpr std::string_view kApiKey = "tml-secret-key";

/// Gives a key, or an error first.
class TestTokens final : public api::TokenProvider {
 public:
  int failures_left = 0;

  async::Task<Secret> token() override {
    if (failures_left > 0) {
      --failures_left;
      co_return Error{.code = ErrorCode::unauthenticated, .message = "no credential"};
    }
    co_return Secret(std::string(kApiKey));
  }
};

/// A reporter over a fake server in virtual time.
class ReporterTest : public ::testing::Test {
 protected:
  ReporterTest() {
    answer({{.body = R"({"status":"accepted"})"}});
    scope->attach(core->scope());
  }
  ~ReporterTest() override {
    scope->cancel({.code = ErrorCode::cancelled, .message = "the test is over"});
    time.run_ready();
    scope->detach();
  }

  void answer(std::vector<testing::FakeReply> replies) {
    server->reply("/api/v1/telemetry", std::move(replies));
  }
  std::shared_ptr<Reporter> make(ReporterOptions options) const {
    return std::make_shared<Reporter>(core, api, tokens, std::move(options));
  }
  std::shared_ptr<Reporter> started(ReporterOptions options) const {
    auto reporter = make(std::move(options));
    reporter->start(scope);
    time.run_ready();
    return reporter;
  }
  std::shared_ptr<Reporter> started() const { return started({.session_id = "session-1"}); }
  Result<void> drain(Reporter& reporter, std::chrono::nanoseconds limit) const {
    return core->spawn(scope, reporter.drain(limit)).get();
  }

  /// What the server was sent, in order.
  std::vector<TelemetrySendRequest> requests() const {
    std::vector<TelemetrySendRequest> out;
    for (const auto& sent : server->sent("/api/v1/telemetry")) {
      auto request = wire::decode_json<TelemetrySendRequest>(http::view(sent.request.body));
      EXPECT_TRUE(request.ok());
      if (request) out.push_back(*std::move(request));
    }
    return out;
  }
  std::vector<TelemetryEvent> events() const {
    std::vector<TelemetryEvent> out;
    for (auto& request : requests()) {
      for (auto& event : request.events) out.push_back(std::move(event));
    }
    return out;
  }
  std::vector<std::chrono::nanoseconds> times() const {
    std::vector<std::chrono::nanoseconds> out;
    for (const auto& sent : server->sent("/api/v1/telemetry")) out.push_back(sent.at);
    return out;
  }
  std::vector<std::string> warnings() const { return *warnings_; }

 private:
  std::shared_ptr<std::vector<std::string>> warnings_ =
      std::make_shared<std::vector<std::string>>();

 protected:
  mutable testing::VirtualRuntime time{
      Logger([lines = warnings_](LogLevel, std::string_view line) { lines->emplace_back(line); },
             LogLevel::warn)};
  std::shared_ptr<async::RuntimeCore> core = time.runtime().core();
  std::shared_ptr<testing::FakeTransport> server =
      std::make_shared<testing::FakeTransport>(time.runtime());
  std::shared_ptr<api::ApiClient> api = std::make_shared<api::ApiClient>(
      core, server, api::ApiClientOptions{.base_url = "http://server.test"});
  std::shared_ptr<TestTokens> tokens = std::make_shared<TestTokens>();
  std::shared_ptr<async::Scope> scope = std::make_shared<async::Scope>();
};

/// The wire names of the events.
inline std::vector<std::string> names(const std::vector<TelemetryEvent>& events) {
  std::vector<std::string> out;
  for (const auto& event : events) {
    const auto* generic = std::get_if<GenericEvent>(&event);
    out.emplace_back(
        generic != nullptr
            ? generic->event_name
            : std::visit([](const auto& e) { return std::string(to_string(e.event)); }, event));
  }
  return out;
}

}  // namespace tinker::telemetry
