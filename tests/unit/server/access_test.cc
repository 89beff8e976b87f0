#include "server/access.h"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::server::access_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::Not;

constexpr Instant kNow = Instant(1'767'225'600s);
const std::string kSecret(32, 's');
constexpr const char* kAda = "tml-0123456789abcdef";
constexpr const char* kAdaToo = "tml-0123456789abcdeg";
constexpr const char* kBob = "tml-fedcba9876543210";

ServedKey key_of(const char* owner, const char* key) {
  return {.owner = owner, .key = Secret(key)};
}

Access open_access() {
  return Access::create({}, kSecret).value();
}
Access keyed_access() {
  return Access::create({key_of("ada", kAda), key_of("ada", kAdaToo), key_of("bob", kBob)}, kSecret)
      .value();
}

Caller caller_by(const Access& access, std::string_view credential) {
  return access.authenticate(credential, kNow).value();
}
std::string token_by(const Access& access, std::string_view credential) {
  return access.issue_token(caller_by(access, credential), kNow, kNow + 1h).value();
}

TEST(AccessWithoutKeys, TakesAnyoneForTheOneLocalOwner) {
  const Access access = open_access();
  const Caller local = {.owner = "tml:organization_user:local", .name = "local", .key_id = 0};
  EXPECT_FALSE(access.needs_key());
  for (const char* credential : {"", "tml-anything", "eyJhbGciOiJub25lIn0.e30.", "\xff"}) {
    EXPECT_THAT(access.authenticate(credential, kNow), IsOkAndHolds(local)) << credential;
  }
}

TEST(Access, KnowsTheOwnerOfAKey) {
  const Access access = keyed_access();
  EXPECT_TRUE(access.needs_key());
  const Caller ada = caller_by(access, kAda);
  EXPECT_EQ(ada.owner, "tml:organization_user:ada");
  EXPECT_EQ(ada.name, "ada");
  EXPECT_EQ(caller_by(access, kAdaToo).owner, ada.owner);
  EXPECT_EQ(caller_by(access, kBob).name, "bob");
}

TEST(Access, GivesEachKeyAnIdThatDoesNotDependOnTheOthers) {
  const Access access = keyed_access();
  EXPECT_NE(caller_by(access, kAda).key_id, caller_by(access, kAdaToo).key_id);
  EXPECT_GT(caller_by(access, kAda).key_id, 0);
  EXPECT_LT(caller_by(access, kAda).key_id, std::int64_t{1} << 53U);
  const Access later = Access::create({key_of("bob", kBob)}, kSecret).value();
  EXPECT_EQ(caller_by(later, kBob), caller_by(access, kBob));
}

TEST(Access, RefusesOtherCredentialsWithoutAWordOfThem) {
  const Access access = keyed_access();
  for (const char* credential :
       {"tml-0123456789abcdeF", "tml-0123456789abcde", "tml-0123456789abcdef ", "tml-", "\xff"}) {
    EXPECT_THAT(access.authenticate(credential, kNow),
                IsError(ErrorCode::unauthenticated,
                        AllOf(HasSubstr("not one of this server"), Not(HasSubstr("tml-0")))))
        << credential;
  }
}

TEST(Access, SaysHowToSendAKeyWhereThereIsNone) {
  EXPECT_THAT(keyed_access().authenticate("", kNow),
              IsError(ErrorCode::unauthenticated, HasSubstr("X-API-Key")));
}

// PROTOCOL 9.3; rule 20 of its section 10.
TEST(Access, TakesATokenForItsKeyForAnHour) {
  const Access access = keyed_access();
  const std::string token = token_by(access, kAda);
  EXPECT_THAT(access.authenticate(token, kNow + 1h - 1s), IsOkAndHolds(caller_by(access, kAda)));
  EXPECT_THAT(access.authenticate(token, kNow + 1h),
              IsError(ErrorCode::unauthenticated, HasSubstr("has expired")));
}

TEST(Access, TakesATokenAfterARestart) {
  const std::string token = token_by(keyed_access(), kAda);
  EXPECT_THAT(keyed_access().authenticate(token, kNow), IsOk());
}

TEST(Access, RefusesTokensOfAServerWithAnotherSecret) {
  const Access other = Access::create({key_of("ada", kAda)}, std::string(32, 'o')).value();
  EXPECT_THAT(keyed_access().authenticate(token_by(other, kAda), kNow),
              IsError(ErrorCode::unauthenticated, HasSubstr("not one of this server")));
}

TEST(Access, RefusesATokenThatWasIssuedWithoutKeys) {
  const std::string token = token_by(open_access(), "");
  EXPECT_THAT(keyed_access().authenticate(token, kNow),
              IsError(ErrorCode::unauthenticated, HasSubstr("not one of this server any more")));
}

TEST(Access, RefusesATokenWhoseKeyIsGoneOrPassedToAnother) {
  const std::string token = token_by(keyed_access(), kAda);
  for (const auto& key : {key_of("bob", kBob), key_of("eve", kAda)}) {
    const Access later = Access::create({key}, kSecret).value();
    EXPECT_THAT(later.authenticate(token, kNow),
                IsError(ErrorCode::unauthenticated, HasSubstr("not one of this server any more")));
  }
}

TEST(Access, RefusesARevokedKeyAndItsTokensForAllCopies) {
  Access access = keyed_access();
  const Access copy = access;
  const std::string token = token_by(access, kAda);
  access.revoke(caller_by(access, kAda).key_id);
  EXPECT_THAT(copy.authenticate(kAda, kNow),
              IsError(ErrorCode::unauthenticated, "the API key was revoked"));
  EXPECT_THAT(copy.authenticate(token, kNow),
              IsError(ErrorCode::unauthenticated, "the API key of the token was revoked"));
}

TEST(Access, KeepsTheOtherKeysOfAnOwnerWhoseKeyWasRevoked) {
  Access access = keyed_access();
  const std::string token = token_by(access, kAdaToo);
  access.revoke(caller_by(access, kAda).key_id);
  EXPECT_THAT(access.authenticate(kAdaToo, kNow), IsOk());
  EXPECT_THAT(access.authenticate(token, kNow), IsOk());
}

TEST(Access, IgnoresTheRevocationOfAKeyThatIsNotThere) {
  Access access = keyed_access();
  access.revoke(0);
  EXPECT_THAT(access.authenticate(kAda, kNow), IsOk());
}

TEST(Access, RefusesKeysThatNoServerShouldHave) {
  EXPECT_THAT(Access::create({key_of("ada", kAda), key_of("bob", "tml-short")}, kSecret),
              IsError(ErrorCode::invalid_argument, HasSubstr("key 2: the key has 9 characters")));
}

TEST(Access, RefusesAKeyOfTwoOwners) {
  EXPECT_THAT(Access::create({key_of("ada", kAda), key_of("bob", kAda)}, kSecret),
              IsError(ErrorCode::invalid_argument, "key 2: the key is also one of ada"));
}

TEST(Access, RefusesASecretOfAnotherSize) {
  EXPECT_THAT(Access::create({}, "short"),
              IsError(ErrorCode::invalid_argument, HasSubstr("has 5 bytes instead of 32")));
}

TEST(Access, SignsLinksWithAndWithoutKeys) {
  for (const Access& access : {open_access(), keyed_access()}) {
    const auto link = access.sign_link("/files/a", kNow + 1h);
    ASSERT_THAT(link, IsOk());
    EXPECT_THAT(access.check_link(*link, kNow), IsOk());
    EXPECT_THAT(access.check_link(*link, kNow + 1h),
                IsError(ErrorCode::permission_denied, HasSubstr("has expired")));
  }
}

TEST(Access, RefusesLinksOfAServerWithAnotherSecret) {
  const auto link = open_access().sign_link("/files/a", kNow + 1h);
  const Access other = Access::create({}, std::string(32, 'o')).value();
  EXPECT_THAT(other.check_link(*link, kNow),
              IsError(ErrorCode::permission_denied, HasSubstr("not signed by this server")));
}

}  // namespace
}  // namespace tinker::server::access_test
