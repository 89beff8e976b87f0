#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "async/semaphore.h"
#include "support/server_harness.h"

namespace tinker::http::h1_server_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ServerHarness;
using ::testing::StartsWith;

async::Task<> echo(ServerRequest request, ResponseWriter writer) {
  auto reading = read_body(request, 1 << 20);
  TINKER_CO_TRY(std::string body, co_await std::move(reading));
  writer.send({.headers = {{"X-Path", request.path()}},
               .body = std::string(to_string(request.method())) + " " + body});
  co_return Result<void>();
}

/// A handler that waits until the test lets it go on.
struct Gate {
  async::Signal signal = {};
  bool is_open = false;
  std::vector<std::string> started = {};
  std::vector<ErrorCode> cancelled = {};
};
async::Task<> wait_for(std::shared_ptr<Gate> gate, ServerRequest request, ResponseWriter writer) {
  gate->started.emplace_back(request.target());
  while (!gate->is_open) {
    auto wait = gate->signal.wait();
    const auto woken = co_await wait;
    if (!woken.ok()) {
      gate->cancelled.push_back(woken.error().code);
      co_return woken.error();
    }
  }
  writer.send({.body = std::string(request.target())});
  co_return Result<void>();
}
Handler gated(const std::shared_ptr<Gate>& gate) {
  return [gate](ServerRequest request, ResponseWriter writer) {
    return wait_for(gate, std::move(request), std::move(writer));
  };
}

std::string get(std::string_view target, std::string_view fields = "") {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: h\r\n" + std::string(fields) + "\r\n";
}

TEST(H1Server, AnswersInOneWrite) {
  ServerHarness server(echo);
  const auto wire = server.connect();

  const std::string answer =
      server.ask(*wire, "POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");

  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nX-Path: /a\r\nDate: "));
  EXPECT_THAT(answer, EndsWith(" GMT\r\nContent-Length: 7\r\n\r\nPOST hi"));
  EXPECT_EQ(wire->writes, 1);
  EXPECT_FALSE(wire->is_closed);
}

TEST(H1Server, ReadsRequestsHoweverTheyAreCut) {
  ServerHarness server(echo);
  const auto wire = server.connect();
  const std::string request =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
      "chunked\r\n\r\n2\r\nhi\r\n3\r\nyou\r\n0\r\n\r\n";
  for (const char c : request) server.send(*wire, std::string(1, c));

  EXPECT_THAT(ServerHarness::receive(*wire), EndsWith("\r\n\r\nPOST hiyou"));
  EXPECT_THAT(server.ask(*wire, get("/")), EndsWith("\r\n\r\nGET "));
}

