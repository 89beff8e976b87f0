#include "transport/tunnel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"

namespace tinker::http::tunnel_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOkAndHolds;

Url url(const char* text) {
  return Url::parse(text).value();
}

class TunnelTest : public ::testing::Test {
 protected:
  Url target = url("https://api.example.com/x");
  Proxy proxy = {.url = url("http://proxy:3128"), .authorization = Secret("Basic c2VjcmV0")};
};

TEST_F(TunnelTest, AsksForTheServerWithItsPort) {
  Tunnel tunnel(target, proxy, {});

  EXPECT_EQ(tunnel.take_request(),
            "CONNECT api.example.com:443 HTTP/1.1\r\n"
            "Host: api.example.com:443\r\n"
            "Proxy-Authorization: Basic c2VjcmV0\r\n\r\n");
}

TEST_F(TunnelTest, PutsIpv6AddressesInBrackets) {
  target = url("https://[::1]:8443/");
  proxy.authorization = {};
  Tunnel tunnel(target, proxy, {});

  EXPECT_EQ(tunnel.take_request(), "CONNECT [::1]:8443 HTTP/1.1\r\nHost: [::1]:8443\r\n\r\n");
}

TEST_F(TunnelTest, GivesWhatFollowsTheAnswerToTheServer) {
  Tunnel tunnel(target, proxy, {});

  EXPECT_THAT(tunnel.receive("HTTP/1.1 200 Connection est"), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(tunnel.receive("ablished\r\nContent-Length: 5\r\n\r\nhello"),
              IsOkAndHolds(std::optional<std::string_view>("hello")));
}

TEST_F(TunnelTest, SaysThatTheCredentialsWereRefusedWithoutShowingThem) {
  Tunnel tunnel(target, proxy, {});

  const auto refused = tunnel.receive("HTTP/1.1 407 Auth\r\nContent-Length: 0\r\n\r\n");

  EXPECT_THAT(
      refused,
      IsError(ErrorCode::connection_failed,
              AllOf(HasSubstr("proxy:3128"), HasSubstr("password"), Not(HasSubstr("c2VjcmV0")))));
  EXPECT_FALSE(refused.error().retry.retryable);
}

TEST_F(TunnelTest, SaysThatCredentialsAreMissing) {
  proxy.authorization = {};
  Tunnel tunnel(target, proxy, {});

  EXPECT_THAT(tunnel.receive("HTTP/1.1 407 Auth\r\n\r\n"),
              IsError(ErrorCode::connection_failed, HasSubstr("wants a user name")));
}

TEST_F(TunnelTest, OtherRefusalsNameTheServerAndTheStatus) {
  Tunnel tunnel(target, proxy, {});

  EXPECT_THAT(tunnel.receive("HTTP/1.1 503 Nope\r\n\r\n"),
              IsError(ErrorCode::connection_failed,
                      AllOf(HasSubstr("api.example.com:443"), HasSubstr("503"))));
}

TEST_F(TunnelTest, RefusesGarbage) {
  Tunnel tunnel(target, proxy, {});

  EXPECT_THAT(tunnel.receive("220 smtp ready\r\n"),
              IsError(ErrorCode::connection_failed, HasSubstr("not HTTP")));
}

}  // namespace
}  // namespace tinker::http::tunnel_test
