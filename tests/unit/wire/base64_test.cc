// Bytes in JSON: standard base64 with padding (PROTOCOL 4.7; vectors of RFC 4648 section 10).

#include "wire/base64.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tinker::wire::base64_test {
namespace {

using ::testing::Optional;

const std::vector<std::pair<std::string, std::string>> kVectors = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
};

TEST(Base64, EncodesTheVectorsOfTheRfc) {
  for (const auto& [bytes, text] : kVectors) EXPECT_EQ(to_base64(bytes), text);
}

TEST(Base64, DecodesTheVectorsOfTheRfc) {
  for (const auto& [bytes, text] : kVectors) EXPECT_THAT(from_base64(text), Optional(bytes));
}

// PROTOCOL 4.7: the alphabet ends in + and /.
TEST(Base64, UsesPlusAndSlash) {
  EXPECT_EQ(to_base64("\xfb\xef\xff"), "++//");
  EXPECT_THAT(from_base64("++//"), Optional(std::string("\xfb\xef\xff")));
}

TEST(Base64, RoundTripsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);

  const auto decoded = from_base64(to_base64(bytes));

  EXPECT_THAT(decoded, Optional(bytes));
}

TEST(Base64, AppendsToWhatIsThere) {
  std::string out = "data:";
  append_base64(out, "foo");
  EXPECT_EQ(out, "data:Zm9v");
}

TEST(Base64, RefusesMissingPadding) {
  EXPECT_EQ(from_base64("Zg"), std::nullopt);
  EXPECT_EQ(from_base64("Zm8"), std::nullopt);
}

TEST(Base64, RefusesPaddingThatIsNotAtTheEnd) {
  EXPECT_EQ(from_base64("Zg==Zg=="), std::nullopt);
  EXPECT_EQ(from_base64("Zg=v"), std::nullopt);
  EXPECT_EQ(from_base64("Z==="), std::nullopt);
  EXPECT_EQ(from_base64("===="), std::nullopt);
}

TEST(Base64, RefusesOtherAlphabetsAndWhiteSpace) {
  EXPECT_EQ(from_base64("-_-_"), std::nullopt);
  EXPECT_EQ(from_base64("Zm9\n"), std::nullopt);
  EXPECT_EQ(from_base64("Zm 9"), std::nullopt);
  EXPECT_EQ(from_base64(std::string("Zm9\0", 4)), std::nullopt);
  EXPECT_EQ(from_base64("Zm9\xc3"), std::nullopt);
}

TEST(Base64, RefusesBitsThatNoEncoderSets) {
  EXPECT_EQ(from_base64("Zh=="), std::nullopt);
  EXPECT_EQ(from_base64("Zm9="), std::nullopt);
}

}  // namespace
}  // namespace tinker::wire::base64_test
