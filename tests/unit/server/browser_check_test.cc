#include "server/browser_check.h"

#include <string>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::server::browser_check_test {
namespace {

using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

constexpr const char* kHost = "127.0.0.1:8000";

auto is_refused(const char* why) {
  return IsError(ErrorCode::permission_denied, HasSubstr(why));
}

TEST(BrowserCheckOnLoopback, AnswersToTheNamesOfThisMachine) {
  for (const char* host : {"localhost",
                           "localhost:8000",
                           "LocalHost:1",
                           "127.0.0.1",
                           "127.0.0.1:8000",
                           "127.1.2.3:8000",
                           "[::1]",
                           "[::1]:8000"}) {
    EXPECT_THAT(check_browser(host, "", true), IsOk()) << host;
  }
}

TEST(BrowserCheckOnLoopback, RefusesOtherHosts) {
  for (const char* host : {"evil.example",
                           "evil.example:8000",
                           "localhost.evil.example",
                           "evil-localhost",
                           "127.0.0.1.evil.example",
                           "128.0.0.1",
                           "0.0.0.0",
                           "127.1",
                           "2130706433",
                           "[::2]",
                           "::1",
                           "[::1",
                           "[::1]x",
                           "[]",
                           ":8000",
                           "localhost:80x",
                           "user@localhost",
                           "localhost,evil.example"}) {
    EXPECT_THAT(check_browser(host, "", true), is_refused(host)) << host;
  }
  EXPECT_THAT(check_browser(std::string("127.0.0.1\0.example", 18), "", true),
              is_refused("the Host header is"));
}

TEST(BrowserCheckOnLoopback, RefusesARequestWithoutAHost) {
  EXPECT_THAT(check_browser("", "", true), is_refused("the Host header is missing"));
}

TEST(BrowserCheckOnLoopback, LetsPagesOfThisMachineIn) {
  for (const char* origin : {"http://localhost",
                             "http://localhost:3000",
                             "https://127.0.0.1:8443",
                             "HTTP://LOCALHOST",
                             "http://[::1]:8000"}) {
    EXPECT_THAT(check_browser(kHost, origin, true), IsOk()) << origin;
  }
}

TEST(BrowserCheckOnLoopback, RefusesPagesOfOthers) {
  for (const char* origin : {"https://evil.example",
                             "http://localhost.evil.example",
                             "http://evil.example:8000",
                             "null",
                             "localhost",
                             "file://",
                             "chrome-extension://localhost",
                             "http://",
                             "http://localhost/",
                             "http://user@localhost",
                             "http://localhost http://evil.example"}) {
    EXPECT_THAT(check_browser(kHost, origin, true), is_refused("may not use this server"))
        << origin;
  }
}

TEST(BrowserCheckBeyondLoopback, LetsAnyHostIn) {
  for (const char* host : {"", "tinker.example", "10.0.0.7:8000", "evil.example"}) {
    EXPECT_THAT(check_browser(host, "", false), IsOk()) << host;
  }
}

TEST(BrowserCheckBeyondLoopback, LetsItsOwnPagesIn) {
  EXPECT_THAT(check_browser("tinker.example", "https://tinker.example", false), IsOk());
  EXPECT_THAT(check_browser("tinker.example:443", "https://Tinker.Example", false), IsOk());
  EXPECT_THAT(check_browser("tinker.example", "http://tinker.example:80", false), IsOk());
  EXPECT_THAT(check_browser("10.0.0.7:8000", "http://10.0.0.7:8000", false), IsOk());
}

TEST(BrowserCheckBeyondLoopback, RefusesPagesOfOthers) {
  for (const char* origin : {"https://evil.example",
                             "null",
                             "http://localhost:8000",
                             "https://tinker.example:8443",
                             "http://tinker.example"}) {
    EXPECT_THAT(check_browser("tinker.example:443", origin, false),
                is_refused("may not use this server"))
        << origin;
  }
  EXPECT_THAT(check_browser("", "https://tinker.example", false),
              is_refused("may not use this server"));
}

TEST(BrowserCheckBehindAProxy, LetsThePublicHostAndItsPagesIn) {
  constexpr const char* kPublic = "https://tinker.example";
  for (const char* host : {"tinker.example", "Tinker.Example:443", "127.0.0.1:8000"}) {
    EXPECT_THAT(check_browser(host, "", true, kPublic), IsOk()) << host;
    EXPECT_THAT(check_browser(host, kPublic, true, kPublic), IsOk()) << host;
  }
  EXPECT_THAT(check_browser("10.0.0.7:8000", kPublic, false, kPublic), IsOk());
  EXPECT_THAT(check_browser("[::2]", "", true, "http://[::2]:81"), IsOk());
}

TEST(BrowserCheckBehindAProxy, RefusesOtherHostsAndTheirPages) {
  constexpr const char* kPublic = "https://tinker.example";
  for (const char* host : {"evil.example", "tinker.example.evil.example", "example", ""}) {
    EXPECT_THAT(check_browser(host, "", true, kPublic), is_refused("the Host header")) << host;
  }
  for (const char* origin :
       {"http://tinker.example", "https://tinker.example:8443", "https://evil.example", "null"}) {
    for (const bool is_loopback : {true, false}) {
      EXPECT_THAT(check_browser("tinker.example:443", origin, is_loopback, kPublic),
                  is_refused("may not use this server"))
          << origin;
    }
  }
}

TEST(BrowserCheck, QuotesWhatItRefuses) {
  EXPECT_THAT(check_browser(kHost, "http://a\n\"", true), is_refused("\\x0a"));
}

TEST(LoopbackHost, IsThisMachineAlone) {
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.255.0.1", "::1", "0:0::1"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host : {"",
                           "0.0.0.0",
                           "::",
                           "10.0.0.1",
                           "example.org",
                           "[::1]",
                           "127.0.0.1:80",
                           "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

}  // namespace
}  // namespace tinker::server::browser_check_test
