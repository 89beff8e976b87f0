#pragma once

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "engine/trainer.h"
#include "tinker/testing/matchers.h"

namespace tinker::engine {

/// Logprobs of the whole vocabulary after each token of a text: all of it are targets of each.
inline std::vector<std::vector<float>> distributions(Trainer& trainer,
                                                     std::size_t vocabulary,
                                                     const Adapter* adapter,
                                                     const std::vector<std::int32_t>& text) {
  ScoredSequence scored = {.tokens = text, .offsets = {0}};
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (std::size_t id = 0; id < vocabulary; ++id)
      scored.targets.push_back(static_cast<std::int32_t>(id));
    scored.offsets.push_back(scored.targets.size());
  }
  std::vector<std::vector<float>> out;
  const auto done =
      trainer
          .forward(
              adapter,
              {&scored, 1},
              [&](std::size_t, std::span<const float> logprobs, std::span<float>) -> Result<void> {
                for (; !logprobs.empty(); logprobs = logprobs.subspan(vocabulary)) {
                  const auto row = logprobs.first(vocabulary);
                  out.emplace_back(row.begin(), row.end());
                }
                return {};
              })
          .run();
  EXPECT_THAT(done, testing::IsOk());
  return out;
}

}  // namespace tinker::engine
