#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/server_harness.h"

namespace tinker::http::server_times_test {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using testing::ServerHarness;
using ::testing::StartsWith;

constexpr ServerTimes kTimes = {.head = 10s, .body = 20s, .idle = 60s, .write = 30s, .linger = 2s};
constexpr ServerLimits kLimits = {.min_body_bytes = 100, .min_write_bytes = 10, .times = kTimes};

async::Task<> echo(ServerRequest request, ResponseWriter writer) {
  auto reading = read_body(request, 1 << 30);
  TINKER_CO_TRY(std::string body, co_await std::move(reading));
  writer.send({.body = std::move(body)});
  co_return Result<void>();
}
async::Task<> answer_late(ServerRequest, ResponseWriter writer) {
  auto pause = async::sleep_for(1h);
  TINKER_CO_TRY(co_await pause);
  writer.send({.body = "late"});
  co_return Result<void>();
}

class ServerTimesTest : public ::testing::Test {
 protected:
  void pass(std::chrono::nanoseconds time) { server.loop->advance(time); }

  ServerHarness server{echo, kLimits};
  std::shared_ptr<testing::MemoryWire> wire = server.connect();
};

TEST_F(ServerTimesTest, AConnectionThatAsksNothingIsClosed) {
  pass(9s);
  EXPECT_FALSE(wire->is_closed);
  pass(2s);
  EXPECT_TRUE(wire->is_closed);
  EXPECT_EQ(ServerHarness::receive(*wire), "");
}

TEST_F(ServerTimesTest, AClientHasTimeToHearTheLastAnswer) {
  server.send(*wire, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(wire->is_write_shut);
  pass(1s);
  EXPECT_FALSE(wire->is_closed);
  pass(1s);
  EXPECT_TRUE(wire->is_closed);
}

TEST_F(ServerTimesTest, ASlowHeadIsRefusedHoweverItTrickles) {
  for (const char c : std::string("GET / HTTP")) {
    server.send(*wire, std::string(1, c));
    pass(900ms);
  }
  EXPECT_FALSE(wire->is_write_shut);
  pass(2s);
  EXPECT_THAT(ServerHarness::receive(*wire), StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  EXPECT_TRUE(wire->is_write_shut);
}

TEST_F(ServerTimesTest, AKeptConnectionMayBeIdleLonger) {
  EXPECT_NE(server.ask(*wire, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"), "");
  pass(59s);
  EXPECT_NE(server.ask(*wire, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"), "");
  pass(59s);
  EXPECT_FALSE(wire->is_write_shut);
  pass(2s);
  EXPECT_TRUE(wire->is_write_shut);
}

TEST_F(ServerTimesTest, ALaterHeadHasItsOwnTime) {
  EXPECT_NE(server.ask(*wire, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"), "");
  pass(55s);
  server.send(*wire, "GET /");
  pass(9s);
  EXPECT_NE(server.ask(*wire, " HTTP/1.1\r\nHost: h\r\n\r\n"), "");
  server.send(*wire, "GET /");
  pass(11s);
  EXPECT_THAT(ServerHarness::receive(*wire), StartsWith("HTTP/1.1 408 "));
}

TEST_F(ServerTimesTest, ASlowBodyIsRefusedAndItsHandlerEnds) {
  server.send(*wire, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 3; ++i) {  // fast enough
    server.send(*wire, std::string(150, 'x'));
    pass(20s);
  }
  EXPECT_EQ(server.core->running, 1U);
  EXPECT_EQ(ServerHarness::receive(*wire), "");
  server.send(*wire, "x");
  pass(21s);
  EXPECT_THAT(ServerHarness::receive(*wire), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(server.core->running, 0U);
}

TEST_F(ServerTimesTest, AClientThatReadsNothingIsClosed) {
  wire->room = 10;
  server.send(*wire, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  pass(29s);
  wire->room = 10;
  wire->wake();
  server.loop->run_ready();
  pass(29s);
  EXPECT_FALSE(wire->is_closed);
  pass(2s);
  EXPECT_TRUE(wire->is_closed);
}

TEST_F(ServerTimesTest, AClientThatReadsByTheByteIsClosed) {
  wire->room = 1;
  server.send(*wire, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  for (int i = 0; i < 4; ++i) {
    pass(10s);
    wire->room = 1;
    wire->wake();
    server.loop->run_ready();
  }
  EXPECT_TRUE(wire->is_closed);
}

TEST_F(ServerTimesTest, AConnectionIsIdleFromTheLastByteItGot) {
  wire->room = 10;
  server.send(*wire, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  for (int i = 0; i < 7; ++i) {
    pass(20s);
    wire->room = 10;
    wire->wake();
    server.loop->run_ready();
  }
  EXPECT_THAT(ServerHarness::receive(*wire), EndsWith("\r\n\r\n"));
  wire->room = std::string::npos;
  pass(59s);
  EXPECT_THAT(server.ask(*wire, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTimesTest, TheTimeToHearTheLastAnswerBeginsWhenItIsSent) {
  wire->room = 10;
  server.send(*wire, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  pass(5s);
  wire->room = std::string::npos;
  wire->wake();
  server.loop->run_ready();
  EXPECT_TRUE(wire->is_write_shut);
  EXPECT_FALSE(wire->is_closed);
  pass(2s);
  EXPECT_TRUE(wire->is_closed);
}

TEST(ServerTimes, IdleTimeMayBeShorterThanThatToTakeAnAnswer) {
  ServerLimits limits = kLimits;
  limits.times.idle = 5s;
  ServerHarness server(echo, limits);
  const auto wire = server.connect();
  wire->room = 10;
  server.send(*wire, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  wire->room = std::string::npos;
  wire->wake();
  server.loop->run_ready();
  EXPECT_FALSE(wire->is_write_shut);
  server.loop->advance(5s);
  EXPECT_TRUE(wire->is_write_shut);
}

async::Task<> read_late(ServerRequest request, ResponseWriter writer) {
  auto pause = async::sleep_for(35s);
  TINKER_CO_TRY(co_await pause);
  auto echoed = echo(std::move(request), std::move(writer));
  co_return co_await std::move(echoed);
}
TEST(ServerTimes, ABodyHasItsTimeFromWhenTheHandlerMadeRoom) {
  ServerHarness server(read_late, kLimits);
  const auto wire = server.connect();
  server.send(*wire, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 262147\r\n\r\n");
  server.send(*wire, std::string(262'144, 'x'));
  server.loop->advance(50s);
  EXPECT_EQ(ServerHarness::receive(*wire), "");
  EXPECT_THAT(server.ask(*wire, "end"), EndsWith("xend"));
}

TEST(ServerTimes, AHandlerMayTakeAsLongAsItWants) {
  ServerHarness server(answer_late, kLimits);
  const auto wire = server.connect();
  server.send(*wire, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  server.loop->advance(2h);
  EXPECT_THAT(ServerHarness::receive(*wire), EndsWith("late"));
}

}  // namespace
}  // namespace tinker::http::server_times_test
