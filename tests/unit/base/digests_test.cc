#include <string>

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/md5.h"
#include "base/sha256.h"

namespace tinker::base {
namespace {

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    out += digits[static_cast<unsigned char>(c) >> 4U];
    out += digits[static_cast<unsigned char>(c) & 0xfU];
  }
  return out;
}

template <typename Hash>
std::string hash_in_pieces(const std::string& text, std::size_t piece) {
  Hash hash;
  for (std::size_t at = 0; at < text.size(); at += piece) hash.update(text.substr(at, piece));
  return hex(hash.finish());
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

TEST(Digests, DoNotDependOnThePieces) {
  const std::string text(1000, 'a');
  for (const std::size_t piece : {1U, 7U, 63U, 64U, 65U, 128U, 999U}) {
    EXPECT_EQ(hash_in_pieces<Md5>(text, piece), md5_hex(text)) << piece;
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
}  // namespace tinker::base
