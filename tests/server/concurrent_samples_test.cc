// Samples of several adapters at once (SERVER 4): each is what its adapter draws alone.
#include <array>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/local_server.h"
#include "tinker/testing/matchers.h"
#include "tinker/tinker.h"

namespace tinker::concurrent_samples_test {
namespace {

using testing::IsOk;

constexpr std::size_t kSamples = 8;

class ConcurrentSamples : public ::testing::TestWithParam<EnginePrecision> {
 protected:
  [[nodiscard]] ServiceClient connect() const {
    return ServiceClient::connect(
               {.base_url = server_.base_url(), .api_key = Secret("tml-local-test")})
        .value();
  }
  /// Weights that have learned `datum`.
  [[nodiscard]] static SamplingClient trained(const ServiceClient& service,
                                              int rank,
                                              const Datum& datum) {
    const auto trainer = service.create_lora_training_client("tiny", {.rank = rank}).get().value();
    for (int i = 0; i < 3; ++i) {
      auto [gradients, update] =
          trainer.train_step({datum}, LossFn::cross_entropy, {.learning_rate = 5e-2});
      EXPECT_THAT(update.get(), IsOk());
    }
    return trainer.save_weights_and_get_sampling_client().get().value();
  }
  /// Prompts of different lengths, so that no two samples are at the same place.
  [[nodiscard]] static Future<SampleResponse> draw(const SamplingClient& sampler, std::size_t i) {
    const std::vector<std::int32_t> prompt(2 + i / 2, 5);
    return sampler.sample(ModelInput::from_tokens(prompt),
                          {.max_tokens = 24, .seed = i / 2, .stop = std::vector<std::int32_t>()});
  }
  [[nodiscard]] static SampledSequence sequence(Future<SampleResponse> sample) {
    auto out = sample.get().value().sequences.at(0);
    out.sequence_id.clear();  // names the request, too
    return out;
  }

  const LocalServer server_ =
      LocalServer::start({.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}},
                          .threads = 2,
                          .precision = GetParam()})
          .value();
};

TEST_P(ConcurrentSamples, OfTwoAdaptersAreThoseThatEachDrawsAlone) {
  const auto ada = connect();
  const auto bob = connect();
  const std::array samplers = {trained(ada, 4, Datum::next_token({5, 9, 12, 200, 31, 7})),
                               trained(bob, 8, Datum::next_token({5, 77, 140, 3, 8, 301}))};
  std::vector<Future<SampleResponse>> waiting;
  for (std::size_t i = 0; i < kSamples; ++i) waiting.push_back(draw(samplers.at(i % 2), i));

  std::vector<SampledSequence> together;
  for (auto& each : waiting) together.push_back(sequence(std::move(each)));

  std::vector<SampledSequence> alone;
  for (std::size_t i = 0; i < kSamples; ++i) {
    alone.push_back(sequence(draw(samplers.at(i % 2), i)));
  }
  EXPECT_EQ(together, alone);
  for (std::size_t i = 0; i < kSamples; i += 2) {
    EXPECT_NE(alone.at(i).logprobs, alone.at(i + 1).logprobs);  // same prompt and seed
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         ConcurrentSamples,
                         ::testing::Values(EnginePrecision::f32, EnginePrecision::bf16));

}  // namespace
}  // namespace tinker::concurrent_samples_test
