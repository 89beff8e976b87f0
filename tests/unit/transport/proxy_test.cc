#include "transport/proxy.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"

namespace tinker::http::proxy_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using ::testing::Not;

using Environment = std::map<std::string, std::string>;

Result<ProxyRules> read(const Environment& environment) {
  return ProxyRules::from_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

/// The origin of the proxy that `url` goes through, or "direct".
std::string route(const ProxyRules& rules, std::string_view url) {
  const auto* const proxy = rules.for_url(Url::parse(url).value());
  return proxy == nullptr ? "direct" : proxy->url.origin();
}

std::string route(const Environment& environment, std::string_view url) {
  return route(read(environment).value(), url);
}

/// Whether `NO_PROXY=entries` keeps `url` from the proxy.
bool bypassed(std::string entries, std::string_view url) {
  return route({{"ALL_PROXY", "http://p"}, {"NO_PROXY", std::move(entries)}}, url) == "direct";
}

TEST(ProxyRules, NoneGoesStraight) {
  EXPECT_EQ(route(ProxyRules::none(), "https://h"), "direct");
  EXPECT_EQ(route(Environment{}, "https://h"), "direct");
}

TEST(ProxyRules, PicksByTheSchemeOfTheRequest) {
  const Environment environment = {{"HTTP_PROXY", "http://a:1"}, {"HTTPS_PROXY", "http://b:2"}};

  EXPECT_EQ(route(environment, "http://h"), "http://a:1");
  EXPECT_EQ(route(environment, "https://h"), "http://b:2");
}

TEST(ProxyRules, RememberWhatNamedTheProxy) {
  const auto source = [](const Environment& environment) {
    return read(environment).value().for_url(Url::parse("http://h").value())->source;
  };

  EXPECT_EQ(source({{"http_proxy", "http://a:1"}}), "http_proxy");
  EXPECT_EQ(source({{"ALL_PROXY", "http://a:1"}}), "ALL_PROXY");
}

TEST(ProxyRules, FallsBackToAllProxy) {
  const Environment environment = {{"ALL_PROXY", "http://all:1"}, {"HTTPS_PROXY", "http://b:2"}};

  EXPECT_EQ(route(environment, "http://h"), "http://all:1");
  EXPECT_EQ(route(environment, "https://h"), "http://b:2");
}

TEST(ProxyRules, PrefersLowerCase) {
  EXPECT_EQ(route({{"HTTP_PROXY", "http://upper"}, {"http_proxy", "http://lower"}}, "http://h"),
            "http://lower");
  EXPECT_EQ(route({{"https_proxy", "http://lower"}}, "https://h"), "http://lower");
  EXPECT_EQ(route({{"all_proxy", "http://lower"}}, "https://h"), "http://lower");
  EXPECT_EQ(route({{"all_proxy", "http://p"}, {"no_proxy", "h"}, {"NO_PROXY", "g"}}, "http://h"),
            "direct");
  EXPECT_EQ(route({{"all_proxy", "http://p"}, {"no_proxy", "h"}, {"NO_PROXY", "g"}}, "http://g"),
            "http://p");
}

TEST(ProxyRules, TakesAnEmptyLowerCaseVariableAsOff) {
  EXPECT_EQ(route({{"HTTP_PROXY", "http://upper"}, {"http_proxy", ""}}, "http://h"), "direct");
  EXPECT_EQ(route({{"HTTP_PROXY", ""}, {"ALL_PROXY", "http://all"}}, "http://h"), "http://all");
}

TEST(ProxyRules, DistrustsHttpProxyInACgiProgram) {
  const Environment cgi = {
      {"REQUEST_METHOD", "GET"}, {"HTTP_PROXY", "http://evil"}, {"HTTPS_PROXY", "http://b"}};

  EXPECT_EQ(route(cgi, "http://h"), "direct");
  EXPECT_EQ(route(cgi, "https://h"), "http://b");
  EXPECT_EQ(route({{"REQUEST_METHOD", "GET"}, {"http_proxy", "http://a"}}, "http://h"), "http://a");
}

TEST(ProxyRules, TakesAProxyWithoutScheme) {
  EXPECT_EQ(route({{"HTTPS_PROXY", "proxy.local:3128"}}, "https://h"), "http://proxy.local:3128");
  EXPECT_EQ(route({{"HTTPS_PROXY", " http://proxy.local:3128/ "}}, "https://h"),
            "http://proxy.local:3128");
  EXPECT_EQ(route({{"HTTPS_PROXY", "https://proxy.local/ignored?x"}}, "https://h"),
            "https://proxy.local");
}

TEST(ProxyRules, RefusesOtherSchemesAndNamesTheVariable) {
  EXPECT_THAT(read({{"ALL_PROXY", "socks5://user:hunter2@h:1080"}}),
              IsError(ErrorCode::invalid_argument,
                      AllOf(HasSubstr("ALL_PROXY"),
                            HasSubstr("socks5://***@h:1080"),
                            HasSubstr("expected http or https"),
                            Not(HasSubstr("hunter2")))));
  EXPECT_THAT(
      read({{"https_proxy", "http://h:x"}}),
      IsError(ErrorCode::invalid_argument, AllOf(HasSubstr("https_proxy"), HasSubstr("port"))));
}

TEST(ProxyRules, LooksAtNoProxyOfAllHostsFirst) {
  EXPECT_EQ(route({{"ALL_PROXY", "socks5://h"}, {"NO_PROXY", "a, *"}}, "https://h"), "direct");
}

TEST(ExplicitProxy, IsForEveryUrl) {
  const auto rules = ProxyRules::explicit_proxy("http://proxy:3128").value();

  EXPECT_EQ(route(rules, "http://h"), "http://proxy:3128");
  EXPECT_EQ(route(rules, "https://localhost"), "http://proxy:3128");
  EXPECT_EQ(rules.for_url(Url::parse("https://h").value())->url.target, "/");
}

std::string authorization(std::string_view proxy) {
  const auto rules = ProxyRules::explicit_proxy(proxy).value();
  return rules.for_url(Url::parse("https://h").value())->authorization.expose();
}

TEST(ExplicitProxy, TurnsUserAndPasswordIntoBasicAuthorization) {
  // PROTOCOL 2; the example of RFC 7617, section 2.
  EXPECT_EQ(authorization("http://Aladdin:open%20sesame@p"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
  EXPECT_EQ(authorization("http://a:b@p"), "Basic YTpi");
  EXPECT_EQ(authorization("http://a:bc@p"), "Basic YTpiYw==");
  EXPECT_EQ(authorization("http://a:bcd@p"), "Basic YTpiY2Q=");
  EXPECT_EQ(authorization("a:b@p:3128"), "Basic YTpi");
}

TEST(ExplicitProxy, TakesUnusualUserInfo) {
  EXPECT_EQ(authorization("http://user@p"), "Basic dXNlcjo=");            // "user:"
  EXPECT_EQ(authorization("http://:pw@p"), "Basic OnB3");                 // ":pw"
  EXPECT_EQ(authorization("http://u:p@ss@p"), "Basic dTpwQHNz");          // "u:p@ss"
  EXPECT_EQ(authorization("http://u:p:q@p"), "Basic dTpwOnE=");           // "u:p:q"
  EXPECT_EQ(authorization("http://u:%2F%zz%4@p"), "Basic dTovJXp6JTQ=");  // "u:/%zz%4"
  EXPECT_EQ(authorization("http://u:\xFF@p"), "Basic dTr/");
}

TEST(ExplicitProxy, HasNoAuthorizationWithoutUserInfo) {
  EXPECT_EQ(authorization("http://p"), "");
  EXPECT_EQ(authorization("http://@p"), "");
  EXPECT_EQ(authorization("http://:@p"), "");
}

TEST(ExplicitProxy, NeverShowsCredentialsInErrors) {
  for (const auto* text : {"http://user:hunter2@",
                           "http://user:hunter2@h:x",
                           "http://user:hunter2@a b",
                           "http://user:hun/ter2@h",
                           "http://user:1/hunter2@h",
                           "http://user:hun?ter2@h",
                           "http://user:hun#ter2@h",
                           "socks5h://user:hunter2@h",
                           "http://user:hunter2",
                           "user:hunter2",
                           "ftp://hunter2@h",
                           "http://user:hunter2@h:99999/"}) {
    EXPECT_THAT(
        ProxyRules::explicit_proxy(text),
        IsError(ErrorCode::invalid_argument, AllOf(Not(HasSubstr("hunt")), Not(HasSubstr("ter2")))))
        << text;
  }
}

TEST(ExplicitProxy, RefusesWhatIsNoUrl) {
  EXPECT_THAT(ProxyRules::explicit_proxy(""),
              IsError(ErrorCode::invalid_argument, HasSubstr("no host")));
  EXPECT_THAT(ProxyRules::explicit_proxy("http://a b"), Not(IsOk()));
  EXPECT_THAT(ProxyRules::explicit_proxy("http:/p"), Not(IsOk()));
}

TEST(NoProxy, MatchesANameAndAllBelowIt) {
  EXPECT_TRUE(bypassed("example.com", "https://example.com"));
  EXPECT_TRUE(bypassed("example.com", "https://www.example.com:8443/x"));
  EXPECT_TRUE(bypassed("Example.COM", "http://a.b.example.com"));
  EXPECT_FALSE(bypassed("example.com", "https://wwwexample.com"));
  EXPECT_FALSE(bypassed("example.com", "https://example.com.evil"));
  EXPECT_FALSE(bypassed("www.example.com", "https://example.com"));
}

TEST(NoProxy, MatchesOnlyBelowANameWithALeadingDot) {
  for (const auto* entry : {".example.com", "*.example.com"}) {
    EXPECT_TRUE(bypassed(entry, "https://www.example.com")) << entry;
    EXPECT_TRUE(bypassed(entry, "https://a.b.example.com")) << entry;
    EXPECT_FALSE(bypassed(entry, "https://example.com")) << entry;
    EXPECT_FALSE(bypassed(entry, "https://wwwexample.com")) << entry;
  }
}

TEST(NoProxy, IgnoresTheDotThatEndsAName) {
  EXPECT_TRUE(bypassed("example.com.", "https://example.com"));
  EXPECT_TRUE(bypassed("example.com", "https://www.example.com."));
}

TEST(NoProxy, TakesLocalhostAsThatNameAlone) {
  EXPECT_TRUE(bypassed("localhost", "http://localhost:8000"));
  EXPECT_TRUE(bypassed("LOCALHOST", "http://localhost:8000"));
  EXPECT_FALSE(bypassed("localhost", "http://a.localhost"));
  EXPECT_FALSE(bypassed("localhost", "http://127.0.0.1"));
  EXPECT_FALSE(bypassed("", "http://localhost"));
}

TEST(NoProxy, MatchesPorts) {
  EXPECT_TRUE(bypassed("example.com:8443", "https://example.com:8443"));
  EXPECT_TRUE(bypassed("example.com:8443", "https://www.example.com:8443"));
  EXPECT_FALSE(bypassed("example.com:8443", "https://example.com"));
  EXPECT_TRUE(bypassed("example.com:443", "https://example.com"));
  EXPECT_FALSE(bypassed("example.com:443", "http://example.com"));
  EXPECT_TRUE(bypassed("10.0.0.1:80", "http://10.0.0.1"));
  EXPECT_FALSE(bypassed("10.0.0.1:80", "https://10.0.0.1"));
  EXPECT_TRUE(bypassed("[::1]:8000", "http://[::1]:8000"));
  EXPECT_FALSE(bypassed("[::1]:8000", "http://[::1]:8001"));
}

TEST(NoProxy, MatchesAddresses) {
  EXPECT_TRUE(bypassed("127.0.0.1", "http://127.0.0.1:8000"));
  EXPECT_FALSE(bypassed("127.0.0.1", "http://127.0.0.2"));
  EXPECT_TRUE(bypassed("::1", "http://[::1]"));
  EXPECT_TRUE(bypassed("[::1]", "http://[0:0::1]"));
  EXPECT_TRUE(bypassed("0:0:0::1", "http://[::1]"));
  EXPECT_FALSE(bypassed("::1", "http://[::2]"));
  EXPECT_FALSE(bypassed("0.0.1", "http://10.0.0.1"));
}

TEST(NoProxy, MatchesRangesOfAddresses) {
  EXPECT_TRUE(bypassed("192.168.0.0/16", "http://192.168.7.9"));
  EXPECT_FALSE(bypassed("192.168.0.0/16", "http://192.169.0.0"));
  EXPECT_TRUE(bypassed("10.16.0.0/12", "http://10.31.255.255"));
  EXPECT_FALSE(bypassed("10.16.0.0/12", "http://10.32.0.0"));
  EXPECT_TRUE(bypassed("1.2.3.4/32", "http://1.2.3.4"));
  EXPECT_FALSE(bypassed("1.2.3.4/32", "http://1.2.3.5"));
  EXPECT_TRUE(bypassed("0.0.0.0/0", "http://8.8.8.8"));
  EXPECT_FALSE(bypassed("0.0.0.0/0", "http://[::1]"));
  EXPECT_TRUE(bypassed("fd00::/8", "http://[fdab::1]"));
  EXPECT_FALSE(bypassed("fd00::/8", "http://[fe80::1]"));
  EXPECT_TRUE(bypassed("2001:db8::1/128", "http://[2001:db8::1]"));
}

TEST(NoProxy, DoesNotLookUpNames) {
  EXPECT_FALSE(bypassed("127.0.0.0/8", "http://localhost"));
}

TEST(NoProxy, MatchesAScheme) {
  EXPECT_TRUE(bypassed("https://example.com", "https://example.com"));
  EXPECT_FALSE(bypassed("https://example.com", "http://example.com"));
  EXPECT_FALSE(bypassed("https://example.com", "https://www.example.com"));
  EXPECT_TRUE(bypassed("all://example.com/", "http://example.com"));
  EXPECT_TRUE(bypassed("https://", "https://h"));
  EXPECT_FALSE(bypassed("https://", "http://h"));
  EXPECT_TRUE(bypassed("http://*", "http://h"));
  EXPECT_TRUE(bypassed("https://[::1]:8443/x", "https://[::1]:8443"));
}

TEST(NoProxy, IsAListWithCommasAndSpaces) {
  for (const auto* entries : {"a,example.com",
                              " a , example.com ",
                              "a example.com",
                              ",,example.com,,",
                              "a,\texample.com"}) {
    EXPECT_TRUE(bypassed(entries, "https://example.com")) << entries;
    EXPECT_FALSE(bypassed(entries, "https://b")) << entries;
  }
}

TEST(NoProxy, TakesAnAsteriskForEverything) {
  EXPECT_TRUE(bypassed("*", "https://h"));
  EXPECT_TRUE(bypassed("a, *", "http://[::1]"));
}

TEST(NoProxy, PassesOverWhatMatchesNothing) {
  for (const auto* entry : {".",
                            "*.",
                            ":80",
                            "h:x",
                            "h:99999",
                            "10.0.0.0/33",
                            "::/129",
                            "10.0.0.0/x",
                            "[::1",
                            "[h]",
                            "/",
                            "[]",
                            "1:2:3"}) {
    EXPECT_FALSE(bypassed(entry, "http://h")) << entry;
    EXPECT_FALSE(bypassed(entry, "http://10.0.0.0")) << entry;
    EXPECT_FALSE(bypassed(entry, "http://[::1]")) << entry;
  }
}

}  // namespace
}  // namespace tinker::http::proxy_test
