#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/trainer.h"
#include "tinker/engine.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/distributions.h"
#include "unit/engine/sampler_fixture.h"

namespace tinker::engine::sampler_test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::tinker::testing::IsOk;
using Logprobs = std::vector<double>;  // of the whole vocabulary

constexpr double kTolerance = 2e-5;  // of a logprob, in floats

Logprobs at_temperature(Logprobs logprobs, double temperature) {
  double sum = 0;
  for (auto& x : logprobs) sum += std::exp(x /= temperature);
  for (auto& x : logprobs) x -= std::log(sum);
  return logprobs;
}
std::int32_t most_likely(const Logprobs& logprobs) {
  return static_cast<std::int32_t>(std::ranges::max_element(logprobs) - logprobs.begin());
}
/// All tokens, the most likely first.
Ids ranked(const Logprobs& logprobs) {
  Ids out(logprobs.size());
  std::iota(out.begin(), out.end(), 0);
  std::ranges::sort(out, std::less<>(), [&](std::int32_t id) {
    return std::pair(-logprobs[static_cast<std::size_t>(id)], id);
  });
  return out;
}
double of(const Logprobs& logprobs, std::int64_t id) {
  return logprobs[static_cast<std::size_t>(id)];
}

struct SamplerTest : SamplerFixture {
  /// As the trainer computes them: what comes after each token of a text.
  [[nodiscard]] std::vector<Logprobs> distributions(const Ids& text) {
    Trainer trainer(model, threads, {});
    std::vector<Logprobs> out;
    for (const auto& row :
         engine::distributions(trainer, model->config().vocab_size, adapter.get(), text))
      out.emplace_back(row.begin(), row.end());
    return out;
  }
  /// What each sampled token was drawn from, at temperature 1.
  std::vector<Logprobs> distributions_of(const SampledSequence& sampled) {
    auto text = prompt;
    text.insert(text.end(), sampled.tokens.begin(), sampled.tokens.end() - 1);
    auto all = distributions(text);
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(prompt.size()) - 1);
    return all;
  }
};

// ---- choosing

TEST_F(SamplerTest, TakesTheMostLikelyTokensAtTemperatureZero) {
  const auto got = sequence({.max_tokens = 20, .stop = kNoStop, .temperature = 0});

  ASSERT_THAT(got, IsOk());
  const auto expected = distributions_of(*got);
  ASSERT_THAT(got->tokens, SizeIs(20));
  EXPECT_EQ(got->stop_reason, StopReason::length);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(got->tokens[i], most_likely(expected[i]));
    EXPECT_NEAR(got->logprobs[i], of(expected[i], got->tokens[i]), kTolerance);
  }
}

TEST_F(SamplerTest, IsGreedyWithATopKOfOneOrATopPOfNothing) {
  const auto greedy = sequence({.max_tokens = 20, .stop = kNoStop, .temperature = 0});

  for (const std::uint64_t seed : {1U, 2U}) {
    auto one = job(prompt, {.max_tokens = 20, .stop = kNoStop, .top_k = 1});
    auto few = job(prompt, {.max_tokens = 20, .stop = kNoStop, .top_p = 1e-9});
    auto none = job(prompt, {.max_tokens = 20, .stop = kNoStop, .top_p = 0});
    one.seed = seed;
    few.seed = seed;
    none.seed = seed;

    EXPECT_EQ(sample(std::move(one))->sequences.at(0), *greedy);
    EXPECT_EQ(sample(std::move(few))->sequences.at(0), *greedy);
    EXPECT_EQ(sample(std::move(none))->sequences.at(0), *greedy);
  }
}

TEST_F(SamplerTest, DrawsFromTheTopK) {
  const auto got = sequence({.max_tokens = 40, .stop = kNoStop, .top_k = 3});

  ASSERT_THAT(got, IsOk());
  const auto expected = distributions_of(*got);
  std::map<std::ptrdiff_t, int> ranks;
  for (std::size_t i = 0; i < 40; ++i) {
    const auto order = ranked(expected[i]);
    ++ranks[std::ranges::find(order, got->tokens[i]) - order.begin()];
    // Of all tokens, not only of the three.
    EXPECT_NEAR(got->logprobs[i], of(expected[i], got->tokens[i]), kTolerance);
  }
  EXPECT_THAT(ranks, SizeIs(3));
  EXPECT_EQ(ranks.rbegin()->first, 2);
}

