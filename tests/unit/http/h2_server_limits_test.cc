#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/h2_server_fixture.h"

namespace tinker::http::h2_server_limits_test {
namespace {

using namespace std::chrono_literals;
using namespace testing::h2;
using ::testing::ElementsAre;
using testing::H2ClientPeer;
using testing::ServerHarness;

std::string big_endian(std::uint32_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) {
    out += static_cast<char>((value >> (8U * static_cast<unsigned>(i))) & 0xFFU);
  }
  return out;
}
std::string frame(char type, char flags, std::int32_t id, const std::string& payload) {
  return big_endian(static_cast<std::uint32_t>(payload.size()), 3) + type + flags +
         big_endian(static_cast<std::uint32_t>(id), 4) + payload;
}
/// "GET http://h/" as a whole.
std::string raw_get(std::int32_t id) {
  return frame(NGHTTP2_HEADERS, 5, id, "\x82\x86\x84\x41\x01h");
}
std::string window_update(std::int32_t id, std::uint32_t bytes) {
  return frame(NGHTTP2_WINDOW_UPDATE, 0, id, big_endian(bytes, 4));
}

class H2ServerLimits : public H2ServerFixture {
 protected:
  /// Counts the handlers that are started.
  Handler counting() {
    return [this](ServerRequest request, ResponseWriter writer) {
      ++started;
      return echo(std::move(request), std::move(writer));
    };
  }
  /// Makes something wait to be sent, so that nghttp2 is not asked for more.
  void block() {
    run();
    wire->room = 0;
    client.ping();
    server->send(*wire, client.output());
  }
  void unblock() {
    wire->room = std::string::npos;
    wire->wake();
    server->loop->run_ready();
  }

