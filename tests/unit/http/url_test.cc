#include "http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/testing/matchers.h"

namespace tinker::http::url_test {
namespace {

using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::FieldsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Property;

constexpr auto kInvalid = ErrorCode::invalid_argument;

Url parsed(std::string_view text) {
  return Url::parse(text).value();
}

TEST(Url, HasSchemeHostPortAndTarget) {
  EXPECT_THAT(Url::parse("http://example.com:8080/a/b?c=d"),
              IsOkAndHolds(FieldsAre("http", "example.com", 8080, "/a/b?c=d")));
}

TEST(Url, TakesDefaultsForWhatIsLeftOut) {
  EXPECT_THAT(Url::parse("http://h"), IsOkAndHolds(FieldsAre("http", "h", 80, "/")));
  EXPECT_THAT(Url::parse("https://h"), IsOkAndHolds(FieldsAre("https", "h", 443, "/")));
  EXPECT_THAT(Url::parse("https://h:/"), IsOkAndHolds(FieldsAre("https", "h", 443, "/")));
  EXPECT_THAT(Url::parse("https://h?q"), IsOkAndHolds(FieldsAre("https", "h", 443, "/?q")));
  EXPECT_THAT(Url::parse("https://h/?"), IsOkAndHolds(FieldsAre("https", "h", 443, "/?")));
}

TEST(Url, LowersSchemeAndHostOnly) {
  EXPECT_EQ(parsed("HTTPS://ExAmPlE.Com/Path?Query").to_string(), "https://example.com/Path?Query");
}

TEST(Url, NamesAUnixSocket) {
  const Url url = parsed("http+unix://%2Frun%2FTinker%20x.sock/api/v1?a=b");

  EXPECT_THAT(url, FieldsAre("http+unix", "/run/Tinker x.sock", 0, "/api/v1?a=b"));
  EXPECT_EQ(url.to_string(), "http+unix://%2Frun%2FTinker%20x.sock/api/v1?a=b");
  EXPECT_EQ(url.host_header(), "localhost");
  EXPECT_EQ(url.server(), "/run/Tinker x.sock");
  EXPECT_EQ(unix_url("/run/Tinker x.sock"), url.origin());
  EXPECT_THAT(normalize_base_url("HTTP+UNIX://%2frun%2Fa/"),
              IsOkAndHolds("http+unix://%2Frun%2Fa"));
}

TEST(Url, RefusesWhatIsNoPathOfASocket) {
  EXPECT_THAT(Url::parse("http+unix://run/a"), IsError(kInvalid, HasSubstr("absolute path")));
  EXPECT_THAT(Url::parse("http+unix:///run/a"), IsError(kInvalid, HasSubstr("absolute path")));
  EXPECT_THAT(Url::parse("http+unix://%2Fa%00b"), IsError(kInvalid, HasSubstr("control")));
  EXPECT_THAT(Url::parse("http+unix://%2F" + std::string(106, 'a')), IsOk());
  EXPECT_THAT(Url::parse("http+unix://%2F" + std::string(107, 'a')),
              IsError(kInvalid, HasSubstr("107 bytes")));
}

TEST(Url, LeadsToNoOtherUnixSocket) {
  const Url socket = parsed("http+unix://%2Fa/x");

  EXPECT_EQ(socket.resolve("/y").value().to_string(), "http+unix://%2Fa/y");
  EXPECT_EQ(socket.resolve("http+unix://%2Fa/z").value().target, "/z");
  EXPECT_EQ(socket.resolve("http://h/").value().host, "h");
  EXPECT_THAT(socket.resolve("http+unix://%2Fb/"), IsError(kInvalid, HasSubstr("Unix socket")));
  EXPECT_THAT(parsed("https://h").resolve("http+unix://%2Fa/"),
              IsError(kInvalid, HasSubstr("Unix socket")));
}

TEST(Url, DropsTheFragment) {
  EXPECT_EQ(parsed("https://h/a#b?c").target, "/a");
  EXPECT_EQ(parsed("https://h#b/c").target, "/");
  EXPECT_EQ(parsed("https://h/a?b#c").target, "/a?b");
}

TEST(Url, RemovesDotSegments) {
  // RFC 3986, section 5.2.4
  EXPECT_EQ(parsed("http://h/a/b/c/./../../g").target, "/a/g");
  EXPECT_EQ(parsed("http://h/../../a").target, "/a");
  EXPECT_EQ(parsed("http://h/a/..").target, "/");
  EXPECT_EQ(parsed("http://h/a/b/..").target, "/a/");
  EXPECT_EQ(parsed("http://h/a/.").target, "/a/");
  EXPECT_EQ(parsed("http://h/a//../b").target, "/a/b");
  EXPECT_EQ(parsed("http://h//").target, "//");
  EXPECT_EQ(parsed("http://h/a?b=/../c").target, "/a?b=/../c");
  EXPECT_EQ(parsed("http://h/.a/..b/c..").target, "/.a/..b/c..");
}

TEST(Url, KeepsEncodedDotSegments) {
  EXPECT_EQ(parsed("http://h/a/%2E%2E/b").target, "/a/%2E%2E/b");
}

TEST(Url, EncodesWhatMayNotStandInARequestLine) {
  EXPECT_EQ(parsed("http://h/\xC3\xA4?\xC3\xA4").target, "/%C3%A4?%C3%A4");
  EXPECT_EQ(parsed("http://h/\"<>\\^`{|}").target, "/%22%3C%3E%5C%5E%60%7B%7C%7D");
  EXPECT_EQ(parsed("http://h/%41%zz+&[]:@!$'()*,;=~").target, "/%41%zz+&[]:@!$'()*,;=~");
}

TEST(Url, TakesIpAddresses) {
  EXPECT_EQ(parsed("http://127.0.0.1:1").host, "127.0.0.1");
  EXPECT_EQ(parsed("http://[::1]:8080/x").host, "::1");
  EXPECT_EQ(parsed("http://[::1]:8080/x").port, 8080);
  EXPECT_EQ(parsed("http://[2001:DB8:0:0::1]").host, "2001:db8::1");
}

TEST(Url, TakesNamesAsTheyAreInUse) {
  EXPECT_EQ(parsed("http://my_host-1.local.").host, "my_host-1.local.");
  EXPECT_EQ(parsed("http://xn--bcher-kva.example").host, "xn--bcher-kva.example");
  EXPECT_EQ(parsed("http://1and1.com").host, "1and1.com");
}

TEST(Url, RefusesOtherSchemes) {
  for (const auto* text :
       {"", "h", "/a", "//h/a", "ftp://h", "ws://h", "file:///etc", "://h", "1http://h"}) {
    EXPECT_THAT(Url::parse(text), IsError(kInvalid, HasSubstr("expected http:// or https://")))
        << text;
  }
  EXPECT_THAT(Url::parse("http:h"), IsError(kInvalid, HasSubstr("expected '//'")));
  EXPECT_THAT(Url::parse("http:/h"), IsError(kInvalid, HasSubstr("expected '//'")));
}

TEST(Url, RefusesBadHosts) {
  for (const auto* text : {"http://", "http:///a", "http://?q", "http://#f", "http://:80"}) {
    EXPECT_THAT(Url::parse(text), IsError(kInvalid, HasSubstr("no host"))) << text;
  }
  for (const auto* text : {"http://a..b",
                           "http://.a",
                           "http://.",
                           "http://a%41",
                           "http://a\\b",
                           "http://a,b",
                           "http://b\xC3\xBC.example",
                           "http://256.1.1.1",
                           "http://127.1",
                           "http://01.2.3.4",
                           "http://1.2.3.4.",
                           "http://a.1"}) {
    EXPECT_THAT(Url::parse(text), IsError(kInvalid, HasSubstr("not a host name or address")))
        << text;
  }
  EXPECT_THAT(Url::parse("http://" + std::string(253, 'a')), IsOk());
  EXPECT_THAT(Url::parse("http://" + std::string(254, 'a')), Not(IsOk()));
}

TEST(Url, RefusesBadIpv6Addresses) {
  for (const auto* text : {"http://[::1",
                           "http://[]",
                           "http://[1.2.3.4]",
                           "http://[fe80::1%25eth0]",
                           "http://[::1]80",
                           "http://[::g]",
                           "http://::1"}) {
    EXPECT_THAT(Url::parse(text), IsError(kInvalid, HasSubstr("invalid URL 'http://"))) << text;
  }
}

TEST(Url, RefusesBadPorts) {
  for (const auto* text : {"http://h:0",
                           "http://h:65536",
                           "http://h:99999999999999",
                           "http://h:-1",
                           "http://h:+1",
                           "http://h:8o",
                           "http://h:80:80",
                           "http://[::1]:x"}) {
    EXPECT_THAT(Url::parse(text),
                IsError(kInvalid, HasSubstr("the port is no number from 1 to 65535")))
        << text;
  }
  EXPECT_EQ(parsed("http://h:65535").port, 65535);
  EXPECT_EQ(parsed("http://h:0080").port, 80);
}

TEST(Url, RefusesSpacesAndControlCharacters) {
  EXPECT_THAT(Url::parse("http://h/a b"), IsError(kInvalid, HasSubstr("space")));
  EXPECT_THAT(Url::parse(" http://h"), IsError(kInvalid, HasSubstr("space")));
  for (const auto& text :
       {"http://h/a\r\nX: y"s, "http://h/\t"s, "http://h\x7F"s, "http://h/\0x"s, "\nhttp://h"s}) {
    EXPECT_THAT(Url::parse(text), IsError(kInvalid, HasSubstr("control character"))) << text;
  }
}

TEST(Url, RefusesUserInfoWithoutShowingIt) {
  for (const auto* text : {"https://user:hunter2@h/a",
                           "https://hunter2@h",
                           "https://a@hunter2@h",
                           "https://:hunter2@h",
                           "https://user:hun/ter2@h",
                           "https://user:hun?ter2@h",
                           "https://user:hun#ter2@h",
                           "https://user:hunter2",
                           "ftp://user:hunter2@h",
                           "//user:hunter2@h",
                           "user:hunter2@h",
                           "https://user:hun ter2@h",
                           "https://user:hunter2@h:99999"}) {
    EXPECT_THAT(Url::parse(text),
                IsError(kInvalid, AllOf(Not(HasSubstr("hunt")), Not(HasSubstr("ter2")))))
        << text;
  }
  EXPECT_THAT(Url::parse("https://user:hunter2@h/a"),
              IsError(kInvalid, HasSubstr("'https://***@h/a': a user name or password")));
}

TEST(Url, RefusesWhatIsTooLong) {
  EXPECT_THAT(Url::parse("http://h/" + std::string(65536 - 9, 'a')), IsOk());
  EXPECT_THAT(Url::parse("http://h/" + std::string(65536 - 8, 'a')),
              IsError(kInvalid, AllOf(HasSubstr("longer than"), HasSubstr("aaa...'"))));
}

TEST(Url, ShowsAuthorityAndOriginWithoutTheDefaultPort) {
  EXPECT_EQ(parsed("https://h:443/a").authority(), "h");
  EXPECT_EQ(parsed("http://h:80/a").origin(), "http://h");
  EXPECT_EQ(parsed("http://h:443/a").origin(), "http://h:443");
  EXPECT_EQ(parsed("https://h:8443/a").authority(), "h:8443");
  EXPECT_EQ(parsed("https://[::1]/a").authority(), "[::1]");
  EXPECT_EQ(parsed("https://[::1]:8443/a?b").to_string(), "https://[::1]:8443/a?b");
}

TEST(Url, TellsOrigins) {
  const auto url = parsed("https://h/a");

  EXPECT_TRUE(url.same_origin(parsed("HTTPS://H:443/b?c")));
  EXPECT_FALSE(url.same_origin(parsed("http://h/a")));
  EXPECT_FALSE(url.same_origin(parsed("http://h:443/a")));
  EXPECT_FALSE(url.same_origin(parsed("https://h:444/a")));
  EXPECT_FALSE(url.same_origin(parsed("https://h.h/a")));
  EXPECT_TRUE(url.is_tls());
  EXPECT_FALSE(parsed("http://h").is_tls());
}

TEST(UrlResolve, FollowsTheExamplesOfTheStandard) {
  // RFC 3986, sections 5.4.1 and 5.4.2, without fragments and with a base that has a query.
  const auto base = parsed("http://a/b/c/d;p?q");
  const std::vector<std::pair<const char*, const char*>> examples = {
      {"http://g/h", "http://g/h"},
      {"g", "http://a/b/c/g"},
      {"./g", "http://a/b/c/g"},
      {"g/", "http://a/b/c/g/"},
      {"/g", "http://a/g"},
      {"//g", "http://g/"},
      {"?y", "http://a/b/c/d;p?y"},
      {"g?y", "http://a/b/c/g?y"},
      {"#s", "http://a/b/c/d;p?q"},
      {"g#s", "http://a/b/c/g"},
      {"g?y#s", "http://a/b/c/g?y"},
      {";x", "http://a/b/c/;x"},
      {"g;x", "http://a/b/c/g;x"},
      {"", "http://a/b/c/d;p?q"},
      {".", "http://a/b/c/"},
      {"./", "http://a/b/c/"},
      {"..", "http://a/b/"},
      {"../", "http://a/b/"},
      {"../g", "http://a/b/g"},
      {"../..", "http://a/"},
      {"../../", "http://a/"},
      {"../../g", "http://a/g"},
      {"../../../g", "http://a/g"},
      {"../../../../g", "http://a/g"},
      {"/./g", "http://a/g"},
      {"/../g", "http://a/g"},
      {"g.", "http://a/b/c/g."},
      {".g", "http://a/b/c/.g"},
      {"g..", "http://a/b/c/g.."},
      {"..g", "http://a/b/c/..g"},
      {"./../g", "http://a/b/g"},
      {"./g/.", "http://a/b/c/g/"},
      {"g/./h", "http://a/b/c/g/h"},
      {"g/../h", "http://a/b/c/h"},
      {"g;x=1/./y", "http://a/b/c/g;x=1/y"},
      {"g;x=1/../y", "http://a/b/c/y"},
      {"g?y/./x", "http://a/b/c/g?y/./x"},
      {"g?y/../x", "http://a/b/c/g?y/../x"}};
  for (const auto& [reference, expected] : examples) {
    EXPECT_THAT(base.resolve(reference), IsOkAndHolds(Property(&Url::to_string, expected)))
        << reference;
  }
}

TEST(UrlResolve, KeepsPortAndScheme) {
  const auto base = parsed("https://[::1]:8443/a/b");

  EXPECT_THAT(base.resolve("/c"), IsOkAndHolds(Property(&Url::to_string, "https://[::1]:8443/c")));
  EXPECT_THAT(base.resolve("//g:1/c"), IsOkAndHolds(Property(&Url::to_string, "https://g:1/c")));
  EXPECT_THAT(base.resolve("http://g"), IsOkAndHolds(Property(&Url::to_string, "http://g/")));
}

TEST(UrlResolve, NeverTakesABackslashForANewHost) {
  const auto base = parsed("https://h/a");

  EXPECT_THAT(base.resolve("/\\evil.com"),
              IsOkAndHolds(Property(&Url::to_string, "https://h/%5Cevil.com")));
  EXPECT_THAT(base.resolve("/..//evil.com"),
              IsOkAndHolds(Property(&Url::to_string, "https://h//evil.com")));
}

TEST(UrlResolve, RefusesWhatParseRefuses) {
  const auto base = parsed("https://h/a");

  EXPECT_THAT(base.resolve("ftp://h/a"),
              IsError(kInvalid, HasSubstr("expected http:// or https://")));
  EXPECT_THAT(base.resolve("b c"), IsError(kInvalid, HasSubstr("space")));
  EXPECT_THAT(base.resolve("b\r\nX-Evil: 1"), IsError(kInvalid, HasSubstr("b%0D%0AX")));
  EXPECT_THAT(base.resolve("//user:hunter2@g/"), IsError(kInvalid, Not(HasSubstr("hunter2"))));
  EXPECT_THAT(base.resolve("https://:1/"), IsError(kInvalid, HasSubstr("no host")));
}

TEST(PrintableUrl, HidesQueriesAndEscapesTheRest) {
  EXPECT_EQ(printable_url("https://h/a?X-Signature=s3cret"), "https://h/a?***");
  EXPECT_EQ(printable_url("https://h:443/a"), "https://h:443/a");
  EXPECT_EQ(printable_url("https://[::1]:443/a"), "https://[::1]:443/a");
  EXPECT_EQ(printable_url("h\n\x7F\xC3\xA4"), "h%0A%7F%C3%A4");
  EXPECT_EQ(printable_url(""), "");
}

TEST(NormalizeBaseUrl, GivesOneSpelling) {
  // R3.18
  for (const auto* text : {"https://tinker.example/services/prod",
                           "https://tinker.example/services/prod/",
                           "https://tinker.example/services/prod///",
                           "HTTPS://Tinker.Example:443/services/prod",
                           "https://tinker.example/services/./x/../prod/."}) {
    EXPECT_THAT(normalize_base_url(text), IsOkAndHolds("https://tinker.example/services/prod"))
        << text;
  }
  for (const auto* text :
       {"http://localhost", "http://localhost/", "http://localhost:80//", "HTTP://LOCALHOST"}) {
    EXPECT_THAT(normalize_base_url(text), IsOkAndHolds("http://localhost")) << text;
  }
  EXPECT_THAT(normalize_base_url("http://[::0:1]:8000/"), IsOkAndHolds("http://[::1]:8000"));
}

TEST(NormalizeBaseUrl, KeepsTheCaseOfThePath) {
  EXPECT_THAT(normalize_base_url("https://h/Services"), IsOkAndHolds("https://h/Services"));
}

TEST(NormalizeBaseUrl, RefusesQueryFragmentAndNoUrl) {
  for (const auto* text : {"https://h/a?", "https://h?a=b", "https://h#a", "https://h/#"}) {
    EXPECT_THAT(normalize_base_url(text), IsError(kInvalid, HasSubstr("no query and no fragment")))
        << text;
  }
  EXPECT_THAT(normalize_base_url(""), IsError(kInvalid, HasSubstr("expected http:// or https://")));
  EXPECT_THAT(normalize_base_url("https://user:hunter2@h"),
              IsError(kInvalid, Not(HasSubstr("hunter2"))));
}

TEST(JoinUrl, PutsOneSlashBetween) {
  // PROTOCOL 1
  EXPECT_EQ(join_url("https://h/services/tinker-prod", "/api/v1/x"),
            "https://h/services/tinker-prod/api/v1/x");
  EXPECT_EQ(join_url("https://h/services/tinker-prod/", "api/v1/x"),
            "https://h/services/tinker-prod/api/v1/x");
  EXPECT_EQ(join_url("https://h//", "//api?q=/"), "https://h/api?q=/");
  EXPECT_EQ(join_url("https://h", ""), "https://h/");
}

TEST(JoinUrl, KeepsAnAbsoluteUrl) {
  EXPECT_EQ(join_url("https://h/a", "http://g/b"), "http://g/b");
  EXPECT_EQ(join_url("https://h/a", "HTTPS://g/b"), "HTTPS://g/b");
  EXPECT_EQ(join_url("https://h/a", "/run:train:0"), "https://h/a/run:train:0");
  EXPECT_EQ(join_url("https://h/a", "run:train:0"), "https://h/a/run:train:0");
}

TEST(EncodePathSegment, EncodesAllButUnreservedCharactersAndColons) {
  // PROTOCOL 1
  EXPECT_EQ(encode_path_segment("run:train:0"), "run:train:0");
  EXPECT_EQ(encode_path_segment("AZaz09-._~"), "AZaz09-._~");
  EXPECT_EQ(encode_path_segment("a b/c?d#e%f\\g"), "a%20b%2Fc%3Fd%23e%25f%5Cg");
  EXPECT_EQ(encode_path_segment("+&[]^|\"<>`{}@!$'()*,;="),
            "%2B%26%5B%5D%5E%7C%22%3C%3E%60%7B%7D%40%21%24%27%28%29%2A%2C%3B%3D");
  EXPECT_EQ(encode_path_segment("\xC3\xA4\n"), "%C3%A4%0A");
  EXPECT_EQ(encode_path_segment(""), "");
}

TEST(EncodePathSegment, LeavesNoDotSegments) {
  EXPECT_EQ(encode_path_segment("."), "%2E");
  EXPECT_EQ(encode_path_segment(".."), "%2E%2E");
  EXPECT_EQ(encode_path_segment("..."), "...");
  EXPECT_EQ(encode_path_segment(".a"), ".a");
}

TEST(EncodeCheckpointId, KeepsItsOneSlash) {
  // PROTOCOL 1
  EXPECT_EQ(encode_checkpoint_id("weights/0001"), "weights/0001");
  EXPECT_EQ(encode_checkpoint_id("sampler_weights/a b"), "sampler_weights/a%20b");
  EXPECT_EQ(encode_checkpoint_id("weights/a/b"), "weights/a%2Fb");
  EXPECT_EQ(encode_checkpoint_id("0001"), "0001");
  EXPECT_EQ(encode_checkpoint_id("weights/"), "weights/");
}

TEST(EncodeCheckpointId, CannotLeaveItsFolder) {
  EXPECT_EQ(encode_checkpoint_id("weights/.."), "weights/%2E%2E");
  EXPECT_EQ(encode_checkpoint_id("../x"), "%2E%2E/x");
  EXPECT_EQ(encode_checkpoint_id("weights/a/../b"), "weights/a%2F..%2Fb");
  EXPECT_EQ(encode_checkpoint_id("weights/../../x"), "weights/..%2F..%2Fx");
}

TEST(SniHost, ReplacesUnderscores) {
  // PROTOCOL 1
  EXPECT_EQ(sni_host("my_dev_box.example.com"), "my-dev-box.example.com");
  EXPECT_EQ(sni_host("example.com."), "example.com");
}

TEST(SniHost, IsEmptyForAddresses) {
  EXPECT_EQ(sni_host("127.0.0.1"), "");
  EXPECT_EQ(sni_host("::1"), "");
  EXPECT_TRUE(is_ip_address("10.0.0.1"));
  EXPECT_TRUE(is_ip_address("2001:db8::1"));
  EXPECT_FALSE(is_ip_address("10.0.0"));
  EXPECT_FALSE(is_ip_address("h"));
}

}  // namespace
}  // namespace tinker::http::url_test
