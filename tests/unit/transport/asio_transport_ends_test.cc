// How requests end that get no answer: time-outs, refused connections, cancellation, shutdown.

#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/http_matchers.h"
#include "support/loop_fixture.h"
#include "support/tcp_server.h"
#include "tinker/testing/matchers.h"
#include "transport/asio_transport.h"

namespace tinker::http::asio_transport_ends_test {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using ::tinker::testing::count_requests;
using ::tinker::testing::HasBody;
using ::tinker::testing::HasStatus;
using ::tinker::testing::IsError;
using ::tinker::testing::TcpPeer;
using ::tinker::testing::TcpServer;
using namespace std::chrono_literals;

// Time-outs in these tests are long where they must not fire, and as short as they can be where
// they must.
class AsioTransportEndsTest : public ::tinker::testing::LoopFixture {};

TEST_F(AsioTransportEndsTest, GivesUpOnAServerThatDoesNotAnswer) {
  TcpServer server([](TcpPeer& peer, int) { peer.wait_for_end(); });
  auto request = get(server.url());
  request.timeouts.read = 5ms;

  EXPECT_THAT(transport()->send(std::move(request)).get(),
              IsError(ErrorCode::timed_out, HasSubstr("no answer within 5 ms")));
  server.wait_until_ended(1);
}

TEST_F(AsioTransportEndsTest, GivesUpOnAnAnswerThatStandsStill) {
  const TcpServer server([](TcpPeer& peer, int) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    peer.wait_for_end();
  });
  auto request = get(server.url());
  request.timeouts.read = 500ms;

  EXPECT_THAT(transport()->send(std::move(request)).get(),
              IsError(ErrorCode::timed_out, HasSubstr("stood still for 500 ms")));
}

TEST_F(AsioTransportEndsTest, ALongAnswerIsNoTimeOutWhileItMoves) {
  constexpr auto kTimeout = 1000ms;
  const TcpServer server([&](TcpPeer& peer, int) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\n\r\n");
    const auto end = std::chrono::steady_clock::now() + kTimeout * 3 / 2;
    while (std::chrono::steady_clock::now() < end && !peer.is_over()) peer.write("x");
    peer.finish();
    peer.wait_for_end();
  });
  auto request = get(server.url());
  request.timeouts.read = kTimeout;

  EXPECT_THAT(transport()->send(std::move(request)).get(), HasStatus(200));
}

TEST_F(AsioTransportEndsTest, GivesUpOnAServerThatTakesNothing) {
  std::latch done(1);
  const TcpServer server([&](TcpPeer&, int) { done.wait(); });
  auto request = post(server.url(), std::string(50'000'000, 'x'));
  request.timeouts.write = 50ms;

  EXPECT_THAT(transport()->send(std::move(request)).get(),
              IsError(ErrorCode::timed_out, HasSubstr("took nothing of the request for 50 ms")));
  done.count_down();
}

TEST_F(AsioTransportEndsTest, GivesUpWaitingForAFreeConnection) {
  const TcpServer server([](TcpPeer& peer, int) { peer.wait_for_end(); });
  const auto http = transport({.max_connections_per_channel = 1});
  auto first = http->send(get(server.url()));
  auto request = get(server.url());
  request.timeouts.queue = 5ms;

  EXPECT_THAT(http->send(std::move(request)).get(),
              IsError(ErrorCode::timed_out, HasSubstr("no free connection within 5 ms")));
  EXPECT_FALSE(first.is_ready());
}

TEST_F(AsioTransportEndsTest, GivesUpConnecting) {
  const TcpServer silent([](TcpPeer& peer, int) { peer.wait_for_end(); });
  auto request = get("https://127.0.0.1:" + std::to_string(silent.port()));
  request.timeouts.connect = 5ms;

  EXPECT_THAT(transport()->send(std::move(request)).get(),
              IsError(ErrorCode::timed_out, HasSubstr("no connection to 127.0.0.1:")));
}

std::uint16_t unused_port() {
  const TcpServer server([](TcpPeer&, int) {});
  return server.port();
}

TEST_F(AsioTransportEndsTest, SaysWhereAConnectionWasRefused) {
  const std::string port = std::to_string(unused_port());

  EXPECT_THAT(transport()->send(get("http://127.0.0.1:" + port)).get(),
              IsError(ErrorCode::connection_failed,
                      HasSubstr("connection to 127.0.0.1:" + port + " refused")));
}

TEST_F(AsioTransportEndsTest, TriesTheNextAddressOfAName) {
  const TcpServer server(count_requests);  // on 127.0.0.1 only; localhost may be ::1 first

  EXPECT_THAT(transport()->send(get("http://localhost:" + std::to_string(server.port()))).get(),
              HasBody("1"));
}

TEST_F(AsioTransportEndsTest, CancellingEndsTheRequestAndItsConnection) {
  std::latch asked(1);
  TcpServer server([&](TcpPeer& peer, int) {
    peer.read_request();
    asked.count_down();
    peer.wait_for_end();
  });
  const auto http = transport();
  auto future = http->send(get(server.url()));
  asked.wait();

  future.cancel();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
  server.wait_until_ended(1);
}

TEST_F(AsioTransportEndsTest, CancelsWhatIsStillWaiting) {
  const TcpServer server([](TcpPeer& peer, int) { peer.wait_for_end(); });
  const auto http = transport({.max_connections_per_channel = 1});
  auto first = http->send(get(server.url()));
  auto second = http->send(get(server.url()));

  second.cancel();

  EXPECT_THAT(second.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_FALSE(first.is_ready());
}

TEST_F(AsioTransportEndsTest, ItsEndCancelsWhatIsInFlight) {
  std::latch asked(1);
  TcpServer server([&](TcpPeer& peer, int) {
    peer.read_request();
    asked.count_down();
    peer.wait_for_end();
  });
  auto http = transport({.max_connections_per_channel = 1});
  auto sent = http->send(get(server.url()));
  auto waiting = http->send(get(server.url()));
  asked.wait();

  http.reset();

  EXPECT_THAT(sent.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(waiting.get(), IsError(ErrorCode::cancelled, _));
  server.wait_until_ended(1);
}

TEST(AsioTransportShutdown, TheEndOfTheLoopCancelsWhatIsInFlight) {
  const TcpServer server([](TcpPeer& peer, int) { peer.wait_for_end(); });
  auto loop = async::AsioLoop::create();
  std::thread thread([loop] { loop->run(); });
  auto http =
      AsioTransport::create(loop, std::make_shared<async::ThreadPool>("w", 1), TransportOptions());
  auto future = http->send({.method = Method::get, .url = server.url()});

  loop->post([loop, http = std::move(http)]() mutable {
    http.reset();  // as RuntimeCore::clear_shared does
    loop->stop();
  });
  thread.join();

  EXPECT_THAT(future.get(), IsError(ErrorCode::cancelled, _));
}

TEST(AsioTransportShutdown, ALoopThatHasEndedTakesNoRequests) {
  auto loop = async::AsioLoop::create();
  loop->stop();
  const auto http = AsioTransport::create(loop, nullptr, TransportOptions());

  EXPECT_THAT(http->send({.url = "http://127.0.0.1:1"}).get(), IsError(ErrorCode::cancelled, _));
}

}  // namespace
}  // namespace tinker::http::asio_transport_ends_test
