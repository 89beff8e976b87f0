#include <filesystem>
#include <latch>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/h2_peer.h"
#include "support/http_matchers.h"
#include "support/loop_fixture.h"
#include "support/tcp_server.h"
#include "tinker/testing/matchers.h"
#include "transport/asio_transport.h"

namespace tinker::http::asio_transport_tls_test {
namespace {

using ::testing::_;
using ::testing::AnyOf;
using ::testing::Field;
using ::testing::HasSubstr;
using ::tinker::testing::H2Peer;
using ::tinker::testing::HasBody;
using ::tinker::testing::Identity;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOkAndHolds;
using ::tinker::testing::make_authority;
using ::tinker::testing::make_identity;
using ::tinker::testing::TcpPeer;
using ::tinker::testing::TcpServer;

/// Runs the server's side of HTTP/2; `react` is called after each piece of input.
template <typename React>
void serve_h2(TcpPeer& peer, H2Peer& h2, const React& react) {
  while (true) {
    peer.write(h2.output());
    const std::string bytes = peer.read();
    if (bytes.empty()) return;
    h2.receive(bytes);
    react();
  }
}

/// Answers each complete request once, with what `answer(stream)` gives.
template <typename Answer>
void answer_complete(H2Peer& h2, std::int32_t& answered, const Answer& answer) {
  for (auto& [id, stream] : h2.streams) {
    if (id <= answered || !stream.is_complete) continue;
    answered = id;
    h2.respond(id, answer(stream));
  }
}

class AsioTransportTlsTest : public ::tinker::testing::LoopFixture {
 protected:
  AsioTransportTlsTest() { authority.write_certificate(ca_file); }
  ~AsioTransportTlsTest() override { std::filesystem::remove(ca_file); }

  std::shared_ptr<Transport> trusting() { return transport({.ca_file = ca_file}); }
  std::vector<Result<Response>> send_many(Transport& http, const std::string& url, int count) {
    std::vector<Future<Response>> futures;
    for (int i = 0; i < count; ++i) futures.push_back(http.send(get(url)));
    std::vector<Result<Response>> results;
    for (auto& future : futures) results.push_back(future.get());
    return results;
  }

