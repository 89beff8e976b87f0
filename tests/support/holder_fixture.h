#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "async/runtime_core.h"
#include "session/holder.h"
#include "session/service.h"
#include "support/log_capture.h"
#include "tinker/testing/fake_transport.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::session {

/// A fake server that lets a holder start up, in virtual time, with an environment of its own.
struct HolderFixture {
  LogCapture log;
  testing::VirtualRuntime time{log.logger()};
  std::shared_ptr<testing::FakeTransport> server =
      std::make_shared<testing::FakeTransport>(time.runtime());
  std::map<std::string, std::string> environment = {{"HOME", "/nonexistent"}};

  HolderFixture() {
    server->reply("/api/v1/client/config", {{.body = "{}"}});
    server->reply("/api/v1/client/dynamic_config", {{.body = "{}"}});
    server->reply("/api/v1/create_session", {{.body = R"({"session_id":"s-1"})"}});
    server->reply("/api/v1/session_heartbeat", {{.body = "{}"}});
    server->reply("/api/v1/telemetry", {{.body = R"({"status":"accepted"})"}});
    server->reply("/finish", {{.body = "{}"}});
  }

  HolderOptions options() {
    return {.base_url = "http://server.test",
            .api_key = Secret("tml-secret-key"),
            .environment = [this](const char* name) -> std::optional<std::string> {
              const auto found = environment.find(name);
              if (found == environment.end()) return std::nullopt;
              return found->second;
            },
            .transport = server};
  }

  Future<std::shared_ptr<Holder>> open(Holder::Kind kind, HolderOptions with) {
    const auto& core = time.runtime().core();
    return core->spawn(core->scope(), Holder::open(core, std::move(with), kind));
  }
  Future<std::shared_ptr<Holder>> open(Holder::Kind kind = Holder::Kind::with_session) {
    return open(kind, options());
  }

  /// The paths asked for so far, without telemetry, which comes when it comes.
  [[nodiscard]] std::vector<std::string> paths() const {
    std::vector<std::string> out;
    for (const auto& sent : server->sent()) {
      if (!sent.path.ends_with("telemetry")) out.push_back(sent.path);
    }
    return out;
  }
};

}  // namespace tinker::session
