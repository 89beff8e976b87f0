// How the rows of a sampler's step are divided.

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "engine/sampler.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/missing_memory.h"
#include "unit/engine/sampler_fixture.h"

namespace tinker::engine::sampler_sharing_test {
namespace {

using testing::IsOk;

struct SamplerSharing : SamplerFixture {
  /// Requests of a tenant, whose answers are counted.
  void submit(Sampler& sampler, const std::string& tenant, int count, std::int64_t tokens) {
    for (int i = 0; i < count; ++i) {
      auto asked =
          job({prompt.begin(), prompt.begin() + 4}, {.max_tokens = tokens, .stop = kNoStop});
      asked.tenant = tenant;
      asked.seed = static_cast<std::uint64_t>(i);
      const auto id = sampler.submit(std::move(asked), [this, tenant](Result<SampleResponse> got) {
        EXPECT_THAT(got, IsOk());
        ++answers[tenant];
      });
      ASSERT_THAT(id, IsOk());
    }
  }
  std::map<std::string, int> answers;
};

// The first tenant could fill every step for a long time.
TEST_F(SamplerSharing, OneTenantDoesNotStarveAnother) {
  Sampler sampler(model, threads, {.batch_rows = 8});
  submit(sampler, "many", 40, 60);
  for (int i = 0; i < 10; ++i) sampler.step();
  submit(sampler, "few", 2, 6);

  int steps = 0;
  while (answers["few"] < 2 && sampler.step()) ++steps;

  // Half of the rows are theirs: 20 tokens in steps of 8, and one more turn of the other's.
  EXPECT_LE(steps, 10);
  EXPECT_EQ(answers["many"], 0);
  while (sampler.step()) {
  }
  EXPECT_EQ(answers["many"], 40);
}

TEST_F(SamplerSharing, PromptsTakeNoMoreRowsThanTheyMay) {
  Sampler sampler(model, threads, {});
  auto asked = job(prompt, {.max_tokens = 2, .stop = kNoStop});
  ASSERT_THAT(sampler.submit(std::move(asked), [](const Result<SampleResponse>&) {}), IsOk());

  sampler.step(32);
  EXPECT_EQ(sampler.last_step().prompt, 32U);
  sampler.step(64);
  EXPECT_EQ(sampler.last_step().prompt, prompt.size() - 32);
  EXPECT_EQ(sampler.last_step().written, 0U);
  sampler.step(0);
  EXPECT_EQ(sampler.last_step().written, 1U);
}

// Four sequences that want more pages than there are, and one of somebody else's who came later.
TEST_F(SamplerSharing, OneTenantDoesNotKeepAllPages) {
  const KvLayout layout(model->config(), model->kernels(), model->config().layers);
  Sampler sampler(model, threads, {.cache_bytes = 16 * layout.page_bytes()});
  std::vector<SampledSequence> got(4);
  const auto long_one = [&](std::size_t i) {
    auto out = job({prompt.begin() + static_cast<std::ptrdiff_t>(i), prompt.begin() + 8},
                   {.max_tokens = 200, .stop = kNoStop});
    out.tenant = "many";
    return out;
  };
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto id = sampler.submit(long_one(i), [&got, i](Result<SampleResponse> answer) {
      got[i] = answer.value().sequences.at(0);
    });
    ASSERT_THAT(id, IsOk());
  }
  for (int i = 0; i < 130; ++i) sampler.step();
  ASSERT_EQ(sampler.pages().in_use(), 16U);
  submit(sampler, "few", 1, 40);

  int steps = 0;
  while (answers["few"] < 1 && sampler.step()) ++steps;

  EXPECT_LE(steps, 45);
  EXPECT_TRUE(got[3].tokens.empty());
  while (sampler.step()) {
  }
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], sample(long_one(i)).value().sequences.at(0));
}

// Memory is missing once, at every place where the sampler takes some: for that alone, or until the
// step is over. The request that wanted it fails, or nobody notices; pages are never lost.
TEST_F(SamplerSharing, MemoryMayBeMissingAnywhere) {
  ThreadPool one_thread(1);
  const auto jobs = [&] {
    std::vector<SampleJob> out;
    for (std::size_t i = 0; i < 3; ++i) {
      out.push_back(job({prompt.begin(), prompt.end() - static_cast<std::ptrdiff_t>(i)},
                        {.max_tokens = 3, .stop = kNoStop}));
      out.back().request.num_samples = 2;
      out.back().request.topk_sample_logprobs = 2;
      out.back().tenant = std::to_string(i);
    }
    out[1].request.prompt_logprobs = true;
    return out;
  };
  std::vector<SampleResponse> expected;
  for (auto& each : jobs()) expected.push_back(sample(std::move(each)).value());
  constexpr auto kAll = std::size_t{1} << 20U;
  for (const std::size_t count : {std::size_t{1}, kAll}) {
    std::size_t thrown = 0;
    std::size_t failed = 0;
    for (std::size_t after = 0, calls = 1; after < calls; ++after) {
      SCOPED_TRACE(base::concat(count, " after ", after));
      const KvLayout layout(model->config(), model->kernels(), model->config().layers);
      Sampler sampler(model, one_thread, {.cache_bytes = 8 * layout.page_bytes()});
      std::vector<std::optional<Result<SampleResponse>>> got_of(expected.size());
      auto asked = jobs();
      for (std::size_t i = 0; i < asked.size(); ++i) {
        const auto id = sampler.submit(
            std::move(asked[i]),
            [&got_of, i](Result<SampleResponse> got) { got_of[i] = std::move(got); });
        ASSERT_THAT(id, IsOk());
      }
      calls = 0;
      for (bool has_more = true; has_more;) {
        const bool is_due = after >= calls;
        try {
          const MissingMemory missing(after - calls, is_due ? count : 0);
          has_more = sampler.step();
        } catch (const std::bad_alloc&) {
          ++thrown;
        }
        calls += MissingMemory::calls();
      }
      std::size_t failed_here = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_TRUE(got_of[i]) << i;
        if (got_of[i]->ok()) {
          EXPECT_EQ((*got_of[i])->sequences, expected[i].sequences);
          EXPECT_TRUE(std::ranges::equal(  // the first token has none
              (*got_of[i])->prompt_logprobs | std::views::drop(1),
              expected[i].prompt_logprobs | std::views::drop(1)));
        } else {
          EXPECT_EQ(got_of[i]->error().message, "out of memory");
          ++failed_here;
        }
      }
      EXPECT_LE(failed_here, count);  // one for one
      failed += failed_here;
      EXPECT_EQ(sampler.pages().in_use(), 0U);
    }
    EXPECT_GT(thrown, 10U);
    EXPECT_GT(failed, 10U);
  }
}

}  // namespace
}  // namespace tinker::engine::sampler_sharing_test
