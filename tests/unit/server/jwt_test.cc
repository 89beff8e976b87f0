#include "server/jwt.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>

#include "server/crypto.h"
#include "support/jwt.h"
#include "tinker/testing/matchers.h"
#include "wire/base64.h"
#include "wire/json_reader.h"

namespace tinker::server::jwt_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;

constexpr Instant kNow = Instant(1'767'225'600s + 250'000us);
const std::string kKey(32, 'k');
const TokenClaims kClaims = {
    .owner = "tml:organization_user:ada", .key_id = 77, .expires = kNow + 1h};

std::string token_of(const TokenClaims& claims) {
  return sign_token(claims, kNow, kKey).value();
}

/// `text` ("HEADER.PAYLOAD"), signed as a token.
std::string with_signature(const std::string& text) {
  std::string mac = wire::to_base64(crypto::hmac_sha256(kKey, text).value());
  mac.resize(mac.find_last_not_of('=') + 1);
  for (char& c : mac) {
    if (c == '+') c = '-';
    if (c == '/') c = '_';
  }
  return text + '.' + mac;
}

/// The parts of a token without their dots.
struct Split {
  std::string header;
  std::string payload;
  std::string signature;
};
Split split(const std::string& token) {
  const auto first = token.find('.');
  const auto last = token.rfind('.');
  return {.header = token.substr(0, first),
          .payload = token.substr(first + 1, last - first - 1),
          .signature = token.substr(last + 1)};
}

/// A token whose payload is that text, signed by us.
std::string token_with_payload(std::string_view json) {
  const std::string unsigned_token = testing::make_jwt(json).expose();
  return with_signature(split(token_of(kClaims)).header + '.' + split(unsigned_token).payload);
}

std::string decode(std::string text) {
  for (char& c : text) {
    if (c == '-') c = '+';
    if (c == '_') c = '/';
  }
  text.resize((text.size() + 3) / 4 * 4, '=');
  return wire::from_base64(text).value_or("?");
}

const auto kNotOurs = IsError(ErrorCode::unauthenticated, HasSubstr("not one of this server"));

TEST(Token, IsReadBackWithItsClaims) {
  const auto claims = verify_token(token_of(kClaims), kNow, kKey);
  ASSERT_THAT(claims, IsOk());
  EXPECT_EQ(claims->owner, kClaims.owner);
  EXPECT_EQ(claims->key_id, 77);
  EXPECT_EQ(claims->expires, std::chrono::floor<std::chrono::seconds>(kNow) + 1h);
}

// PROTOCOL 9.3; rule 13 of its section 10.
TEST(Token, SaysWhatClientsLookFor) {
  const Split parts = split(token_of(kClaims));
  EXPECT_EQ(decode(parts.header), R"({"alg":"HS256","typ":"JWT"})");
  EXPECT_EQ(decode(parts.payload),
            R"({"sub":"tml:organization_user:ada","org_id":"local","email":"","key_id":77,)"
            R"("iat":1767225600,"exp":1767229200})");
}

TEST(Token, EndsAtItsExpiry) {
  const std::string token = token_of(kClaims);
  const Instant end = std::chrono::floor<std::chrono::seconds>(kNow) + 1h;
  EXPECT_THAT(verify_token(token, end - 1us, kKey), IsOk());
  EXPECT_THAT(verify_token(token, end, kKey),
              IsError(ErrorCode::unauthenticated, HasSubstr("has expired")));
}

TEST(Token, OfAnotherKeyIsRefused) {
  EXPECT_THAT(verify_token(token_of(kClaims), kNow, std::string(32, 'x')), kNotOurs);
}

TEST(Token, IsRefusedWhenAnyCharacterWasChanged) {
  const std::string token = token_of(kClaims);
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_THAT(verify_token(changed, kNow, kKey), kNotOurs) << i;
  }
}

TEST(Token, IsRefusedWhenItIsCutOrLonger) {
  const std::string token = token_of(kClaims);
  for (std::size_t size = 0; size < token.size(); ++size) {
    EXPECT_THAT(verify_token(token.substr(0, size), kNow, kKey), kNotOurs) << size;
  }
  EXPECT_THAT(verify_token(token + "=", kNow, kKey), kNotOurs);
  EXPECT_THAT(verify_token(token + ".", kNow, kKey), kNotOurs);
}

TEST(Token, CannotChooseItsAlgorithm) {
  const Split parts = split(token_of(kClaims));
  EXPECT_THAT(verify_token("eyJhbGciOiJub25lIn0." + parts.payload + ".", kNow, kKey), kNotOurs);
  // Even signed by us, another header is not ours.
  EXPECT_THAT(verify_token(with_signature("eyJhbGciOiJub25lIn0." + parts.payload), kNow, kKey),
              kNotOurs);
}

TEST(Token, WithOtherClaimsThanOursIsRefused) {
  for (const char* payload : {"",
                              "[]",
                              "{",
                              R"({"key_id":1,"exp":4102444800})",
                              R"({"sub":1,"key_id":1,"exp":4102444800})",
                              R"({"sub":"a","exp":4102444800})",
                              R"({"sub":"a","key_id":1})",
                              R"({"sub":"a","key_id":1,"exp":"4102444800"})"}) {
    EXPECT_THAT(verify_token(token_with_payload(payload), kNow, kKey), kNotOurs) << payload;
  }
}

TEST(Token, OfAnOwnerThatIsNoTextCannotBeMade) {
  EXPECT_FALSE(sign_token({.owner = "\xff", .expires = kNow}, kNow, kKey).ok());
}

}  // namespace
}  // namespace tinker::server::jwt_test
