#include "tinker/tokenizer.h"

#include <thread>

#include <gmock/gmock.h>

namespace tinker::tokenizer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

Tokenizer load(const std::string& name) {
  return Tokenizer::load(std::string(TOKENIZER_GOLDEN) + "/" + name).value();
}

TEST(Tokenizer, UsersCannotForgeControlTokens) {
  const auto tokenizer = load("qwen.json");
  const auto end = tokenizer.token_to_id("<|end|>").value();

  EXPECT_THAT(tokenizer.encode("a<|end|>"), ::testing::Not(::testing::Contains(end)));
  EXPECT_THAT(tokenizer.encode("a<|end|>", {.parse_special = true}), ::testing::Contains(end));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a<|end|>")), "a<|end|>");
}

TEST(Tokenizer, SpellsTokensAsTheirFileDoes) {
  const auto tokenizer = load("gpt2.json");
  const auto id = tokenizer.token_to_id("Ġthe").value();

  EXPECT_THAT(tokenizer.encode(" the"), ElementsAre(id));
  EXPECT_THAT(tokenizer.id_to_token(id), Optional(std::string("Ġthe")));
  EXPECT_THAT(tokenizer.id_to_bytes(id), Optional(std::string(" the")));
  EXPECT_EQ(tokenizer.token_bytes()(id), " the");
  EXPECT_EQ(tokenizer.token_bytes()(99'999), "");
  EXPECT_FALSE(tokenizer.token_to_id("no such token"));
  EXPECT_FALSE(tokenizer.id_to_token(99'999));
  EXPECT_FALSE(tokenizer.id_to_token(-1));
}

TEST(Tokenizer, KnowsTheBytesOfATokenInAText) {
  const auto tokenizer = load("llama2.json");
  const auto bytes_of = [&](std::string_view token) {
    return tokenizer.id_to_bytes(tokenizer.token_to_id(token).value());
  };

  EXPECT_THAT(bytes_of("<0xC3>"), Optional(std::string("\xC3")));
  EXPECT_THAT(bytes_of("▁the"), Optional(std::string(" the")));
  EXPECT_THAT(bytes_of("</s>"), Optional(std::string("</s>")));
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
  const auto tokenizer = load("qwen.json");

  EXPECT_TRUE(tokenizer.is_special(tokenizer.token_to_id("<|end|>").value()));
  EXPECT_FALSE(tokenizer.is_special(tokenizer.token_to_id("<think>").value()));
  EXPECT_FALSE(tokenizer.is_special(100));
  EXPECT_EQ(tokenizer.vocab_size(), 601);
}

TEST(Tokenizer, LeavesSpecialTokensOutWhereAsked) {
  const auto tokenizer = load("llama3.json");
  const auto ids = tokenizer.encode("hello");

  EXPECT_EQ(tokenizer.decode(ids), "<|start|>hello<|end|>");
  EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = true}), "hello");
}

TEST(Tokenizer, IdsThatStandForNothingGiveNothing) {
  const auto tokenizer = load("gpt2.json");
  const auto a = tokenizer.encode("a")[0];

  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{-5, a, 1'000'000, a}), "aa");
}

TEST(Tokenizer, BytesThatAreNotUtf8ComeThrough) {
  const auto tokenizer = load("gpt2.json");
  const std::string bytes = "a\xFF\xC3 \x80z";

  std::string back;
  for (const auto id : tokenizer.encode(bytes)) back += tokenizer.id_to_bytes(id).value();

  EXPECT_EQ(back, bytes);
}

TEST(Tokenizer, SaysWhatPartOfTheTextATokenStandsFor) {
  const auto tokenizer = load("qwen.json");
  const std::string text = "over e\xCC\x81 over";  // composed on the way

  const auto [ids, offsets] = tokenizer.encode_with_offsets(text);

  std::size_t composed = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto part = text.substr(offsets[i].begin, offsets[i].end - offsets[i].begin);
    if (part.find('\xCC') == std::string::npos) {
      EXPECT_EQ(part, tokenizer.id_to_bytes(ids[i]));
    } else {
      EXPECT_THAT(part, ::testing::EndsWith("e\xCC\x81"));
      ++composed;
    }
  }
  EXPECT_GT(composed, 0);
}

TEST(Tokenizer, ManyThreadsMayUseOne) {
  const auto tokenizer = load("qwen.json");
  const std::string text = "The quick brown fox jumps over the lazy dog.";
  const auto expected = load("qwen.json").encode(text);
  std::vector<std::jthread> threads;

  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) ASSERT_EQ(tokenizer.encode(text), expected);
    });
  }
}

}  // namespace
}  // namespace tinker::tokenizer_test
