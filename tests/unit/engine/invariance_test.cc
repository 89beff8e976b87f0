// A logprob has the same bits whatever else is in the batch, however the batch is cut, with any
// number of threads, from the trainer or the sampler, with a cached beginning or without,
// interleaved with anything in any order. Gradients add up the same way however a batch is cut.

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/sampler.h"
#include "engine/trainer.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine::invariance_test {
namespace {

using Bits = std::vector<std::uint32_t>;

Bits bits_of(std::span<const float> values) {
  Bits out;
  for (const float value : values) out.push_back(std::bit_cast<std::uint32_t>(value));
  return out;
}

/// Tokens 0..n-1 of a text, each scored with the one after it.
ScoredSequence shifted(const std::vector<std::int32_t>& text) {
  return {.tokens = {text.begin(), text.end() - 1}, .targets = {text.begin() + 1, text.end()}};
}

class Invariance : public ::testing::TestWithParam<Setting> {
 protected:
  Invariance()
      : threads(2), model(tiny_model(GetParam(), threads)), adapter(tiny_adapter(*model, threads)) {
    for (const std::size_t length : {2U, 70U, 33U, 8U, 41U})
      texts.push_back(some_tokens(*model, length, length));
    for (const auto& text : texts) sequences.push_back(shifted(text));
  }

  struct Outcome {
    std::vector<Bits> logprobs = {};
    Bits gradients = {};
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };
  /// The pass over all sequences, in calls of so many, with a loss whose derivatives differ from
  /// token to token.
  Outcome train(ThreadPool& pool, const TrainerOptions& options, std::size_t per_call) {
    Trainer trainer(model, pool, options);
    Outcome out;
    Floats gradients(adapter->layout().parameters());
    for (std::size_t begin = 0; begin < sequences.size(); begin += per_call) {
      const auto part =
          std::span(sequences).subspan(begin, std::min(per_call, sequences.size() - begin));
      const auto done = trainer
                            .forward_backward(
                                *adapter,
                                part,
                                [&](std::size_t,
                                    std::span<const float> logprobs,
                                    std::span<float> d) -> Result<void> {
                                  out.logprobs.push_back(bits_of(logprobs));
                                  for (std::size_t i = 0; i < d.size(); ++i)
                                    d[i] = i % 3 == 0 ? 0.0F : -1.0F / static_cast<float>(i);
                                  return {};
                                },
                                gradients.span())
                            .run();
      EXPECT_THAT(done, testing::IsOk());
    }
    out.gradients = bits_of(gradients.span());
    return out;
  }

  SampleJob job(std::vector<std::int32_t> prompt, std::int64_t max_tokens) {
    SampleJob out = {.adapter = adapter, .seed = 11};
    out.request.prompt = ModelInput::from_tokens(std::move(prompt));
    out.request.sampling_params = {.max_tokens = max_tokens, .stop = std::vector<std::int32_t>()};
    return out;
  }
  static std::vector<SampleResponse> run(Sampler& sampler, std::vector<SampleJob> jobs) {
    std::vector<SampleResponse> out(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const auto id = sampler.submit(
          std::move(jobs[i]), [&out, i](Result<SampleResponse> done) { out[i] = done.value(); });
      EXPECT_THAT(id, testing::IsOk());
    }
    while (sampler.step()) {
    }
    return out;
  }
  SampleResponse alone(SampleJob one) {
    Sampler sampler(model, threads, {});
    return run(sampler, {std::move(one)})[0];
  }

