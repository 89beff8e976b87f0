#pragma once

#include <span>
#include <vector>

#include "tinker/engine.h"

namespace tinker::engine {

/// What a test asks an engine for.
struct Ask {
  ModelInput prompt = {};
  SamplingParams params = {};
  SampleOptions options = {};
};

inline Result<SampleResponse> sample(const Engine& engine,
                                     const Ask& ask,
                                     const AdapterSnapshot& from = {}) {
  return engine.sample(ask.prompt, ask.params, from, ask.options);
}

/// All of them at the same time.
inline std::vector<Result<SampleResponse>> sample_all(const Engine& engine,
                                                      std::span<const Ask> asks,
                                                      std::span<const AdapterSnapshot> from = {}) {
  std::vector<Future<SampleResponse>> futures;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    futures.push_back(engine.sample_async(asks[i].prompt,
                                          asks[i].params,
                                          from.empty() ? AdapterSnapshot() : from[i],
                                          asks[i].options));
  }
  std::vector<Result<SampleResponse>> out;
  for (auto& future : futures) out.push_back(future.get());
  return out;
}

}  // namespace tinker::engine
