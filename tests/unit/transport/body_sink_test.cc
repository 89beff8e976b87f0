#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/collecting_sink.h"
#include "support/http_matchers.h"
#include "support/loop_fixture.h"
#include "support/tcp_server.h"
#include "tinker/testing/fake_transport.h"
#include "tinker/testing/matchers.h"
#include "tinker/testing/virtual_runtime.h"

namespace tinker::http::body_sink_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::tinker::testing::CollectingSink;
using ::tinker::testing::HasBody;
using ::tinker::testing::HasStatus;
using ::tinker::testing::IsError;
using ::tinker::testing::TcpPeer;
using ::tinker::testing::TcpServer;

std::string answer(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

class BodySinkTest : public ::tinker::testing::LoopFixture {
 protected:
  static Request into(const std::shared_ptr<CollectingSink>& sink, std::string url) {
    auto request = get(std::move(url));
    request.max_response_bytes = 10;  // of what is kept in memory
    request.sink = sink;
    return request;
  }
};

TEST_F(BodySinkTest, TakesBodiesOfAnyLength) {
  const std::string body(1'000'000, 'x');
  const TcpServer server([&](TcpPeer& peer, int) {
    peer.read_request();
    peer.write(answer(body));
    peer.read_request();
    peer.write("HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    peer.wait_for_end();
  });
  const auto http = transport();
  const auto first = std::make_shared<CollectingSink>();
  const auto second = std::make_shared<CollectingSink>();

  const auto whole = http->send(into(first, server.url())).get();
  const auto chunked = http->send(into(second, server.url())).get();

  ASSERT_THAT(whole, HasStatus(200));
  EXPECT_THAT(whole->body, IsEmpty());
  EXPECT_TRUE(first->body == body);
  ASSERT_THAT(chunked, HasStatus(404));
  EXPECT_EQ(second->status, 404);
  EXPECT_EQ(second->body, "abc");
}

TEST_F(BodySinkTest, ItsErrorEndsTheRequest) {
  const TcpServer server([&](TcpPeer& peer, int) {
    peer.read_request();
    peer.write(answer("abc"));
    peer.wait_for_end();
  });
  const auto sink = std::make_shared<CollectingSink>();
  sink->refusal = Error{.code = ErrorCode::invalid_response, .message = "not this one"};

  EXPECT_THAT(transport()->send(into(sink, server.url())).get(),
              IsError(ErrorCode::invalid_response, HasSubstr("not this one")));
  EXPECT_THAT(sink->body, IsEmpty());
}

TEST_F(BodySinkTest, AnAnswerThatIsCutShortIsAnError) {
  const TcpServer server([&](TcpPeer& peer, int) {
    peer.read_request();
    peer.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc");
    peer.finish();
    peer.wait_for_end();
  });
  const auto sink = std::make_shared<CollectingSink>();

  EXPECT_THAT(transport()->send(into(sink, server.url())).get(),
              IsError(ErrorCode::connection_failed, HasSubstr("after 3 bytes")));
}

TEST_F(BodySinkTest, OneThatIsFullHoldsUpItsConnectionAndNoOther) {
  const std::string body(64 << 20, 'x');
  const TcpServer server([&](TcpPeer& peer, int) {
    peer.read_request();
    peer.write(answer(body));
    peer.wait_for_end();
  });
  const TcpServer other([](TcpPeer& peer, int) {
    while (!peer.read_request().empty()) peer.write(answer("hello"));
  });
  const auto http = transport();
  const auto sink = std::make_shared<CollectingSink>(1 << 20);

  auto waiting = http->send(into(sink, server.url()));
  for (int i = 0; i < 200; ++i) EXPECT_THAT(http->send(get(other.url())).get(), HasBody("hello"));
  EXPECT_LT(sink->received, 4U << 20U);
  EXPECT_FALSE(waiting.is_ready());

  sink->make_room();
  EXPECT_THAT(waiting.get(), HasStatus(200));
  EXPECT_TRUE(sink->body == body);
}

TEST(FakeTransport, HandsBodiesToASink) {
  tinker::testing::VirtualRuntime time;
  tinker::testing::FakeTransport server(time.runtime());
  server.reply("/a",
               {{.body = "abc"},
                {.body = "ab",
                 .error = Error{.code = ErrorCode::connection_failed, .message = "it broke"}}});
  const auto whole = std::make_shared<CollectingSink>();
  const auto part = std::make_shared<CollectingSink>();

  const auto response =
      server.send({.method = Method::get, .url = "http://s/a", .sink = whole}).get();
  ASSERT_THAT(response, HasStatus(200));
  EXPECT_THAT(response->body, IsEmpty());
  EXPECT_EQ(whole->body, "abc");
  EXPECT_THAT(server.send({.method = Method::get, .url = "http://s/a", .sink = part}).get(),
              IsError(ErrorCode::connection_failed, HasSubstr("it broke")));
  EXPECT_EQ(part->body, "ab");
}

}  // namespace
}  // namespace tinker::http::body_sink_test
