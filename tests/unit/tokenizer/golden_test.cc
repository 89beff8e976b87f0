#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tinker/tokenizer.h"

namespace tinker::golden_test {
namespace {

// What the real libraries make of texts: tests/golden/make_tokenizer_golden.py.

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Case {
  std::string text;
  std::vector<std::int32_t> plain;
  std::vector<std::int32_t> parsed;
  std::optional<std::vector<std::int32_t>> around;
  std::string decoded;
};

std::string from_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; hex != "." && i < hex.size(); i += 2) {
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return out;
}

std::vector<std::int32_t> ids_of(const std::string& text) {
  std::vector<std::int32_t> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (text != "." && at < end) {
    at = std::from_chars(at, end, out.emplace_back()).ptr + 1;
  }
  return out;
}

std::vector<Case> cases_of(const std::string& name) {
  std::ifstream file(std::string(TOKENIZER_GOLDEN) + "/" + name + ".txt");
  std::vector<Case> out;
  std::string text;
  std::string plain;
  std::string parsed;
  std::string around;
  std::string decoded;
  while (file >> text >> plain >> parsed >> around >> decoded) {
    out.push_back({.text = from_hex(text),
                   .plain = ids_of(plain),
                   .parsed = ids_of(parsed),
                   .around = around == "-" ? std::nullopt : std::optional(ids_of(around)),
                   .decoded = from_hex(decoded)});
  }
  return out;
}

Tokenizer tokenizer_of(const std::string& name) {
  const auto path = std::string(TOKENIZER_GOLDEN) + "/" + name;
  const auto ranks = read_file(path + ".tiktoken");
  if (ranks.empty()) return Tokenizer::load(path + ".json").value();
  const auto lines = static_cast<std::int32_t>(std::ranges::count(ranks, '\n'));
  return Tokenizer::from_tiktoken(ranks,
                                  {.pattern = read_file(path + ".pattern"),
                                   .special_tokens = {{.content = "<|start|>", .id = lines},
                                                      {.content = "<|end|>", .id = lines + 1}}})
      .value();
}

class TokenizerGolden : public ::testing::TestWithParam<std::string> {
 protected:
  Tokenizer tokenizer_ = tokenizer_of(GetParam());
  std::vector<Case> cases_ = cases_of(GetParam());
};

TEST_P(TokenizerGolden, HasCases) {
  EXPECT_GT(cases_.size(), 150);
}

TEST_P(TokenizerGolden, EncodesAsTheLibraryDoes) {
  for (const auto& golden : cases_) {
    EXPECT_EQ(tokenizer_.encode(golden.text, {.add_special_tokens = false}), golden.plain)
        << golden.text;
    EXPECT_EQ(tokenizer_.encode(golden.text, {.add_special_tokens = false, .parse_special = true}),
              golden.parsed)
        << golden.text;
    if (!golden.around) continue;
    EXPECT_EQ(tokenizer_.encode(golden.text, {.parse_special = true}), golden.around)
        << golden.text;
  }
}

TEST_P(TokenizerGolden, DecodesAsTheLibraryDoes) {
  for (const auto& golden : cases_) {
    EXPECT_EQ(tokenizer_.decode(golden.around.value_or(golden.parsed)), golden.decoded);
  }
}

TEST_P(TokenizerGolden, AStreamGivesTheSameText) {
  for (const auto& golden : cases_) {
    auto stream = tokenizer_.decode_stream();
    std::string text;
    for (const auto id : golden.around.value_or(golden.parsed)) text += stream.push(id);
    text += stream.finish();
    EXPECT_EQ(text, golden.decoded);
  }
}

TEST_P(TokenizerGolden, OffsetsCoverTheTextInOrder) {
  for (const auto& golden : cases_) {
    const auto encoding =
        tokenizer_.encode_with_offsets(golden.text, {.add_special_tokens = false});
    ASSERT_EQ(encoding.ids, golden.plain);
    ASSERT_EQ(encoding.offsets.size(), encoding.ids.size());
    std::size_t at = 0;
    for (const auto& [begin, end] : encoding.offsets) {
      EXPECT_LE(begin, at) << golden.text;  // nothing is left out
      EXPECT_LE(begin, end);
      at = std::max(at, end);
    }
    EXPECT_EQ(at, golden.text.size());
  }
}

TEST_P(TokenizerGolden, ABatchIsTheSameOnAnyNumberOfThreads) {
  std::vector<std::string> texts;
  std::vector<std::vector<std::int32_t>> expected;
  for (const auto& golden : cases_) {
    texts.push_back(golden.text);
    expected.push_back(golden.plain);
  }

  for (const unsigned threads : {0U, 1U, 3U}) {
    EXPECT_EQ(tokenizer_.encode_batch(texts, {.add_special_tokens = false}, threads), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Real,
    TokenizerGolden,
    ::testing::Values(
        "gpt2", "qwen", "llama3", "deepseek", "llama2", "gemma", "metaspace", "cl100k", "kimi"),
    [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace tinker::golden_test
