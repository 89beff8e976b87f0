#include "server/links.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>

#include "base/strings.h"
#include "server/crypto.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::links_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using ::testing::MatchesRegex;

constexpr Instant kNow = Instant(1'767'225'600s);
const std::string kKey(32, 'k');

std::string link_to(std::string_view target) {
  return sign_link(target, kNow + 1h, kKey).value();
}

/// With a right signature, whatever the text.
std::string signed_anyway(const std::string& text) {
  return text + "&signature=" + base::to_hex(crypto::hmac_sha256(kKey, text).value());
}

auto is_refused(const char* why) {
  return IsError(ErrorCode::permission_denied, HasSubstr(why));
}

TEST(Link, OpensWhatItWasMadeForUntilItExpires) {
  const std::string link = link_to("/files/a");
  EXPECT_THAT(link, MatchesRegex("/files/a\\?expires=1767229200&signature=[0-9a-f]{64}"));
  EXPECT_THAT(check_link(link, kNow, kKey), IsOk());
  EXPECT_THAT(check_link(link, kNow + 1h - 1us, kKey), IsOk());
  EXPECT_THAT(check_link(link, kNow + 1h, kKey), is_refused("has expired"));
}

TEST(Link, KeepsTheQueryOfItsTarget) {
  const std::string link = link_to("/files?name=a&part=2");
  EXPECT_THAT(link, ::testing::StartsWith("/files?name=a&part=2&expires="));
  EXPECT_THAT(check_link(link, kNow, kKey), IsOk());
}

TEST(Link, IsRefusedWhenAnyCharacterWasChanged) {
  const std::string link = link_to("/files/a?part=2");
  for (std::size_t i = 0; i < link.size(); ++i) {
    std::string changed = link;
    changed[i] = changed[i] == 'x' ? 'y' : 'x';
    EXPECT_FALSE(check_link(changed, kNow, kKey).ok()) << changed;
  }
}

TEST(Link, NeverOpensAnotherSpellingOfItsTarget) {
  const std::string query = link_to("/files/a").substr(8);
  ASSERT_THAT(check_link("/files/a" + query, kNow, kKey), IsOk());
  for (const char* path :
       {"/files/b", "/files/%61", "/files//a", "/files/./a", "/FILES/a", "/files/a/"}) {
    EXPECT_THAT(check_link(path + query, kNow, kKey), is_refused("not signed by this server"))
        << path;
  }
}

TEST(Link, OfAnotherKeyIsRefused) {
  EXPECT_THAT(check_link(link_to("/files/a"), kNow, std::string(32, 'x')),
              is_refused("not signed by this server"));
}

TEST(Link, WithoutASignatureIsRefused) {
  EXPECT_THAT(check_link("/files/a", kNow, kKey), is_refused("no signature"));
  EXPECT_THAT(check_link("", kNow, kKey), is_refused("no signature"));
  EXPECT_THAT(check_link("/files/signature=1", kNow, kKey), is_refused("no signature"));
}

TEST(Link, HasItsParametersOnceAndLast) {
  const std::string link = link_to("/files/a");
  const char* const why = "does not end with";
  EXPECT_THAT(check_link(link + "&part=2", kNow, kKey), is_refused(why));
  EXPECT_THAT(check_link(link + "&signature=0", kNow, kKey), is_refused(why));
  EXPECT_THAT(check_link(link + "&expires=9", kNow, kKey), is_refused(why));
  EXPECT_THAT(check_link("/files/a?signature=1", kNow, kKey), is_refused(why));
  EXPECT_THAT(check_link(signed_anyway("/a?expires=9999999999&expires=9999999999"), kNow, kKey),
              is_refused(why));
  EXPECT_THAT(check_link(signed_anyway("/a?signature&expires=9999999999"), kNow, kKey),
              is_refused(why));
}

TEST(Link, WithAnExpiryThatIsNoNumberIsRefused) {
  for (const char* expires : {"", "soon", "1767229200x", "99999999999999999999"}) {
    EXPECT_THAT(check_link(signed_anyway(base::concat("/a?expires=", expires)), kNow, kKey),
                is_refused("no expiry"))
        << expires;
  }
}

TEST(Link, IsNotMadeOfATargetThatHasItsParameters) {
  for (const char* target : {"/a?expires=1", "/a?b=1&signature=2", "/a?expires"}) {
    EXPECT_THAT(sign_link(target, kNow, kKey),
                IsError(ErrorCode::invalid_argument, HasSubstr("cannot sign the link \"/a\"")))
        << target;
  }
}

}  // namespace
}  // namespace tinker::server::links_test
