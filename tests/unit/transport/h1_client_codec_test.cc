#include "transport/h1_client_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"

namespace tinker::http::h1_client_codec_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using namespace std::chrono_literals;

constexpr TimePoint kStart = TimePoint(1000s);

std::shared_ptr<Exchange> exchange_for(Request request) {
  auto url = Url::parse(request.url);
  return std::make_shared<Exchange>(std::move(request), *std::move(url));
}

std::shared_ptr<Exchange> get(std::string url = "http://host:8080/path?q=1") {
  return exchange_for({.method = Method::get, .url = std::move(url)});
}

Body body_of(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

std::string take_output(Codec& codec) {
  std::string out;
  for (auto bytes = codec.output(kStart); !bytes.empty(); bytes = codec.output(kStart)) {
    out.append(bytes);
    codec.wrote(bytes.size(), kStart);
  }
  return out;
}

/// A codec whose request has been sent.
class H1ClientCodecTest : public ::testing::Test {
 protected:
  void send(std::shared_ptr<Exchange> exchange) {
    codec.start(std::move(exchange), kStart);
    take_output(codec);
  }
  Finished only_finished() {
    auto finished = codec.take_finished();
    EXPECT_THAT(finished, SizeIs(1));
    return finished.empty() ? Finished{} : std::move(finished.front());
  }
  Finished answer(std::string_view bytes) {
    send(get());
    codec.receive(bytes, kStart);
    return only_finished();
  }

  H1ClientCodec codec{HeadLimits{}};
};

TEST(H1CodecRequest, WritesHeadAndBody) {
  H1ClientCodec codec{HeadLimits{}};
  codec.start(exchange_for({.method = Method::post,
                            .url = "http://Host:8080/api?q=1",
                            .headers = {{"X-API-Key", "k"}, {"Accept", "*/*"}},
                            .body = body_of("hello")}),
              kStart);

  EXPECT_EQ(take_output(codec),
            "POST /api?q=1 HTTP/1.1\r\n"
            "Host: host:8080\r\n"
            "X-API-Key: k\r\n"
            "Accept: */*\r\n"
            "Accept-Encoding: gzip, deflate, zstd\r\n"
            "Content-Length: 5\r\n"
            "\r\n"
            "hello");
}

// PROTOCOL 3: "0" for a POST without body, absent on GET and DELETE.
TEST(H1CodecRequest, StatesTheLengthOfWhatMayHaveABody) {
  const auto head_of = [](Method method, Body body) {
    H1ClientCodec codec{HeadLimits{}};
    codec.start(exchange_for({.method = method, .url = "http://h/", .body = std::move(body)}),
                kStart);
    return take_output(codec);
  };

  EXPECT_THAT(head_of(Method::post, {}), HasSubstr("\r\nContent-Length: 0\r\n"));
  EXPECT_THAT(head_of(Method::put, {}), HasSubstr("\r\nContent-Length: 0\r\n"));
  EXPECT_THAT(head_of(Method::get, {}), Not(HasSubstr("Content-Length")));
  EXPECT_THAT(head_of(Method::delete_, {}), Not(HasSubstr("Content-Length")));
  EXPECT_THAT(head_of(Method::delete_, body_of("x")), HasSubstr("\r\nContent-Length: 1\r\n"));
}

TEST(H1CodecRequest, KeepsTheCallersAcceptEncodingAndDropsWhatBelongsToTheConnection) {
  H1ClientCodec codec{HeadLimits{}};
  codec.start(exchange_for({.method = Method::get,
                            .url = "http://h/",
                            .headers = {{"accept-encoding", "identity"},
                                        {"Host", "evil"},
                                        {"CONNECTION", "close"},
                                        {"Transfer-Encoding", "chunked"},
                                        {"content-length", "99"},
                                        {"Proxy-Authorization", "Basic eA=="}}}),
              kStart);

  EXPECT_EQ(take_output(codec), "GET / HTTP/1.1\r\nHost: h\r\naccept-encoding: identity\r\n\r\n");
}

TEST(H1CodecRequest, NamesTheServerInFullToAProxy) {
  const auto proxy_url = Url::parse("http://proxy:3128");
  const Proxy proxy = {.url = *proxy_url, .authorization = Secret("Basic dTpw")};
  H1ClientCodec codec(HeadLimits{}, &proxy);
  codec.start(get("http://host:81/path"), kStart);

  const std::string head = take_output(codec);

  EXPECT_THAT(head, StartsWith("GET http://host:81/path HTTP/1.1\r\nHost: host:81\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nProxy-Authorization: Basic dTpw\r\n"));
}

TEST(H1CodecRequest, HandsOutALargeBodyWithoutCopyingIt) {
  H1ClientCodec codec{HeadLimits{}};
  const Body body = body_of(std::string(100'000, 'b'));
  const auto exchange = exchange_for({.url = "http://h/", .body = body});
  codec.start(exchange, kStart);

  const auto head = codec.output(kStart);
  EXPECT_THAT(std::string(head), EndsWith("\r\n\r\n"));
  codec.wrote(head.size(), kStart);
  EXPECT_EQ(codec.output(kStart).data(), body->data());
  codec.wrote(60'000, kStart + 1s);
  EXPECT_EQ(exchange->phase, Exchange::Phase::sending);
  EXPECT_EQ(exchange->last_activity, kStart + 1s);
  EXPECT_EQ(codec.output(kStart).size(), 40'000U);
  codec.wrote(40'000, kStart + 2s);

  EXPECT_EQ(exchange->phase, Exchange::Phase::receiving);
  EXPECT_THAT(codec.output(kStart), IsEmpty());
}

TEST_F(H1ClientCodecTest, ReadsAnAnswer) {
  const auto finished =
      answer("HTTP/1.1 404 Not Found\r\nA: 1\r\nContent-Length: 3\r\nb:2 \r\n\r\nabc");

  ASSERT_EQ(finished.error, std::nullopt);
  EXPECT_EQ(finished.exchange->response.status, 404);
  EXPECT_EQ(finished.exchange->response.headers,
            (Headers{{"A", "1"}, {"Content-Length", "3"}, {"b", "2"}}));
  EXPECT_EQ(finished.exchange->response.body, "abc");
  EXPECT_EQ(codec.capacity(), 1U);
  EXPECT_FALSE(codec.is_spent());
}

TEST(H1CodecAnswer, IsTheSameHoweverItIsCut) {
  const std::string bytes =
      "HTTP/1.1 100 Continue\r\n\r\n"
      "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n"
      "5;ext=\"a\"\r\nhello\r\n"
      "6\r\n world\r\n"
      "0\r\nTrailer: t\r\n\r\n";
  const auto read = [](std::vector<std::string_view> pieces) {
    H1ClientCodec codec{HeadLimits{}};
    codec.start(get(), kStart);
    take_output(codec);
    for (const auto piece : pieces) codec.receive(piece, kStart);
    auto finished = codec.take_finished();
    if (finished.size() != 1 || finished[0].error || codec.is_spent()) return std::string("failed");
    const Response& response = finished[0].exchange->response;
    EXPECT_EQ(response.headers, (Headers{{"Transfer-Encoding", "chunked"}, {"X", "y"}}));
    return response.body;
  };

  EXPECT_EQ(read({bytes}), "hello world");
  const std::string_view all = bytes;
  for (std::size_t cut = 1; cut < all.size(); ++cut) {
    ASSERT_EQ(read({all.substr(0, cut), all.substr(cut)}), "hello world") << "cut at " << cut;
  }
  std::vector<std::string_view> single;
  for (std::size_t i = 0; i < all.size(); ++i) single.push_back(all.substr(i, 1));
  EXPECT_EQ(read(single), "hello world");
}

TEST_F(H1ClientCodecTest, CarriesOneExchangeAfterTheOther) {
  for (const char* text : {"first", "again"}) {
    const auto finished =
        answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + std::string(text));
    ASSERT_EQ(finished.error, std::nullopt);
    EXPECT_EQ(finished.exchange->response.body, text);
  }
}

TEST_F(H1ClientCodecTest, KnowsAnswersWithoutABody) {
  for (const char* head : {"HTTP/1.1 204 No Content\r\n\r\n",
                           "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}) {
    const auto finished = answer(head);
    EXPECT_EQ(finished.error, std::nullopt) << head;
    EXPECT_FALSE(codec.is_spent()) << head;
  }
}

TEST_F(H1ClientCodecTest, ReadsABodyUntilTheConnectionEnds) {
  send(get());
  codec.receive("HTTP/1.1 200 OK\r\n\r\nsome ", kStart);
  codec.receive("text", kStart);
  EXPECT_THAT(codec.take_finished(), IsEmpty());

  codec.end(std::nullopt);

  const auto finished = only_finished();
  ASSERT_EQ(finished.error, std::nullopt);
  EXPECT_EQ(finished.exchange->response.body, "some text");
  EXPECT_TRUE(codec.is_spent());
}

TEST_F(H1ClientCodecTest, ABrokenConnectionDoesNotCompleteABodyUntilTheEnd) {
  send(get());
  codec.receive("HTTP/1.1 200 OK\r\n\r\nsome ", kStart);

  codec.end(connection_error("it broke"));

  const auto finished = only_finished();
  ASSERT_TRUE(finished.error);
  EXPECT_EQ(finished.error->message, "it broke");
}

TEST_F(H1ClientCodecTest, SaysWhereAnAnswerWasCutShort) {
  send(get());
  codec.receive("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", kStart);

  codec.end(std::nullopt);

  const auto finished = only_finished();
  ASSERT_TRUE(finished.error);
  EXPECT_EQ(finished.error->code, ErrorCode::connection_failed);
  EXPECT_THAT(finished.error->message, HasSubstr("after 3 bytes"));
  EXPECT_FALSE(finished.is_untouched);
}

TEST_F(H1ClientCodecTest, ChunksNeedTheirEnd) {
  send(get());
  codec.receive("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", kStart);

  codec.end(std::nullopt);

  EXPECT_TRUE(only_finished().error);
}

TEST_F(H1ClientCodecTest, OnlyAReusedConnectionThatSaysNothingIsWorthARepetition) {
  send(get());
  codec.end(std::nullopt);
  EXPECT_FALSE(only_finished().is_untouched);

  H1ClientCodec reused{HeadLimits{}};
  reused.start(get(), kStart);
  take_output(reused);
  reused.receive("HTTP/1.1 204 No Content\r\n\r\n", kStart);
  reused.take_finished();
  reused.start(get(), kStart);
  reused.end(connection_error("reset"));
  const auto finished = reused.take_finished();
  ASSERT_THAT(finished, SizeIs(1));
  EXPECT_TRUE(finished[0].is_untouched);
}

TEST_F(H1ClientCodecTest, AnAnswerThatBeganIsNotRepeated) {
  answer("HTTP/1.1 204 No Content\r\n\r\n");
  send(get());
  codec.receive("H", kStart);

  codec.end(std::nullopt);

  EXPECT_FALSE(only_finished().is_untouched);
}

TEST_F(H1ClientCodecTest, ConnectionsEndWhenTheAnswerSaysSo) {
  answer("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  EXPECT_TRUE(codec.is_spent());
  EXPECT_EQ(codec.capacity(), 0U);

  H1ClientCodec old{HeadLimits{}};
  old.start(get(), kStart);
  take_output(old);
  old.receive("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", kStart);
  EXPECT_THAT(old.take_finished(), SizeIs(1));
  EXPECT_TRUE(old.is_spent());
}

TEST_F(H1ClientCodecTest, AnEarlyAnswerCountsAndEndsTheConnection) {
  codec.start(exchange_for({.url = "http://h/", .body = body_of(std::string(1'000'000, 'x'))}),
              kStart);
  codec.wrote(codec.output(kStart).size(), kStart);

  codec.receive("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", kStart);

  const auto finished = only_finished();
  ASSERT_EQ(finished.error, std::nullopt);
  EXPECT_EQ(finished.exchange->response.status, 413);
  EXPECT_TRUE(codec.is_spent());
  EXPECT_THAT(codec.output(kStart), IsEmpty());
}

TEST_F(H1ClientCodecTest, BytesNobodyAskedForEndTheConnection) {
  const auto finished =
      answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n");
  EXPECT_EQ(finished.error, std::nullopt);
  EXPECT_TRUE(codec.is_spent());

  H1ClientCodec idle{HeadLimits{}};
  idle.receive("HTTP/1.1 408 Timeout\r\n\r\n", kStart);
  EXPECT_TRUE(idle.is_spent());
  EXPECT_THAT(idle.take_finished(), IsEmpty());
}

TEST(H1CodecAnswer, RefusesWhatIsNotHttp) {
  for (const std::string bytes :
       {"SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 099 Odd\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        "\x15\x03\x01\x02\x02\x28 alert alert"}) {
    H1ClientCodec codec{HeadLimits{}};
    codec.start(get(), kStart);
    take_output(codec);
    codec.receive(bytes, kStart);

    const auto finished = codec.take_finished();
    ASSERT_THAT(finished, SizeIs(1)) << bytes;
    ASSERT_TRUE(finished[0].error) << bytes;
    EXPECT_EQ(finished[0].error->code, ErrorCode::connection_failed) << bytes;
    EXPECT_TRUE(codec.is_spent()) << bytes;
  }
}

TEST(H1CodecAnswer, InterimAnswersHaveAnEnd) {
  H1ClientCodec codec{HeadLimits{}};
  codec.start(get(), kStart);
  take_output(codec);

  for (int i = 0; i < 1000 && codec.in_flight() > 0; ++i) {
    codec.receive("HTTP/1.1 100 Continue\r\n\r\n", kStart);
  }

  const auto finished = codec.take_finished();
  ASSERT_THAT(finished, SizeIs(1));
  EXPECT_THAT(finished[0].error->message, HasSubstr("1xx"));
}

/// Feeds endless copies of `piece` after `start`; the error it ends with.
Error endless(std::string_view start, std::string_view piece, std::size_t max_response_bytes) {
  H1ClientCodec codec(HeadLimits{.max_bytes = 4096, .max_fields = 50});
  auto request = Request{.method = Method::get, .url = "http://h/"};
  request.max_response_bytes = max_response_bytes;
  codec.start(exchange_for(std::move(request)), kStart);
  take_output(codec);
  codec.receive(start, kStart);
  for (int i = 0; i < 100'000 && codec.in_flight() > 0; ++i) codec.receive(piece, kStart);
  auto finished = codec.take_finished();
  return finished.size() == 1 && finished[0].error ? *finished[0].error
                                                   : Error{.message = "it went on for ever"};
}

TEST(H1CodecAnswer, NothingInItMayGrowForEver) {
  constexpr std::string_view kHead = "HTTP/1.1 200 OK\r\n";
  constexpr std::string_view kChunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

  EXPECT_EQ(endless("HTTP/1.1 200 ", "reason", 100).code, ErrorCode::invalid_response);
  EXPECT_EQ(endless(kHead, "a: b\r\n", 100).code, ErrorCode::invalid_response);
  EXPECT_EQ(endless(kHead, "a: " + std::string(500, 'v') + "\r\n", 100).code,
            ErrorCode::invalid_response);
  EXPECT_EQ(endless("HTTP/1.1 200 OK\r\na: ", "vvvvvvvv", 100).code, ErrorCode::invalid_response);
  EXPECT_EQ(endless("HTTP/1.1 200 OK\r\n\r\n", "body", 100).code, ErrorCode::invalid_response);
  EXPECT_EQ(endless(kChunked, "1\r\nx\r\n", 100).code, ErrorCode::invalid_response);
  EXPECT_EQ(endless(std::string(kChunked) + "1;", "extension", 100).code,
            ErrorCode::connection_failed);
  EXPECT_EQ(endless(std::string(kChunked) + "0\r\n", "t: r\r\n", 100).code,
            ErrorCode::connection_failed);
  EXPECT_EQ(endless("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", "", 100).code,
            ErrorCode::invalid_response);
}

TEST(H1CodecAnswer, AnAnnouncedLengthCostsNothing) {
  H1ClientCodec codec{HeadLimits{}};
  auto request = Request{.method = Method::get, .url = "http://h/"};
  request.max_response_bytes = std::size_t{1} << 62U;
  const auto exchange = exchange_for(std::move(request));
  codec.start(exchange, kStart);
  take_output(codec);

  codec.receive("HTTP/1.1 200 OK\r\nContent-Length: 4000000000000000000\r\n\r\nx", kStart);

  EXPECT_EQ(codec.in_flight(), 1U);
  EXPECT_LE(exchange->response.body.capacity(), std::size_t{17} << 20U);
}

TEST_F(H1ClientCodecTest, ACancelledExchangeLeavesTheConnectionUseless) {
  const auto exchange = get();
  codec.start(exchange, kStart);

  codec.cancel(*exchange);

  EXPECT_TRUE(codec.is_spent());
  EXPECT_EQ(codec.in_flight(), 0U);
  EXPECT_THAT(codec.output(kStart), IsEmpty());
  codec.end(std::nullopt);
  EXPECT_THAT(codec.take_finished(), IsEmpty());
}

}  // namespace
}  // namespace tinker::http::h1_client_codec_test
