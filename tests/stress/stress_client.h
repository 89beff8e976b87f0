#pragma once

#include <memory>
#include <string>
#include <utility>

#include "api/api_client.h"
#include "async/asio_loop.h"
#include "async/runtime_core.h"
#include "http/asio_transport.h"
#include "stress/server_process.h"
#include "tinker/runtime.h"

namespace tinker::stress {

enum class Wire { h1, h2 };

class StressToken final : public api::TokenProvider {
 public:
  async::Task<Secret> token() override { co_return Secret("tml-stress-key"); }
};

/// The library as a holder has it, over the real transport.
struct StressClient {
  Runtime runtime = Runtime::start();
  std::shared_ptr<http::Transport> transport;
  std::shared_ptr<api::ApiClient> api;
  std::shared_ptr<api::TokenProvider> tokens = std::make_shared<StressToken>();

  StressClient(const ServerProcess& server, Wire wire)
      : StressClient(server, wire, http::TransportOptions()) {}
  StressClient(const ServerProcess& server, Wire wire, http::TransportOptions options) {
    options.ca_file = server.ca_file();
    options.use_environment_proxy = false;
    const auto& core = runtime.core();
    transport = http::AsioTransport::create(
        std::dynamic_pointer_cast<async::AsioLoop>(core->loop()), core->workers(), options);
    api = std::make_shared<api::ApiClient>(
        core,
        transport,
        api::ApiClientOptions{.base_url = wire == Wire::h1 ? server.url() : server.tls_url()});
  }

  Future<http::Response> start(api::Call call, async::SpawnOptions options) const {
    return runtime.core()->spawn(
        runtime.core()->scope(), api->call(std::move(call), tokens), std::move(options));
  }
  Future<http::Response> start(api::Call call) const {
    return start(std::move(call), async::SpawnOptions());
  }
};

/// "h1" or "h2", for the names of parameterised tests.
inline std::string to_string(Wire wire) {
  return wire == Wire::h1 ? "h1" : "h2";
}

}  // namespace tinker::stress
