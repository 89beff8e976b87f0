#include "server/bech32.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "http/ascii.h"
#include "tinker/testing/matchers.h"

namespace tinker::server::bech32_test {
namespace {

using testing::IsError;

// The texts, valid and not, are those of BIP 173.
TEST(Bech32, ReadsAndWritesTheExamplesOfTheStandard) {
  for (const std::string& text : std::vector<std::string>{
           "A12UEL5L",
           "a12uel5l",
           std::string("an83characterlonghumanreadablepartthatcontainsthenumber1") +
               "andtheexcludedcharactersbio1tt5tgs",
           "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw",
           "split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w"}) {
    const auto key = from_bech32(text);
    ASSERT_TRUE(key.ok()) << text;
    EXPECT_EQ(to_bech32(*key), text);
  }
}

TEST(Bech32, KeepsThePrefixAndTheBytes) {
  const auto key = from_bech32("abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw");
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->prefix, "abcdef");
  EXPECT_EQ(key->bytes.size(), 20U);
  EXPECT_EQ(key->bytes.substr(0, 3), std::string("\x00\x44\x32", 3));
}

TEST(Bech32, WritesBytesThatDoNotFillTheLastGroup) {
  for (std::size_t size = 0; size < 40; ++size) {
    const std::string bytes(size, '\xff');
    const auto key = from_bech32(to_bech32({.prefix = "age", .bytes = bytes}));
    ASSERT_TRUE(key.ok()) << size;
    EXPECT_EQ(key->bytes, bytes);
  }
}

TEST(Bech32, FindsAWrongCharacterWhereverItIs) {
  const std::string text = "split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w";
  for (std::size_t i = 6; i < text.size(); ++i) {
    std::string wrong = text;
    wrong[i] = wrong[i] == 'q' ? 'p' : 'q';
    EXPECT_THAT(from_bech32(wrong), IsError(ErrorCode::invalid_argument, "its checksum is wrong"));
  }
}

TEST(Bech32, RefusesWhatIsNone) {
  struct Case {
    const char* text;
    const char* why;
  };
  for (const Case& c : {Case{"", "it has no prefix"},
                        Case{"pzry9x0s0muk", "it has no prefix"},
                        Case{"1pzry9x0s0muk", "it has no prefix"},
                        Case{"\x20"
                             "1nwldj5",
                             "it holds a character that is not printable"},
                        Case{"\x7f"
                             "1axkwrx",
                             "it holds a character that is not printable"},
                        Case{"\x80"
                             "1eym55h",
                             "it holds a character that is not printable"},
                        Case{"x1b4n0q5v", "it holds a character that no key has"},
                        Case{"li1dgmt3", "it is cut short"},
                        Case{"A1G7SGD8", "its checksum is wrong"},
                        Case{"a12UEL5L", "it mixes upper and lower case"}}) {
    EXPECT_THAT(from_bech32(c.text), IsError(ErrorCode::invalid_argument, c.why)) << c.text;
  }
}

TEST(Bech32, RefusesBitsThatAreNoByte) {
  // Groups "q" and "qp" with right checksums: a whole group too many, and a bit behind the byte.
  EXPECT_THAT(from_bech32("a1q3g6mn3"),
              IsError(ErrorCode::invalid_argument, "it does not end at a byte"));
  EXPECT_THAT(from_bech32("a1qpamnt9j"),
              IsError(ErrorCode::invalid_argument, "it does not end at a byte"));
}

}  // namespace
}  // namespace tinker::server::bech32_test
