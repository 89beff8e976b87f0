#pragma once

#include <memory>
#include <string>
#include <utility>

#include "api/api_client.h"
#include "async/runtime_core.h"
#include "session/session_core.h"
#include "support/log_capture.h"
#include "telemetry/reporter.h"
#include "tinker/testing/fake_transport.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::session {

class FixedToken final : public api::TokenProvider {
 public:
  explicit FixedToken(std::string token) : token_(std::move(token)) {}
  async::Task<Secret> token() override { co_return Secret(token_); }

 private:
  std::string token_;
};

/// A holder's insides over a fake server in virtual time, without the start-up requests.
struct SessionFixture {
  LogCapture log;
  testing::VirtualRuntime time{log.logger()};
  std::shared_ptr<testing::FakeTransport> server =
      std::make_shared<testing::FakeTransport>(time.runtime());
  std::shared_ptr<SessionCore> session = make_session();

  std::shared_ptr<SessionCore> make_session() {
    auto core = std::make_shared<SessionCore>();
    core->runtime = time.runtime().core();
    core->api = std::make_shared<api::ApiClient>(
        core->runtime, server, api::ApiClientOptions{.base_url = "http://server.test"});
    core->tokens = std::make_shared<FixedToken>("tml-secret-key");
    core->session_id = "session-1";
    core->telemetry = std::make_shared<telemetry::Reporter>(
        core->runtime,
        core->api,
        core->tokens,
        telemetry::ReporterOptions{.is_enabled = true, .session_id = core->session_id});
    server->reply("/api/v1/telemetry", {{.body = R"({"status":"accepted"})"}});
    core->runtime->loop()->post([core, scope = core->runtime->scope()] {
      core->scope->attach(scope);
      core->telemetry->start(core->scope);
    });
    time.run_ready();
    return core;
  }

  template <typename T>
  Future<T> spawn(async::Task<T> task) {
    return session->runtime->spawn(session->scope, std::move(task));
  }
};

}  // namespace tinker::session
