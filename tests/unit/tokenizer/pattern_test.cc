#include "tokenizer/pattern.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "base/strings.h"
#include "tinker/rng.h"
#include "tinker/testing/matchers.h"
#include "tokenizer/patterns.h"

namespace tinker::tokenizer::pattern_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::tinker::testing::IsError;

std::vector<std::string> matches(std::string_view pattern,
                                 std::string_view text,
                                 Dialect dialect = Dialect::rust) {
  const auto compiled = Pattern::compile(pattern, dialect).value();
  Pattern::Scratch scratch;
  std::vector<std::string> out;
  std::size_t at = 0;
  while (const auto found = compiled.find(text, at, scratch)) {
    out.emplace_back(text.substr(found->begin, found->end - found->begin));
    at = found->end;
  }
  return out;
}

TEST(Pattern, FindsLettersOfAllScripts) {
  EXPECT_THAT(matches("\\p{L}+", "abc 世界, Привет1é"), ElementsAre("abc", "世界", "Привет", "é"));
}

TEST(Pattern, TakesTheFirstAlternativeThatMatches) {
  EXPECT_THAT(matches("ab|a|abc", "abc"), ElementsAre("ab"));
  EXPECT_THAT(matches("x(?:ab|a)c", "xac xabc"), ElementsAre("xac", "xabc"));
}

TEST(Pattern, RepetitionsGiveBackWhatOthersNeed) {
  EXPECT_THAT(matches("a*ab", "aaab"), ElementsAre("aaab"));
  EXPECT_THAT(matches("\\s+(?!\\S)|\\s+", "a   b  "), ElementsAre("  ", " ", "  "));
  EXPECT_THAT(matches("\\p{L}{2,3}世", "世世世世世"), ElementsAre("世世世世"));
}

TEST(Pattern, PossessiveRepetitionsGiveNothingBack) {
  EXPECT_THAT(matches("a*+ab|b", "aaab"), ElementsAre("b"));
  EXPECT_THAT(matches("(?:ab)++a|b", "ababa"), ElementsAre("ababa"));
  EXPECT_THAT(matches("(?:ab|a)++b|c", "abbc"), ElementsAre("abb", "c"));
}

TEST(Pattern, CountsRepetitions) {
  EXPECT_THAT(matches("\\p{N}{1,3}", "1234567"), ElementsAre("123", "456", "7"));
  EXPECT_THAT(matches("a{2}", "aaaaa"), ElementsAre("aa", "aa"));
  EXPECT_THAT(matches("a{2,}", "aaaaa a"), ElementsAre("aaaaa"));
  EXPECT_THAT(matches("(?:ab){2}", "ababab"), ElementsAre("abab"));
}

TEST(Pattern, AfterNumbersAPlusDependsOnTheLibrary) {
  EXPECT_THAT(matches("\\p{N}{1,3}+", "1234", Dialect::rust), ElementsAre("123", "4"));
  EXPECT_THAT(matches("\\p{N}{1,3}+", "1234", Dialect::oniguruma), ElementsAre("1234"));
}

TEST(Pattern, IgnoresCaseWhereToldTo) {
  EXPECT_THAT(matches("(?i:'s|'LL)|x", "'s'S'll'Ll'ſX"),
              ElementsAre("'s", "'S", "'ll", "'Ll", "'ſ"));
}

TEST(Pattern, ClassesMayBeInvertedNestedAndIntersected) {
  EXPECT_THAT(matches("[^\\s\\p{L}]+", "ab, !?cd"), ElementsAre(",", "!?"));
  EXPECT_THAT(matches("[\\p{Lo}&&[^\\p{Han}]]+", "世界カナ"), ElementsAre("カナ"));
  EXPECT_THAT(matches("[a-c\\-\\]é-ñ]+", "a-d]ëz"), ElementsAre("a-", "]ë"));
  EXPECT_THAT(matches("[一-龥]+", "x世界"), ElementsAre("世界"));
}

TEST(Pattern, EndsAreOfLinesOrOfTheText) {
  EXPECT_THAT(matches("a$", "a\na", Dialect::oniguruma), ElementsAre("a", "a"));
  EXPECT_THAT(matches("a$", "ba\na", Dialect::rust), ElementsAre("a"));
  EXPECT_THAT(matches("\\s++$|\\s", "a b  ", Dialect::rust), ElementsAre(" ", "  "));
}

