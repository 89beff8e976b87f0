#include "tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>

namespace tinker::tokenizer::pre_tokenizer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using enum Split::Behavior;

std::vector<std::string> words(const PreTokenizer& pre_tokenizer, std::string_view text) {
  PreTokenizer::Scratch scratch;
  pre_tokenizer.apply(text, scratch);
  std::vector<std::string> out;
  for (const auto& [begin, end] : scratch.words) out.emplace_back(text.substr(begin, end - begin));
  return out;
}

std::vector<std::string> split(Split::Options options, std::string_view text) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add(Split(Pattern::compile("-", Dialect::oniguruma).value(), options));
  return words(pre_tokenizer, text);
}

TEST(Split, DoesWithMatchesAsItsBehaviorSays) {
  constexpr std::string_view kText = "the-final--countdown";

  EXPECT_THAT(split({.behavior = isolated}, kText),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(split({.behavior = removed}, kText), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(split({.behavior = merged_with_previous}, kText),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(split({.behavior = merged_with_next}, kText),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(split({.behavior = contiguous}, kText),
              ElementsAre("the", "-", "final", "--", "countdown"));
}

TEST(Split, InvertedItTakesTheRestForMatches) {
  EXPECT_THAT(split({.behavior = removed, .is_inverted = true}, "a-b--c"),
              ElementsAre("-", "-", "-"));
}

TEST(Split, AtTheEndsThereIsNothingToMergeWith) {
  EXPECT_THAT(split({.behavior = merged_with_previous}, "-a-"), ElementsAre("-", "a-"));
  EXPECT_THAT(split({.behavior = merged_with_next}, "-a-"), ElementsAre("-a", "-"));
  EXPECT_THAT(split({.behavior = isolated}, ""), IsEmpty());
}

TEST(Split, TakesTextLiterally) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add(Split(std::string("▁"), {.behavior = merged_with_next}));

  EXPECT_THAT(words(pre_tokenizer, "▁a▁b▁"), ElementsAre("▁a", "▁b", "▁"));
}

TEST(PreTokenizer, SplitsThePiecesOfTheSplitBefore) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add(Split(Pattern::compile("\\p{N}{1,3}", Dialect::oniguruma).value(), {}));
  pre_tokenizer.add(Split(Pattern::compile("\\p{L}+", Dialect::oniguruma).value(), {}));

  EXPECT_THAT(words(pre_tokenizer, "ab1234!cd"), ElementsAre("ab", "123", "4", "!", "cd"));
  EXPECT_THAT(words(PreTokenizer(), "ab 1"), ElementsAre("ab 1"));
}

TEST(PreTokenizer, ALookAheadEndsWithThePiece) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add(Split(Pattern::compile("1", Dialect::oniguruma).value(), {}));
  pre_tokenizer.add(Split(Pattern::compile(R"(\s+(?!\S)|\s+)", Dialect::oniguruma).value(), {}));

  EXPECT_THAT(words(pre_tokenizer, "a  1  b"), ElementsAre("a", "  ", "1", " ", " ", "b"));
}

}  // namespace
}  // namespace tinker::tokenizer::pre_tokenizer_test