  Identity authority = make_authority("Test Authority");
  Identity identity = make_identity({}, &authority);
  std::string ca_file = (std::filesystem::temp_directory_path() /
                         ("asio_transport_tls_test_" + std::to_string(getpid()) + ".pem"))
                            .string();
};

TEST_F(AsioTransportTlsTest, RequestsShareOneHttp2Connection) {
  TcpServer server(identity, "h2", [](TcpPeer& peer, int) {
    H2Peer h2;
    std::int32_t answered = 0;
    serve_h2(peer, h2, [&] {
      answer_complete(h2, answered, [](const auto& stream) { return stream.headers.at(":path"); });
    });
  });
  const auto http = trusting();

  for (const auto& result : send_many(*http, server.url("/x"), 50))
    EXPECT_THAT(result, HasBody("/x"));

  EXPECT_EQ(server.accepted(), 1);
}

TEST_F(AsioTransportTlsTest, AServerOfHttp1GetsAConnectionForEachRequest) {
  constexpr int kCount = 5;
  std::latch all(kCount);
  TcpServer server(identity, "http/1.1", [&](TcpPeer& peer, int) {
    peer.read_request();
    all.arrive_and_wait();
    peer.respond("x");
    peer.wait_for_end();
  });
  const auto http = trusting();

  for (const auto& result : send_many(*http, server.url(), kCount))
    EXPECT_THAT(result, HasBody("x"));

  EXPECT_EQ(server.accepted(), kCount);
}

TEST_F(AsioTransportTlsTest, Http2CanBeTurnedOff) {
  const TcpServer server(
      identity, "h2", [](TcpPeer& peer, int) { peer.respond(peer.read_request()); });

  const auto result =
      transport({.ca_file = ca_file, .enable_http2 = false})->send(get(server.url())).get();

  EXPECT_THAT(result, IsOkAndHolds(Field(&Response::body, HasSubstr("GET / HTTP/1.1"))));
}

TEST_F(AsioTransportTlsTest, CarriesLargeBodiesBothWays) {
  const TcpServer server(identity, "h2", [](TcpPeer& peer, int) {
    H2Peer h2;
    std::int32_t answered = 0;
    serve_h2(peer, h2, [&] {
      answer_complete(h2, answered, [](const auto& stream) { return stream.body; });
    });
  });
  std::string body(10'000'000, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7919 >> 8U);

  const auto result = trusting()->send(post(server.url(), body)).get();

  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->body == body);
}

TEST_F(AsioTransportTlsTest, LargeBodiesShareTheWindowsOfOneConnection) {
  TcpServer server(identity, "h2", [](TcpPeer& peer, int) {
    H2Peer h2;
    std::set<std::int32_t> answered;
    serve_h2(peer, h2, [&] {
      for (auto& [id, stream] : h2.streams) {
        if (stream.is_complete && answered.insert(id).second) h2.respond(id, stream.body);
      }
    });
  });
  const auto http = trusting();
  std::vector<Future<Response>> futures;
  for (int i = 0; i < 12; ++i) {
    futures.push_back(
        http->send(post(server.url(), std::string(1'500'000, static_cast<char>('a' + i)))));
  }

  for (std::size_t i = 0; i < futures.size(); ++i) {
    const auto result = futures[i].get();
    ASSERT_TRUE(result.ok()) << result.error().to_string();
    EXPECT_TRUE(result->body == std::string(1'500'000, static_cast<char>('a' + i))) << i;
  }
  EXPECT_EQ(server.accepted(), 1);
}

TEST_F(AsioTransportTlsTest, WhatAGoAwayLeavesOutIsSentAgainElsewhere) {
  TcpServer server(identity, "h2", [](TcpPeer& peer, int index) {
    H2Peer h2;
    std::int32_t answered = 0;
    serve_h2(peer, h2, [&] {
      if (index == 0 && !h2.streams.empty()) return h2.go_away(0);
      answer_complete(h2, answered, [](const auto&) { return std::string("second"); });
    });
  });
  const auto http = trusting();

  for (const auto& result : send_many(*http, server.url(), 3))
    EXPECT_THAT(result, HasBody("second"));

  EXPECT_EQ(server.accepted(), 2);
}

TEST_F(AsioTransportTlsTest, WhatAGoAwayCoversIsFinished) {
  TcpServer server(identity, "h2", [&](TcpPeer& peer, int) {
    H2Peer h2;
    bool is_told = false;
    serve_h2(peer, h2, [&] {
      if (h2.streams.empty() || is_told) return;
      is_told = true;
      h2.go_away(1);
      peer.write(h2.output());
      h2.respond(1, "finished");
    });
  });

  EXPECT_THAT(trusting()->send(get(server.url())).get(), HasBody("finished"));
  server.wait_until_ended(1);
}

TEST_F(AsioTransportTlsTest, ARefusedStreamIsSentAgainAFewTimes) {
  std::atomic<int> refusals = 3;
  const TcpServer server(identity, "h2", [&](TcpPeer& peer, int) {
    H2Peer h2;
    std::int32_t seen = 0;
    serve_h2(peer, h2, [&] {
      for (auto& [id, stream] : h2.streams) {
        if (id <= seen) continue;
        seen = id;
        if (refusals-- > 0) {
          h2.reset(id, NGHTTP2_REFUSED_STREAM);
        } else {
          h2.respond(id, "fine");
        }
      }
    });
  });
  const auto http = trusting();

  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("fine"));
  refusals = 4;
  EXPECT_THAT(http->send(get(server.url())).get(),
              IsError(ErrorCode::connection_failed, HasSubstr("refused the request's stream")));
}

TEST_F(AsioTransportTlsTest, CancellingResetsOneStreamAndLeavesTheOthers) {
  std::latch asked(1);
  std::atomic<bool> was_asked = false;
  std::atomic<std::uint32_t> reason = 0;
  TcpServer server(identity, "h2", [&](TcpPeer& peer, int) {
    H2Peer h2;
    serve_h2(peer, h2, [&] {
      if (h2.streams.size() == 2 && !was_asked.exchange(true)) asked.count_down();
      for (auto& [id, stream] : h2.streams) {
        if (stream.headers[":path"] != "/cancelled" || !stream.is_closed) continue;
        reason = stream.closed_with;
        h2.respond(id == 1 ? 3 : 1, "alive");
      }
    });
  });
  const auto http = trusting();
  auto one = http->send(get(server.url("/cancelled")));
  auto other = http->send(get(server.url("/other")));
  asked.wait();

  one.cancel();

  EXPECT_THAT(one.get(), IsError(ErrorCode::cancelled, _));
  EXPECT_THAT(other.get(), HasBody("alive"));
  EXPECT_EQ(reason, NGHTTP2_CANCEL);
  EXPECT_EQ(server.accepted(), 1);
}