  ThreadPool threads;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Adapter> adapter;
  std::vector<std::vector<std::int32_t>> texts;
  std::vector<ScoredSequence> sequences;
};

TEST_P(Invariance, OfTrainingUnderTheCutOfABatchIntoCalls) {
  EXPECT_EQ(train(threads, {}, 5), train(threads, {}, 2));
  EXPECT_EQ(train(threads, {}, 5), train(threads, {}, 1));
}

TEST_P(Invariance, OfTrainingUnderMicroBatches) {
  EXPECT_EQ(train(threads, {}, 5), train(threads, {.micro_batch_tokens = 64}, 5));
}

// Pieces begin and end within the sequences of 70, 33 and 41 tokens.
TEST_P(Invariance, OfTrainingUnderPieces) {
  EXPECT_EQ(train(threads, {}, 5), train(threads, {.piece_tokens = 32}, 5));
  EXPECT_EQ(train(threads, {}, 5), train(threads, {.piece_tokens = 75}, 5));
}

TEST_P(Invariance, OfTrainingUnderThreads) {
  ThreadPool one(1);
  ThreadPool three(3);

  const auto expected = train(threads, {}, 5);

  EXPECT_EQ(train(one, {}, 5), expected);
  EXPECT_EQ(train(three, {}, 5), expected);
}

TEST_P(Invariance, OfTrainingWhenLayersAreComputedAgain) {
  EXPECT_EQ(train(threads, {}, 5), train(threads, {.kept_bytes = 0}, 5));
}

TEST_P(Invariance, OfPromptLogprobsBetweenTrainerAndSampler) {
  const auto trained = train(threads, {}, 5);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto asked = job(texts[i], 1);
    asked.request.prompt_logprobs = true;

    const auto response = alone(std::move(asked));

    EXPECT_EQ(bits_of(std::span(response.prompt_logprobs).subspan(1)), trained.logprobs[i]);
  }
}

TEST_P(Invariance, OfSampledLogprobsBetweenTrainerAndSampler) {
  const auto response = alone(job(texts[3], 60));
  auto text = texts[3];
  text.insert(text.end(), response.sequences[0].tokens.begin(), response.sequences[0].tokens.end());
  sequences = {shifted(text)};

  const auto trained = train(threads, {}, 1);

  const auto& all = trained.logprobs[0];
  EXPECT_EQ(bits_of(response.sequences[0].logprobs), Bits(all.end() - 60, all.end()));
}

TEST_P(Invariance, OfSamplesUnderOtherRequestsChunksAndThreads) {
  std::vector<SampleResponse> expected;
  for (const auto& text : texts) expected.push_back(alone(job(text, 40)));
  ThreadPool one(1);
  Sampler small_batches(model, one, {.batch_rows = 7});
  Sampler large_batches(model, threads, {.batch_rows = 300});

  for (auto* sampler : {&small_batches, &large_batches}) {
    std::vector<SampleJob> jobs;
    for (const auto& text : texts) jobs.push_back(job(text, 40));
    jobs[1].adapter = nullptr;  // a neighbour with other weights
    const auto together = run(*sampler, std::move(jobs));

    for (const std::size_t i : {0U, 2U, 3U, 4U}) {
      EXPECT_EQ(together[i].sequences[0].tokens, expected[i].sequences[0].tokens);
      EXPECT_EQ(bits_of(together[i].sequences[0].logprobs),
                bits_of(expected[i].sequences[0].logprobs));
    }
  }
}

TEST_P(Invariance, OfSamplesUnderNeighboursWithOtherAdapters) {
  // More than one step of the kernels beyond the rank of the other.
  const std::vector adapters = {adapter, tiny_adapter(*model, threads, 35), {}};
  const auto jobs = [&] {
    std::vector<SampleJob> out;
    for (std::size_t i = 0; i < 2 * adapters.size(); ++i) {
      out.push_back(job(texts[i / adapters.size() + 1], 30));
      out.back().adapter = adapters[i % adapters.size()];
      out.back().request.prompt_logprobs = true;
    }
    return out;
  };
  std::vector<SampleResponse> expected;
  for (auto& one : jobs()) expected.push_back(alone(std::move(one)));
  Sampler sampler(model, threads, {});

  const auto together = run(sampler, jobs());

  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(together[i].sequences, expected[i].sequences) << i;
    EXPECT_EQ(bits_of(together[i].prompt_logprobs), bits_of(expected[i].prompt_logprobs)) << i;
    EXPECT_NE(expected[i].sequences, expected[(i + 1) % expected.size()].sequences) << i;
  }
}

