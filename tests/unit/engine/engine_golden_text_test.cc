// What Hugging Face's libraries generate with greedy sampling, and how likely they find texts.

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "engine/sampler.h"
#include "tinker/testing/matchers.h"
#include "tinker/tokenizer.h"
#include "unit/engine/golden_folder.h"

namespace tinker::engine::engine_golden_text_test {
namespace {

using formats::MappedFile;
using simdjson::dom::element;

/// The most likely tokens after a prompt, with the logprobs of both.
SampleResponse greedy(const std::shared_ptr<const Model>& model,
                      ThreadPool& threads,
                      const std::shared_ptr<const Adapter>& adapter,
                      std::vector<std::int32_t> prompt,
                      std::size_t count) {
  Sampler sampler(model, threads, {});
  SampleJob job = {.adapter = adapter};
  job.request = {.prompt = ModelInput::from_tokens(std::move(prompt)),
                 .sampling_params = {.max_tokens = static_cast<std::int64_t>(count),
                                     .stop = std::vector<std::int32_t>(),
                                     .temperature = 0},
                 .prompt_logprobs = true,
                 .topk_prompt_logprobs = 5,
                 .topk_sample_logprobs = 5};
  SampleResponse out;
  const auto id = sampler.submit(std::move(job),
                                 [&](Result<SampleResponse> response) { out = response.value(); });
  EXPECT_THAT(id, testing::IsOk());
  while (sampler.step()) {
  }
  return out;
}

/// Generates what the goldens did, and compares.
void compare_greedy(const std::shared_ptr<const Model>& model,
                    ThreadPool& threads,
                    const std::shared_ptr<const Adapter>& adapter,
                    element expected) {
  const auto tokens = numbers<std::int32_t>(expected["tokens"]);
  const auto response =
      greedy(model, threads, adapter, numbers<std::int32_t>(expected["prompt"]), tokens.size());
  const auto& sampled = response.sequences.at(0);
  EXPECT_EQ(sampled.tokens, tokens);
  expect_near(expected, "logprobs", sampled.logprobs, kLogitTolerance);
  std::vector<float> gaps;
  for (std::size_t i = 0; i < sampled.tokens.size(); ++i) {
    const auto top = sampled.topk_logprobs.value().at(i).value();
    gaps.push_back(top.at(0).second - top.at(1).second);
  }
  expect_near(expected, "gap_to_second", gaps, 2 * kLogitTolerance);
  if (const auto prompt = member(expected, "prompt_logprobs")) {
    const auto theirs = numbers<float>(*prompt);  // the first token has none
    EXPECT_LE(largest_difference(std::span(response.prompt_logprobs).subspan(1),
                                 std::span(theirs).subspan(1)),
              kLogitTolerance);
  }
}

TEST(engine_golden, greedy_texts) {
  for_goldens({"summary.json"}, [](Golden& golden) {
    const Json summary(golden.folder / "summary.json");
    if (const auto expected = member(*summary, "greedy_base"))
      compare_greedy(golden.model, golden.threads, nullptr, *expected);
    const auto adapter = golden.adapter("lora");
    const auto expected = member(*summary, "greedy_lora");
    if (adapter && expected) compare_greedy(golden.model, golden.threads, adapter, *expected);
  });
}

/// The five most likely tokens at some positions of a text, and the logprobs of all of it.
void compare_top5(const std::shared_ptr<const Model>& model,
                  ThreadPool& threads,
                  element expected) {
  const auto tokens = numbers<std::int32_t>(expected["tokens"]);
  const auto response = greedy(model, threads, nullptr, tokens, 1);
  expect_near(
      expected, "logprobs", std::span(response.prompt_logprobs).subspan(1), kLogitTolerance);
  for (const element place : expected["positions"].get_array()) {
    const auto position = static_cast<std::size_t>(place["position"].get_uint64().value());
    // What comes after the last token is sampled.
    const auto top = position + 1 < tokens.size()
                         ? response.topk_prompt_logprobs.value().at(position + 1).value()
                         : response.sequences.at(0).topk_logprobs.value().at(0).value();
    std::vector<std::int32_t> ids;
    std::vector<float> logits;
    for (const auto& [id, logprob] : top) {
      ids.push_back(id);
      // Known up to the common offset that logsumexp is too.
      logits.push_back(logprob + static_cast<float>(place["logsumexp"].get_double().value()));
    }
    SCOPED_TRACE("position " + std::to_string(position));
    EXPECT_EQ(ids, numbers<std::int32_t>(place["ids"]));
    expect_near(place, "logits", logits, kLogitTolerance);
  }
}

/// Token ids of texts, and the texts of token ids.
void compare_tokens(const Tokenizer& tokenizer, element expected) {
  const auto expect_ids = [&](std::string_view text, element ids) {
    EXPECT_EQ(tokenizer.encode(text, {.parse_special = true}), numbers<std::int32_t>(ids)) << text;
  };
  for (const element item : expected["tokenizer"].get_array())
    expect_ids(item["text"].get_string(), item["ids"]);
  for (const element item : expected["greedy"].get_array()) {
    expect_ids(item["prompt_text"].get_string(), item["prompt"]);
    EXPECT_EQ(tokenizer.decode(numbers<std::int32_t>(item["tokens"])),
              item["text"].get_string().value());
  }
  if (const auto top5 = member(expected, "top5"))
    expect_ids((*top5)["text"].get_string(), (*top5)["tokens"]);
}

TEST(engine_golden, smollm2) {
  const char* const name = std::getenv("TINKER_SMOLLM2");
  const auto path = goldens() / "smollm2.json";
  if (name == nullptr || !std::filesystem::exists(path)) {
    GTEST_SKIP() << "needs " << path << " and the model's .gguf, named by TINKER_SMOLLM2";
  }
  const Json expected(path);
  const auto file = MappedFile::open(name).value();
  if (base::sha256_hex(file.bytes()) != (*expected)["gguf_sha256"].get_string().value()) {
    GTEST_SKIP() << name << " is not the file that " << path << " is about";
  }
  ThreadPool threads(2);
  const auto model =
      Model::load(
          ModelFiles::open(name).value(), kernels_of(cpu_paths().back(), Precision::f32), threads)
          .value();
  for (const element text : (*expected)["greedy"].get_array())
    compare_greedy(model, threads, nullptr, text);
  if (const auto top5 = member(*expected, "top5")) compare_top5(model, threads, *top5);
  compare_tokens(Tokenizer::from_gguf(file.bytes()).value(), *expected);
}

}  // namespace
}  // namespace tinker::engine::engine_golden_text_test
