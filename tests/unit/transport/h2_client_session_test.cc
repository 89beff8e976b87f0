#include "transport/h2_client_session.h"

#include <ranges>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/h2_peer.h"

namespace tinker::http::h2_client_session_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::tinker::testing::H2Peer;
using namespace std::chrono_literals;

constexpr TimePoint kStart = TimePoint(1000s);

std::shared_ptr<Exchange> exchange_for(Request request) {
  auto url = Url::parse(request.url);
  return std::make_shared<Exchange>(std::move(request), *std::move(url));
}
std::shared_ptr<Exchange> get() {
  return exchange_for({.method = Method::get, .url = "https://host/path"});
}
std::shared_ptr<Exchange> post(std::size_t bytes) {
  return exchange_for({.method = Method::post,
                       .url = "https://host/path",
                       .body = std::make_shared<const std::string>(bytes, 'b')});
}

class H2ClientSessionTest : public ::testing::Test {
 protected:
  /// Carries bytes to and fro until neither side has any.
  void pump(std::size_t piece = 1U << 20U) {
    while (true) {
      std::string to_peer;
      for (auto out = session.output(kStart); !out.empty(); out = session.output(kStart)) {
        to_peer.append(out);
        session.wrote(out.size(), kStart);
      }
      peer.receive(to_peer);
      const std::string to_us = peer.output();
      for (std::size_t at = 0; at < to_us.size(); at += piece) {
        session.receive(std::string_view(to_us).substr(at, piece), kStart + 1s);
      }
      if (to_peer.empty() && to_us.empty()) return;
    }
  }
  std::shared_ptr<Exchange> start(std::shared_ptr<Exchange> exchange) {
    session.start(exchange, kStart);
    return exchange;
  }
  Finished only_finished() {
    auto finished = session.take_finished();
    EXPECT_THAT(finished, SizeIs(1));
    return finished.empty() ? Finished{} : std::move(finished.front());
  }

  H2ClientSession session{
      H2ClientSession::Options{.limits = {.max_bytes = 4096, .max_fields = 50}}};
  H2Peer peer;
};

TEST_F(H2ClientSessionTest, SendsRequestsWithLowerCaseNamesAndNoConnectionHeaders) {
  start(exchange_for({.method = Method::post,
                      .url = "https://Host:8443/path?q=1",
                      .headers = {{"X-API-Key", "k"},
                                  {"Connection", "keep-alive"},
                                  {"Host", "other"},
                                  {"Transfer-Encoding", "chunked"}},
                      .body = std::make_shared<const std::string>("hello")}));

  pump();

  const auto& stream = peer.streams[1];
  EXPECT_TRUE(stream.is_complete);
  EXPECT_EQ(stream.body, "hello");
  EXPECT_THAT(stream.headers,
              ElementsAre(Pair(":authority", "host:8443"),
                          Pair(":method", "POST"),
                          Pair(":path", "/path?q=1"),
                          Pair(":scheme", "https"),
                          Pair("accept-encoding", "gzip, deflate, zstd"),
                          Pair("content-length", "5"),
                          Pair("x-api-key", "k")));
}