TEST_P(Invariance, OfSamplesUnderACachedBeginning) {
  const auto expected = alone(job(texts[1], 40));
  Sampler sampler(model, threads, {});
  run(sampler, {job(texts[1], 3)});

  const auto again = run(sampler, {job(texts[1], 40)})[0];

  EXPECT_EQ(expected.prompt_cache_hit_tokens, 0);
  EXPECT_EQ(again.prompt_cache_hit_tokens, 64);
  EXPECT_EQ(again.sequences, expected.sequences);
}

TEST_P(Invariance, OfSamplesWhenTheCacheIsTooSmallForAll) {
  std::vector<SampleResponse> expected;
  for (const auto& text : texts) expected.push_back(alone(job(text, 60)));
  const KvLayout layout(model->config(), model->kernels(), model->config().layers);
  Sampler sampler(model, threads, {.cache_bytes = 6 * layout.page_bytes()});
  std::vector<SampleJob> jobs;
  for (const auto& text : texts) jobs.push_back(job(text, 60));

  const auto together = run(sampler, std::move(jobs));

  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(together[i].sequences, expected[i].sequences);
  EXPECT_EQ(sampler.pages().in_use(), 0U);
}

TEST_P(Invariance, OfSamplesAmongMore) {
  auto one = job(texts[2], 20);
  auto four = job(texts[2], 20);
  four.request.num_samples = 4;

  const auto single = alone(std::move(one));
  const auto many = alone(std::move(four));

  ASSERT_EQ(many.sequences.size(), 4U);
  EXPECT_EQ(many.sequences[0], single.sequences[0]);
  EXPECT_NE(many.sequences[1].tokens, many.sequences[2].tokens);
}

// Two adapters in training and a sampler take their steps in a random order, as a scheduler may
// choose: only one pass is inside its arrays at a time, others come between micro-batches.
TEST_P(Invariance, OfEverythingUnderAnyInterleaving) {
  const auto other = tiny_adapter(*model, threads, 7);
  const auto d_of = [](std::size_t i) { return i % 3 == 0 ? 0.0F : -1.0F / static_cast<float>(i); };
  struct Pass {
    Floats gradients;
    std::vector<Bits> logprobs = {};
  };
  const auto begin = [&](Trainer& trainer, const Adapter& of, Pass& pass) {
    return trainer.forward_backward(
        of,
        sequences,
        [&](std::size_t, std::span<const float> logprobs, std::span<float> d) -> Result<void> {
          pass.logprobs.push_back(bits_of(logprobs));
          for (std::size_t i = 0; i < d.size(); ++i) d[i] = d_of(i);
          return {};
        },
        pass.gradients.span());
  };
  const TrainerOptions options = {.micro_batch_tokens = 64, .piece_tokens = 32};
  std::array<Pass, 2> expected = {Pass{Floats(adapter->layout().parameters())},
                                  Pass{Floats(other->layout().parameters())}};
  for (std::size_t i = 0; i < 2; ++i) {
    Trainer trainer(model, threads, options);
    ASSERT_THAT(begin(trainer, i == 0 ? *adapter : *other, expected[i]).run(), testing::IsOk());
  }
  std::vector<SampleResponse> samples;
  for (const auto& text : texts) samples.push_back(alone(job(text, 30)));

  for (const unsigned seed : {1U, 2U, 3U}) {
    std::mt19937 random(seed);
    Trainer trainer(model, threads, options);
    Sampler sampler(model, threads, {});
    std::array<Pass, 2> passes = {Pass{Floats(adapter->layout().parameters())},
                                  Pass{Floats(other->layout().parameters())}};
    std::array works = {begin(trainer, *adapter, passes[0]), begin(trainer, *other, passes[1])};
    std::array is_over = {false, false};
    std::optional<std::size_t> inside;
    std::size_t next_text = 0;
    std::vector<SampleResponse> drawn(texts.size());
    bool has_samples = true;
    while (!is_over[0] || !is_over[1] || has_samples) {
      const std::size_t which = random() % 3;
      if (which == 2) {
        if (next_text < texts.size()) {
          const std::size_t i = next_text++;
          const auto id =
              sampler.submit(job(texts[i], 30),
                             [&drawn, i](Result<SampleResponse> done) { drawn[i] = done.value(); });
          ASSERT_THAT(id, testing::IsOk());
        }
        has_samples = sampler.step(32) || next_text < texts.size();
      } else if (!is_over[which] && inside.value_or(which) == which) {
        is_over[which] = !works[which].step();
        inside.reset();
        if (!is_over[which] && works[which].cut() == Cut::inside) inside = which;
      }
    }

    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_THAT(works[i].take(), testing::IsOk());
      EXPECT_EQ(bits_of(passes[i].gradients.span()), bits_of(expected[i].gradients.span())) << seed;
      EXPECT_EQ(passes[i].logprobs, expected[i].logprobs) << seed;
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(drawn[i].sequences[0].tokens, samples[i].sequences[0].tokens) << seed;
      EXPECT_EQ(bits_of(drawn[i].sequences[0].logprobs), bits_of(samples[i].sequences[0].logprobs));
    }
  }
}

