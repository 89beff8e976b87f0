#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/h2_server_fixture.h"

namespace tinker::http::h2_server_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::H2ClientPeer;
using testing::ServerHarness;
using namespace testing::h2;
using H2Server = H2ServerFixture;

TEST_F(H2Server, AnswersByPriorKnowledge) {
  serve(echo);
  const auto id = client.ask(H2ClientPeer::post("/a?b"), "hello");
  run();
  EXPECT_EQ(stream(id).headers[":status"], "200");
  EXPECT_EQ(stream(id).headers["x-target"], "/a?b");
  EXPECT_EQ(stream(id).headers["x-host"], "h");
  EXPECT_EQ(stream(id).headers["content-length"], "5");
  EXPECT_EQ(stream(id).headers.count("date"), 1U);
  EXPECT_EQ(stream(id).body, "hello");
  EXPECT_TRUE(stream(id).is_closed);
  EXPECT_EQ(stream(id).closed_with, 0U);
  EXPECT_FALSE(wire->is_closed);
}

TEST_F(H2Server, ReadsRequestsHoweverTheyAreCut) {
  serve(echo);
  const auto id = client.ask(H2ClientPeer::post("/"), "hello");
  for (const char c : client.output()) server->send(*wire, std::string(1, c));
  client.receive(ServerHarness::receive(*wire));
  run();
  EXPECT_EQ(stream(id).body, "hello");
}

TEST_F(H2Server, AnswersManyAtATimeInAnyOrderAndOneWrite) {
  serve(gated);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 20; ++i)
    ids.push_back(client.ask(H2ClientPeer::get("/" + std::to_string(i))));
  run();
  EXPECT_EQ(server->core->running, 20U);
  const int writes = wire->writes;
  let_pass(20);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(stream(ids[static_cast<std::size_t>(i)]).body, "/" + std::to_string(i));
  EXPECT_EQ(wire->writes, writes + 1);
}

TEST_F(H2Server, AnswersToHeadHaveALengthAndNoBody) {
  serve([](ServerRequest, ResponseWriter writer) -> async::Task<> {
    writer.send({.body = "hello"});
    co_return Result<void>();
  });
  auto headers = H2ClientPeer::get("/");
  headers[0].second = "HEAD";
  const auto id = client.ask(headers);
  run();
  EXPECT_EQ(stream(id).headers["content-length"], "5");
  EXPECT_EQ(stream(id).body, "");
  EXPECT_TRUE(stream(id).is_complete);
}

TEST_F(H2Server, LimitsStreams) {
  serve(gated);
  run();
  EXPECT_EQ(client.remote_setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS), 50U);
}