TEST_F(SamplerTest, DrawsFromTheTopPAtTheTemperature) {
  const auto got = sequence({.max_tokens = 40, .stop = kNoStop, .temperature = 1.5, .top_p = 0.3});

  ASSERT_THAT(got, IsOk());
  const auto expected = distributions_of(*got);
  bool is_ever_not_the_first = false;
  for (std::size_t i = 0; i < 40; ++i) {
    const auto tempered = at_temperature(expected[i], 1.5);
    double before = 0;
    for (const auto id : ranked(tempered)) {
      if (id == got->tokens[i]) break;
      before += std::exp(of(tempered, id));
      is_ever_not_the_first = true;
    }
    EXPECT_LT(before, 0.3 + 1e-4);
    EXPECT_NEAR(got->logprobs[i], of(tempered, got->tokens[i]), kTolerance);
  }
  EXPECT_TRUE(is_ever_not_the_first);
}

TEST_F(SamplerTest, ReportsLogprobsAtTheTemperature) {
  for (const double temperature : {0.5, 1.0, 2.5}) {
    const auto got = sequence({.max_tokens = 20, .stop = kNoStop, .temperature = temperature});

    ASSERT_THAT(got, IsOk());
    const auto expected = distributions_of(*got);
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_NEAR(got->logprobs[i],
                  of(at_temperature(expected[i], temperature), got->tokens[i]),
                  kTolerance);
    }
  }
}

TEST_F(SamplerTest, RepeatsItselfForASeedOnly) {
  const auto with_seed = [&](std::uint64_t seed) {
    auto one = job(prompt, {.max_tokens = 20, .stop = kNoStop});
    one.seed = seed;
    return sample(std::move(one))->sequences.at(0);
  };

  EXPECT_EQ(with_seed(1), with_seed(1));
  EXPECT_NE(with_seed(1).tokens, with_seed(2).tokens);
}

TEST_F(SamplerTest, DrawsEachSampleForItself) {
  auto many = job(prompt, {.max_tokens = 20, .stop = kNoStop});
  many.request.num_samples = 5;

  const auto got = sample(std::move(many));

  ASSERT_THAT(got, IsOk());
  ASSERT_THAT(got->sequences, SizeIs(5));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_THAT(got->sequences[i].logprobs, SizeIs(20));
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(got->sequences[i].tokens, got->sequences[j].tokens);
  }
}

// ---- stopping

TEST_F(SamplerTest, StopsAtTheEndOfTheContext) {
  const auto got = sequence({.stop = kNoStop});

  ASSERT_THAT(got, IsOk());
  EXPECT_THAT(got->tokens, SizeIs(model->config().context_length - prompt.size()));
  EXPECT_EQ(got->stop_reason, StopReason::length);
}

TEST_F(SamplerTest, StopsAtIdsAndKeepsThem) {
  const auto all = sequence({.max_tokens = 20, .stop = kNoStop}).value();

  const auto got = sequence({.max_tokens = 20, .stop = Ids{all.tokens[7], all.tokens[5]}});

  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->stop_reason, StopReason::stop);
  EXPECT_EQ(got->tokens, Ids(all.tokens.begin(), all.tokens.begin() + 6));
  EXPECT_EQ(got->logprobs, std::vector(all.logprobs.begin(), all.logprobs.begin() + 6));
}

