// Which connections the transport opens, keeps, uses again and closes.

#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/http_matchers.h"
#include "support/loop_fixture.h"
#include "support/tcp_server.h"
#include "tinker/testing/matchers.h"
#include "transport/asio_transport.h"

namespace tinker::http::asio_transport_pool_test {
namespace {

using ::testing::_;
using ::tinker::testing::count_requests;
using ::tinker::testing::HasBody;
using ::tinker::testing::HasStatus;
using ::tinker::testing::IsError;
using ::tinker::testing::TcpPeer;
using ::tinker::testing::TcpServer;
using namespace std::chrono_literals;

class AsioTransportPoolTest : public ::tinker::testing::LoopFixture {};

TEST_F(AsioTransportPoolTest, KeepsConnectionsAndUsesThemAgain) {
  TcpServer server(count_requests);
  const auto http = transport();

  for (const char* number : {"1", "2", "3"}) {
    EXPECT_THAT(http->send(get(server.url())).get(), HasBody(number));
  }

  EXPECT_EQ(server.accepted(), 1);
}

// PROTOCOL 2.2: connections are never shared between pools.
TEST_F(AsioTransportPoolTest, ChannelsShareNoConnection) {
  TcpServer server(count_requests);
  const auto http = transport();

  for (const std::uint64_t channel : {1U, 2U}) {
    auto request = get(server.url());
    request.channel = channel;
    EXPECT_THAT(http->send(std::move(request)).get(), HasBody("1"));
  }

  EXPECT_EQ(server.accepted(), 2);
}

TEST_F(AsioTransportPoolTest, OpensAConnectionForEachRequestInFlight) {
  constexpr int kCount = 10;
  std::latch all(kCount);
  TcpServer server([&](TcpPeer& peer, int) {
    peer.read_request();
    all.arrive_and_wait();
    peer.respond("x");
    peer.wait_for_end();
  });
  const auto http = transport();
  std::vector<Future<Response>> futures;

  for (int i = 0; i < kCount; ++i) futures.push_back(http->send(get(server.url())));

  for (auto& future : futures) EXPECT_THAT(future.get(), HasStatus(200));
  EXPECT_EQ(server.accepted(), kCount);
}

TEST_F(AsioTransportPoolTest, NeverOpensMoreThanTheLimit) {
  TcpServer server(count_requests);
  const auto http = transport({.max_connections_per_channel = 2});
  std::vector<Future<Response>> futures;

  for (int i = 0; i < 20; ++i) futures.push_back(http->send(get(server.url())));

  for (auto& future : futures) EXPECT_THAT(future.get(), HasStatus(200));
  EXPECT_LE(server.accepted(), 2);
}

TEST_F(AsioTransportPoolTest, ClosesIdleConnectionsBeyondTheLimit) {
  constexpr int kCount = 4;
  std::latch all(kCount);
  TcpServer server([&](TcpPeer& peer, int) {
    peer.read_request();
    all.arrive_and_wait();
    peer.respond("x");
    peer.wait_for_end();
  });
  const auto http = transport({.max_idle_per_channel = 1});
  std::vector<Future<Response>> futures;
  for (int i = 0; i < kCount; ++i) futures.push_back(http->send(get(server.url())));
  for (auto& future : futures) EXPECT_THAT(future.get(), HasStatus(200));

  server.wait_until_ended(kCount - 1);
}

TEST_F(AsioTransportPoolTest, ClosesConnectionsThatAreIdleForLong) {
  TcpServer server(count_requests);
  const auto http = transport({.idle_timeout = 1ms});
  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("1"));

  server.wait_until_ended(1);

  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("1"));
}

TEST_F(AsioTransportPoolTest, SendsAgainWhenTheServerHadClosedTheConnection) {
  const TcpServer server([](TcpPeer& peer, int index) {
    peer.read_request();
    peer.respond("connection " + std::to_string(index));
    if (index == 0) peer.read_request();  // and goes away with it
  });
  const auto http = transport();
  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("connection 0"));

  EXPECT_THAT(http->send(post(server.url(), "again")).get(), HasBody("connection 1"));
}

TEST_F(AsioTransportPoolTest, SendsNothingAgainThatMustNotBeRepeated) {
  TcpServer server([](TcpPeer& peer, int /*index*/) {
    peer.read_request();
    peer.respond("fine");
    peer.read_request();  // and goes away with it
  });
  const auto http = transport();
  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("fine"));
  auto request = post(server.url(), "once");
  request.is_repeatable = false;

  EXPECT_THAT(http->send(std::move(request)).get(), IsError(ErrorCode::connection_failed, _));

  EXPECT_EQ(server.accepted(), 1);
}

TEST_F(AsioTransportPoolTest, SendsAgainOnlyOnceAndOnlyOnAReusedConnection) {
  TcpServer server([](TcpPeer& peer, int index) {
    peer.read_request();
    if (index == 0) peer.respond("fine");
    if (index == 0) peer.read_request();
    peer.reset();
  });
  const auto http = transport();
  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("fine"));

  EXPECT_THAT(http->send(get(server.url())).get(), IsError(ErrorCode::connection_failed, _));

  EXPECT_EQ(server.accepted(), 2);
}

TEST_F(AsioTransportPoolTest, AConnectionThatClosesAfterItsAnswerIsReplaced) {
  const TcpServer server([](TcpPeer& peer, int index) {
    peer.read_request();
    peer.respond(std::to_string(index), "Connection: close\r\n");
  });
  const auto http = transport();

  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("0"));
  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("1"));
}

TEST_F(AsioTransportPoolTest, ClosingAChannelClosesItsIdleConnectionsOnly) {
  TcpServer server(count_requests);
  const auto http = transport();
  auto other = get(server.url());
  other.channel = 1;
  auto again = other;
  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("1"));
  EXPECT_THAT(http->send(std::move(other)).get(), HasBody("1"));

  http->close_channel(0);

  server.wait_until_ended(1);
  EXPECT_THAT(http->send(std::move(again)).get(), HasBody("2"));
  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("1"));
}

TEST_F(AsioTransportPoolTest, ClosingAChannelLetsBusyConnectionsFinish) {
  std::latch asked(1);
  std::latch closed(1);
  TcpServer server([&](TcpPeer& peer, int) {
    peer.read_request();
    asked.count_down();
    closed.wait();
    peer.respond("fine");
    peer.wait_for_end();
  });
  const auto http = transport();
  auto future = http->send(get(server.url()));
  asked.wait();

  http->close_channel(0);
  closed.count_down();

  EXPECT_THAT(future.get(), HasBody("fine"));
  server.wait_until_ended(1);
}

}  // namespace
}  // namespace tinker::http::asio_transport_pool_test
