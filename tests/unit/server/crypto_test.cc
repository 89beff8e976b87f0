#include "server/crypto.h"

#include <string>

#include <gmock/gmock.h>

#include "support/hex.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::crypto::crypto_test {
namespace {

using testing::from_hex;
using ::testing::HasSubstr;
using testing::IsError;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::SizeIs;

const std::string kKey(32, 'k');
const std::string kNonce(12, 'n');

TEST(RandomBytes, AreAsManyAsAskedForAndDiffer) {
  const auto a = random_bytes(32);
  const auto b = random_bytes(32);
  EXPECT_THAT(a, IsOkAndHolds(SizeIs(32)));
  EXPECT_NE(*a, *b);
}

TEST(Equal, ComparesSizesAndBytes) {
  EXPECT_TRUE(equal("", ""));
  EXPECT_TRUE(equal("abc", "abc"));
  EXPECT_FALSE(equal("abc", "abd"));
  EXPECT_FALSE(equal("abc", "ab"));
}

TEST(Hmac, IsTheOneOfRfc4231) {
  EXPECT_THAT(
      hmac_sha256("Jefe", "what do ya want for nothing?"),
      IsOkAndHolds(from_hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")));
}

TEST(Hmac, TakesAnEmptyKeyAndText) {
  EXPECT_THAT(
      hmac_sha256({}, {}),
      IsOkAndHolds(from_hex("b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad")));
}

TEST(Hkdf, IsTheOneOfRfc5869) {
  EXPECT_THAT(
      hkdf_sha256({.key = std::string(22, '\x0b'),
                   .salt = from_hex("000102030405060708090a0b0c"),
                   .info = from_hex("f0f1f2f3f4f5f6f7f8f9")}),
      IsOkAndHolds(from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf")));
}

TEST(Hkdf, TakesNoSalt) {
  EXPECT_THAT(
      hkdf_sha256({.key = std::string(22, '\x0b')}),
      IsOkAndHolds(from_hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d")));
}

TEST(X25519, IsTheOneOfRfc7748) {
  const auto secret = from_hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  const auto peer = from_hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  EXPECT_THAT(
      x25519_public(secret),
      IsOkAndHolds(from_hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")));
  EXPECT_THAT(
      x25519(secret, peer),
      IsOkAndHolds(from_hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")));
}

TEST(X25519, RefusesAPointOfLowOrder) {
  EXPECT_THAT(x25519(kKey, std::string(32, '\0')),
              IsError(ErrorCode::invalid_argument, HasSubstr("low order")));
}

TEST(X25519, RefusesKeysOfAnotherSize) {
  EXPECT_THAT(x25519("short", kKey),
              IsError(ErrorCode::invalid_argument, "the secret key has 5 bytes instead of 32"));
  EXPECT_THAT(x25519(kKey, "short"),
              IsError(ErrorCode::invalid_argument, "the public key has 5 bytes instead of 32"));
}

TEST(Seal, IsOpenedWithTheSameKeyAndNonce) {
  for (const std::string plain : {"", "a", "some longer text"}) {
    std::string sealed = "before ";
    ASSERT_THAT(seal(kKey, kNonce, plain, sealed), IsOk());
    EXPECT_EQ(sealed.size(), 7 + plain.size() + kTagBytes);
    std::string opened = "first ";
    EXPECT_THAT(open(kKey, kNonce, sealed.substr(7), opened), IsOk());
    EXPECT_EQ(opened, "first " + plain);
  }
}

TEST(Open, RefusesWhatWasNotSealedSo) {
  std::string sealed;
  ASSERT_THAT(seal(kKey, kNonce, "text", sealed), IsOk());
  std::string out = "kept";
  const auto is_damaged = IsError(ErrorCode::invalid_argument, HasSubstr("damaged"));
  EXPECT_THAT(open(std::string(32, 'x'), kNonce, sealed, out), is_damaged);
  EXPECT_THAT(open(kKey, std::string(12, 'x'), sealed, out), is_damaged);
  EXPECT_THAT(open(kKey, kNonce, sealed.substr(1), out), is_damaged);
  EXPECT_THAT(open(kKey, kNonce, sealed.substr(0, kTagBytes - 1), out), is_damaged);
  sealed[0] = static_cast<char>(sealed[0] ^ 1);
  EXPECT_THAT(open(kKey, kNonce, sealed, out), is_damaged);
  EXPECT_EQ(out, "kept");
}

TEST(Seal, RefusesKeysAndNoncesOfAnotherSize) {
  std::string out = "kept";
  EXPECT_THAT(seal("short", kNonce, "text", out),
              IsError(ErrorCode::invalid_argument, "the key has 5 bytes instead of 32"));
  EXPECT_THAT(seal(kKey, "short", "text", out),
              IsError(ErrorCode::invalid_argument, "the nonce has 5 bytes instead of 12"));
  EXPECT_EQ(out, "kept");
}

}  // namespace
}  // namespace tinker::server::crypto::crypto_test
