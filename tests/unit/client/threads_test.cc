// One client used by many threads, on real ones.

#include <algorithm>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/client_fixture.h"
#include "tinker/testing/matchers.h"

namespace tinker::client::threads_test {
namespace {

using ::testing::SizeIs;
using ::tinker::testing::IsOk;

constexpr int kThreads = 32;
constexpr int kCalls = 10;

/// Calls `work()` on many threads at once.
void run_everywhere(const std::function<void()>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
}

TEST(ClientThreads, TrainFromManyThreads) {
  ScriptedServer f(Runtime::start(), R"({"fwdbwd_max_chunk_len":1})");
  const auto service = f.connect();
  const auto trainer = service.create_lora_training_client("llama").get().value();

  run_everywhere([&] {
    for (int i = 0; i < kCalls; ++i) {
      auto step = trainer.train_step(make_data(2), LossFn::cross_entropy, AdamParams());
      EXPECT_THAT(step.forward_backward.get(), IsOk());
      EXPECT_THAT(step.optim_step.get(), IsOk());
    }
  });
  EXPECT_THAT(service.close(SessionFinishReason::success).get(), IsOk());

  std::vector<std::int64_t> ids;
  for (const auto& batch : f.batches) ids.push_back(batch.seq_id);
  for (const auto& body : f.bodies("/optim_step")) {
    ids.push_back(wire::decode_json<OptimStepRequest>(body).value().seq_id.value());
  }
  std::ranges::sort(ids);
  ASSERT_THAT(ids, SizeIs(kThreads * kCalls * 3));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(ids[i], static_cast<std::int64_t>(i) + 1) << "each id once, none left out";
  }
}

TEST(ClientThreads, SampleFromManyThreads) {
  ScriptedServer f(Runtime::start());
  const auto service = f.connect();
  const auto sampler = service.create_sampling_client({.base_model = "llama"}).get().value();

  run_everywhere([&] {
    std::vector<Future<SampleResponse>> samples;
    for (int i = 0; i < kCalls; ++i) {
      samples.push_back(sampler.sample(ModelInput::from_tokens({1, 2}), {.max_tokens = 1}));
    }
    samples.push_back(sampler.sample(ModelInput::from_tokens({1}), {}));
    samples.back().cancel();
    for (int i = 0; i < kCalls; ++i)
      EXPECT_THAT(samples[static_cast<std::size_t>(i)].get(), IsOk());
    (void)samples.back().get();
  });
}

TEST(ClientThreads, ClientsComeAndGoWhileTheyWork) {
  ScriptedServer f(Runtime::start());

  run_everywhere([&] {
    auto service = f.connect();
    auto trainer = service.create_lora_training_client("llama").get().value();
    auto step = trainer.optim_step(AdamParams());  // nobody waits for it
    auto sampler = trainer.save_weights_and_get_sampling_client();
  });
}

}  // namespace
}  // namespace tinker::client::threads_test
