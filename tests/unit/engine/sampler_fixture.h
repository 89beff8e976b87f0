#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/sampler.h"
#include "unit/engine/tiny_model.h"

namespace tinker::engine {

using Ids = std::vector<std::int32_t>;

/// No stop, not even the model's own.
inline const Stop kNoStop = Ids();

/// What a token looks like to the stop strings of these tests.
inline std::string token_bytes(std::int32_t token) {
  return "<" + std::to_string(token) + ">";
}

/// A random model with an adapter, and ways to sample from them.
struct SamplerFixture : ::testing::Test {
  SamplerFixture()
      : threads(2),
        model(tiny_model({.path = cpu_paths().back()}, threads)),
        adapter(tiny_adapter(*model, threads)),
        prompt(some_tokens(*model, 70, 3)) {}

  [[nodiscard]] SampleJob job(Ids tokens, SamplingParams params) const {
    SampleJob out = {.adapter = adapter, .seed = 11};
    out.request.prompt = ModelInput::from_tokens(std::move(tokens));
    out.request.sampling_params = std::move(params);
    return out;
  }
  Result<SampleResponse> sample(SampleJob one) {
    Sampler sampler(model, threads, {.token_bytes = token_bytes});
    return sample(sampler, std::move(one));
  }
  static Result<SampleResponse> sample(Sampler& sampler, SampleJob one) {
    Result<SampleResponse> out = Error{.message = "not answered"};
    const auto id = sampler.submit(std::move(one),
                                   [&](Result<SampleResponse> answer) { out = std::move(answer); });
    if (!id.ok()) return id.error();
    while (sampler.step()) {
    }
    EXPECT_EQ(sampler.pages().in_use(), 0U);
    return out;
  }
  Result<SampledSequence> sequence(SamplingParams params) {
    auto response = sample(job(prompt, std::move(params)));
    if (!response.ok()) return response.error();
    return response->sequences.at(0);
  }
  ThreadPool threads;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const Adapter> adapter;
  Ids prompt;
};

}  // namespace tinker::engine
