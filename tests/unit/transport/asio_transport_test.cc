#include "transport/asio_transport.h"

#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "support/http_matchers.h"
#include "support/loop_fixture.h"
#include "support/tcp_server.h"
#include "tinker/testing/matchers.h"

namespace tinker::http::asio_transport_test {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::tinker::testing::count_requests;
using ::tinker::testing::HasBody;
using ::tinker::testing::HasStatus;
using ::tinker::testing::IsError;
using ::tinker::testing::TcpPeer;
using ::tinker::testing::TcpServer;
using namespace std::chrono_literals;

class AsioTransportTest : public ::tinker::testing::LoopFixture {};

TEST_F(AsioTransportTest, SendsARequestAndBringsTheAnswer) {
  const TcpServer server(
      [](TcpPeer& peer, int) { peer.respond(peer.read_request(), "X-Y: z\r\n"); });
  const auto http = transport();
  auto request = post(server.url("/path?q=1"), "hello");
  request.headers.add("X-API-Key", "k");

  const auto response = http->send(std::move(request)).get();

  ASSERT_THAT(response, HasStatus(200));
  EXPECT_THAT(response->body,
              AllOf(StartsWith("POST /path?q=1 HTTP/1.1\r\nHost: 127.0.0.1:"),
                    HasSubstr("\r\nX-API-Key: k\r\n"),
                    ::testing::EndsWith("\r\n\r\nhello")));
  EXPECT_EQ(response->headers.find("x-y"), "z");
}

TEST_F(AsioTransportTest, AnswersComeInManyForms) {
  const auto answer_of = [&](const std::string& bytes) {
    const TcpServer server([&](TcpPeer& peer, int) {
      peer.read_request();
      peer.write(bytes);
      peer.finish();
      peer.wait_for_end();
    });
    return transport()->send(get(server.url())).get();
  };

  EXPECT_THAT(answer_of("HTTP/1.1 200 OK\r\n\r\nuntil the end"), HasBody("until the end"));
  EXPECT_THAT(answer_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
              HasBody("abcde"));
  EXPECT_THAT(
      answer_of("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
      HasBody("x"));
  EXPECT_THAT(answer_of("HTTP/1.1 204 No Content\r\n\r\n"), HasStatus(204));
  EXPECT_THAT(answer_of("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), HasStatus(503));
  EXPECT_THAT(answer_of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"),
              IsError(ErrorCode::connection_failed, HasSubstr("middle of its answer")));
  EXPECT_THAT(answer_of(""),
              IsError(ErrorCode::connection_failed, HasSubstr("before it answered")));
  EXPECT_THAT(answer_of("220 mail.example.com ESMTP\r\n"),
              IsError(ErrorCode::connection_failed, HasSubstr("not HTTP/1.1")));
}

TEST_F(AsioTransportTest, AResetInTheMiddleIsAFailure) {
  const TcpServer server([](TcpPeer& peer, int) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    peer.reset();
  });

  EXPECT_THAT(transport()->send(get(server.url())).get(), IsError(ErrorCode::connection_failed, _));
}

TEST_F(AsioTransportTest, AnEarlyAnswerToALongRequestCounts) {
  const TcpServer server([](TcpPeer& peer, int) {
    peer.read();
    peer.write("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    peer.wait_for_end();
  });

  EXPECT_THAT(transport()->send(post(server.url(), std::string(50'000'000, 'x'))).get(),
              HasStatus(413));
}

TEST_F(AsioTransportTest, AnEarlyAnswerCountsAlsoIfTheServerClosesAtOnce) {
  const TcpServer server([](TcpPeer& peer, int) {
    peer.read();
    peer.write("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
  });

  EXPECT_THAT(transport()->send(post(server.url(), std::string(50'000'000, 'x'))).get(),
              HasStatus(413));
}

TEST_F(AsioTransportTest, CarriesLargeBodiesBothWays) {
  const TcpServer server([](TcpPeer& peer, int) {
    const std::string request = peer.read_request();
    peer.respond(request.substr(request.find("\r\n\r\n") + 4));
  });
  std::string body(20'000'000, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7919 >> 8U);

  const auto response = transport()->send(post(server.url(), body)).get();

  ASSERT_THAT(response, HasStatus(200));
  EXPECT_TRUE(response->body == body);
}

TEST_F(AsioTransportTest, RefusesAnAnswerThatIsTooLong) {
  const TcpServer server([](TcpPeer& peer, int) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\n\r\n");
    while (!peer.is_over()) peer.write(std::string(1000, 'x'));
  });
  auto request = get(server.url());
  request.max_response_bytes = 10'000;

  EXPECT_THAT(transport()->send(std::move(request)).get(),
              IsError(ErrorCode::invalid_response, HasSubstr("10000")));
}

std::string gzip(std::string_view text) {
  z_stream stream = {};
  deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST_F(AsioTransportTest, DecompressesSmallAndLargeAnswers) {
  std::string noise(300'000, '\0');
  std::uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1'664'525 + 1'013'904'223) >> 24U);
  for (const std::string& text : {std::string("small"), noise}) {
    const TcpServer server([&](TcpPeer& peer, int) {
      peer.read_request();
      peer.respond(gzip(text), "Content-Encoding: gzip\r\n");
    });

    const auto response = transport()->send(get(server.url())).get();

    ASSERT_THAT(response, HasStatus(200));
    EXPECT_TRUE(response->body == text);
    EXPECT_EQ(response->headers.find("content-encoding"), "gzip");
  }
}

TEST_F(AsioTransportTest, RefusesBrokenCompressionAndBombs) {
  const auto outcome = [&](const std::string& body) {
    const TcpServer server([&](TcpPeer& peer, int) {
      peer.read_request();
      peer.respond(body, "Content-Encoding: gzip\r\n");
    });
    auto request = get(server.url());
    request.max_response_bytes = 1'000'000;
    return transport()->send(std::move(request)).get();
  };

  EXPECT_THAT(outcome("not compressed"), IsError(ErrorCode::invalid_response, _));
  EXPECT_THAT(outcome(gzip(std::string(2'000'000, 'x'))), IsError(ErrorCode::invalid_response, _));
}

TEST_F(AsioTransportTest, RefusesWhatCannotBeSent) {
  const auto http = transport();
  auto injected = get("http://127.0.0.1/");
  injected.headers.add("X", "a\r\nY: b");
  auto misnamed = get("http://127.0.0.1/");
  misnamed.headers.add("X Y", "a");

  EXPECT_THAT(http->send(std::move(injected)).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("header X")));
  EXPECT_THAT(http->send(std::move(misnamed)).get(),
              IsError(ErrorCode::invalid_argument, HasSubstr("X Y")));
  EXPECT_THAT(http->send(get("ftp://host/")).get(), IsError(ErrorCode::invalid_argument, _));
}

TEST_F(AsioTransportTest, OptionsThatCannotBeUsedFailEveryRequest) {
  const auto http = transport({.proxy = Secret("ftp://user:hidden@proxy")});

  EXPECT_THAT(http->send(get("http://127.0.0.1/")).get(),
              IsError(ErrorCode::invalid_argument, Not(HasSubstr("hidden"))));
}

TEST_F(AsioTransportTest, CanBeUsedFromManyThreads) {
  TcpServer server(count_requests);
  const auto http = transport();
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;

  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        if (http->send(get(server.url())).get().ok()) ++good;
      }
    });
  }
  for (auto& thread : threads) thread.join();

  EXPECT_EQ(good, 200);
}

TEST_F(AsioTransportTest, SpeaksToAProxyInFullUrls) {
  const TcpServer proxy([](TcpPeer& peer, int) { peer.respond(peer.read_request()); });
  const auto http =
      transport({.proxy = Secret("http://user:pass@127.0.0.1:" + std::to_string(proxy.port()))});

  const auto response = http->send(get("http://example.test/path")).get();

  ASSERT_THAT(response, HasStatus(200));
  EXPECT_THAT(response->body,
              AllOf(StartsWith("GET http://example.test/path HTTP/1.1\r\nHost: example.test\r\n"),
                    HasSubstr("\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n")));
}

TEST_F(AsioTransportTest, AProxyThatRefusesATunnelIsAConnectionError) {
  const TcpServer proxy([](TcpPeer& peer, int) {
    peer.read_request();
    peer.write("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
  });
  const auto http =
      transport({.proxy = Secret("http://user:pass@127.0.0.1:" + std::to_string(proxy.port()))});

  EXPECT_THAT(
      http->send(get("https://example.test/")).get(),
      IsError(ErrorCode::connection_failed, AllOf(HasSubstr("407"), Not(HasSubstr("pass@")))));
}

TEST_F(AsioTransportTest, SaysThatItWasAProxyThatCouldNotBeReached) {
  std::uint16_t port = 0;
  {
    const TcpServer gone([](TcpPeer&, int) {});
    port = gone.port();
  }
  const auto http =
      transport({.proxy = Secret("http://user:pass@127.0.0.1:" + std::to_string(port))});

  EXPECT_THAT(http->send(get("http://127.0.0.1:9/")).get(),
              IsError(ErrorCode::connection_failed,
                      AllOf(HasSubstr("through the proxy 127.0.0.1:" + std::to_string(port) +
                                      " (TransportOptions::proxy): "),
                            HasSubstr("refused"))));
}

}  // namespace
}  // namespace tinker::http::asio_transport_test
