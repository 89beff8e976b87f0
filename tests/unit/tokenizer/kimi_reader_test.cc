#include "tokenizer/kimi_reader.h"

#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>

#include "support/temporary_folder.h"
#include "support/tiktoken_file.h"
#include "tinker/testing/matchers.h"
#include "tinker/tokenizer.h"
#include "tokenizer/patterns.h"

namespace tinker::tokenizer::kimi_reader_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::tinker::testing::byte_ranks;
using ::tinker::testing::IsError;

constexpr const char* kClass = R"(["tokenization_kimi.TikTokenTokenizer", null])";
constexpr const char* kTokens = R"({
    "256": {"content": "[BOS]", "special": true},
    "258": {"content": "<think>", "special": false}})";

std::string config(const std::string& name, const std::string& tokens) {
  return R"({"tokenizer_class": "TikTokenTokenizer", "auto_map": {"AutoTokenizer": )" + name +
         R"(}, "added_tokens_decoder": )" + tokens + "}";
}

TEST(Kimi, NamesTheTokensBehindItsRanks) {
  const testing::TemporaryFolder folder;
  folder.write("tiktoken.model", byte_ranks());
  folder.write("tokenizer_config.json", config(kClass, kTokens));

  const auto tokenizer = Tokenizer::load(folder.path()).value();

  EXPECT_EQ(tokenizer.vocab_size(), 512);
  EXPECT_THAT(tokenizer.id_to_token(256), Optional(std::string("[BOS]")));
  EXPECT_THAT(tokenizer.id_to_token(257), Optional(std::string("<|reserved_token_257|>")));
  EXPECT_THAT(tokenizer.id_to_token(511), Optional(std::string("<|reserved_token_511|>")));
  EXPECT_THAT(tokenizer.encode("[BOS]<think>", {.parse_special = true}), ElementsAre(256, 258));
  EXPECT_EQ(tokenizer.encode("[BOS]<think>").size(), 12);
  EXPECT_EQ(
      tokenizer.decode(std::vector<std::int32_t>{256, 257, 258}, {.skip_special_tokens = true}),
      "<think>");
}

TEST(Kimi, CutsTextByItsPattern) {
  std::ifstream file(std::string(TOKENIZER_GOLDEN) + "/kimi.pattern", std::ios::binary);

  EXPECT_EQ(patterns::kKimi, std::string(std::istreambuf_iterator<char>(file), {}));
}

TEST(Kimi, IsKnownWhereItIsBorrowed) {
  const auto read = [](const std::string& name) {
    return read_kimi(byte_ranks(), config(name, kTokens)).ok();
  };

  EXPECT_TRUE(read(R"("tokenization_kimi.TikTokenTokenizer")"));
  EXPECT_TRUE(read(R"("moonshotai/Kimi-K2-Instruct--tokenization_kimi.TikTokenTokenizer")"));
}

TEST(Kimi, RefusesOtherModelsByName) {
  const auto read = [](const std::string& text) { return read_kimi(byte_ranks(), text); };
  const auto invalid = [](const char* what) {
    return IsError(ErrorCode::invalid_argument, HasSubstr(what));
  };

  EXPECT_THAT(read("?"), invalid("tokenizer_config.json"));
  EXPECT_THAT(read("{}"), invalid("'(none)'"));
  EXPECT_THAT(read(R"({"tokenizer_class": "LlamaTokenizer"})"), invalid("'LlamaTokenizer'"));
  EXPECT_THAT(read(config(R"("tokenization_xverse.Other")", kTokens)),
              invalid("'tokenization_xverse.Other'"));
  EXPECT_THAT(read(config(kClass, "null")), invalid("'added_tokens_decoder'"));
  EXPECT_THAT(read(config(kClass, R"({"x": {"content": "<x>"}})")), invalid("'x' is no token id"));
  EXPECT_THAT(read(config(kClass, R"({"512": {"content": "<x>"}})")), invalid("'<x>' has id 512"));
  EXPECT_THAT(read(config(kClass, R"({"255": {"content": "<x>"}})")), invalid("'<x>' has id 255"));
}

}  // namespace
}  // namespace tinker::tokenizer::kimi_reader_test
