#include "session/jwt.h"

#include <gmock/gmock.h>

#include "support/jwt.h"
#include "tinker/testing/matchers.h"

namespace tinker::session::jwt_test {
namespace {

using ::testing::DoubleEq;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::make_jwt;
using ::testing::Not;
using ::testing::Optional;

constexpr std::chrono::system_clock::time_point kNow{std::chrono::seconds(1'000)};

std::optional<double> left_of(const std::string& payload) {
  return seconds_left(make_jwt(payload), kNow);
}

TEST(Jwt, ReadsTheExampleOfTheProtocol) {  // PROTOCOL 9.3
  const Secret jwt(
      "eyJhbGciOiJSUzI1NiJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6InRtbDpvcmdhbml6YXRpb25fdXNlcjphYmMiLC"
      "JvcmdfaWQiOiJsYWIiLCJlbWFpbCI6ImFkYUBleGFtcGxlLmNvbSJ9.c2ln");
  const auto claims = parse_jwt(jwt);
  ASSERT_THAT(claims, IsOk());
  EXPECT_THAT(claims->exp, Optional(DoubleEq(4102444800)));
  const auto owner = whoami(jwt);
  ASSERT_THAT(owner, IsOk());
  EXPECT_EQ(*owner,
            (WhoamiResponse{.user_urn = "tml:organization_user:abc",
                            .org_urn = "tml:organization:lab",
                            .email = "ada@example.com"}));
}

TEST(Jwt, TellsWhatIsLeft) {  // R3.7
  EXPECT_THAT(left_of(R"({"exp":1060})"), Optional(DoubleEq(60)));
  EXPECT_THAT(left_of(R"({"exp":1060.5})"), Optional(DoubleEq(60.5)));
  EXPECT_THAT(left_of(R"({"exp":900})"), Optional(DoubleEq(-100)));
  EXPECT_THAT(left_of(R"({"exp":"1060"})"), Optional(DoubleEq(60)));
  EXPECT_THAT(left_of(R"({"exp":1e300})"), Optional(::testing::Gt(1e299)));
  EXPECT_THAT(left_of(R"({"exp":18446744073709551615})"), Optional(::testing::Gt(1e19)));
}

TEST(Jwt, HasNeverMoreLeftThanItsWholeLife) {  // a clock that is behind
  EXPECT_THAT(left_of(R"({"iat":5000,"exp":5600})"), Optional(DoubleEq(600)));
  EXPECT_THAT(left_of(R"({"iat":400,"exp":1060})"), Optional(DoubleEq(60)));
  EXPECT_THAT(left_of(R"({"iat":"soon","exp":1060})"), Optional(DoubleEq(60)));
}

TEST(Jwt, DoesNotSayWithoutAUsableEnd) {  // R3.7
  for (const char* payload : {R"({})",
                              R"({"exp":null})",
                              R"({"exp":[]})",
                              R"({"exp":"soon"})",
                              R"({"exp":"inf"})",
                              R"({"exp":""})",
                              R"({"exp":"1060 "})",
                              "[]",
                              "5",
                              "",
                              R"({"exp":1060)"}) {
    EXPECT_EQ(left_of(payload), std::nullopt) << payload;
  }
}

TEST(Jwt, RestoresThePadding) {  // R3.7
  for (const char* payload : {R"({"exp":1060})", R"({"exp":1060} )", R"({"exp":1060}  )"}) {
    EXPECT_THAT(left_of(payload), Optional(DoubleEq(60))) << payload;
  }
  EXPECT_THAT(seconds_left(Secret("e30.eyJleHAiOjEwNjB9IA==.sig"), kNow), Optional(DoubleEq(60)));
  // '-' and '_' of the URL alphabet: {"exp":1060,"sub":"??>>~~"}
  EXPECT_THAT(left_of(R"({"exp":1060,"sub":"??>>~~ÿÿ"})"), Optional(DoubleEq(60)));
}

TEST(Jwt, RefusesWhatIsNoneWithoutShowingIt) {
  for (const char* text :
       {"", "tml-hush", "eyJhush", "eyJhush.", "eyJ.hush!hush.x", "a.hus.c", "eyJ.aHVzaA.hush"}) {
    EXPECT_THAT(parse_jwt(Secret(text)),
                IsError(ErrorCode::invalid_response, Not(HasSubstr("hush"))))
        << text;
  }
}

TEST(Whoami, NeedsBothUrns) {  // R3.12
  EXPECT_THAT(whoami(make_jwt(R"({"sub":"u"})")),
              IsError(ErrorCode::invalid_response, HasSubstr("org_id")));
  EXPECT_THAT(whoami(make_jwt(R"({"org_id":"o"})")),
              IsError(ErrorCode::invalid_response, HasSubstr("sub")));
}

TEST(Whoami, HasNoMailWhenTheClaimIsEmptyOrMissing) {  // R3.12
  for (const char* payload : {R"({"sub":"u","org_id":"o"})",
                              R"({"sub":"u","org_id":"o","email":""})",
                              R"({"sub":"u","org_id":"o","email":null})"}) {
    const auto owner = whoami(make_jwt(payload));
    ASSERT_THAT(owner, IsOk());
    EXPECT_EQ(*owner, (WhoamiResponse{.user_urn = "u", .org_urn = "tml:organization:o"}));
  }
}

TEST(Whoami, TrustsAGivenJwtOfAPassportOnly) {  // R3.12
  EXPECT_TRUE(is_identity_jwt(make_jwt(R"({"iss":"passport-prod"})")));
  EXPECT_FALSE(is_identity_jwt(make_jwt(R"({"iss":"other"})")));
  EXPECT_FALSE(is_identity_jwt(make_jwt(R"({"sub":"u"})")));
  EXPECT_FALSE(is_identity_jwt(Secret("tml-key")));
  EXPECT_FALSE(is_identity_jwt(Secret("eyJ.broken")));
}

}  // namespace
}  // namespace tinker::session::jwt_test