// Wherever a pass is dropped, the gradients are what they were, and so is the next pass.
TEST_P(Invariance, OfGradientsUnderPassesThatAreDropped) {
  const TrainerOptions options = {.micro_batch_tokens = 64, .piece_tokens = 32};
  Trainer trainer(model, threads, options);
  Floats gradients(adapter->layout().parameters());
  std::ranges::fill(gradients.span(), 0.5F);
  const auto before = bits_of(gradients.span());
  const auto begin = [&](std::span<float> into) {
    return trainer.forward_backward(
        *adapter,
        sequences,
        [](std::size_t, std::span<const float> /*logprobs*/, std::span<float> d) -> Result<void> {
          std::ranges::fill(d, -1.0F);
          return {};
        },
        into);
  };
  std::size_t steps = 1;
  for (auto whole = begin(gradients.span()); whole.step();) ++steps;
  const auto after = bits_of(gradients.span());
  ASSERT_NE(after, before);
  ASSERT_GT(steps, 20U);

  for (std::size_t taken = 0; taken < steps; taken += 7) {
    std::ranges::fill(gradients.span(), 0.5F);
    {
      auto dropped = begin(gradients.span());
      for (std::size_t i = 0; i < taken; ++i) dropped.step();
    }
    ASSERT_EQ(bits_of(gradients.span()), before) << taken;
  }
  ASSERT_THAT(begin(gradients.span()).run(), testing::IsOk());
  EXPECT_EQ(bits_of(gradients.span()), after);
}

// Sequences longer than a step of the attention has queries.
TEST_P(Invariance, OfGradientsUnderTheCutsOfLongSequences) {
  auto config = tiny_config(GetParam().architecture);
  config.context_length = 1500;
  config.layers = 1;
  model = random_model(config, kernels_of(GetParam().path, GetParam().precision), threads);
  adapter = tiny_adapter(*model, threads);
  sequences = {shifted(some_tokens(*model, 1401, 3)), shifted(some_tokens(*model, 40, 4))};

  const auto together = train(threads, {.micro_batch_tokens = 4096}, 2);

  // Alone the shorter one is not cut, and the longer one is cut elsewhere than in smaller pieces.
  EXPECT_EQ(together, train(threads, {}, 1));
  EXPECT_EQ(together, train(threads, {.micro_batch_tokens = 4096, .piece_tokens = 96}, 2));
}

INSTANTIATE_TEST_SUITE_P(All,
                         Invariance,
                         ::testing::ValuesIn(all_settings()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace tinker::engine::invariance_test
