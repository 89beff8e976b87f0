#include "tokenizer/vocabulary.h"

#include <string>

#include <gmock/gmock.h>

#include "tinker/testing/matchers.h"

namespace tinker::tokenizer::vocabulary_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;
using ::tinker::testing::IsError;
using ::tinker::testing::IsOk;

TEST(Vocabulary, FindsWhatItWasGiven) {
  Vocabulary vocabulary;
  for (TokenId id = 0; id < 5000; ++id) {
    ASSERT_THAT(vocabulary.add("token " + std::to_string(id), 3 * id), IsOk());
  }

  for (TokenId id = 0; id < 5000; ++id) {
    ASSERT_THAT(vocabulary.find("token " + std::to_string(id)), Optional(3 * id));
    ASSERT_EQ(vocabulary.bytes(3 * id), "token " + std::to_string(id));
  }
  EXPECT_FALSE(vocabulary.find("token 5000"));
  EXPECT_FALSE(vocabulary.has(1));
  EXPECT_EQ(vocabulary.bytes(1), "");
  EXPECT_EQ(vocabulary.size(), 5000);
}

TEST(Vocabulary, BytesMayBeAnyAndNone) {
  Vocabulary vocabulary;
  ASSERT_THAT(vocabulary.add("", 0), IsOk());
  ASSERT_THAT(vocabulary.add(std::string_view("\0", 1), 1), IsOk());
  ASSERT_THAT(vocabulary.add(std::string(100, '\xFF'), 2), IsOk());

  EXPECT_THAT(vocabulary.find(""), Optional(0));
  EXPECT_THAT(vocabulary.find(std::string_view("\0", 1)), Optional(1));
  EXPECT_THAT(vocabulary.find(std::string(100, '\xFF')), Optional(2));
}

TEST(Vocabulary, AnEmptyOneFindsNothing) {
  EXPECT_FALSE(Vocabulary().find("a"));
  EXPECT_FALSE(Vocabulary().has(0));
  EXPECT_FALSE(Vocabulary().has(-1));
}

TEST(Vocabulary, HiddenTokensHaveBytesButAreNotFound) {
  Vocabulary vocabulary;
  ASSERT_THAT(vocabulary.add_hidden("a", 0), IsOk());
  for (TokenId id = 1; id < 200; ++id) {  // grows
    ASSERT_THAT(vocabulary.add("b" + std::to_string(id), id), IsOk());
  }

  EXPECT_FALSE(vocabulary.find("a"));
  EXPECT_EQ(vocabulary.bytes(0), "a");
  EXPECT_TRUE(vocabulary.is_hidden(0));
  EXPECT_FALSE(vocabulary.is_hidden(1));
}

TEST(Vocabulary, RefusesIdsThatAreTakenOrOutOfRange) {
  Vocabulary vocabulary;
  ASSERT_THAT(vocabulary.add("a", 7), IsOk());

  EXPECT_THAT(vocabulary.add("b", 7),
              IsError(ErrorCode::invalid_argument, HasSubstr("7 is given twice")));
  EXPECT_THAT(vocabulary.add("b", -1), IsError(ErrorCode::invalid_argument, HasSubstr("-1")));
  EXPECT_THAT(vocabulary.add("b", kMaxTokenId + 1),
              IsError(ErrorCode::invalid_argument, HasSubstr("out of range")));
}

}  // namespace
}  // namespace tinker::tokenizer::vocabulary_test
