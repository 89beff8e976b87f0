// Options of the public clients that only real connections can show.

#include <chrono>
#include <cstdlib>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/tcp_server.h"
#include "tinker/service_client.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::network_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::tinker::testing::IsOk;
using ::tinker::testing::TcpPeer;
using ::tinker::testing::TcpServer;

/// Answers every call, and keeps the heads of the requests.
class AnyServer {
 public:
  [[nodiscard]] std::string url(std::string_view user_info) const {
    return "http://" + std::string(user_info) + "127.0.0.1:" + std::to_string(server_.port());
  }
  [[nodiscard]] std::vector<std::string> requests() {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  void serve(TcpPeer& peer) {
    for (auto request = peer.read_request(); !request.empty(); request = peer.read_request()) {
      {
        const std::scoped_lock lock(mutex_);
        requests_.push_back(request);
      }
      peer.respond(request.find("get_server_capabilities") == std::string::npos
                       ? "{}"
                       : R"({"supported_models":[{"model_name":"llama"}]})");
    }
  }

  std::mutex mutex_;
  std::vector<std::string> requests_;
  TcpServer server_{[this](TcpPeer& peer, int) { serve(peer); }};
};

Result<GetServerCapabilitiesResponse> ask(const std::string& base_url,
                                          http::TransportOptions options) {
  const auto service = ServiceClient::connect({.base_url = base_url,
                                               .api_key = Secret("tml-secret-key"),
                                               .transport_options = std::move(options)})
                           .value();
  // A request that went astray would be repeated for minutes.
  return service.with({.deadline = std::chrono::seconds(30)}).get_server_capabilities().get();
}

TEST(Network, RequestsGoThroughTheProxyOfTheOptions) {
  AnyServer proxy;

  // A name that nobody can find.
  EXPECT_THAT(ask("http://tinker.invalid", {.proxy = Secret(proxy.url("user:word@"))}), IsOk());

  EXPECT_THAT(proxy.requests(), Not(IsEmpty()));
  EXPECT_THAT(proxy.requests(),
              Each(AllOf(HasSubstr(" http://tinker.invalid/api/v1/"),
                         HasSubstr("\r\nProxy-Authorization: Basic dXNlcjp3b3Jk\r\n"))));
}

/// `http_proxy` while it lives.
struct EnvironmentProxy {
  explicit EnvironmentProxy(const std::string& url) { ::setenv("http_proxy", url.c_str(), 1); }
  EnvironmentProxy(const EnvironmentProxy&) = delete;
  EnvironmentProxy& operator=(const EnvironmentProxy&) = delete;
  ~EnvironmentProxy() { ::unsetenv("http_proxy"); }
};

TEST(Network, RequestsGoThroughTheProxyOfTheEnvironment) {
  AnyServer proxy;
  const EnvironmentProxy set(proxy.url(""));

  EXPECT_THAT(ask("http://tinker.invalid", {}), IsOk());

  EXPECT_THAT(proxy.requests(), Not(IsEmpty()));
  EXPECT_THAT(proxy.requests(), Each(HasSubstr(" http://tinker.invalid/api/v1/")));
}

TEST(Network, RequestsPassTheProxyOfTheEnvironmentByWhereThatIsWanted) {
  AnyServer proxy;
  AnyServer server;
  const EnvironmentProxy set(proxy.url(""));

  EXPECT_THAT(ask(server.url(""), {.use_environment_proxy = false}), IsOk());

  EXPECT_THAT(proxy.requests(), IsEmpty());
  EXPECT_THAT(server.requests(), Each(HasSubstr(" /api/v1/")));
}

TEST(Network, HeadersOfTheOptionsGoWithEveryRequest) {  // R1.10
  AnyServer server;
  const auto service = ServiceClient::connect({.base_url = server.url(""),
                                               .api_key = Secret("tml-secret-key"),
                                               .headers = {{"X-Team", "blue"}}})
                           .value();

  EXPECT_THAT(service.get_server_capabilities().get(), IsOk());

  EXPECT_THAT(server.requests(), Not(IsEmpty()));
  EXPECT_THAT(server.requests(), Each(HasSubstr("\r\nX-Team: blue\r\n")));
}

}  // namespace
}  // namespace tinker::client::network_test