TEST_F(SamplerTest, StopsAtTheModelsOwnEndUnlessToldNotTo) {
  const auto all = sequence({.max_tokens = 20, .stop = kNoStop}).value();
  auto config = model->config();
  config.eos_ids = {all.tokens[9]};  // a model that is the same but for its end
  model = random_model(config, model->kernels(), threads);
  adapter = tiny_adapter(*model, threads);
  const Ids until_end(all.tokens.begin(), all.tokens.begin() + 10);
  const Ids until_stop(all.tokens.begin(), all.tokens.begin() + 4);

  EXPECT_EQ(sequence({.max_tokens = 20})->tokens, until_end);
  EXPECT_EQ(sequence({.max_tokens = 20})->stop_reason, StopReason::stop);
  // Beside other stops, whichever comes first:
  EXPECT_EQ(sequence({.max_tokens = 20, .stop = Ids{all.tokens[15]}})->tokens, until_end);
  EXPECT_EQ(sequence({.max_tokens = 20, .stop = "never"})->tokens, until_end);
  EXPECT_EQ(sequence({.max_tokens = 20, .stop = Ids{all.tokens[3]}})->tokens, until_stop);
  // An empty list, of either kind:
  EXPECT_EQ(sequence({.max_tokens = 20, .stop = kNoStop})->tokens, all.tokens);
  EXPECT_EQ(sequence({.max_tokens = 20, .stop = std::vector<std::string>()})->tokens, all.tokens);
}

TEST_F(SamplerTest, StopsAtStringsAcrossTokens) {
  const auto all = sequence({.max_tokens = 20, .stop = kNoStop}).value();
  // The last digit of one token, and the first one of the next but one.
  const auto text =
      token_bytes(all.tokens[5]) + token_bytes(all.tokens[6]) + token_bytes(all.tokens[7]);
  const auto across =
      text.substr(token_bytes(all.tokens[5]).size() - 2, token_bytes(all.tokens[6]).size() + 4);
  const std::vector<std::string> many = {"never", token_bytes(all.tokens[12]), across};

  for (const Stop& stop : {Stop(across), Stop(many)}) {
    const auto got = sequence({.max_tokens = 20, .stop = stop});

    ASSERT_THAT(got, IsOk());
    EXPECT_EQ(got->stop_reason, StopReason::stop);
    EXPECT_EQ(got->tokens, Ids(all.tokens.begin(), all.tokens.begin() + 8)) << across;
  }
}

TEST_F(SamplerTest, DoesNotLookForStopStringsInThePrompt) {
  const auto all = sequence({.max_tokens = 20, .stop = kNoStop}).value();

  const auto got = sequence(
      {.max_tokens = 20, .stop = token_bytes(prompt.back()) + token_bytes(all.tokens.front())});

  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->tokens, all.tokens);
  EXPECT_EQ(got->stop_reason, StopReason::length);
}

TEST_F(SamplerTest, EndsSamplesOfOneRequestAtDifferentTimes) {
  auto asked = job(prompt, {.max_tokens = 20, .stop = kNoStop});
  asked.request.num_samples = 3;
  const auto all = sample(asked).value().sequences;
  asked.request.sampling_params.stop = Ids{all[1].tokens[4]};

  const auto got = sample(asked);

  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->sequences[0], all[0]);
  EXPECT_EQ(got->sequences[1].tokens, Ids(all[1].tokens.begin(), all[1].tokens.begin() + 5));
  EXPECT_EQ(got->sequences[2], all[2]);
}

// ---- scores

TEST_F(SamplerTest, ScoresNothingUnlessAsked) {
  const auto got = sample(job(prompt, {.max_tokens = 2})).value();

  EXPECT_THAT(got.prompt_logprobs, IsEmpty());
  EXPECT_FALSE(got.topk_prompt_logprobs);
  EXPECT_FALSE(got.target_prompt_logprobs);
  EXPECT_FALSE(got.prompt_alt_tokens);
  EXPECT_FALSE(got.sequences.at(0).topk_logprobs);
}

// SERVER 2.3: at temperature 1, without filters, nothing for the first token.
TEST_F(SamplerTest, ScoresThePrompt) {
  auto asked = job(prompt, {.max_tokens = 1, .temperature = 0.3, .top_k = 2});
  asked.request.prompt_logprobs = true;
  asked.request.num_samples = 2;

  const auto got = sample(std::move(asked)).value();

  const auto expected = distributions(prompt);
  ASSERT_THAT(got.prompt_logprobs, SizeIs(prompt.size()));
  EXPECT_EQ(got.prompt_logprob(0), std::nullopt);
  for (std::size_t i = 1; i < prompt.size(); ++i)
    EXPECT_NEAR(got.prompt_logprobs[i], of(expected[i - 1], prompt[i]), kTolerance);
  EXPECT_FALSE(got.topk_prompt_logprobs);
}