TEST_F(AsioTransportTlsTest, FullConnectionsAreJoinedByOthers) {
  constexpr int kCount = 6;
  std::latch all(kCount);
  TcpServer server(identity, "h2", [&](TcpPeer& peer, int) {
    H2Peer h2({{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 2}});
    std::vector<std::int32_t> held;
    std::int32_t seen = 0;
    serve_h2(peer, h2, [&] {
      for (auto& [id, stream] : h2.streams) {
        if (id <= seen || !stream.is_complete) continue;
        seen = id;
        held.push_back(id);
        all.count_down();
      }
      if (held.size() < 2) return;
      peer.write(h2.output());  // the limit, and what it refuses
      all.wait();
      for (const std::int32_t id : std::exchange(held, {})) h2.respond(id, "together");
    });
  });
  const auto http = trusting();

  for (const auto& result : send_many(*http, server.url(), kCount)) {
    EXPECT_THAT(result, HasBody("together"));
  }

  EXPECT_GE(server.accepted(), 3);
}

TEST_F(AsioTransportTlsTest, AServerThatAllowsNoStreamsIsAnError) {
  const TcpServer server(identity, "h2", [](TcpPeer& peer, int) {
    H2Peer h2({{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0}});
    serve_h2(peer, h2, [] {});
  });
  const auto http = trusting();

  for (const auto& result : send_many(*http, server.url(), 3)) {
    EXPECT_THAT(result, IsError(ErrorCode::connection_failed, HasSubstr("stream")));
  }
}

TEST_F(AsioTransportTlsTest, SendsAgainWhenTheServerHadClosedTheConnection) {
  const TcpServer server(identity, "h2", [](TcpPeer& peer, int index) {
    H2Peer h2;
    std::int32_t answered = 0;
    while (true) {
      peer.write(h2.output());
      const std::string bytes = peer.read();
      if (bytes.empty()) return;
      h2.receive(bytes);
      if (index == 0 && h2.streams.size() == 2) return;  // gone without a word
      answer_complete(h2, answered, [&](const auto&) { return std::to_string(index); });
    }
  });
  const auto http = trusting();
  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("0"));

  // Unless something else came in between, which counts as a sign of life.
  EXPECT_THAT(http->send(get(server.url())).get(),
              AnyOf(HasBody("1"), IsError(ErrorCode::connection_failed, _)));
}

TEST_F(AsioTransportTlsTest, RefusesAnAnswerThatIsTooLongAndKeepsTheConnection) {
  TcpServer server(identity, "h2", [](TcpPeer& peer, int) {
    H2Peer h2;
    std::int32_t answered = 0;
    serve_h2(peer, h2, [&] {
      answer_complete(h2, answered, [](const auto& stream) {
        return stream.headers.at(":path") == "/long" ? std::string(100'000, 'x')
                                                     : std::string("short");
      });
    });
  });
  const auto http = trusting();
  auto request = get(server.url("/long"));
  request.max_response_bytes = 1000;

  EXPECT_THAT(http->send(std::move(request)).get(), IsError(ErrorCode::invalid_response, _));
  EXPECT_THAT(http->send(get(server.url("/"))).get(), HasBody("short"));
  EXPECT_EQ(server.accepted(), 1);
}

TEST_F(AsioTransportTlsTest, AnAnswerWithoutLengthNeedsTheGoodbyeOfTls) {
  std::atomic<bool> says_goodbye = false;
  const TcpServer server(identity, "http/1.1", [&](TcpPeer& peer, int) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\n\r\nall of it?");
    if (says_goodbye) peer.finish();
  });
  const auto http = trusting();

  EXPECT_THAT(http->send(get(server.url())).get(),
              IsError(ErrorCode::connection_failed, HasSubstr("before the answer was complete")));
  says_goodbye = true;
  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("all of it?"));
}

TEST_F(AsioTransportTlsTest, AFailedHandshakeFailsAllWhoWaitForIt) {
  const Identity stranger = make_identity({});
  const TcpServer server(stranger, "h2", [](TcpPeer&, int) {});
  const auto http = trusting();

  for (const auto& result : send_many(*http, server.url(), 3)) {
    EXPECT_THAT(result, IsError(ErrorCode::connection_failed, HasSubstr("self-signed")));
  }
}

TEST_F(AsioTransportTlsTest, AServerWithoutTlsIsAReadableError) {
  const TcpServer server([](TcpPeer& peer, int) {
    peer.read();
    peer.write("HTTP/1.1 400 Bad Request\r\n\r\n");
  });

  EXPECT_THAT(trusting()->send(get("https://127.0.0.1:" + std::to_string(server.port()))).get(),
              IsError(ErrorCode::connection_failed,
                      HasSubstr("TLS: handshake with host 127.0.0.1 failed")));
}

TEST_F(AsioTransportTlsTest, AuthoritiesThatCannotBeReadFailEveryTlsRequest) {
  const TcpServer server(identity, "h2", [](TcpPeer&, int) {});

  EXPECT_THAT(transport({.ca_file = "/no/such.pem"})->send(get(server.url())).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("/no/such.pem")));
}