TEST(H1Server, AnswersPipelinedRequestsInOneWriteAndInOrder) {
  ServerHarness server(echo);
  const auto wire = server.connect();
  std::string requests;
  for (int i = 0; i < 10; ++i) requests += get("/" + std::to_string(i));

  const std::string answers = server.ask(*wire, requests);

  std::size_t at = 0;
  for (int i = 0; i < 10; ++i) {
    at = answers.find("X-Path: /" + std::to_string(i) + "\r\n", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_EQ(wire->writes, 1);
}

TEST(H1Server, ASlowHandlerKeepsTheOrderOfAnswers) {
  const auto gate = std::make_shared<Gate>();
  ServerHarness server(gated(gate));
  const auto wire = server.connect();

  EXPECT_EQ(server.ask(*wire, get("/1") + get("/2")), "");
  EXPECT_THAT(gate->started, ElementsAre("/1"));
  gate->is_open = true;
  gate->signal.notify_all();
  server.loop->run_ready();

  EXPECT_THAT(gate->started, ElementsAre("/1", "/2"));
  const std::string answers = ServerHarness::receive(*wire);
  EXPECT_LT(answers.find("\r\n\r\n/1"), answers.find("\r\n\r\n/2"));
}

TEST(H1Server, ToleratesAnEmptyLineBeforeARequest) {
  ServerHarness server(echo);
  const auto wire = server.connect();
  EXPECT_THAT(server.ask(*wire, "\r\n" + get("/")), StartsWith("HTTP/1.1 200 "));
}

TEST(H1Server, AnswersToHeadHaveALengthAndNoBody) {
  ServerHarness server(echo);
  const auto wire = server.connect();
  const std::string answer = server.ask(*wire, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
}

async::Task<> no_content(ServerRequest, ResponseWriter writer) {
  writer.send({.status = 204, .body = "not sent"});
  co_return Result<void>();
}
TEST(H1Server, NoContentHasNeitherLengthNorBody) {
  ServerHarness server(no_content);
  const auto wire = server.connect();
  const std::string answer = server.ask(*wire, get("/"));
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 204 No Content\r\n"), EndsWith("GMT\r\n\r\n")));
  EXPECT_THAT(answer, Not(HasSubstr("Content-Length")));
}

TEST(H1Server, ClosesWhereTheClientWantsIt) {
  ServerHarness server(echo);
  const auto wire = server.connect();
  EXPECT_THAT(server.ask(*wire, get("/", "Connection: close\r\n")),
              HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(wire->is_write_shut);
  EXPECT_FALSE(wire->is_closed) << "the client has to hear the answer first";
  server.end(*wire);
  EXPECT_TRUE(wire->is_closed);
}

TEST(H1Server, SpeaksHttpOneZero) {
  ServerHarness server(echo);
  const auto kept = server.connect();
  EXPECT_THAT(server.ask(*kept, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
              HasSubstr("Connection: keep-alive\r\n"));
  EXPECT_FALSE(kept->is_write_shut);
  const auto closed = server.connect();
  EXPECT_THAT(server.ask(*closed, "GET / HTTP/1.0\r\n\r\n"), HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(closed->is_write_shut);
}

TEST(H1Server, SaysContinueWhenTheBodyIsWanted) {
  ServerHarness server(echo);
  const auto wire = server.connect();
  const std::string head =
      "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
  EXPECT_EQ(server.ask(*wire, head), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_THAT(server.ask(*wire, "hi"), EndsWith("PUT hi"));
}

async::Task<> refuse_all(ServerRequest, ResponseWriter writer) {
  writer.send({.status = 403});
  co_return Result<void>();
}
TEST(H1Server, SaysNoContinueWhereTheBodyIsNotWanted) {
  ServerHarness server(refuse_all);
  const auto wire = server.connect();
  const std::string answer = server.ask(
      *wire, "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("Connection: close")));
}

TEST(H1Server, DropsASmallBodyThatNobodyRead) {
  ServerHarness server(refuse_all);
  const auto wire = server.connect();
  const std::string answer =
      server.ask(*wire, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 403 "), Not(HasSubstr("Connection: close"))));
  EXPECT_THAT(server.ask(*wire, "world" + get("/")), StartsWith("HTTP/1.1 403 "));
}

TEST(H1Server, ClosesBehindALargeBodyThatNobodyRead) {
  ServerHarness server(refuse_all);
  const auto wire = server.connect();
  const std::string answer =
      server.ask(*wire, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nhello");
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  server.send(*wire, std::string(500'000, 'x'));
  EXPECT_EQ(wire->to_server, "") << "it is read and dropped, so that the answer arrives";
}

async::Task<> fail(ServerRequest request, ResponseWriter) {
  if (request.path() == "/teapot") {
    co_return Error{.code = ErrorCode::bad_request, .message = "I am one", .http_status = 418};
  }
  if (request.path() == "/silent") co_return Result<void>();
  co_return Error{.code = ErrorCode::internal, .message = "a secret"};
}
TEST(H1Server, AHandlersErrorIsItsAnswer) {
  ServerHarness server(fail);
  const auto wire = server.connect();
  EXPECT_THAT(server.ask(*wire, get("/teapot")),
              AllOf(StartsWith("HTTP/1.1 418 "), EndsWith("I am one\n")));
  EXPECT_THAT(server.ask(*wire, get("/silent")), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(server.ask(*wire, get("/")),
              AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("secret"))));
}

async::Task<> inject(ServerRequest, ResponseWriter writer) {
  writer.send({.headers = {{"X", "a\r\nSet-Cookie: b"}}});
  co_return Result<void>();
}
TEST(H1Server, SendsNoHeaderThatEndsEarly) {
  ServerHarness server(inject);
  const auto wire = server.connect();
  EXPECT_THAT(server.ask(*wire, get("/")),
              AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("Cookie"))));
}

async::Task<> stream_three(ServerRequest request, ResponseWriter writer) {
  if (request.path() == "/length") {
    writer.begin({}, 11);
  } else {
    writer.begin({.headers = {{"Content-Type", "text/plain"}}});
  }
  for (const std::string_view piece : {"one", "two", "three"}) {
    auto written = writer.write(piece);
    TINKER_CO_TRY(co_await written);
  }
  if (request.path() == "/broken") co_return Error{.message = "in the middle"};
  co_return Result<void>();
}
TEST(H1Server, StreamsAnAnswerInChunks) {
  ServerHarness server(stream_three);
  const auto wire = server.connect();
  const std::string answer = server.ask(*wire, get("/"));
  EXPECT_THAT(answer, HasSubstr("Transfer-Encoding: chunked\r\n\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n"));
  EXPECT_THAT(server.ask(*wire, get("/length")),
              AllOf(HasSubstr("Content-Length: 11\r\n"), EndsWith("\r\n\r\nonetwothree")));
}

TEST(H1Server, StreamsToHttpOneZeroUntilTheEnd) {
  ServerHarness server(stream_three);
  const auto wire = server.connect();
  const std::string answer = server.ask(*wire, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(answer, AllOf(HasSubstr("Connection: close\r\n"), EndsWith("\r\n\r\nonetwothree")));
  EXPECT_TRUE(wire->is_write_shut);
}

TEST(H1Server, AnAnswerThatFailsInTheMiddleHasNoEnd) {
  ServerHarness server(stream_three);
  const auto wire = server.connect();
  EXPECT_THAT(server.ask(*wire, get("/broken")), EndsWith("three\r\n"));
  EXPECT_TRUE(wire->is_write_shut);
}

struct Flood {
  int written = 0;
};
async::Task<> flood(std::shared_ptr<Flood> state, ResponseWriter writer) {
  writer.begin({});
  const std::string piece(10'000, 'x');
  for (int i = 0; i < 1000; ++i) {
    auto written = writer.write(piece);
    TINKER_CO_TRY(co_await written);
    ++state->written;
  }
  co_return Result<void>();
}
TEST(H1Server, AHandlerWritesNoFasterThanItsClientReads) {
  const auto state = std::make_shared<Flood>();
  ServerHarness server(
      [state](ServerRequest, ResponseWriter writer) { return flood(state, std::move(writer)); });
  const auto wire = server.connect();
  wire->room = 0;
  server.send(*wire, get("/"));
  EXPECT_LT(state->written, 40);
  std::size_t received = 0;
  while (!wire->to_client.ends_with("0\r\n\r\n") && received < 20'000'000) {
    received += ServerHarness::receive(*wire).size();
    wire->room = 100'000;
    wire->wake();
    server.loop->run_ready();
  }
  EXPECT_EQ(state->written, 1000);
}

struct Upload {
  async::Signal more = {};
  int allowed = 0;
  std::size_t taken = 0;
};
async::Task<> read_slowly(std::shared_ptr<Upload> state,
                          ServerRequest request,
                          ResponseWriter writer) {
  while (true) {
    while (state->allowed == 0) {
      auto wait = state->more.wait();
      TINKER_CO_TRY(co_await wait);
    }
    --state->allowed;
    auto next = request.read();
    TINKER_CO_TRY(const std::string piece, co_await next);
    if (piece.empty()) break;
    state->taken += piece.size();
  }
  writer.send({.body = "done"});
  co_return Result<void>();
}
TEST(H1Server, ReadsNoFasterThanTheHandler) {
  const auto state = std::make_shared<Upload>();
  ServerHarness server([state](ServerRequest request, ResponseWriter writer) {
    return read_slowly(state, std::move(request), std::move(writer));
  });
  const auto wire = server.connect();
  server.send(*wire, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4000000\r\n\r\n");
  server.send(*wire, std::string(4'000'000, 'x'));
  EXPECT_GT(wire->to_server.size(), 3'000'000U) << "the rest stays with the client";

  state->allowed = 1000;
  state->more.notify_all();
  server.loop->run_ready();

  EXPECT_EQ(state->taken, 4'000'000U);
  EXPECT_THAT(ServerHarness::receive(*wire), EndsWith("done"));
}

TEST(H1Server, AClientThatGoesAwayCancelsItsHandler) {
  const auto gate = std::make_shared<Gate>();
  ServerHarness server(gated(gate));
  const auto wire = server.connect();
  server.send(*wire, get("/"));
  server.end(*wire);
  EXPECT_THAT(gate->cancelled, ElementsAre(ErrorCode::connection_failed));
  EXPECT_TRUE(wire->is_closed);
  EXPECT_EQ(server.core->running, 0U);
}

TEST(H1Server, AnAnswerThatIsThereReachesAClientThatSendsNoMore) {
  ServerHarness server(echo);
  const auto wire = server.connect();
  wire->is_ended_by_client = true;
  EXPECT_THAT(server.ask(*wire, get("/")), EndsWith("GET "));
  EXPECT_TRUE(wire->is_closed);
}

async::Task<> give_up(Abort how, ResponseWriter writer) {
  writer.begin({.body = "some"});
  writer.abort(how);
  co_return Result<void>();
}
Handler giving_up(const Abort& how) {
  return [how](ServerRequest, ResponseWriter writer) { return give_up(how, std::move(writer)); };
}
TEST(H1Server, AnAnswerThatIsGivenUpEndsTheConnection) {
  ServerHarness server(giving_up({.scope = Abort::Scope::connection, .raw = "noise"}));
  const auto wire = server.connect();
  EXPECT_THAT(server.ask(*wire, get("/")), EndsWith("4\r\nsome\r\nnoise"));
  EXPECT_TRUE(wire->is_write_shut);
}

TEST(H1Server, CanResetAConnection) {
  ServerHarness server(giving_up({.scope = Abort::Scope::reset}));
  const auto wire = server.connect();
  server.send(*wire, get("/"));
  EXPECT_TRUE(wire->is_reset);
  EXPECT_TRUE(wire->is_closed);
}

async::Task<> answer_last(ServerRequest, ResponseWriter writer) {
  writer.close_connection();
  writer.send({});
  co_return Result<void>();
}
TEST(H1Server, AHandlerCanMakeItsAnswerTheLast) {
  ServerHarness server(answer_last);
  const auto wire = server.connect();
  EXPECT_THAT(server.ask(*wire, get("/")), HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(wire->is_write_shut);
}

/// What is refused without a handler, with the status and text that say why.
TEST(H1Server, RefusesWithAText) {
  struct Case {
    std::string bytes;
    std::string status;
  };
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  for (const auto& [bytes, status] : std::vector<Case>{
           {"\x16\x03\x01\x02", "400 Bad Request"},
           {"GET / HTTP/1.1\nHost: h\n\n", "400 Bad Request"},
           {post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400 Bad Request"},
           {post + "Transfer-Encoding: chunked\r\n\r\n5\nhello", "400 Bad Request"},
           {post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400 Bad Request"},
           {post + "Content-Length: 2000000000\r\n\r\n", "413 Content Too Large"},
           {"GET /" + std::string(10'000, 'a'), "414 URI Too Long"},
           {post + "Expect: more\r\n\r\n", "417 Expectation Failed"},
           {post + "A: " + std::string(70'000, 'a'), "431 Request Header Fields Too Large"},
           {post + "Transfer-Encoding: gzip\r\n\r\n", "501 Not Implemented"},
           {"BREW / HTTP/1.1\r\nHost: h\r\n\r\n", "501 Not Implemented"},
           {"GET / HTTP/3.0\r\nHost: h\r\n\r\n", "505 HTTP Version Not Supported"}}) {
    ServerHarness server(echo);
    const auto wire = server.connect();
    const std::string answer = server.ask(*wire, bytes);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + status + "\r\n")) << bytes.substr(0, 100);
    EXPECT_THAT(answer, AllOf(HasSubstr("Connection: close\r\n"), EndsWith("\n")));
    EXPECT_TRUE(wire->is_write_shut);
    EXPECT_EQ(server.core->running, 0U);
  }
}

TEST(H1Server, RefusesAChunkedBodyThatGrowsTooLong) {
  ServerHarness server(echo, {.max_body_bytes = 10});
  const auto wire = server.connect();
  const std::string answer = server.ask(
      *wire,
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(server.core->running, 0U);
}

TEST(H1Server, WhatFollowsARefusedRequestIsNotARequest) {
  ServerHarness server(echo);
  const auto wire = server.connect();
  const std::string answer = server.ask(
      *wire, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: x\r\n\r\n" + get("/smuggled"));
  EXPECT_THAT(answer, Not(HasSubstr("smuggled")));
}

TEST(H1Server, DrainFinishesWhatRunsAndClosesTheRest) {
  const auto gate = std::make_shared<Gate>();
  ServerHarness server(gated(gate));
  const auto idle = server.connect();
  const auto busy = server.connect();
  server.send(*busy, get("/1") + get("/2"));

  const auto open = server.core->connections;
  for (const auto& connection : open) connection->drain();
  server.loop->run_ready();
  EXPECT_TRUE(idle->is_closed || idle->is_write_shut);
  EXPECT_FALSE(busy->is_write_shut);
  gate->is_open = true;
  gate->signal.notify_all();
  server.loop->run_ready();

  EXPECT_THAT(ServerHarness::receive(*busy),
              AllOf(HasSubstr("Connection: close\r\n"), EndsWith("\r\n\r\n/1")));
  EXPECT_TRUE(busy->is_write_shut);
  EXPECT_THAT(gate->started, ElementsAre("/1"));
}

}  // namespace
}  // namespace tinker::http::h1_server_test