TEST_F(SamplerTest, ScoresTheLastTokensOnly) {
  auto asked = job(prompt, {.max_tokens = 1});
  asked.request.prompt_logprobs = true;
  asked.request.topk_prompt_logprobs = 2;
  const auto all = sample(asked).value();
  for (const std::size_t last : {1U, 5U, 69U, 70U, 1000U}) {
    asked.request.prompt_logprobs_last_n = static_cast<std::int64_t>(last);

    const auto got = sample(asked).value();

    for (std::size_t i = 0; i < prompt.size(); ++i) {
      const bool is_scored = i > 0 && i + last >= prompt.size();
      EXPECT_EQ(got.prompt_logprob(i), is_scored ? all.prompt_logprob(i) : std::nullopt);
      EXPECT_EQ(got.topk_prompt_logprobs->at(i),
                is_scored ? all.topk_prompt_logprobs->at(i) : std::nullopt);
    }
    EXPECT_EQ(got.sequences, all.sequences);
  }
}

TEST_F(SamplerTest, UsesTheCacheForWhatIsNotScored) {
  Sampler sampler(model, threads, {});
  auto asked = job(prompt, {.max_tokens = 3});
  asked.request.prompt_logprobs = true;
  asked.request.prompt_logprobs_last_n = 10;
  const auto first = sample(sampler, asked).value();

  const auto again = sample(sampler, asked).value();
  asked.request.prompt_logprobs_last_n = {};
  const auto all = sample(sampler, asked).value();

  EXPECT_EQ(first.prompt_cache_hit_tokens, 0);
  EXPECT_EQ(again.prompt_cache_hit_tokens, 32);  // whole pages before the last ten
  EXPECT_EQ(all.prompt_cache_hit_tokens, 0);
  EXPECT_EQ(again.sequences, first.sequences);
  EXPECT_EQ(all.sequences, first.sequences);
  for (std::size_t i = 60; i < 70; ++i) {
    EXPECT_EQ(again.prompt_logprobs[i], first.prompt_logprobs[i]);
    EXPECT_EQ(all.prompt_logprobs[i], first.prompt_logprobs[i]);
  }
}

TEST_F(SamplerTest, ListsTheMostLikelyTokensOfThePrompt) {
  auto asked = job(prompt, {.max_tokens = 1, .temperature = 0.5});
  asked.request.topk_prompt_logprobs = 4;

  const auto got = sample(std::move(asked)).value();

  const auto expected = distributions(prompt);
  ASSERT_TRUE(got.topk_prompt_logprobs);
  EXPECT_THAT(got.prompt_logprobs, IsEmpty());
  EXPECT_EQ(got.topk_prompt_logprobs->length, prompt.size());
  EXPECT_EQ(got.topk_prompt_logprobs->at(0), std::nullopt);
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const auto cells = got.topk_prompt_logprobs->at(i);
    ASSERT_TRUE(cells);
    ASSERT_THAT(*cells, SizeIs(4));
    const auto order = ranked(expected[i - 1]);
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_EQ((*cells)[k].first, order[k]);
      EXPECT_NEAR((*cells)[k].second, of(expected[i - 1], order[k]), kTolerance);
    }
  }
}

TEST_F(SamplerTest, ListsTheMostLikelyTokensOfSamples) {
  auto asked = job(prompt, {.max_tokens = 6, .stop = kNoStop, .temperature = 0.5});
  asked.request.topk_sample_logprobs = 3;

  const auto got = sample(std::move(asked)).value().sequences.at(0);

  const auto expected = distributions_of(got);
  ASSERT_TRUE(got.topk_logprobs);
  EXPECT_EQ(got.topk_logprobs->length, 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto tempered = at_temperature(expected[i], 0.5);
    const auto order = ranked(tempered);
    const auto cells = got.topk_logprobs->at(i);
    ASSERT_TRUE(cells);
    ASSERT_THAT(*cells, SizeIs(3));
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ((*cells)[k].first, order[k]);
      EXPECT_NEAR((*cells)[k].second, of(tempered, order[k]), kTolerance);
    }
  }
}

