// How the rows of a sampler's step are divided.

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/sampler.h"
#include "tinker/testing/matchers.h"
#include "unit/engine/sampler_fixture.h"

namespace tinker::engine {
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

}  // namespace
}  // namespace tinker::engine
