#include "tokenizer/tiktoken_reader.h"

#include <string>

#include <gmock/gmock.h>

#include "support/tiktoken_file.h"
#include "tinker/testing/matchers.h"

namespace tinker::tokenizer::tiktoken_reader_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::byte_ranks;
using ::tinker::testing::IsError;

const TiktokenOptions kOptions = {.pattern = "\\S+|\\s+"};

TEST(Tiktoken, MergesByTheRankOfTheWhole) {
  // "ab" 256, "bc" 257, "abc" 258
  const auto file = byte_ranks() + "YWI= 256\nYmM= 257\r\nYWJj 258\n\n";

  const auto tokenizer = Tokenizer::from_tiktoken(file, kOptions).value();

  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(258));
  EXPECT_THAT(tokenizer.encode("abcb"), ElementsAre(258, 'b'));
  EXPECT_THAT(tokenizer.encode("bbc"), ElementsAre('b', 257));
  EXPECT_EQ(tokenizer.vocab_size(), 259);
}

TEST(Tiktoken, SpecialTokensAreParsedOnlyWhereAsked) {
  const auto tokenizer =
      Tokenizer::from_tiktoken(
          byte_ranks(), {.pattern = "\\S+|\\s+", .special_tokens = {{.content = "<e>", .id = 300}}})
          .value();

  EXPECT_THAT(tokenizer.encode("<e>"), ElementsAre('<', 'e', '>'));
  EXPECT_THAT(tokenizer.encode("<e>", {.parse_special = true}), ElementsAre(300));
  EXPECT_TRUE(tokenizer.is_special(300));
}

TEST(Tiktoken, SpecialTokensThatBelongToTheTextAreNotLeftOut) {
  const auto tokenizer = Tokenizer::from_tiktoken(
                             byte_ranks(),
                             {.pattern = "\\S+|\\s+",
                              .special_tokens = {{.content = "<e>", .id = 300},
                                                 {.content = "<t>", .id = 301, .is_shown = true}}})
                             .value();

  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{300, 301}), "<e><t>");
  EXPECT_EQ(
      tokenizer.decode(std::vector<std::int32_t>{300, 301, 'a'}, {.skip_special_tokens = true}),
      "<t>a");
  EXPECT_THAT(tokenizer.encode("<t>"), ElementsAre('<', 't', '>'));
}

TEST(Tiktoken, RefusesWhatIsNoFileOfItsKind) {
  const auto read = [](const std::string& text) {
    return Tokenizer::from_tiktoken(text, kOptions);
  };
  const auto invalid = [](const char* what) {
    return IsError(ErrorCode::invalid_argument, HasSubstr(what));
  };

  EXPECT_THAT(read(""), invalid("no token for byte 0"));
  EXPECT_THAT(read("{}"), invalid("line 1: no base64"));
  EXPECT_THAT(read("YWI=\n"), invalid("line 1: no rank"));
  EXPECT_THAT(read("YWI= x\n"), invalid("line 1: no rank"));
  EXPECT_THAT(read("YWI= 1 2\n"), invalid("line 1: no rank"));
  EXPECT_THAT(read(byte_ranks() + "YWI= 5\n"), invalid("line 257: token id 5 is given twice"));
  EXPECT_THAT(read(byte_ranks() + "YQ== 999\n"), invalid("line 257: the same token again"));
  EXPECT_THAT(read(byte_ranks() + "YWI= 99999999\n"), invalid("out of range"));
}

TEST(Tiktoken, RefusesPatternsAndSpecialTokensThatCannotBe) {
  EXPECT_THAT(Tokenizer::from_tiktoken(byte_ranks(), {.pattern = "a*"}),
              IsError(ErrorCode::invalid_argument, HasSubstr("match nothing")));
  EXPECT_THAT(Tokenizer::from_tiktoken(
                  byte_ranks(), {.pattern = "a", .special_tokens = {{.content = "<e>", .id = 5}}}),
              IsError(ErrorCode::invalid_argument, HasSubstr("'<e>' cannot have id 5")));
}

}  // namespace
}  // namespace tinker::tokenizer::tiktoken_reader_test