TEST_F(SamplerTest, ScoresChosenTokensOfThePrompt) {
  auto asked = job(prompt, {.max_tokens = 1, .temperature = 0.5});
  const auto rows = static_cast<std::int64_t>(prompt.size()) - 1;
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 2 * rows; ++i) ids.push_back(i % 5 == 3 ? -1 : i * 11 % 1601);
  const TensorData::Shape shape = {rows, 2};
  asked.request.target_prompt_logprobs = TensorData(Buffer<std::int64_t>(ids), shape);

  const auto got = sample(asked).value();

  const auto expected = distributions(prompt);
  ASSERT_TRUE(got.target_prompt_logprobs);
  EXPECT_EQ(got.target_prompt_logprobs->shape(), shape);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const float logprob = got.target_prompt_logprobs->floats()[i];
    if (ids[i] == -1) {
      EXPECT_EQ(logprob, 0.0F);
    } else {
      EXPECT_NEAR(logprob, of(expected[i / 2], ids[i]), kTolerance);
    }
  }
}

TEST_F(SamplerTest, ScoresChosenTokensOfSparseRows) {
  const Ids text = {5, 6, 7, 8};
  auto asked = job(text, {.max_tokens = 1});
  const CsrIndices where = {.crow = std::vector<std::int64_t>{0, 1, 1, 3},
                            .col = std::vector<std::int64_t>{1, 0, 2}};
  asked.request.target_prompt_logprobs =
      TensorData(Buffer<std::int64_t>({100, 200, 300}), TensorData::Shape{3, 3}, where);

  const auto got = sample(asked).value().target_prompt_logprobs;

  const auto expected = distributions(text);
  ASSERT_TRUE(got && got->is_sparse());
  EXPECT_EQ(*got->indices(), where);
  ASSERT_THAT(got->floats(), SizeIs(3));
  EXPECT_NEAR(got->floats()[0], of(expected[0], 100), kTolerance);
  EXPECT_NEAR(got->floats()[1], of(expected[2], 200), kTolerance);
  EXPECT_NEAR(got->floats()[2], of(expected[2], 300), kTolerance);
}

// SERVER 2.4: tempered like samples.
TEST_F(SamplerTest, DrawsAlternativesToThePrompt) {
  const auto draws = [&](double temperature, std::uint64_t seed) {
    auto asked = job(prompt, {.max_tokens = 1, .temperature = temperature});
    asked.request.prompt_alt_tokens_k = 3;
    asked.seed = seed;
    return sample(std::move(asked))->prompt_alt_tokens.value();
  };
  const auto expected = distributions(prompt);
  const TensorData::Shape shape = {69, 3};

  const auto greedy = draws(0, 1);
  const auto random = draws(0.7, 1);

  EXPECT_EQ(greedy.tokens.shape(), shape);
  EXPECT_EQ(random.logprobs.shape(), shape);
  std::size_t differing = 0;
  for (std::size_t i = 0; i < greedy.tokens.size(); ++i) {
    const auto& after = expected[i / 3];
    EXPECT_EQ(greedy.tokens.ints()[i], most_likely(after));
    EXPECT_NEAR(greedy.logprobs.floats()[i], of(after, most_likely(after)), kTolerance);
    const auto token = random.tokens.ints()[i];
    EXPECT_NEAR(random.logprobs.floats()[i], of(at_temperature(after, 0.7), token), kTolerance);
    if (i % 3 > 0 && token != random.tokens.ints()[i - 1]) ++differing;
  }
  EXPECT_GT(differing, 20U);  // draws of one position are independent
  EXPECT_EQ(draws(0.7, 1), random);
  EXPECT_NE(draws(0.7, 2), random);
}

