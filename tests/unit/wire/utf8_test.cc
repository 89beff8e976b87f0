// Well-formed UTF-8, the only text JSON and protobuf strings carry (Unicode 15, table 3-7).

#include "wire/utf8.h"

#include <string>

#include <gtest/gtest.h>

namespace tinker::wire::utf8_test {
namespace {

TEST(Utf8, AcceptsTheEdgesOfEveryLength) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("\x7f"));
  EXPECT_TRUE(is_utf8("\xc2\x80\xdf\xbf"));
  EXPECT_TRUE(is_utf8("\xe0\xa0\x80\xef\xbf\xbf"));
  EXPECT_TRUE(is_utf8("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
}

TEST(Utf8, AcceptsTheZeroCharacter) {
  EXPECT_TRUE(is_utf8(std::string("a\0b", 3)));
}

TEST(Utf8, AcceptsTheNeighboursOfTheSurrogates) {
  EXPECT_TRUE(is_utf8("\xed\x9f\xbf"));
  EXPECT_TRUE(is_utf8("\xee\x80\x80"));
}

TEST(Utf8, RefusesSurrogates) {
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));
  EXPECT_FALSE(is_utf8("\xed\xbf\xbf"));
}

TEST(Utf8, RefusesOverlongForms) {
  EXPECT_FALSE(is_utf8("\xc0\x80"));
  EXPECT_FALSE(is_utf8("\xc1\xbf"));
  EXPECT_FALSE(is_utf8("\xe0\x9f\xbf"));
  EXPECT_FALSE(is_utf8("\xf0\x8f\xbf\xbf"));
}

TEST(Utf8, RefusesCodePointsBeyondTheLast) {
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80"));
  EXPECT_FALSE(is_utf8("\xf5\x80\x80\x80"));
  EXPECT_FALSE(is_utf8("\xff"));
}

TEST(Utf8, RefusesASequenceThatTheTextCutsShort) {
  EXPECT_FALSE(is_utf8("\xc3"));
  EXPECT_FALSE(is_utf8("\xe2\x82"));
  EXPECT_FALSE(is_utf8("\xf0\x9f\x98"));
}

TEST(Utf8, RefusesASequenceThatAnotherCharacterCutsShort) {
  EXPECT_FALSE(is_utf8("\xe2\x82z"));
  EXPECT_FALSE(is_utf8("\xf0\x9f\x98\xc3\xa9"));
}

TEST(Utf8, RefusesAContinuationWithoutALead) {
  EXPECT_FALSE(is_utf8("\x80"));
  EXPECT_FALSE(is_utf8("a\xbfz"));
}

// Eight ASCII characters are passed over at a time; the odd one out may be anywhere.
TEST(Utf8, FindsABadByteAtEveryPlaceOfALongText) {
  for (std::size_t at = 0; at < 40; ++at) {
    std::string text(40, 'a');
    text[at] = '\x80';
    EXPECT_FALSE(is_utf8(text)) << "at " << at;
  }
}

TEST(Utf8, AcceptsACharacterAtEveryPlaceOfALongText) {
  for (std::size_t at = 0; at < 38; ++at) {
    std::string text(40, 'a');
    text.replace(at, 3, "\xe2\x82\xac");
    EXPECT_TRUE(is_utf8(text)) << "at " << at;
  }
}

TEST(Utf8, IsMadeOfAnyText) {
  EXPECT_EQ(as_utf8("a\xc2\x80"), "a\xc2\x80");
  EXPECT_EQ(as_utf8("a\xff\xe2\x82z"), "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz");
}

}  // namespace
}  // namespace tinker::wire::utf8_test
