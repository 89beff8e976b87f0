#include "server/memory_plan.h"

#include <limits>

#include <gmock/gmock.h>

namespace tinker::server::memory_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kGiB = std::size_t{1} << 30U;

engine::ModelConfig config(std::size_t context) {
  return {.vocab_size = 1000,
          .hidden_size = 64,
          .ffn_size = 128,
          .layers = 2,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 16,
          .context_length = context,
          .tied_head = true};
}

MemoryNeed need_of(std::size_t context, engine::Precision precision = engine::Precision::f32) {
  return memory_need(config(context), engine::kernels_of(engine::CpuPath::scalar, precision));
}

TEST(MemoryNeed, CountsWeightsInThePrecisionOfTheEngine) {
  const auto parameters = 1000 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128);

  const auto exact = need_of(100).weights;
  const auto half = need_of(100, engine::Precision::bf16).weights;

  EXPECT_GE(exact, parameters * 4U);
  EXPECT_LT(exact, parameters * 4U * 11 / 10);
  EXPECT_LT(half, exact * 6 / 10);
}

TEST(MemoryNeed, CountsKeysAndValuesOfAContext) {
  const auto need = need_of(8192);

  EXPECT_GE(need.context_cache, 8192U * 2 * 2 * 2 * 16 * 4);
  EXPECT_EQ(need.least_cache, need.context_cache / 4);  // 2048 tokens
  EXPECT_EQ(need.least(), need.weights + need.least_cache);
}

TEST(MemoryNeed, OfAShortContextIsThatContext) {
  const auto need = need_of(256);

  EXPECT_EQ(need.least_cache, need.context_cache);
}

TEST(MemoryNeed, OfAnEndlessContextIsANumber) {
  const auto need = need_of(std::numeric_limits<std::size_t>::max() / 2);

  EXPECT_GT(need.context_cache, std::size_t{1} << 60U);
}

TEST(CacheShare, IsAQuarterOfWhatTheWeightsLeave) {
  EXPECT_EQ(cache_share({.weights = 100 * kMiB}, 500 * kMiB), 100 * kMiB);
}

TEST(CacheShare, IsAtMostAGibibyte) {
  EXPECT_EQ(cache_share({.weights = kGiB, .context_cache = kMiB}, 100 * kGiB), kGiB);
}

TEST(CacheShare, IsMoreWhereAContextNeedsMore) {
  EXPECT_EQ(cache_share({.context_cache = 3 * kGiB}, 100 * kGiB), 3 * kGiB);
  EXPECT_EQ(cache_share({.context_cache = 3 * kGiB}, 4 * kGiB), kGiB);
}

TEST(CacheShare, IsNeverTooSmallToWorkWith) {
  EXPECT_EQ(cache_share({.weights = 90, .least_cache = 10, .context_cache = 50}, 100), 10U);
}

TEST(ContextWithin, IsTheModelsWhereTheCacheHoldsIt) {
  const auto& kernels = engine::kernels_of(engine::CpuPath::scalar, engine::Precision::f32);
  const std::size_t all = need_of(8000).context_cache;

  EXPECT_EQ(context_within(config(8000), kernels, all), 8000U);
  EXPECT_EQ(context_within(config(8000), kernels, kGiB), 8000U);
  EXPECT_LT(context_within(config(8000), kernels, all - 1), 8000U);
}

TEST(ContextWithin, IsWhatTheCacheHoldsWhereThatIsLess) {
  const auto& kernels = engine::kernels_of(engine::CpuPath::scalar, engine::Precision::f32);

  EXPECT_EQ(context_within(config(8192), kernels, need_of(8192).least_cache), 2048U);
}

const std::vector<IdleModel> kIdle = {{.index = 0, .bytes = 10, .idle_since = 7},
                                      {.index = 1, .bytes = 20, .idle_since = 3},
                                      {.index = 2, .bytes = 30, .idle_since = 5}};

std::vector<std::size_t> leaving(std::size_t needed, std::size_t room) {
  std::vector<std::size_t> out;
  for (const auto& model : choose_leaving(needed, room, kIdle)) out.push_back(model.index);
  return out;
}

TEST(ChooseLeaving, TakesNobodyWhoNeedNotGo) {
  EXPECT_THAT(leaving(100, 100), IsEmpty());
}

TEST(ChooseLeaving, TakesTheLongestIdleFirstAndNoMoreThanNeeded) {
  EXPECT_THAT(leaving(101, 100), ElementsAre(1));
  EXPECT_THAT(leaving(121, 100), ElementsAre(1, 2));
}

TEST(ChooseLeaving, TakesAllWhereThatIsNotEnough) {
  EXPECT_THAT(leaving(1000, 100), ElementsAre(1, 2, 0));
}

}  // namespace
}  // namespace tinker::server::memory_plan_test
