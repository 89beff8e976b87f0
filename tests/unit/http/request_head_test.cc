#include "http/request_head.h"

#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tinker::http::request_head_test {
namespace {

/// The status by which a head is refused; 0 when it is read, -1 when its end has not come.
int status_of(std::string_view bytes, RequestHead& head, const RequestLimits& limits) {
  HeadScanner scanner;
  const std::size_t size = scanner.scan(bytes, limits);
  if (scanner.refusal()) return scanner.refusal()->status;
  if (size == 0) return -1;
  const auto refusal = parse_request_head(bytes.substr(0, size), limits, head);
  return refusal ? refusal->status : 0;
}
int status_of(std::string_view bytes) {
  RequestHead head;
  return status_of(bytes, head, {});
}
RequestHead read(std::string_view bytes) {
  RequestHead head;
  EXPECT_EQ(status_of(bytes, head, {}), 0) << bytes;
  return head;
}

TEST(RequestHead, ReadsAHead) {
  const RequestHead head =
      read("POST /a/b?c=d HTTP/1.1\r\nHost: h:1\r\nX-Y:  z \t\r\nContent-Length: 12\r\n\r\n");

  EXPECT_EQ(head.method, Method::post);
  EXPECT_EQ(head.target, "/a/b?c=d");
  EXPECT_EQ(head.headers, Headers({{"Host", "h:1"}, {"X-Y", "z"}, {"Content-Length", "12"}}));
  EXPECT_EQ(head.content_length, 12U);
  EXPECT_FALSE(head.is_chunked);
  EXPECT_TRUE(head.is_kept_alive);
}

TEST(RequestHead, KnowsSevenMethods) {
  for (const std::string method : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}) {
    EXPECT_EQ(to_string(read(method + " / HTTP/1.1\r\nHost: h\r\n\r\n").method), method);
  }
  EXPECT_EQ(status_of("BREW / HTTP/1.1\r\nHost: h\r\n\r\n"), 501);
  EXPECT_EQ(status_of("get / HTTP/1.1\r\nHost: h\r\n\r\n"), 501);
  EXPECT_EQ(status_of("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n"), 501);
}

TEST(RequestHead, KnowsTheFormsOfATarget) {
  EXPECT_EQ(read("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").target, "*");
  const RequestHead absolute = read("GET http://a.b:80/c?d HTTP/1.1\r\nHost: other\r\n\r\n");
  EXPECT_EQ(absolute.target, "/c?d");
  EXPECT_EQ(absolute.headers.find("host"), "a.b:80");
  EXPECT_EQ(read("GET http://a?d HTTP/1.1\r\nHost: a\r\n\r\n").target, "/?d");
  for (const std::string bad : {"*",
                                "a",
                                "ftp://a/",
                                "http://",
                                "http://a@b/",
                                "http://a,b/",
                                "http://a#b",
                                "/a#b",
                                "/\x7f",
                                "/\xc3\xa4",
                                ""}) {
    EXPECT_EQ(status_of("GET " + bad + " HTTP/1.1\r\nHost: h\r\n\r\n"), 400) << bad;
  }
}

TEST(RequestHead, ChecksTheVersion) {
  EXPECT_TRUE(read("GET / HTTP/1.0\r\n\r\n").is_http10);
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET / HTTP/0.9\r\nHost: h\r\n\r\n"), 505);
  for (const std::string bad : {"HTTP/1", "HTTP/11.1", "http/1.1", "HTTP/1.x", ""}) {
    EXPECT_EQ(status_of("GET / " + bad + "\r\nHost: h\r\n\r\n"), 400) << bad;
  }
  EXPECT_EQ(status_of("GET /\r\n\r\n"), 400);
}

TEST(RequestHead, KeepsConnectionsAsTheClientSays) {
  EXPECT_TRUE(read("GET / HTTP/1.1\r\nHost: h\r\n\r\n").is_kept_alive);
  EXPECT_FALSE(read("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n").is_kept_alive);
  EXPECT_FALSE(read("GET / HTTP/1.0\r\n\r\n").is_kept_alive);
  EXPECT_TRUE(read("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").is_kept_alive);
}

TEST(RequestHead, NeedsExactlyOneHost) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400);
}

TEST(RequestHead, KnowsOneExpectation) {
  EXPECT_TRUE(read("PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n\r\n").expects_continue);
  EXPECT_EQ(status_of("PUT / HTTP/1.1\r\nHost: h\r\nExpect: 200-maybe\r\n\r\n"), 417);
}