TEST(Pattern, LooksAheadWithoutTaking) {
  EXPECT_THAT(matches("a(?=b)", "abac"), ElementsAre("a"));
  EXPECT_THAT(matches("a(?!b)", "abac"), ElementsAre("a"));
}

TEST(Pattern, BytesThatAreNotUtf8BelongToWhatIsInverted) {
  EXPECT_THAT(matches("[^\\s\\p{L}]+", "a\xFF\xFE b"), ElementsAre("\xFF\xFE"));
  EXPECT_THAT(matches("\\p{L}+", "\xFF\xC3"), IsEmpty());
  EXPECT_THAT(matches(".*x|y", "\xE4\xB8x"), ElementsAre("\xE4\xB8x"));
}

// A look ahead by two characters, which never is, keeps a pattern from being an automaton.
TEST(Pattern, AnAutomatonFindsWhatASearchThatGoesBackFinds) {
  const std::vector<std::string_view> pieces = {
      " ",  "  ",  "\n", "\r\n", "\t",   "a",        "B",      "Zz",     "1",  "23", "'",
      "'s", "'LL", "ſ",  "é",    "É",    "e\u0301",  "ǅ",      "ʰ",      "中", "カ", "한",
      "٣",  "!?",  "/",  "_",    "\xFF", "\xE4\xB8", "\u00A0", "\u2028", "😀"};
  const std::vector<std::string_view> known = {
      patterns::kDigits3,
      patterns::kHanKana,
      patterns::kGpt2,
      patterns::kQwen2,
      patterns::kLlama3,
      patterns::kDeepSeek,
      patterns::kO200k,
      patterns::kTekken,
      "a*a(?:'|s)*+$|\\s++$|[^a]{1,2}+(?=1)|(?:ab?|B)+[aB1]{2}"};
  Rng rng(1);
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += pieces[rng.below(pieces.size())];

  for (const auto pattern : known) {
    const auto other = base::concat(R"((?![^\s\S][^\s\S])(?:)", pattern, ")");
    EXPECT_EQ(matches(pattern, text), matches(other, text)) << pattern;
  }
}

TEST(Pattern, ALongRunCostsAsMuchAsItIsLong) {
  const std::string spaces(1'000'000, ' ');

  EXPECT_THAT(matches("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", spaces), ElementsAre(spaces));
  EXPECT_EQ(matches("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", spaces + "x").size(), 2);
}

struct Refused {
  const char* pattern;
  const char* why;
};
class PatternRefuses : public ::testing::TestWithParam<Refused> {};
TEST_P(PatternRefuses, ByName) {
  EXPECT_THAT(Pattern::compile(GetParam().pattern, Dialect::oniguruma),
              IsError(ErrorCode::invalid_argument, HasSubstr(GetParam().why)));
}
INSTANTIATE_TEST_SUITE_P(All,
                         PatternRefuses,
                         ::testing::Values(Refused{"a+?", "lazy"},
                                           Refused{"(?<=a)b", "(?<="},
                                           Refused{"\\w+", "'\\w'"},
                                           Refused{"\\bx", "'\\b'"},
                                           Refused{"(a)\\1", "'\\1'"},
                                           Refused{"\\p{Greek}", "'Greek'"},
                                           Refused{"\\p{", "no name"},
                                           Refused{"[[:alpha:]]", "'[:'"},
                                           Refused{"[z-a]", "range"},
                                           Refused{"[a", "']'"},
                                           Refused{"(a", "')'"},
                                           Refused{"a)", "')' without"},
                                           Refused{"*a", "nothing to repeat"},
                                           Refused{"a{3,2}", "out of order"},
                                           Refused{"a{2000}", "over 1000"},
                                           Refused{"a*", "match nothing"},
                                           Refused{"", "match nothing"},
                                           Refused{"(?:a*)*b", "endless"},
                                           Refused{"(?:(?:a{900}b){900}c){900}", "too long"},
                                           Refused{"a\\", "at the end"},
                                           Refused{"\xFF", "not UTF-8"}));

TEST(Pattern, RefusesGroupsNestedTooDeeply) {
  const std::string deep = std::string(5000, '(') + "a" + std::string(5000, ')');

  EXPECT_THAT(Pattern::compile(deep, Dialect::rust),
              IsError(ErrorCode::invalid_argument, HasSubstr("nested")));
}

}  // namespace
}  // namespace tinker::tokenizer::pattern_test
