// What the embedded server counts of sampling, as billing/usage/events tells it (PROTOCOL 9.36).

#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tinker/admin_client.h"
#include "tinker/local_server.h"
#include "tinker/tinker.h"

namespace tinker::usage_test {
namespace {

constexpr std::int64_t kPromptTokens = 300;

struct Counts {
  std::int64_t computed = 0;
  std::int64_t cached = 0;
  std::int64_t drawn = 0;
};

class UsageOfSampling : public ::testing::Test {
 protected:
  SampleResponse sample(std::int64_t num_samples) {
    std::vector<std::int32_t> prompt(static_cast<std::size_t>(kPromptTokens));
    std::iota(prompt.begin(), prompt.end(), 1);
    return sampler
        .sample(ModelInput::from_tokens(std::move(prompt)),
                {.max_tokens = 2, .stop = std::vector<std::int32_t>()},
                {.num_samples = num_samples})
        .get()
        .value();
  }
  /// Of this hour and the next one, so that the test may run across the change.
  [[nodiscard]] Counts counts() const {
    const auto admin =
        AdminClient::connect({.base_url = server.base_url(), .api_key = Secret("tml-local-test")})
            .value();
    const auto hour = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now());
    const auto usage = admin
                           .get_billing_usage(DateTime(hour - std::chrono::hours(1)),
                                              DateTime(hour + std::chrono::hours(2)))
                           .get()
                           .value();
    Counts out;
    for (const auto& event : usage.data) {
      if (const auto* prefill = std::get_if<SamplingPrefillBillingEvent>(&event.event_info)) {
        (prefill->cached ? out.cached : out.computed) += prefill->token_count;
      } else if (const auto* drawn = std::get_if<SamplingSampleBillingEvent>(&event.event_info)) {
        out.drawn += drawn->token_count;
      }
    }
    return out;
  }

  LocalServer server =
      LocalServer::start(
          {.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}}, .threads = 1})
          .value();
  ServiceClient service =
      ServiceClient::connect({.base_url = server.base_url(), .api_key = Secret("tml-local-test")})
          .value();
  SamplingClient sampler = service.create_sampling_client({.base_model = "tiny"}).get().value();
};

TEST_F(UsageOfSampling, CountsAPromptOnceForAllItsSamples) {
  (void)sample(3);

  const auto found = counts();

  EXPECT_EQ(found.computed, kPromptTokens);
  EXPECT_EQ(found.cached, 0);
  EXPECT_EQ(found.drawn, 6);
}

TEST_F(UsageOfSampling, TellsWhatWasInTheCacheFromWhatWasComputed) {
  (void)sample(1);
  const auto again = sample(1);

  const auto found = counts();

  EXPECT_GT(again.prompt_cache_hit_tokens, 0);
  EXPECT_EQ(found.cached, again.prompt_cache_hit_tokens);
  EXPECT_EQ(found.computed + found.cached, 2 * kPromptTokens);
}

}  // namespace
}  // namespace tinker::usage_test