TEST_F(SamplerTest, ScoresAPromptOfOneToken) {
  auto asked = job({7}, {.max_tokens = 2, .stop = kNoStop});
  asked.request.prompt_logprobs = true;
  asked.request.topk_prompt_logprobs = 2;
  asked.request.prompt_alt_tokens_k = 2;
  asked.request.target_prompt_logprobs =
      TensorData(Buffer<std::int64_t>(std::vector<std::int64_t>()), TensorData::Shape{0, 2});

  const auto got = sample(std::move(asked));

  ASSERT_THAT(got, IsOk());
  EXPECT_THAT(got->prompt_logprobs, SizeIs(1));
  EXPECT_EQ(got->prompt_logprob(0), std::nullopt);
  EXPECT_EQ(got->topk_prompt_logprobs->at(0), std::nullopt);
  EXPECT_THAT(got->sequences.at(0).tokens, SizeIs(2));
}

// ---- the cache, and giving up

TEST_F(SamplerTest, FreesThePagesOfACancelledRequestAtOnce) {
  const auto expected = sample(job(prompt, {.max_tokens = 40, .stop = kNoStop}));
  Sampler sampler(model, threads, {});
  Result<SampleResponse> kept = Error{};
  bool is_answered = false;
  auto many = job(some_tokens(*model, 50, 9), {.max_tokens = 60, .stop = kNoStop});
  many.request.num_samples = 3;
  ASSERT_THAT(sampler.submit(job(prompt, {.max_tokens = 40, .stop = kNoStop}),
                             [&](Result<SampleResponse> answer) { kept = std::move(answer); }),
              IsOk());
  const auto cancelled =
      sampler.submit(std::move(many), [&](const Result<SampleResponse>&) { is_answered = true; });
  for (int i = 0; i < 10; ++i) sampler.step();
  const std::size_t both = sampler.pages().in_use();

  sampler.cancel(*cancelled);
  const std::size_t one = sampler.pages().in_use();
  while (sampler.step()) {
  }

  EXPECT_EQ(both, pages_for(70 + 10) + 1 + 3);  // one shared page, and one of each sample
  EXPECT_EQ(one, pages_for(70 + 10));
  EXPECT_EQ(sampler.pages().in_use(), 0U);
  EXPECT_FALSE(is_answered);
  ASSERT_THAT(kept, IsOk());
  EXPECT_EQ(kept->sequences, expected->sequences);
}

TEST_F(SamplerTest, FreesThePagesOfAPromptThatIsCancelledHalfway) {
  Sampler sampler(model, threads, {.batch_rows = 40});
  const auto id = sampler.submit(job(prompt, {.max_tokens = 5}),
                                 [](const Result<SampleResponse>&) { ADD_FAILURE(); });
  EXPECT_TRUE(sampler.step());
  EXPECT_EQ(sampler.pages().in_use(), 2U);  // 40 of 70 tokens

  sampler.cancel(*id);

  EXPECT_EQ(sampler.pages().in_use(), 0U);
  EXPECT_FALSE(sampler.step());
  // What was computed is remembered, and right.
  const auto got = sample(sampler, job(prompt, {.max_tokens = 5}));
  EXPECT_EQ(got->prompt_cache_hit_tokens, 32);
  EXPECT_EQ(got->sequences, sample(job(prompt, {.max_tokens = 5}))->sequences);
}

TEST_F(SamplerTest, CancelsWhatHasNotBegunAndIgnoresWhatIsOver) {
  Sampler sampler(model, threads, {});
  const auto id = sampler.submit(job(prompt, {.max_tokens = 5}),
                                 [](const Result<SampleResponse>&) { ADD_FAILURE(); });
  sampler.cancel(*id);
  sampler.cancel(*id);
  sampler.cancel(*id + 1);
  EXPECT_FALSE(sampler.step());

  EXPECT_THAT(sample(sampler, job(prompt, {.max_tokens = 5})), IsOk());
  sampler.cancel(*id + 1);
}