  int started = 0;
};

TEST_F(H2ServerLimits, RefusesStreamsBeyondTheLimit) {
  serve(gated);
  server->send(*wire, client.output());
  for (std::int32_t i = 0; i < 60; ++i) server->send(*wire, raw_get(2 * i + 1));
  EXPECT_EQ(server->core->running, 50U);
}

TEST_F(H2ServerLimits, AHeadBeyondWhatSettingsCanSayIsAnnouncedAsTheLargestThatTheyCan) {
  ServerLimits limits = kLimits;
  limits.request.head.max_bytes = std::size_t{4} << 30U;
  serve(gated, limits);
  run();
  EXPECT_EQ(client.remote_setting(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE),
            std::numeric_limits<std::uint32_t>::max());
}

TEST_F(H2ServerLimits, AClientThatTakesNoFramesCannotHaveMoreOfThemMade) {
  serve(gated);
  server->send(*wire, client.output());
  wire->room = 0;
  std::int32_t asked = 0;
  do {
    server->send(*wire, raw_get(2 * asked + 1));
    if (asked % 40 == 0) server->loop->advance(500ms);  // slow enough not to be a flood
  } while (server->core->running > 0 && ++asked < 2000);
  EXPECT_LT(asked, 1400);
}

TEST_F(H2ServerLimits, StreamsThatTheClientHasResetCostAsMuchAsItsResets) {
  serve(counting());
  server->send(*wire, client.output());
  std::int32_t asked = 0;
  while (!wire->is_write_shut && asked < 5000) {
    const std::int32_t id = 2 * asked + 1;
    server->send(*wire, raw_get(id) + window_update(id, 0x7FFF'FFFF));
    ++asked;
  }
  EXPECT_LT(asked, 1100);
  EXPECT_EQ(started, 0);
}

TEST_F(H2ServerLimits, RefusesNewStreamsWhileItDrains) {
  serve(gated);
  const auto first = client.ask(H2ClientPeer::get("/1"));
  block();
  const auto open = server->core->connections;
  for (const auto& connection : open) connection->drain();
  server->loop->run_ready();
  const auto second = client.ask(H2ClientPeer::get("/2"));
  server->send(*wire, client.output());
  EXPECT_EQ(server->core->running, 1U);

  unblock();
  run();
  EXPECT_EQ(stream(second).closed_with, static_cast<std::uint32_t>(NGHTTP2_REFUSED_STREAM));
  let_pass(1);
  EXPECT_EQ(stream(first).body, "/1");
  EXPECT_TRUE(wire->is_write_shut);
}

TEST_F(H2ServerLimits, ABodyThatIsRefusedAtOnceStartsNoHandler) {
  serve(counting(), {.max_body_bytes = 10});
  const auto id = client.ask(H2ClientPeer::post("/"), "hello world");
  run();
  EXPECT_EQ(stream(id).headers[":status"], "413");
  EXPECT_EQ(started, 0);
}

TEST_F(H2ServerLimits, ASlowBodyCancelsAHandlerThatDoesNotReadIt) {
  serve(gated);
  const auto id = client.ask(H2ClientPeer::post("/"), "", true);
  run();
  server->loop->advance(21s);
  run();
  EXPECT_EQ(stream(id).headers[":status"], "408");
  EXPECT_EQ(gate->cancelled, 1);
}

TEST_F(H2ServerLimits, ABodyMayWaitForTheWindowOfTheConnection) {
  ServerLimits limits = kLimits;
  limits.max_streams = 200;
  serve(read_gated, limits);
  for (int i = 0; i < 150; ++i) client.ask(H2ClientPeer::post("/"), std::string(200'000, 'x'));
  run();
  const auto id = client.ask(H2ClientPeer::post("/"), "hello");
  run();
  ASSERT_EQ(stream(id).sent, 0U) << "others have filled the window";
  server->loop->advance(100s);
  run();
  EXPECT_EQ(server->core->running, 151U);
}

TEST_F(H2ServerLimits, ABodyHasItsTimeFromWhenTheHandlerMadeRoom) {
  serve(read_gated);
  const auto id = client.ask(H2ClientPeer::post("/"), std::string(250'000, 'x'), true);
  run();
  server->loop->advance(35s);
  let_pass(2);
  EXPECT_EQ(gate->taken, 250'000U);
  server->loop->advance(15s);
  run();
  EXPECT_EQ(server->core->running, 1U);
  client.send_more(id, "end", false);
  let_pass(3);
  EXPECT_EQ(stream(id).headers[":status"], "200");
}

TEST_F(H2ServerLimits, AClientThatTakesAnAnswerByTheByteLosesIt) {
  serve(flood);
  server->send(*wire, client.output() + raw_get(1));
  for (int i = 0; i < 8; ++i) {
    server->send(*wire, window_update(0, 10) + window_update(1, 10));
    server->loop->advance(10s);
  }
  EXPECT_EQ(server->core->running, 0U);
}

TEST_F(H2ServerLimits, AnswersMayWaitForASlowSocketThatMoves) {
  serve(flood);
  server->send(*wire, client.output() + window_update(0, 1U << 30U));
  wire->room = 0;
  for (std::int32_t id = 1; id < 20; id += 2) {
    server->send(*wire, raw_get(id) + window_update(id, 1U << 30U));
  }
  for (int i = 0; i < 20; ++i) {
    server->loop->advance(10s);
    wire->room = 2000;
    wire->wake();
    server->loop->run_ready();
  }
  unblock();
  EXPECT_EQ(gate->written, 10 * 500) << "no answer was given up";
}

TEST_F(H2ServerLimits, SmallPiecesThatAreTakenAtOnceMayBeSeldom) {
  serve([](ServerRequest, ResponseWriter writer) -> async::Task<> {
    writer.begin({});
    for (int i = 0; i < 20; ++i) {
      auto pause = async::sleep_for(15s);
      TINKER_CO_TRY(co_await pause);
      auto written = writer.write("x");
      TINKER_CO_TRY(co_await written);
    }
    co_return Result<void>();
  });
  const auto id = client.ask(H2ClientPeer::get("/"));
  run();
  server->loop->advance(400s);
  run();
  EXPECT_EQ(stream(id).body, std::string(20, 'x'));
  EXPECT_TRUE(stream(id).is_complete);
}

TEST_F(H2ServerLimits, SaysNoContinueAfterTheAnswerHasBegun) {
  serve([](ServerRequest request, ResponseWriter writer) -> async::Task<> {
    writer.begin({});
    auto next = request.read();
    TINKER_CO_TRY(co_await next);
    co_return Result<void>();
  });
  auto headers = H2ClientPeer::post("/");
  headers.emplace_back("expect", "100-continue");
  H2ClientPeer lax({}, true);  // it shows what a strict one would drop
  const auto id = lax.ask(headers, "", true);
  server->send(*wire, lax.output());
  lax.receive(ServerHarness::receive(*wire));
  EXPECT_THAT(lax.streams[id].statuses, ElementsAre("200"));
}

TEST_F(H2ServerLimits, ReadingAfterTheAnswerEndsWithIt) {
  std::optional<Result<std::string>> got;
  serve([&got](ServerRequest request, ResponseWriter writer) -> async::Task<> {
    writer.send({.status = 403});
    auto next = request.read();
    got = co_await next;
    co_return Result<void>();
  });
  const auto id = client.ask(H2ClientPeer::post("/"), "", true);
  run();
  EXPECT_EQ(stream(id).headers[":status"], "403");
  EXPECT_EQ(server->core->running, 0U);
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->ok()) << "nobody may take it for the whole body";
}

TEST_F(H2ServerLimits, AHandlerThatThrowsGivesAnError) {
  serve([](ServerRequest, ResponseWriter) -> async::Task<> { throw std::runtime_error("no"); });
  const auto id = client.ask(H2ClientPeer::get("/"));
  run();
  EXPECT_EQ(stream(id).headers[":status"], "500");
}

TEST_F(H2ServerLimits, AStreamedAnswerToHeadHasItsLengthAlone) {
  serve([](ServerRequest, ResponseWriter writer) -> async::Task<> {
    writer.begin({}, 11);
    co_return Result<void>();
  });
  auto headers = H2ClientPeer::get("/");
  headers[0].second = "HEAD";
  const auto id = client.ask(headers);
  run();
  EXPECT_EQ(stream(id).headers["content-length"], "11");
  EXPECT_TRUE(stream(id).is_complete);
  EXPECT_EQ(stream(id).closed_with, 0U);
}

TEST_F(H2ServerLimits, ChecksTargetAndHostAsHttpOneDoes) {
  serve(counting());
  auto fragment = H2ClientPeer::get("/a#b");
  auto hosts = H2ClientPeer::get("/");
  hosts[2].second = "a,b";
  for (const auto& headers : {fragment, hosts}) {
    const auto id = client.ask(headers);
    run();
    EXPECT_EQ(stream(id).headers[":status"], "400");
  }
  EXPECT_EQ(started, 0);
}

}  // namespace
}  // namespace tinker::http::h2_server_limits_test
