// The limits of connections are those that the server was given; tests/unit/http has their rules.
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "hostile_server.h"

namespace tinker::connection_limits_test {
namespace {

using testing::HostileServer;
using testing::kAda;
using testing::RawHttp;
using namespace std::chrono_literals;

constexpr auto kGenerous = 20s;  // less than most defaults of what is waited for

/// Everything within a fifth of a second.
class Impatient : public HostileServer {
 protected:
  Impatient()
      : HostileServer(
            {.head_time = 200ms, .body_time = 200ms, .idle_time = 200ms, .write_time = 200ms}) {}

  /// That the server ends a connection soon which says no more than this, and answers others.
  void expect_cut(RawHttp& client) const {
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(ask("GET", "healthz").status, 200);
    while (client.receive().status != 0) {
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begun, kGenerous);
  }
};

TEST_F(Impatient, EndsHalfAHead) {
  RawHttp client(server_.port());
  client.send("POST /api/v1/create_session HTTP/1.1\r\nHost: 127.0.0.1\r\n");

  expect_cut(client);
}

TEST_F(Impatient, EndsHalfABody) {
  RawHttp client(server_.port());
  const auto request = RawHttp::request("POST",
                                        "/api/v1/create_session",
                                        R"({"tags":[],"sdk_version":"0.36.0"})",
                                        "X-API-Key: " + std::string(kAda) + "\r\n");
  client.send(request.substr(0, request.size() - 5));

  expect_cut(client);
}

TEST_F(Impatient, EndsAConnectionThatAsksNothingMore) {
  RawHttp client(server_.port());
  ASSERT_EQ(client.ask("GET", "/api/v1/healthz").status, 200);

  expect_cut(client);
}

TEST_F(Impatient, EndsAConnectionWhoseAnswersAreNotRead) {
  constexpr int kRequests = 3000;  // their answers are more than sockets hold
  RawHttp client(server_.port());
  std::string requests;
  for (int i = 0; i < kRequests; ++i) requests += RawHttp::request("GET", "/metrics", {}, {});
  client.send(requests);
  std::this_thread::sleep_for(3s);

  int answers = 0;
  while (client.receive().status != 0) ++answers;

  EXPECT_LT(answers, kRequests);
}

class Hasty : public HostileServer {
 protected:
  Hasty() : HostileServer({.body_total_time = 1ms}) {}
  void TearDown() override {}
};

TEST_F(Hasty, EndsABodyThatComesForTooLong) {
  RawHttp client(server_.port());
  client.send("POST /api/v1/create_session HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: " +
              std::string(kAda) + "\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  ASSERT_EQ(client.receive().status, 100);
  client.send("{");
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < 10ms) (void)ask("GET", "healthz");

  client.send(" ");

  const auto answer = client.receive();
  EXPECT_EQ(answer.status, 408);
  EXPECT_THAT(answer.body, ::testing::HasSubstr("the whole body took too long"));
}

class TwoConnections : public HostileServer {
 protected:
  TwoConnections() : HostileServer({.connections = 2}) {}
  void TearDown() override {}
};

TEST_F(TwoConnections, LetAThirdOneWait) {
  std::optional<RawHttp> first(std::in_place, server_.port());
  RawHttp second(server_.port());
  ASSERT_EQ(first->ask("GET", "/api/v1/healthz").status, 200);
  ASSERT_EQ(second.ask("GET", "/api/v1/healthz").status, 200);

  RawHttp third(server_.port());
  third.send(RawHttp::request("GET", "/api/v1/healthz", {}, {}));
  std::this_thread::sleep_for(300ms);
  EXPECT_FALSE(third.has_answer());
  first.reset();

  EXPECT_EQ(third.receive().status, 200);
}

}  // namespace
}  // namespace tinker::connection_limits_test
