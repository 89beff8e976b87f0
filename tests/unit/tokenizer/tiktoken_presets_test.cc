#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "support/tiktoken_file.h"
#include "tinker/tokenizer.h"

namespace tinker::tiktoken_presets_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

std::string pattern_of(const std::string& name) {
  std::ifstream file(std::string(TOKENIZER_GOLDEN) + "/" + name + ".pattern", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TiktokenPreset, IsKnownByName) {
  for (const auto* const name : {"r50k_base", "p50k_base", "o200k_base"}) {
    EXPECT_TRUE(TiktokenOptions::preset(name)) << name;
  }
  EXPECT_EQ(TiktokenOptions::preset("cl100k_base").value().pattern, pattern_of("cl100k"));
  EXPECT_FALSE(TiktokenOptions::preset("unheard_of"));
}

TEST(TiktokenPreset, HarmonyNamesEveryIdBehindItsRanks) {
  const auto options = TiktokenOptions::preset("o200k_harmony").value();

  std::set<std::int32_t> ids;
  for (const auto& token : options.special_tokens) ids.insert(token.id);

  EXPECT_EQ(*ids.begin(), 199'998);
  EXPECT_EQ(*ids.rbegin(), 201'087);
  EXPECT_EQ(ids.size(), 1'090);
}

TEST(TiktokenPreset, HarmonyHasTheTokensOfChats) {
  const auto tokenizer = Tokenizer::from_tiktoken(testing::byte_ranks(),
                                                  TiktokenOptions::preset("o200k_harmony").value())
                             .value();

  EXPECT_THAT(tokenizer.encode("<|start|>a<|channel|><|message|><|end|><|return|><|call|>",
                               {.parse_special = true}),
              ElementsAre(200'006, 'a', 200'005, 200'008, 200'007, 200'002, 200'012));
  EXPECT_THAT(tokenizer.token_to_id("<|reserved_200013|>"), Optional(200'013));
  EXPECT_FALSE(tokenizer.token_to_id("<|reserved_200012|>"));
  // One id with two names.
  EXPECT_THAT(tokenizer.token_to_id("<|reserved_200018|>"), Optional(200'018));
  EXPECT_THAT(tokenizer.id_to_token(200'018), Optional(std::string("<|endofprompt|>")));
}

}  // namespace
}  // namespace tinker::tiktoken_presets_test
