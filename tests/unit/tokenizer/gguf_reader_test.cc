#include "tokenizer/gguf_reader.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "support/gguf_file.h"
#include "tinker/testing/matchers.h"
#include "tinker/tokenizer.h"

namespace tinker::tokenizer::gguf_reader_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tinker::testing::GgufFile;
using ::tinker::testing::IsError;

struct ByteLevel {
  std::string pre = "smollm";
  std::vector<std::string> tokens = {"<|end|>", "a", "b", "ab", "Ġ", "Ġa", "1", "<x>"};
  std::vector<std::int32_t> types = {3, 1, 1, 1, 1, 1, 1, 4};
  std::vector<std::string> merges = {"a b", "Ġ a"};

  [[nodiscard]] GgufFile file() const {
    GgufFile out;
    out.add("tokenizer.ggml.model", "gpt2");
    out.add("tokenizer.ggml.pre", pre);
    out.add("tokenizer.ggml.tokens", tokens);
    out.add("tokenizer.ggml.token_type", types);
    out.add("tokenizer.ggml.merges", merges);
    return out;
  }
};

Tokenizer tokenizer_of(const GgufFile& file) {
  return Tokenizer::from_gguf(file.bytes()).value();
}

TEST(GgufVocabulary, ReadsByteLevelBpe) {
  const auto tokenizer = tokenizer_of(ByteLevel().file());

  EXPECT_THAT(tokenizer.encode("ab a11"), ElementsAre(3, 5, 6, 6));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{3, 5, 0}), "ab a<|end|>");
  EXPECT_TRUE(tokenizer.is_special(0));
  EXPECT_FALSE(tokenizer.is_special(7));
}

TEST(GgufVocabulary, ControlTokensAreParsedWhereAskedUserDefinedOnesAlways) {
  const auto tokenizer = tokenizer_of(ByteLevel().file());

  EXPECT_THAT(tokenizer.encode("a<|end|>", {.parse_special = true}), ElementsAre(1, 0));
  EXPECT_THAT(tokenizer.encode("a<|end|>"), ElementsAre(1));  // its letters have no tokens
  EXPECT_THAT(tokenizer.encode("a<x>b"), ElementsAre(1, 7, 2));
}

TEST(GgufVocabulary, AddsTheEndsItAsksFor) {
  auto file = ByteLevel().file();
  file.add("tokenizer.ggml.add_bos_token", true);
  file.add("tokenizer.ggml.bos_token_id", std::uint32_t{0});
  file.add("tokenizer.ggml.add_eos_token", false);

  EXPECT_THAT(tokenizer_of(file).encode("a"), ElementsAre(0, 1));
  EXPECT_THAT(tokenizer_of(file).encode("a", {.add_special_tokens = false}), ElementsAre(1));
}

TEST(GgufVocabulary, ReadsSentencePieceByItsScores) {
  GgufFile file;
  file.add("tokenizer.ggml.model", "llama");
  file.add("tokenizer.ggml.tokens",
           std::vector<std::string>{"<unk>", "<s>", "<0x21>", "▁", "a", "b", "ab", "▁a", "▁ab"});
  file.add("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 6, 1, 1, 1, 1, 1, 1});
  file.add("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -9, -9, -1, -2, -3});
  const auto tokenizer = tokenizer_of(file);

  EXPECT_THAT(tokenizer.encode("ab a"), ElementsAre(8, 7));
  EXPECT_THAT(tokenizer.encode("b!"), ElementsAre(3, 5, 2));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab a!")), "ab a!");
}

TEST(GgufVocabulary, RefusesByName) {
  const auto invalid = [](const char* what) {
    return IsError(ErrorCode::invalid_argument, HasSubstr(what));
  };
  GgufFile other;
  other.add("tokenizer.ggml.model", "bert");
  other.add("tokenizer.ggml.tokens", std::vector<std::string>{"a"});
  GgufFile bare;
  bare.add("tokenizer.ggml.model", "gpt2");
  auto without_bos = ByteLevel().file();
  without_bos.add("tokenizer.ggml.add_bos_token", true);

  EXPECT_THAT(Tokenizer::from_gguf(GgufFile().bytes()), invalid("'tokenizer.ggml.model'"));
  EXPECT_THAT(Tokenizer::from_gguf(other.bytes()), invalid("'bert'"));
  EXPECT_THAT(Tokenizer::from_gguf(bare.bytes()), invalid("'tokenizer.ggml.tokens'"));
  EXPECT_THAT(Tokenizer::from_gguf(ByteLevel{.pre = "klingon"}.file().bytes()),
              invalid("'klingon'"));
  EXPECT_THAT(Tokenizer::from_gguf(ByteLevel{.types = {1}}.file().bytes()),
              invalid("1 token types"));
  EXPECT_THAT(Tokenizer::from_gguf(ByteLevel{.merges = {"a z"}}.file().bytes()), invalid("'a z'"));
  EXPECT_THAT(Tokenizer::from_gguf(without_bos.bytes()), invalid("'tokenizer.ggml.bos_token_id'"));
}

}  // namespace
}  // namespace tinker::tokenizer::gguf_reader_test