TEST_F(H2Server, ABodyIsTakenNoFasterThanTheHandlerReads) {
  serve(read_gated);
  const auto id = client.ask(H2ClientPeer::post("/"), std::string(5'000'000, 'x'));
  run();
  EXPECT_LE(stream(id).sent, 300'000U);
  let_pass(10'000);
  EXPECT_EQ(gate->taken, 5'000'000U);
  EXPECT_TRUE(stream(id).is_complete);
}

TEST_F(H2Server, OneSlowHandlerDoesNotStopOtherBodies) {
  serve([this](ServerRequest request, ResponseWriter writer) {
    if (request.path() == "/slow") return read_gated(gate, std::move(request), std::move(writer));
    return echo(std::move(request), std::move(writer));
  });
  for (int i = 0; i < 40; ++i) client.ask(H2ClientPeer::post("/slow"), std::string(300'000, 'x'));
  run();
  const auto id = client.ask(H2ClientPeer::post("/"), std::string(1'000, 'y'));
  run();
  EXPECT_EQ(stream(id).body.size(), 1'000U);
}

TEST_F(H2Server, AConnectionBringsNoMoreThanItsWindow) {
  serve(read_gated, {.max_streams = 200});
  for (int i = 0; i < 150; ++i) client.ask(H2ClientPeer::post("/"), std::string(200'000, 'x'));
  run();
  std::size_t sent = 0;
  for (const auto& [id, each] : client.streams) sent += each.sent;
  EXPECT_LE(sent, std::size_t{16} << 20U);
  EXPECT_GE(sent, std::size_t{10} << 20U);

  for (const auto& [id, each] : client.streams) client.reset(id);
  run();
  const auto id = client.ask(H2ClientPeer::post("/"), std::string(1'000'000, 'y'));
  let_pass(100);
  EXPECT_EQ(gate->taken, 1'000'000U) << "what was given up takes no room";
  EXPECT_TRUE(stream(id).is_complete);
}

TEST_F(H2Server, AHandlerWritesNoFasterThanItsClientReads) {
  serve(flood);
  const auto id = client.ask(H2ClientPeer::get("/"));
  run();
  EXPECT_LT(gate->written, 40);
  while (!stream(id).is_complete && stream(id).body.size() < 6'000'000) {
    client.consume(id, 60'000);
    const std::size_t before = stream(id).body.size();
    run();
    ASSERT_GT(stream(id).body.size(), before);
  }
  EXPECT_EQ(stream(id).body, std::string(5'000'000, 'x'));
}

TEST_F(H2Server, AnAnswerThatFailsInTheMiddleIsReset) {
  serve(flood);
  const auto id = client.ask(H2ClientPeer::get("/broken"));
  run();
  while (!stream(id).is_closed && stream(id).body.size() < 6'000'000) {
    client.consume(id, 60'000);
    run();
  }
  EXPECT_FALSE(stream(id).is_complete);
  EXPECT_EQ(stream(id).closed_with, static_cast<std::uint32_t>(NGHTTP2_INTERNAL_ERROR));
}

TEST_F(H2Server, ARequestThatIsGivenUpCancelsItsHandler) {
  serve(gated);
  const auto id = client.ask(H2ClientPeer::get("/"));
  run();
  client.reset(id);
  run();
  EXPECT_EQ(gate->cancelled, 1);
  EXPECT_EQ(server->core->running, 0U);
}

TEST_F(H2Server, AClientThatGoesAwayCancelsAllHandlers) {
  serve(gated);
  for (int i = 0; i < 5; ++i) client.ask(H2ClientPeer::get("/"));
  run();
  server->end(*wire);
  EXPECT_EQ(gate->cancelled, 5);
  EXPECT_TRUE(wire->is_closed);
}

TEST_F(H2Server, SaysContinueWhenTheBodyIsWanted) {
  serve(echo);
  auto headers = H2ClientPeer::post("/");
  headers.emplace_back("expect", "100-continue");
  const auto id = client.ask(headers, "", true);
  run();
  EXPECT_THAT(stream(id).statuses, ElementsAre("100"));
  client.send_more(id, "hi", false);
  run();
  EXPECT_THAT(stream(id).statuses, ElementsAre("100", "200"));
  EXPECT_EQ(stream(id).body, "hi");
}

TEST_F(H2Server, AnEarlyAnswerStopsTheUpload) {
  serve([](ServerRequest, ResponseWriter writer) -> async::Task<> {
    writer.send({.status = 403});
    co_return Result<void>();
  });
  const auto id = client.ask(H2ClientPeer::post("/"), std::string(1'000'000, 'x'));
  run();
  EXPECT_EQ(stream(id).headers[":status"], "403");
  EXPECT_TRUE(stream(id).is_closed);
  EXPECT_EQ(stream(id).closed_with, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
}

TEST_F(H2Server, RefusesWithTheStatusThatSaysWhy) {
  serve(echo);
  const auto status = [this](H2ClientPeer::Headers headers) {
    const auto id = client.ask(headers);
    run();
    return stream(id).headers[":status"];
  };
  auto method = H2ClientPeer::get("/");
  method[0].second = "BREW";
  EXPECT_EQ(status(method), "501");
  EXPECT_EQ(status(H2ClientPeer::get("/" + std::string(9000, 'a'))), "414");
  auto expects = H2ClientPeer::get("/");
  expects.emplace_back("expect", "more");
  EXPECT_EQ(status(expects), "417");
  auto many = H2ClientPeer::get("/");
  for (int i = 0; i < 300; ++i) many.emplace_back("x", "y");
  EXPECT_EQ(status(many), "431");
  auto wide = H2ClientPeer::get("/");
  for (int i = 0; i < 7; ++i) wide.emplace_back("x", std::string(9'000, 'x'));
  wide.emplace_back("y", std::string(2'300, 'y'));
  EXPECT_EQ(status(wide), "431");
  auto heavy = H2ClientPeer::post("/");
  heavy.emplace_back("content-length", "1000000000");
  const auto id = client.ask(heavy, "", true);
  run();
  EXPECT_EQ(stream(id).headers[":status"], "413");
  EXPECT_EQ(status(H2ClientPeer::get("/")), "200") << "the connection goes on";
}

TEST_F(H2Server, RefusesABodyThatGrowsTooLong) {
  serve(echo, {.max_body_bytes = 10});
  const auto id = client.ask(H2ClientPeer::post("/"), "hello world");
  run();
  EXPECT_EQ(stream(id).headers[":status"], "413");
  EXPECT_EQ(server->core->running, 0U);
}

/// A client that breaks the rules of the protocol.
class LaxH2Server : public H2Server {
 protected:
  LaxH2Server() : lax({}, true) {}
  void run_lax() {
    while (true) {
      const std::string out = lax.output();
      server->send(*wire, out);
      const std::string in = ServerHarness::receive(*wire);
      lax.receive(in);
      if (out.empty() && in.empty()) return;
    }
  }
  H2ClientPeer lax;
};

TEST_F(LaxH2Server, ResetsABodyThatContradictsItsLength) {
  for (const std::string length : {"3", "7"}) {
    serve(echo);
    H2ClientPeer peer({}, true);
    auto headers = H2ClientPeer::post("/");
    headers.emplace_back("content-length", length);
    const auto id = peer.ask(headers, "hello");
    server->send(*wire, peer.output());
    peer.receive(ServerHarness::receive(*wire));
    EXPECT_TRUE(peer.streams[id].is_closed) << length;
    EXPECT_EQ(peer.streams[id].closed_with, static_cast<std::uint32_t>(NGHTTP2_PROTOCOL_ERROR));
    EXPECT_EQ(server->core->running, 0U);
  }
}

TEST_F(LaxH2Server, ResetsHeadsThatAreNoRequests) {
  serve(echo);
  auto no_path = H2ClientPeer::get("/");
  no_path.pop_back();
  auto connection = H2ClientPeer::get("/");
  connection.emplace_back("connection", "close");
  auto coding = H2ClientPeer::get("/");
  coding.emplace_back("transfer-encoding", "chunked");
  for (const auto& headers : {no_path, connection, coding}) {
    const auto id = lax.ask(headers);
    run_lax();
    EXPECT_TRUE(lax.streams[id].is_closed);
    EXPECT_NE(lax.streams[id].closed_with, 0U);
  }
  EXPECT_EQ(server->core->running, 0U);
}

TEST_F(H2Server, AFloodOfResetsEndsTheConnection) {
  serve(gated);
  run();
  int asked = 0;
  while (client.go_aways == 0 && asked < 5000) {
    const auto id = client.ask(H2ClientPeer::get("/"));
    server->send(*wire, client.output());
    client.reset(id);
    ++asked;
    run();
  }
  EXPECT_LT(asked, 1100);
  EXPECT_EQ(client.go_away_code, static_cast<std::uint32_t>(NGHTTP2_ENHANCE_YOUR_CALM));
  EXPECT_TRUE(wire->is_write_shut);
  EXPECT_EQ(server->core->running, 0U);
}

TEST_F(H2Server, PingsThatComeSlowlyAreWelcome) {
  serve(gated);
  client.ask(H2ClientPeer::get("/"));
  for (int i = 0; i < 3000; ++i) {
    client.ping();
    run();
    server->loop->advance(20ms);
  }
  EXPECT_EQ(client.go_aways, 0);
}

TEST_F(H2Server, FloodsOfPingsAndSettingsEndTheConnection) {
  for (const bool pings : {true, false}) {
    serve(gated);
    H2ClientPeer peer;
    server->send(*wire, peer.output());
    int sent = 0;
    while (!wire->is_write_shut && sent < 5000) {
      pings ? peer.ping() : peer.settings();
      server->send(*wire, peer.output());
      ++sent;
    }
    EXPECT_LT(sent, 1100);
  }
}

TEST_F(H2Server, GarbageEndsTheConnection) {
  serve(echo);
  run();
  server->send(*wire, std::string(100, '\xff'));
  client.receive(ServerHarness::receive(*wire));
  EXPECT_EQ(client.go_aways, 1);
  EXPECT_TRUE(wire->is_write_shut);
}

TEST_F(H2Server, DrainSaysGoodbyeAndFinishesWhatRuns) {
  serve(gated);
  const auto id = client.ask(H2ClientPeer::get("/"));
  run();
  const auto open = server->core->connections;
  for (const auto& connection : open) connection->drain();
  server->loop->run_ready();
  run();
  EXPECT_EQ(client.go_aways, 1);
  EXPECT_EQ(client.go_away_last, id);
  EXPECT_FALSE(wire->is_write_shut);
  let_pass(1);
  EXPECT_EQ(stream(id).body, "/");
  EXPECT_TRUE(wire->is_write_shut);
}

TEST_F(H2Server, AHandlerCanMakeItsAnswerTheLast) {
  serve([](ServerRequest, ResponseWriter writer) -> async::Task<> {
    writer.close_connection();
    writer.send({.body = "last"});
    co_return Result<void>();
  });
  const auto id = client.ask(H2ClientPeer::get("/"));
  run();
  EXPECT_EQ(stream(id).body, "last");
  EXPECT_EQ(client.go_away_last, id);
  EXPECT_TRUE(wire->is_write_shut);
}

TEST_F(H2Server, AHandlerCanGiveItsAnswerUp) {
  serve([](ServerRequest request, ResponseWriter writer) -> async::Task<> {
    writer.abort(request.path() == "/stream" ? Abort{.code = NGHTTP2_CANCEL}
                                             : Abort{.scope = Abort::Scope::later});
    co_return Result<void>();
  });
  const auto first = client.ask(H2ClientPeer::get("/stream"));
  const auto second = client.ask(H2ClientPeer::get("/later"));
  run();
  EXPECT_EQ(stream(first).closed_with, static_cast<std::uint32_t>(NGHTTP2_CANCEL));
  EXPECT_EQ(client.go_away_last, first);
  EXPECT_TRUE(stream(second).is_closed);
  EXPECT_TRUE(wire->is_write_shut);
}

TEST_F(H2Server, AnIdleConnectionIsClosedPolitely) {
  serve(echo);
  client.ask(H2ClientPeer::get("/"));
  run();
  server->loop->advance(59s);
  EXPECT_FALSE(wire->is_write_shut);
  server->loop->advance(2s);
  run();
  EXPECT_EQ(client.go_aways, 1);
  EXPECT_EQ(client.go_away_code, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
}

TEST_F(H2Server, ASlowBodyIsRefused) {
  serve(echo);
  const auto id = client.ask(H2ClientPeer::post("/"), "a", true);
  run();
  server->loop->advance(50s);
  run();
  EXPECT_EQ(stream(id).headers[":status"], "408");
  EXPECT_EQ(server->core->running, 0U);
  EXPECT_EQ(client.go_aways, 0);
}

TEST_F(H2Server, AClientThatTakesNothingOfAnAnswerLosesIt) {
  serve(flood);
  const auto id = client.ask(H2ClientPeer::get("/"));
  run();
  server->loop->advance(100s);
  run();
  EXPECT_TRUE(stream(id).is_closed);
  EXPECT_NE(stream(id).closed_with, 0U);
  EXPECT_EQ(server->core->running, 0U);
}

TEST_F(H2Server, AHeadWithoutItsEndEndsTheConnection) {
  serve(echo);
  run();
  // HEADERS without END_HEADERS; its CONTINUATION never comes.
  server->send(*wire, std::string("\0\0\1\1\1\0\0\0\1\x82", 10));
  server->loop->advance(25s);
  EXPECT_TRUE(wire->is_write_shut || wire->is_closed);
}

}  // namespace
}  // namespace tinker::http::h2_server_test