TEST_F(SamplerTest, MayBeToldToCancelByAnAnswer) {
  Sampler sampler(model, threads, {});
  std::vector<Sampler::Id> ids;
  int answers = 0;
  for (const std::int64_t tokens : {8, 3, 3}) {
    const auto id = sampler.submit(job(prompt, {.max_tokens = tokens, .stop = kNoStop}),
                                   [&](const Result<SampleResponse>&) {
                                     ++answers;
                                     sampler.cancel(ids[0]);
                                   });
    ids.push_back(id.value());
  }

  for (int i = 0; i < 20; ++i) sampler.step();

  EXPECT_FALSE(sampler.step());
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(sampler.pages().in_use(), 0U);
}

TEST_F(SamplerTest, ReportsWhatWasFoundInTheCache) {
  Sampler sampler(model, threads, {});
  auto longer = prompt;
  longer.push_back(5);
  auto other = prompt;
  other[40] = 6;
  auto of_base = job(prompt, {.max_tokens = 1});
  of_base.adapter = nullptr;
  const auto hits = [&](SampleJob one) {
    return sample(sampler, std::move(one))->prompt_cache_hit_tokens;
  };

  EXPECT_EQ(hits(job(prompt, {.max_tokens = 1})), 0);
  EXPECT_EQ(hits(job(prompt, {.max_tokens = 1})), 64);
  EXPECT_EQ(hits(job(longer, {.max_tokens = 1})), 64);
  EXPECT_EQ(hits(job(other, {.max_tokens = 1})), 32);
  EXPECT_EQ(hits(std::move(of_base)), 0);
  // The last token of a prompt is always computed.
  EXPECT_EQ(hits(job({prompt.begin(), prompt.begin() + 64}, {.max_tokens = 1})), 32);
}

TEST_F(SamplerTest, TellsWhoseSequencesHaveNoRoom) {
  const KvLayout layout(model->config(), model->kernels(), model->config().layers);
  Sampler sampler(model, threads, {.cache_bytes = 3 * layout.page_bytes()});
  const auto submit = [&] {
    auto asked = job({prompt.begin(), prompt.begin() + 66}, {.max_tokens = 20, .stop = kNoStop});
    asked.tenant = "one";
    asked.progress = std::make_shared<SampleProgress>();
    auto progress = asked.progress;
    EXPECT_THAT(sampler.submit(std::move(asked), [](const Result<SampleResponse>&) {}), IsOk());
    return progress;
  };
  const auto first = submit();
  const auto second = submit();
  EXPECT_EQ(first->stage(), SampleProgress::Stage::queued);

  sampler.step();
  EXPECT_EQ(first->stage(), SampleProgress::Stage::computing);
  EXPECT_EQ(second->stage(), SampleProgress::Stage::no_room);
  EXPECT_EQ(sampler.last_step().requests, 1U);
  EXPECT_EQ(sampler.cache_bytes(), sampler.pages().in_use() * layout.page_bytes());
  while (second->stage() != SampleProgress::Stage::computing && sampler.step()) {
  }

  EXPECT_EQ(second->stage(), SampleProgress::Stage::computing);
}

// Samples of a prompt that fills its pages have nothing of their own to give way with.
TEST_F(SamplerTest, GoesOnWhenTheSamplesOfAPromptFillTheCache) {
  auto asked = job({prompt.begin(), prompt.begin() + 32}, {.max_tokens = 64, .stop = kNoStop});
  asked.request.num_samples = 3;
  const auto expected = sample(asked);
  const KvLayout layout(model->config(), model->kernels(), model->config().layers);
  Sampler sampler(model, threads, {.cache_bytes = 3 * layout.page_bytes()});
  Result<SampleResponse> got = Error{};
  ASSERT_THAT(sampler.submit(std::move(asked),
                             [&](Result<SampleResponse> answer) { got = std::move(answer); }),
              IsOk());

  for (int i = 0; i < 1000 && sampler.step(); ++i) {
  }

  ASSERT_THAT(got, IsOk());
  EXPECT_EQ(got->sequences, expected->sequences);
}

}  // namespace
}  // namespace tinker::engine::sampler_test
