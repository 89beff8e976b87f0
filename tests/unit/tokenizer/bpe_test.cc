#include "tokenizer/bpe.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/rng.h"

namespace tinker::tokenizer::bpe_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Vocabulary vocabulary_of(const std::vector<std::string>& tokens) {
  Vocabulary out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_TRUE(out.add(tokens[i], static_cast<TokenId>(i)).ok());
  }
  return out;
}

Bpe make_bpe(const std::vector<std::string>& tokens,
             const std::vector<std::pair<std::string, std::string>>& merges,
             Bpe::Options options = {.is_byte_level = true}) {
  Vocabulary vocabulary = vocabulary_of(tokens);
  std::vector<Bpe::Merge> rules;
  for (const auto& [left, right] : merges) {
    rules.push_back({.left = vocabulary.find(left).value(),
                     .right = vocabulary.find(right).value(),
                     .whole = vocabulary.find(left + right).value()});
  }
  return {std::move(vocabulary), rules, options};
}

std::vector<std::string> tokens_of(const Bpe& bpe, std::string_view word) {
  std::vector<Piece> pieces;
  Bpe::Scratch scratch;
  bpe.encode(word, pieces, scratch);
  std::vector<std::string> out;
  std::size_t size = 0;
  for (const auto& piece : pieces) {
    out.emplace_back(bpe.vocabulary().bytes(piece.id));
    size += piece.size;
  }
  if (!pieces.empty()) {
    EXPECT_EQ(size, word.size());
  }
  return out;
}

TEST(Bpe, MergesInTheOrderOfTraining) {
  const auto bpe =
      make_bpe({"a", "b", "c", "bc", "ab", "abc"}, {{"b", "c"}, {"a", "b"}, {"a", "bc"}});

  EXPECT_THAT(tokens_of(bpe, "abc"), ElementsAre("abc"));
  EXPECT_THAT(tokens_of(bpe, "abab"), ElementsAre("ab", "ab"));
  EXPECT_THAT(tokens_of(bpe, "abbc"), ElementsAre("ab", "bc"));
  EXPECT_THAT(tokens_of(bpe, ""), IsEmpty());
}

TEST(Bpe, OfEqualPairsTheLeftmostGoesFirst) {
  const auto bpe = make_bpe({"a", "aa"}, {{"a", "a"}});

  EXPECT_THAT(tokens_of(bpe, "aaa"), ElementsAre("aa", "a"));
}

TEST(Bpe, WordsThatWereMetBeforeGiveTheSameAgain) {
  const auto bpe = make_bpe({"a", "b", "ab", "ba", "aba"}, {{"a", "b"}, {"b", "a"}, {"ab", "a"}});
  Bpe::Scratch with_memory(512);  // of few words: they take places from each other
  Rng rng(1);

  for (int i = 0; i < 5'000; ++i) {
    std::string word;
    for (auto size = rng.below(20); size > 0; --size) word += rng.below(2) == 0 ? 'a' : 'b';
    std::vector<Piece> pieces;
    bpe.encode(word, pieces, with_memory);
    std::vector<std::string> tokens;
    for (const auto& piece : pieces) tokens.emplace_back(bpe.vocabulary().bytes(piece.id));

    EXPECT_EQ(tokens, tokens_of(bpe, word));
  }
}

TEST(Bpe, AWordThatIsATokenNeedNotBecomeIt) {
  const auto tokens = std::vector<std::string>{"a", "b", "c", "ab", "bc", "abc"};
  const auto merges = std::vector<std::pair<std::string, std::string>>{{"a", "b"}, {"b", "c"}};

  EXPECT_THAT(tokens_of(make_bpe(tokens, merges), "abc"), ElementsAre("ab", "c"));
  EXPECT_THAT(
      tokens_of(make_bpe(tokens, merges, {.is_byte_level = true, .ignore_merges = true}), "abc"),
      ElementsAre("abc"));
}

TEST(Bpe, LongWordsComeOutAsShortOnesDo) {
  // Up to some length all pairs are looked at, beyond it they wait in a queue.
  const auto bpe = make_bpe({"a", "b", "ab", "ba", "abab", "bab"},
                            {{"a", "b"}, {"b", "a"}, {"ab", "ab"}, {"b", "ab"}});
  std::string word;
  std::vector<std::string> whole;
  for (int i = 0; i < 40; ++i) {
    word += "abab";
    whole.emplace_back("abab");
    EXPECT_EQ(tokens_of(bpe, word), whole);
  }
  EXPECT_EQ(tokens_of(bpe, std::string(400, 'b')), std::vector<std::string>(400, "b"));
}

TEST(Bpe, AMillionLettersAreNoProblem) {
  const auto bpe = make_bpe({"a", "aa", "aaaa"}, {{"a", "a"}, {"aa", "aa"}});

  EXPECT_EQ(tokens_of(bpe, std::string(1'000'000, 'a')).size(), 250'000);
}

TEST(Bpe, BytesFallBackToTheirTokens) {
  std::vector<std::string> tokens = {"<unk>", "x", "é"};
  for (const char* const name : {"<0xE4>", "<0xB8>", "<0x96>"}) tokens.emplace_back(name);
  const auto bpe =
      make_bpe(tokens, {}, {.byte_fallback = true, .unknown = 0, .fuse_unknown = true});

  EXPECT_THAT(tokens_of(bpe, "xé世"), ElementsAre("x", "é", "<0xE4>", "<0xB8>", "<0x96>"));
  EXPECT_THAT(tokens_of(bpe, "ызx"), ElementsAre("<unk>", "x"));  // no tokens for their bytes
}

TEST(Bpe, WhatIsUnknownIsFusedOnlyWhereAsked) {
  EXPECT_THAT(tokens_of(make_bpe({"<unk>", "x"}, {}, {.unknown = 0}), "yyx"),
              ElementsAre("<unk>", "<unk>", "x"));
  EXPECT_THAT(tokens_of(make_bpe({"<unk>", "x"}, {}, {.unknown = 0, .fuse_unknown = true}), "yyx"),
              ElementsAre("<unk>", "x"));
  EXPECT_THAT(tokens_of(make_bpe({"x", "y"}, {}, {}), "xzzy"), ElementsAre("x", "y"));
}

TEST(Bpe, LongTextsAreCutWhereNoTokenReaches) {
  const std::vector<std::string> tokens = {"<unk>", "▁", "a", "b", "▁a", "ab", "▁▁"};
  const auto bpe =
      make_bpe(tokens, {{"▁", "▁"}, {"▁", "a"}, {"a", "b"}}, {.unknown = 0, .fuse_unknown = true});
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 50; ++i) {
    text += "▁ab▁▁ы";
    for (const char* const token : {"▁a", "b", "▁▁", "<unk>"}) expected.emplace_back(token);
  }

  EXPECT_EQ(tokens_of(bpe, text), expected);
  EXPECT_THAT(tokens_of(bpe, std::string(100, 'z')), ElementsAre("<unk>"));
}

}  // namespace
}  // namespace tinker::tokenizer::bpe_test
