#include <optional>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/server_harness.h"

namespace tinker::http::h1_server_limits_test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ServerHarness;
using ::testing::StartsWith;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

async::Task<> begin_then_read(ServerRequest request, ResponseWriter writer) {
  writer.begin({});
  auto next = request.read();
  TINKER_CO_TRY(const std::string piece, co_await next);
  auto written = writer.write(piece);
  TINKER_CO_TRY(co_await written);
  co_return Result<void>();
}
TEST(H1ServerLimits, SaysNoContinueAfterTheAnswerHasBegun) {
  ServerHarness server(begin_then_read);
  const auto wire = server.connect();
  const std::string head = server.ask(
      *wire, "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200 "), Not(HasSubstr("100 Continue"))));
  EXPECT_THAT(server.ask(*wire, "hi"), StartsWith("2\r\nhi\r\n"));
}

TEST(H1ServerLimits, ReadingAfterTheAnswerEndsWithIt) {
  std::optional<Result<std::string>> got;
  ServerHarness server([&got](ServerRequest request, ResponseWriter writer) -> async::Task<> {
    writer.send({.status = 403});
    auto next = request.read();
    got = co_await next;
    co_return Result<void>();
  });
  const auto wire = server.connect();
  EXPECT_THAT(server.ask(*wire, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_EQ(server.core->running, 0U);
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->ok()) << "nobody may take it for the whole body";
}

async::Task<> flood(ServerRequest, ResponseWriter writer) {
  writer.begin({});
  const std::string piece(10'000, 'x');
  while (true) {
    auto written = writer.write(piece);
    TINKER_CO_TRY(co_await written);
  }
}
TEST(H1ServerLimits, ABrokenBodyEndsAHandlerThatWaitsToWrite) {
  ServerHarness server(flood);
  const auto wire = server.connect();
  wire->room = 0;
  server.send(*wire, "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(server.core->running, 1U);
  server.send(*wire, "zz\r\n");
  EXPECT_EQ(server.core->running, 0U);
}

TEST(H1ServerLimits, AHandlerThatThrowsGivesAnError) {
  ServerHarness server(
      [](ServerRequest, ResponseWriter) -> async::Task<> { throw std::runtime_error("a secret"); });
  const auto wire = server.connect();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(server.ask(*wire, kGet),
                AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("secret"))));
  }
  EXPECT_EQ(server.core->running, 0U);
}

/// Runs `answer` for each request.
Handler answering(std::function<void(const ResponseWriter&)> answer) {
  return [answer = std::move(answer)](ServerRequest, ResponseWriter writer) -> async::Task<> {
    answer(writer);
    return [](ResponseWriter) -> async::Task<> { co_return Result<void>(); }(writer);
  };
}

TEST(H1ServerLimits, NotModifiedHasNeitherLengthNorBody) {
  ServerHarness server(
      answering([](const auto& writer) { writer.send({.status = 304, .body = "not sent"}); }));
  const auto wire = server.connect();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(server.ask(*wire, kGet),
                AllOf(StartsWith("HTTP/1.1 304 "),
                      EndsWith("GMT\r\n\r\n"),
                      Not(HasSubstr("Content-Length"))));
  }
}

TEST(H1ServerLimits, AStreamedAnswerToHeadHasItsLengthAlone) {
  ServerHarness server(answering([](const auto& writer) { writer.begin({}, 11); }));
  const auto wire = server.connect();
  for (int i = 0; i < 2; ++i) {  // the connection goes on
    EXPECT_THAT(server.ask(*wire, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"),
                AllOf(HasSubstr("Content-Length: 11\r\n"), EndsWith("\r\n\r\n")));
  }
}

TEST(H1ServerLimits, AnAnswerThatBeginsLongerThanItsLengthIsAnError) {
  ServerHarness server(answering([](const auto& writer) { writer.begin({.body = "hello"}, 3); }));
  const auto wire = server.connect();
  EXPECT_THAT(server.ask(*wire, kGet), AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("hello"))));
}

TEST(H1ServerLimits, ResetsAnAnswerWhoseEndIsThatOfTheConnection) {
  ServerHarness server(answering([](const auto& writer) {
    writer.begin({.body = "some"});
    writer.abort({});
  }));
  const auto old = server.connect();
  server.send(*old, "GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(old->is_reset);
  const auto chunked = server.connect();
  server.send(*chunked, kGet);
  EXPECT_FALSE(chunked->is_reset);
}

TEST(H1ServerLimits, ToleratesEmptyLinesBeforeARequestHoweverTheyAreCut) {
  ServerHarness server(answering([](const auto& writer) { writer.send({}); }));
  const auto wire = server.connect();
  const std::string request = "\r\n\r\n\r\n" + std::string(kGet);
  EXPECT_THAT(server.ask(*wire, request), StartsWith("HTTP/1.1 200 "));
  for (const char c : request) server.send(*wire, std::string(1, c));
  EXPECT_THAT(ServerHarness::receive(*wire), StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace tinker::http::h1_server_limits_test
