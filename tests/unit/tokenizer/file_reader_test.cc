#include "tokenizer/file_reader.h"

#include <string>

#include <gmock/gmock.h>

#include "support/gguf_file.h"
#include "support/temporary_folder.h"
#include "support/tiktoken_file.h"
#include "tinker/testing/matchers.h"
#include "tinker/tokenizer.h"

namespace tinker::tokenizer::file_reader_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::tinker::testing::byte_ranks;
using ::tinker::testing::IsError;
using ::tinker::testing::TemporaryFolder;

// Which file was read shows in the number of tokens.
constexpr const char* kJson = R"({"model": {"vocab": {"a": 0}, "merges": []}})";
constexpr std::size_t kJsonTokens = 1;
constexpr std::size_t kKimiTokens = 512;
constexpr std::size_t kPresetTokens = 257;
constexpr std::size_t kGgufTokens = 2;

std::string gguf() {
  testing::GgufFile file;
  file.add("tokenizer.ggml.model", "gpt2");
  file.add("tokenizer.ggml.pre", "gpt-2");
  file.add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  file.add("tokenizer.ggml.merges", std::vector<std::string>());
  return file.bytes();
}

void write_kimi(const TemporaryFolder& folder) {
  folder.write("tiktoken.model", byte_ranks());
  folder.write("tokenizer_config.json",
               R"({"auto_map": {"AutoTokenizer": "tokenization_kimi.TikTokenTokenizer"},
                   "added_tokens_decoder": {}})");
}

std::size_t tokens_of(const std::string& path) {
  return Tokenizer::load(path).value().vocab_size();
}

TEST(TokenizerFile, IsReadByItsName) {
  const TemporaryFolder folder;
  folder.write("other.json", kJson);
  folder.write("r50k_base.tiktoken", byte_ranks());
  folder.write("model.gguf", gguf());
  folder.write("blob", gguf());
  write_kimi(folder);

  EXPECT_EQ(tokens_of(folder.path("other.json")), kJsonTokens);
  EXPECT_EQ(tokens_of(folder.path("r50k_base.tiktoken")), kPresetTokens);
  EXPECT_EQ(tokens_of(folder.path("model.gguf")), kGgufTokens);
  EXPECT_EQ(tokens_of(folder.path("blob")), kGgufTokens);
  EXPECT_EQ(tokens_of(folder.path("tiktoken.model")), kKimiTokens);
}

TEST(TokenizerFile, IsLookedForInAFolder) {
  const TemporaryFolder folder;
  // From the last choice to the first.
  folder.write("model.gguf", gguf());
  EXPECT_EQ(tokens_of(folder.path()), kGgufTokens);
  folder.write("r50k_base.tiktoken", byte_ranks());
  EXPECT_EQ(tokens_of(folder.path()), kPresetTokens);
  write_kimi(folder);
  EXPECT_EQ(tokens_of(folder.path()), kKimiTokens);
  folder.write("tokenizer.json", kJson);
  EXPECT_EQ(tokens_of(folder.path()), kJsonTokens);
}

TEST(TokenizerFile, IsNotChosenOutOfSeveral) {
  const TemporaryFolder folder;
  folder.write("r50k_base.tiktoken", byte_ranks());
  folder.write("p50k_base.tiktoken", byte_ranks());

  EXPECT_THAT(Tokenizer::load(folder.path()),
              IsError(ErrorCode::invalid_argument, HasSubstr("no single *.tiktoken")));
}

TEST(TokenizerFile, WhatCannotBeLoadedIsNamed) {
  const TemporaryFolder folder;
  folder.write("unheard_of.tiktoken", byte_ranks());
  folder.write("cl100k_base.tiktoken", "?");
  folder.write("text.txt", "no JSON");
  folder.write("kimi/tiktoken.model", byte_ranks());
  folder.write("empty/nothing", "");
  folder.write("bad.gguf", "GGU");
  const auto invalid = [](auto... parts) {
    return IsError(ErrorCode::invalid_argument, AllOf(HasSubstr(parts)...));
  };

  EXPECT_THAT(Tokenizer::load("/no/such/folder"), invalid("/no/such/folder"));
  EXPECT_THAT(Tokenizer::load(folder.path("unheard_of.tiktoken")),
              invalid("unheard_of.tiktoken", "from_tiktoken"));
  EXPECT_THAT(Tokenizer::load(folder.path("cl100k_base.tiktoken")),
              invalid("cl100k_base.tiktoken", "line 1"));
  EXPECT_THAT(Tokenizer::load(folder.path("r50k_base.tiktoken")),
              invalid("cannot read", "r50k_base.tiktoken"));
  EXPECT_THAT(Tokenizer::load(folder.path("text.txt")), invalid("text.txt"));
  EXPECT_THAT(Tokenizer::load(folder.path("bad.gguf")), invalid("bad.gguf"));
  EXPECT_THAT(Tokenizer::load(folder.path("kimi")), invalid("kimi/tokenizer_config.json"));
  EXPECT_THAT(Tokenizer::load(folder.path("empty")),
              invalid("/empty", "tokenizer.json", "tiktoken.model", "*.tiktoken", "*.gguf"));
}

}  // namespace
}  // namespace tinker::tokenizer::file_reader_test