/// Requests that two readers could cut at different places.
class Smuggling : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(Smuggling, IsRefused) {
  const auto& [fields, status] = GetParam();
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n\r\n"), status) << fields;
}

INSTANTIATE_TEST_SUITE_P(
    Heads,
    Smuggling,
    ::testing::Values(std::tuple("Content-Length: 5\r\nTransfer-Encoding: chunked", 400),
                      std::tuple("Transfer-Encoding: chunked\r\nContent-Length: 5", 400),
                      std::tuple("Content-Length: 5\r\nContent-Length: 5", 400),
                      std::tuple("Content-Length: 5\r\nContent-Length: 6", 400),
                      std::tuple("Content-Length: 5, 5", 400),
                      std::tuple("Content-Length: +5", 400),
                      std::tuple("Content-Length: -5", 400),
                      std::tuple("Content-Length: 0x5", 400),
                      std::tuple("Content-Length: 5 5", 400),
                      std::tuple("Content-Length:", 400),
                      std::tuple("Content-Length: 99999999999999999999", 400),
                      std::tuple("Content-Length : 5", 400),
                      std::tuple("Content-Length: \x0c"
                                 "5",
                                 400),
                      std::tuple("Content-Length: 5\r", 400),
                      std::tuple("Transfer-Encoding: \x0b"
                                 "chunked",
                                 400),
                      std::tuple("Transfer-Encoding: chunked\x0c", 400),
                      std::tuple("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
                      std::tuple("Transfer-Encoding: chunked, chunked", 501),
                      std::tuple("Transfer-Encoding: gzip, chunked", 501),
                      std::tuple("Transfer-Encoding: identity", 501),
                      std::tuple("Transfer-Encoding: xchunked", 501),
                      std::tuple("Transfer-Encoding: \"chunked\"", 501),
                      std::tuple("Transfer-Encoding : chunked", 400),
                      std::tuple("X: a\r\n Transfer-Encoding: chunked", 400),
                      std::tuple("X: a\r\n\tb", 400),
                      std::tuple(" X: a", 400),
                      std::tuple("X: a\nTransfer-Encoding: chunked", 400),
                      std::tuple("X: a\rTransfer-Encoding: chunked", 400),
                      std::tuple(std::string("X: a\0b", 6), 400),
                      std::tuple("X\x01: a", 400),
                      std::tuple(": a", 400),
                      std::tuple("X", 400)));

TEST(RequestHead, HttpOneZeroHasNoCodings) {
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(RequestHead, RequestLineHasSingleSpacesAndCrLf) {
  EXPECT_EQ(status_of("GET  / HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1 \r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\nHost: h\n\n"), 400);
  EXPECT_EQ(status_of("\n"), 400);
}

TEST(RequestHead, SeesAtOnceWhatIsNoHttp) {
  EXPECT_EQ(status_of("\x16\x03\x01"), 400);
  EXPECT_EQ(status_of(std::string_view("\0", 1)), 400);
}

TEST(RequestHead, HasLimits) {
  const RequestLimits limits = {.head = {.max_bytes = 1000, .max_fields = 3},
                                .max_target_bytes = 100};
  const auto status = [&](const std::string& bytes) {
    RequestHead head;
    return status_of(bytes, head, limits);
  };
  const std::string long_path = "/" + std::string(99, 'a');
  EXPECT_EQ(status("GET " + long_path + " HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
  EXPECT_EQ(status("GET " + long_path + "a HTTP/1.1\r\nHost: h\r\n\r\n"), 414);
  EXPECT_EQ(status("GET /" + std::string(200, 'a')), 414) << "without its end";
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\n\r\n"), 0);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n"), 431);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(1000, 'a')), 431);
}

TEST(RequestHead, IsFoundHoweverItIsCut) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: h\r\n\r\nrest";
  HeadScanner scanner;
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    const std::size_t found = scanner.scan(std::string_view(bytes).substr(0, size), {});
    ASSERT_FALSE(scanner.refusal());
    if (found == 0) continue;
    EXPECT_EQ(found, bytes.size() - 4);
    EXPECT_EQ(size, found);
    return;
  }
  FAIL() << "not found";
}

}  // namespace
}  // namespace tinker::http::request_head_test
