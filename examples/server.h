#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <tinker/local_server.h>
#include <tinker/tinker.h>

namespace example {

/// A small model of random weights, whose first 256 tokens are the bytes. In f32 it says the same
/// on every machine.
inline tinker::LocalServerOptions random_model() {
  return {.model = "random:2x64,vocab=261", .precision = tinker::EnginePrecision::f32};
}

/// The server of an example: the one that TINKER_BASE_URL names, else one inside the program.
class Server {
 public:
  explicit Server(tinker::LocalServerOptions options = random_model()) {
    if (std::getenv("TINKER_BASE_URL") == nullptr) {
      local_ = tinker::LocalServer::start(std::move(options)).value();
    }
  }

  /// What `tinker::ServiceOptions` take: nothing where the environment says it.
  [[nodiscard]] std::string url() const { return local_ ? local_->base_url() : std::string(); }
  [[nodiscard]] std::optional<tinker::Secret> key() const {
    return local_ ? std::optional(tinker::Secret("tml-example")) : std::nullopt;
  }

  [[nodiscard]] tinker::ServiceClient connect() const {
    return tinker::ServiceClient::connect({.base_url = url(), .api_key = key()}).value();
  }

 private:
  std::optional<tinker::LocalServer> local_ = {};
};

}  // namespace example