/// Carries bytes between a client and the server at `port`, after `greeting`.
void serve_relay(TcpPeer& client, std::uint16_t port, std::string_view greeting) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  client.write(greeting);
  TcpPeer server(fd, nullptr);
  TcpPeer::relay(client, server);
  ::close(fd);
}

/// Carries bytes between a client that asked for a tunnel and its server.
void serve_tunnel(TcpPeer& client, std::string& request) {
  request = client.read_request();
  const auto port = std::stoul(request.substr(request.find(':') + 1));
  serve_relay(
      client, static_cast<std::uint16_t>(port), "HTTP/1.1 200 Connection established\r\n\r\n");
}

TEST_F(AsioTransportTlsTest, AShortConnectTimeOutEndsOnlyItsOwnRequest) {
  TcpServer server(identity, "h2", [](TcpPeer& peer, int) {
    H2Peer h2;
    std::int32_t answered = 0;
    serve_h2(peer, h2, [&] {
      answer_complete(h2, answered, [](const auto&) { return std::string("fine"); });
    });
  });
  const TcpServer slow_at_first([&](TcpPeer& peer, int index) {
    if (index == 0) return peer.wait_for_end();
    serve_relay(peer, server.port(), "");
  });
  const auto url = "https://127.0.0.1:" + std::to_string(slow_at_first.port()) + "/";
  const auto http = trusting();
  Request hasty = get(url);
  hasty.timeouts.connect = std::chrono::milliseconds(200);

  auto first = http->send(std::move(hasty));
  auto second = http->send(get(url));

  EXPECT_THAT(first.get(), IsError(ErrorCode::timed_out, HasSubstr("within 200 ms")));
  EXPECT_THAT(second.get(), HasBody("fine"));
}

TEST_F(AsioTransportTlsTest, ReachesServersThroughATunnel) {
  const TcpServer server(identity, "h2", [](TcpPeer& peer, int) {
    H2Peer h2;
    std::int32_t answered = 0;
    serve_h2(peer, h2, [&] {
      answer_complete(h2, answered, [](const auto&) { return std::string("through"); });
    });
  });
  std::string asked;
  TcpServer proxy([&](TcpPeer& peer, int) { serve_tunnel(peer, asked); });
  auto http = transport({.ca_file = ca_file,
                         .proxy = Secret("http://u:p@127.0.0.1:" + std::to_string(proxy.port()))});

  EXPECT_THAT(http->send(get(server.url())).get(), HasBody("through"));

  http.reset();
  proxy.wait_until_ended(1);
  EXPECT_THAT(asked,
              HasSubstr("CONNECT 127.0.0.1:" + std::to_string(server.port()) + " HTTP/1.1\r\n"));
  EXPECT_THAT(asked, HasSubstr("\r\nProxy-Authorization: Basic dTpw\r\n"));
}

TEST_F(AsioTransportTlsTest, ReachesServersThroughATunnelInTls) {
  const TcpServer server(identity, "h2", [](TcpPeer& peer, int) {
    H2Peer h2;
    std::int32_t answered = 0;
    serve_h2(peer, h2, [&] {
      answer_complete(h2, answered, [](const auto& stream) { return stream.body; });
    });
  });
  std::string asked;
  const TcpServer proxy(
      identity, "http/1.1", [&](TcpPeer& peer, int) { serve_tunnel(peer, asked); });
  auto http = transport({.ca_file = ca_file, .proxy = Secret(proxy.url())});
  const std::string body(1'000'000, 'b');

  EXPECT_THAT(http->send(post(server.url(), body)).get(), HasBody(body));
}

TEST_F(AsioTransportTlsTest, SpeaksToAProxyInTls) {
  const TcpServer proxy(
      identity, "http/1.1", [](TcpPeer& peer, int) { peer.respond(peer.read_request()); });
  const auto http = transport({.ca_file = ca_file, .proxy = Secret(proxy.url())});

  EXPECT_THAT(
      http->send(get("http://example.test/path")).get(),
      IsOkAndHolds(Field(&Response::body, HasSubstr("GET http://example.test/path HTTP/1.1"))));
}

TEST_F(AsioTransportTlsTest, AProxyHasToBeTrustedToo) {
  const Identity stranger = make_identity({});
  const TcpServer proxy(stranger, "http/1.1", [](TcpPeer&, int) {});
  const auto http = transport({.ca_file = ca_file, .proxy = Secret(proxy.url())});

  EXPECT_THAT(http->send(get("http://example.test/path")).get(),
              IsError(ErrorCode::connection_failed, HasSubstr("self-signed")));
}

}  // namespace
}  // namespace tinker::http::asio_transport_tls_test
