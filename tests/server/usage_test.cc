// What the embedded server counts, as billing/usage/events tells it (PROTOCOL 9.36).

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

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;

constexpr std::int64_t kPromptTokens = 300;

/// Of this hour and its neighbours, so that the test may run across the change.
std::vector<BillingUsageEvent> usage_of(const LocalServer& server) {
  const auto admin =
      AdminClient::connect({.base_url = server.base_url(), .api_key = Secret("tml-local-test")})
          .value();
  const auto hour = std::chrono::floor<std::chrono::hours>(std::chrono::system_clock::now());
  return admin
      .get_billing_usage(DateTime(hour - std::chrono::hours(1)),
                         DateTime(hour + std::chrono::hours(2)))
      .get()
      .value()
      .data;
}

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
  [[nodiscard]] Counts counts() const {
    Counts out;
    for (const auto& event : usage_of(server)) {
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

TEST(Usage, IsOfTheProjectAndTheSessionWhateverItIs) {
  const auto server =
      LocalServer::start(
          {.models = {{.name = "tiny", .source = "random:2x64,vocab=512"}}, .threads = 1})
          .value();
  const auto service =
      ServiceClient::connect(
          {.base_url = server.base_url(), .api_key = Secret("tml-local-test"), .project_id = "p"})
          .value();
  const auto trainer = service.create_lora_training_client("tiny", {.rank = 1}).get().value();
  trainer.forward_backward({Datum::next_token({1, 2, 3})}, LossFn::cross_entropy).get().value();
  const auto path = trainer.save_weights_for_sampler("sampler").get().value().path;
  (void)trainer.save_state("state").get().value();
  (void)trainer.save_weights_external("external").get().value();
  for (const auto& sampler : {service.create_sampling_client({.model_path = path}).get().value(),
                              trainer.save_weights_and_get_sampling_client().get().value()}) {
    (void)sampler.sample(ModelInput::from_tokens({1}), {.max_tokens = 1}).get().value();
  }

  const auto usage = usage_of(server);

  const std::string& model = trainer.model_id();
  EXPECT_THAT(usage,
              Each(AllOf(Field(&BillingUsageEvent::project_id, "p"),
                         Field(&BillingUsageEvent::session_id, model.substr(0, model.find(':'))))));
  std::int64_t checkpoints = 0;
  std::int64_t drawn = 0;
  for (const auto& event : usage) {
    if (const auto* saved = std::get_if<CheckpointBillingEvent>(&event.event_info))
      checkpoints += saved->count;
    if (const auto* sample = std::get_if<SamplingSampleBillingEvent>(&event.event_info))
      drawn += sample->token_count;
  }
  EXPECT_EQ(checkpoints, 3);
  EXPECT_EQ(drawn, 2);
}

}  // namespace
}  // namespace tinker::usage_test
