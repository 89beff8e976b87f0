#include <string>

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/md5.h"
#include "base/sha1.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace tinker::base::digests_test {
namespace {

template <typename Hash>
std::string hash_in_pieces(const std::string& text, std::size_t piece) {
  Hash hash;
  for (std::size_t at = 0; at < text.size(); at += piece) hash.update(text.substr(at, piece));
  return to_hex(hash.finish());
}

std::string md5_hex(const std::string& text) {
  return hash_in_pieces<Md5>(text, text.size() + 1);
}

TEST(Md5, HasThePublishedDigests) {  // RFC 1321, appendix A.5
  EXPECT_EQ(md5_hex(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_hex("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5_hex("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(
      md5_hex("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
      "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(Sha1, HasThePublishedDigests) {  // FIPS 180-4; RFC 3174, section 7.3
  const auto sha1 = [](const std::string& text) {
    return hash_in_pieces<Sha1>(text, text.size() + 1);
  };
  EXPECT_EQ(sha1(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sha1(std::string(1'000'000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(Digests, DoNotDependOnThePieces) {
  const std::string text(1000, 'a');
  for (const std::size_t piece : {1U, 7U, 63U, 64U, 65U, 128U, 999U}) {
    EXPECT_EQ(hash_in_pieces<Md5>(text, piece), md5_hex(text)) << piece;
    EXPECT_EQ(hash_in_pieces<Sha1>(text, piece), hash_in_pieces<Sha1>(text, 1)) << piece;
    EXPECT_EQ(hash_in_pieces<Sha256>(text, piece), sha256_hex(text)) << piece;
  }
}

TEST(Crc32c, HasThePublishedValues) {  // RFC 7143, appendix A.4
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
}

TEST(Crc32c, GoesOnFromWhatWasBefore) {
  EXPECT_EQ(crc32c("6789", crc32c("12345")), crc32c("123456789"));
}

}  // namespace
}  // namespace tinker::base::digests_test