TEST_F(H2ClientSessionTest, ReadsAnAnswerHoweverItIsCut) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20U}) {
    const auto exchange = start(get());
    pump();
    peer.respond(exchange->stream_id, {{":status", "404"}, {"x", "y"}}, std::string(100'000, 'a'));
    pump(piece);

    const auto finished = only_finished();
    ASSERT_EQ(finished.error, std::nullopt);
    EXPECT_EQ(finished.exchange, exchange);
    EXPECT_EQ(exchange->response.status, 404);
    EXPECT_EQ(exchange->response.headers, (Headers{{"x", "y"}}));
    EXPECT_EQ(exchange->response.body, std::string(100'000, 'a'));
    EXPECT_EQ(exchange->last_activity, kStart + 1s);
  }
}

TEST_F(H2ClientSessionTest, PassesOverInterimAnswersAndTrailers) {
  start(get());
  pump();
  peer.interim(1, {{":status", "103"}, {"link", "x"}});
  peer.respond(1, {{":status", "200"}, {"a", "b"}}, "body");
  pump();

  const auto finished = only_finished();
  EXPECT_EQ(finished.exchange->response.status, 200);
  EXPECT_EQ(finished.exchange->response.headers, (Headers{{"a", "b"}}));
}

TEST_F(H2ClientSessionTest, InterimAnswersHaveAnEnd) {
  start(get());
  pump();
  for (int i = 0; i < 1000; ++i) peer.interim(1, {{":status", "103"}});
  pump();

  EXPECT_THAT(only_finished().error->message, HasSubstr("1xx"));
}

TEST_F(H2ClientSessionTest, RefusesAStatusThatIsNone) {
  start(get());
  pump();
  peer.respond(1, {{":status", "038"}}, "body");
  pump();

  EXPECT_THAT(only_finished().error->message, HasSubstr("no valid status"));
}

TEST_F(H2ClientSessionTest, CarriesManyExchangesAtATime) {
  std::vector<std::shared_ptr<Exchange>> exchanges;
  for (int i = 0; i < 50; ++i) exchanges.push_back(start(post(1000)));
  pump();
  EXPECT_EQ(session.in_flight(), 50U);
  for (const auto& exchange : exchanges | std::views::reverse) {
    peer.respond(exchange->stream_id, std::to_string(exchange->stream_id));
  }
  pump();

  EXPECT_THAT(session.take_finished(), SizeIs(50));
  for (const auto& exchange : exchanges) {
    EXPECT_EQ(exchange->response.body, std::to_string(exchange->stream_id));
  }
  EXPECT_EQ(session.in_flight(), 0U);
}

TEST_F(H2ClientSessionTest, ObeysTheServersStreamLimit) {
  EXPECT_EQ(session.capacity(), 100U);
  peer.allow_streams(3);
  pump();
  EXPECT_EQ(session.capacity(), 3U);

  start(get());
  EXPECT_EQ(session.capacity(), 2U);
  peer.allow_streams(0);
  pump();
  EXPECT_EQ(session.capacity(), 0U);
  EXPECT_FALSE(session.is_spent());
}

TEST_F(H2ClientSessionTest, GivesBackWhatALimitThatComesLateLeavesOut) {
  // The peer has not seen them yet when its limit arrives.
  std::vector<std::shared_ptr<Exchange>> exchanges;
  for (int i = 0; i < 5; ++i) exchanges.push_back(start(get()));
  peer.allow_streams(2);
  session.receive(peer.output(), kStart);

  const auto finished = session.take_finished();
  ASSERT_THAT(finished, SizeIs(3));
  for (const auto& one : finished) EXPECT_TRUE(one.is_untouched);
  EXPECT_EQ(session.peer_limit(), 2U);
  pump();
  EXPECT_EQ(session.in_flight(), 2U);
  EXPECT_TRUE(peer.streams[1].is_complete);
  EXPECT_TRUE(peer.streams[3].is_complete);
}

TEST_F(H2ClientSessionTest, HasALimitOfItsOwn) {
  const H2ClientSession modest{H2ClientSession::Options{.max_streams = 2}};

  EXPECT_EQ(modest.capacity(), 2U);
}

TEST(H2ClientSessionFlow, UploadsNoFasterThanTheServerReads) {
  // The window of a stream is 10 bytes and never grows, since the peer does not consume.
  H2ClientSession session{H2ClientSession::Options{}};
  H2Peer peer({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10}});
  session.receive(peer.output(), kStart);
  const auto exchange = post(100);
  session.start(exchange, kStart);

  while (true) {
    const auto out = session.output(kStart + 5s);
    if (out.empty()) break;
    session.wrote(out.size(), kStart + 5s);
  }

  EXPECT_EQ(exchange->body_sent, 10U);
  EXPECT_EQ(exchange->phase, Exchange::Phase::sending);
  EXPECT_EQ(exchange->last_activity, kStart + 5s);
}

TEST_F(H2ClientSessionTest, UploadsLargeBodiesInPieces) {
  const auto exchange = start(post(3'000'000));
  std::size_t largest = 0;
  for (auto out = session.output(kStart); !out.empty(); out = session.output(kStart)) {
    largest = std::max(largest, out.size());
    peer.receive(out);
    session.wrote(out.size(), kStart);
    session.receive(peer.output(), kStart);
  }

  EXPECT_EQ(peer.streams[1].body, std::string(3'000'000, 'b'));
  EXPECT_TRUE(peer.streams[1].is_complete);
  EXPECT_EQ(exchange->phase, Exchange::Phase::receiving);
  EXPECT_LT(largest, 100'000U);
}

TEST_F(H2ClientSessionTest, ReceivesMoreThanOneWindow) {
  start(get());
  pump();
  peer.respond(1, std::string(50'000'000, 'a'));
  pump();

  EXPECT_EQ(only_finished().exchange->response.body.size(), 50'000'000U);
}

TEST_F(H2ClientSessionTest, AnEarlyAnswerCountsAndStopsTheUpload) {
  start(post(10'000'000));
  const auto out = session.output(kStart);
  peer.receive(out);
  session.wrote(out.size(), kStart);
  peer.respond(1, {{":status", "413"}}, "too long");
  session.receive(peer.output(), kStart);

  const auto finished = only_finished();
  ASSERT_EQ(finished.error, std::nullopt);
  EXPECT_EQ(finished.exchange->response.status, 413);
  EXPECT_EQ(finished.exchange->response.body, "too long");
  pump();
  EXPECT_LT(peer.streams[1].body.size(), 1'000'000U);
  EXPECT_EQ(peer.streams[1].closed_with, NGHTTP2_CANCEL);
  EXPECT_FALSE(session.is_spent());
}

TEST_F(H2ClientSessionTest, AResetAfterACompleteAnswerIsAnAnswer) {
  start(post(10'000'000));
  pump(1);
  peer.respond(1, {{":status", "400"}, {"content-length", "3"}}, "bad", true);
  pump();
  EXPECT_THAT(session.take_finished(), IsEmpty());
  peer.reset(1, NGHTTP2_NO_ERROR);
  pump();

  const auto finished = only_finished();
  ASSERT_EQ(finished.error, std::nullopt);
  EXPECT_EQ(finished.exchange->response.body, "bad");
}

TEST_F(H2ClientSessionTest, AResetBeforeTheEndIsAFailure) {
  for (const std::uint32_t code : {NGHTTP2_NO_ERROR, NGHTTP2_INTERNAL_ERROR, NGHTTP2_CANCEL}) {
    const auto exchange = start(get());
    pump();
    peer.respond(exchange->stream_id, {{":status", "200"}}, "half", true);
    pump();
    peer.reset(exchange->stream_id, code);
    pump();

    const auto finished = only_finished();
    ASSERT_TRUE(finished.error);
    EXPECT_EQ(finished.error->code, ErrorCode::connection_failed);
    EXPECT_FALSE(finished.is_untouched);
  }
  EXPECT_FALSE(session.is_spent());
}

TEST_F(H2ClientSessionTest, ARefusedStreamMayBeSentAgain) {
  start(get());
  pump();
  peer.reset(1, NGHTTP2_REFUSED_STREAM);
  pump();

  const auto finished = only_finished();
  ASSERT_TRUE(finished.error);
  EXPECT_TRUE(finished.is_untouched);
  EXPECT_TRUE(finished.error->retry.retryable);
}

TEST_F(H2ClientSessionTest, GoAwayFinishesWhatItCoversAndGivesBackTheRest) {
  const auto covered = start(get());
  const auto lost = start(get());
  pump();
  peer.go_away(covered->stream_id);
  pump();

  const auto refused = only_finished();
  EXPECT_EQ(refused.exchange, lost);
  EXPECT_TRUE(refused.is_untouched);
  EXPECT_THAT(refused.error->message, HasSubstr("going away"));
  EXPECT_EQ(session.capacity(), 0U);
  EXPECT_TRUE(session.is_spent());

  peer.respond(covered->stream_id, "done");
  pump();
  const auto finished = only_finished();
  EXPECT_EQ(finished.error, std::nullopt);
  EXPECT_EQ(finished.exchange->response.body, "done");
}

TEST_F(H2ClientSessionTest, WhatWasQueuedBehindAGoAwayIsGivenBack) {
  peer.allow_streams(1);
  pump();
  const auto first = start(get());
  pump();
  const auto queued = start(get());  // beyond the limit: waits inside the session
  pump();
  EXPECT_THAT(peer.streams, SizeIs(1));
  peer.go_away(first->stream_id);
  pump();

  const auto refused = only_finished();
  EXPECT_EQ(refused.exchange, queued);
  EXPECT_TRUE(refused.is_untouched);
}

TEST_F(H2ClientSessionTest, CancellingOneLeavesTheOthers) {
  const auto one = start(get());
  const auto other = start(get());
  pump();

  session.cancel(*one);
  pump();

  EXPECT_EQ(peer.streams[one->stream_id].closed_with, NGHTTP2_CANCEL);
  EXPECT_EQ(session.in_flight(), 1U);
  peer.respond(one->stream_id, "late");
  peer.respond(other->stream_id, "fine");
  pump();
  EXPECT_EQ(only_finished().exchange, other);
}

TEST_F(H2ClientSessionTest, CancelsWhatIsStillQueued) {
  peer.allow_streams(1);
  pump();
  const auto first = start(get());
  pump();
  const auto queued = start(post(100));

  session.cancel(*queued);
  pump();
  peer.respond(first->stream_id, "x");
  pump();

  EXPECT_EQ(only_finished().exchange, first);
  EXPECT_EQ(session.in_flight(), 0U);
  EXPECT_THAT(peer.streams,
              Not(Contains(Pair(3, ::testing::Field(&H2Peer::Stream::is_complete, true)))));
}

TEST_F(H2ClientSessionTest, CancelsAnUploadUnderWay) {
  const auto exchange = start(post(10'000'000));
  const auto out = session.output(kStart);
  peer.receive(out);
  session.wrote(out.size(), kStart);

  session.cancel(*exchange);
  pump();

  EXPECT_EQ(session.in_flight(), 0U);
  EXPECT_FALSE(peer.streams[1].is_complete);
  EXPECT_THAT(session.take_finished(), IsEmpty());
}

TEST_F(H2ClientSessionTest, RefusesALongBodyAndKeepsTheConnection) {
  auto request = Request{.method = Method::get, .url = "https://host/"};
  request.max_response_bytes = 1000;
  start(exchange_for(std::move(request)));
  pump();
  peer.respond(1, std::string(1001, 'a'));
  pump();

  const auto finished = only_finished();
  ASSERT_TRUE(finished.error);
  EXPECT_EQ(finished.error->code, ErrorCode::invalid_response);
  EXPECT_FALSE(session.is_spent());
}

TEST_F(H2ClientSessionTest, RefusesALongAnnouncedBody) {
  auto request = Request{.method = Method::get, .url = "https://host/"};
  request.max_response_bytes = 1000;
  start(exchange_for(std::move(request)));
  pump();
  peer.respond(1, {{":status", "200"}, {"content-length", "1001"}}, "", true);
  pump();

  EXPECT_EQ(only_finished().error->code, ErrorCode::invalid_response);
}

TEST_F(H2ClientSessionTest, RefusesLongHeads) {
  start(get());
  start(get());
  pump();
  peer.respond(1, {{":status", "200"}, {"long", std::string(5000, 'v')}}, "");
  H2Peer::Headers many = {{":status", "200"}};
  for (int i = 0; i < 60; ++i) many.emplace_back("h" + std::to_string(i), "v");
  peer.respond(3, many, "");
  pump();

  const auto finished = session.take_finished();
  ASSERT_THAT(finished, SizeIs(2));
  EXPECT_EQ(finished[0].error->code, ErrorCode::invalid_response);
  EXPECT_EQ(finished[1].error->code, ErrorCode::invalid_response);
}

TEST_F(H2ClientSessionTest, ALengthThatIsNotKeptIsAFailure) {
  start(get());
  pump();
  peer.respond(1, {{":status", "200"}, {"content-length", "10"}}, "short");
  pump();

  EXPECT_EQ(only_finished().error->code, ErrorCode::connection_failed);
}

TEST_F(H2ClientSessionTest, AnswersPings) {
  peer.ping();
  pump();

  EXPECT_EQ(peer.ping_answers, 1);
}

TEST_F(H2ClientSessionTest, AnEndOfTheConnectionFailsEverything) {
  start(get());
  start(get());
  pump();

  session.end(std::nullopt);

  const auto finished = session.take_finished();
  ASSERT_THAT(finished, SizeIs(2));
  for (const auto& one : finished) {
    EXPECT_EQ(one.error->code, ErrorCode::connection_failed);
    EXPECT_FALSE(one.is_untouched);
  }
  EXPECT_TRUE(session.is_spent());
  EXPECT_EQ(session.capacity(), 0U);
}

TEST_F(H2ClientSessionTest, ASilentEndOfAReusedConnectionMayBeRepeated) {
  start(get());
  pump();
  peer.respond(1, "x");
  pump();
  session.take_finished();
  start(get());

  session.end(connection_error("reset"));

  EXPECT_TRUE(only_finished().is_untouched);
}

TEST_F(H2ClientSessionTest, ASilentEndOfAFreshConnectionIsNotRepeated) {
  start(get());
  start(get());

  session.end(connection_error("reset"));

  for (const auto& finished : session.take_finished()) EXPECT_FALSE(finished.is_untouched);
}

TEST_F(H2ClientSessionTest, GarbageFailsEverythingAndEndsTheSession) {
  start(get());
  pump();
  session.receive("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", kStart);
  pump();

  const auto finished = only_finished();
  ASSERT_TRUE(finished.error);
  EXPECT_EQ(finished.error->code, ErrorCode::connection_failed);
  EXPECT_THAT(finished.error->message, HasSubstr("broke the protocol"));
  EXPECT_TRUE(session.is_spent());
}

TEST_F(H2ClientSessionTest, AViolationAfterTheStartFailsEverything) {
  start(get());
  pump();
  // DATA on stream 0 (RFC 9113, section 6.1).
  session.receive(std::string_view("\0\0\1\0\0\0\0\0\0x", 10), kStart);
  pump();

  EXPECT_THAT(only_finished().error->message, HasSubstr("broke the protocol"));
  EXPECT_TRUE(session.is_spent());
}

}  // namespace
}  // namespace tinker::http::h2_client_session_test
